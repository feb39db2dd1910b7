"""Debian's gcc-arm-none-eabi as a C toolchain for a Cortex-M3 with semihosting."""

load("@rules_cc//cc:action_names.bzl", "ACTION_NAMES")
load("@rules_cc//cc:cc_toolchain_config_lib.bzl", "feature", "flag_group", "flag_set", "tool_path")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/toolchains:cc_toolchain_config_info.bzl", "CcToolchainConfigInfo")

_TOOLS = ["ar", "cpp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]

_CPU = ["-mcpu=cortex-m3", "-mthumb"]

# The same source gives the same object, wherever and whenever it is compiled.
_REPRODUCIBLE = [
    "-no-canonical-prefixes",
    "-Wno-builtin-macro-redefined",
    "-D__DATE__=\"redacted\"",
    "-D__TIME__=\"redacted\"",
    "-D__TIMESTAMP__=\"redacted\"",
]

def _always(name, actions, flags):
    return feature(
        name = name,
        enabled = True,
        flag_sets = [flag_set(actions = actions, flag_groups = [flag_group(flags = flags)])],
    )

def _config_impl(ctx):
    compiling = [ACTION_NAMES.assemble, ACTION_NAMES.c_compile, ACTION_NAMES.cpp_compile, ACTION_NAMES.preprocess_assemble]
    script = ctx.file.linker_script.path
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        toolchain_identifier = "gcc-arm-none-eabi",
        host_system_name = "local",
        target_system_name = "arm-none-eabi",
        target_cpu = "cortex-m3",
        target_libc = "newlib",
        compiler = "gcc",
        abi_version = "eabi",
        abi_libc_version = "newlib",
        features = [
            _always("default_compile_flags", compiling, _CPU + ["-Os", "-ffunction-sections", "-fdata-sections"] + _REPRODUCIBLE),
            _always("default_link_flags", [ACTION_NAMES.cpp_link_executable], _CPU + ["--specs=rdimon.specs", "-nostartfiles", "-Wl,--gc-sections", "-Wl,-T," + script]),
        ],
        tool_paths = [tool_path(name = tool, path = "/usr/bin/arm-none-eabi-" + tool) for tool in _TOOLS],
        cxx_builtin_include_directories = ["/usr/lib/gcc/arm-none-eabi", "/usr/include/newlib", "/usr/lib/arm-none-eabi/include"],
    )

gcc_arm_none_eabi_config = rule(
    implementation = _config_impl,
    attrs = {
        "linker_script": attr.label(
            allow_single_file = True,
            mandatory = True,
        ),
    },
    provides = [CcToolchainConfigInfo],
)
