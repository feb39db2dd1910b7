"""stowplan_toolchain, and the executable that it runs."""

load("//stowplan:providers.bzl", "StowplanToolchainInfo")

def _toolchain_impl(ctx):
    tool = ctx.attr.tool[DefaultInfo]
    info = StowplanToolchainInfo(
        tool = tool.files_to_run,
        runfiles = tool.default_runfiles,
        memory = ctx.attr.memory,
        flash = ctx.attr.flash,
        compile_options = ctx.attr.compile_options,
        codegen_options = ctx.attr.codegen_options,
        supports_workers = ctx.attr.supports_workers,
    )
    return [
        platform_common.ToolchainInfo(stowplan = info),
        platform_common.TemplateVariableInfo({"STOWPLAN": ctx.executable.tool.path}),
    ]

stowplan_toolchain = rule(
    implementation = _toolchain_impl,
    doc = """Says how stowplan runs, and what memories a platform has.

Name it in a `toolchain` of type `@rules_stowplan//stowplan:toolchain_type` whose `target_compatible_with` describes the
platform: then `--platforms` alone chooses the budgets.""",
    attrs = {
        "codegen_options": attr.string_list(doc = "Options for every `stowplan codegen` on this platform."),
        "compile_options": attr.string_list(doc = "Options for every `stowplan compile` on this platform."),
        "flash": attr.string(doc = "Flash for models that name none."),
        "memory": attr.string_list(doc = "Memories for models that name none, fast and then slow."),
        "supports_workers": attr.bool(
            default = True,
            doc = "Whether the tool is kept alive between actions; it needs a system that can fork.",
        ),
        "tool": attr.label(
            executable = True,
            cfg = "exec",
            mandatory = True,
            doc = "The command: `@stowplan_toolchains//:stowplan`.",
        ),
    },
)

_SCRIPT = """#!/bin/sh
here=$0.runfiles
[ -d "$here" ] || here=${{RUNFILES_DIR:-$TEST_SRCDIR}}
exec '{interpreter}' -I {flags} -B "$here/{main}" "$@"
"""

def _tool_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    main = ctx.file.main.short_path
    ctx.actions.write(script, _SCRIPT.format(
        interpreter = ctx.attr.interpreter,
        flags = "-S" if ctx.attr.isolated else "",
        main = main[3:] if main.startswith("../") else ctx.workspace_name + "/" + main,
    ), is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles([ctx.file.main] + ctx.files.data))]

stowplan_tool = rule(
    implementation = _tool_impl,
    doc = "A Python program beside its files, run by an interpreter that is there already.",
    executable = True,
    attrs = {
        "data": attr.label_list(
            allow_files = True,
            doc = "What the program needs.",
        ),
        "interpreter": attr.string(
            mandatory = True,
            doc = "Absolute path of Python where actions run.",
        ),
        "isolated": attr.bool(doc = "Whether the interpreter's own packages are left out."),
        "main": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "The program.",
        ),
    },
)
