"""stowplan_model: a model becomes a plan, C, and something that cc rules take as a dependency."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//stowplan:providers.bzl", "StowplanModelInfo")
load("//stowplan/private:actions.bzl", "PROTOCOL", "TOOLCHAIN_TYPE", "run_stowplan", "toolchain_of")
load("//stowplan/private:settings.bzl", "SettingInfo")

def _model_impl(ctx):
    name = ctx.attr.c_name or ctx.label.name.replace("-", "_").replace(".", "_")
    plan = ctx.actions.declare_file(name + ".stow")
    sources = [ctx.actions.declare_file(name + ".c")]
    if ctx.attr.weights == "c":
        sources.append(ctx.actions.declare_file(name + "_weights.c"))
    header = ctx.actions.declare_file(name + ".h")
    report = ctx.actions.declare_file(name + ".txt")
    memory, flash = _budgets(ctx)
    _compile(ctx, memory, flash, plan)
    _codegen(ctx, name, plan, sources + [header])
    _report(ctx, plan, report)
    return [
        DefaultInfo(files = depset([plan, header] + sources)),
        StowplanModelInfo(name = name, plan = plan, sources = sources, header = header, memory = memory, flash = flash),
        _cc_info(ctx, sources, header),
        OutputGroupInfo(plan = depset([plan]), report = depset([report]), source = depset([header] + sources)),
    ]

def _budgets(ctx):
    """Returns memories and flash: the model's own, else the command line's, else the platform's."""
    toolchain = toolchain_of(ctx)
    asked = ctx.attr._memory[SettingInfo].value
    memory = ctx.attr.memory or (asked.split("+") if asked else toolchain.memory)
    if not memory:
        fail("%s: no memory to fit into: set memory = [\"32K\"] or [\"32K\", \"1M\"], or --@rules_stowplan//stowplan:memory, or the memory of the platform's stowplan_toolchain" % ctx.label)
    return memory, ctx.attr.flash or ctx.attr._flash[SettingInfo].value or toolchain.flash

def _compile(ctx, memory, flash, plan):
    arguments = ctx.actions.args()
    arguments.add("compile")
    arguments.add(ctx.file.model)
    arguments.add_all(memory, before_each = "-m")
    arguments.add("-o", plan)
    arguments.add("--no-cache")  # Bazel has one
    arguments.add_all(toolchain_of(ctx).compile_options)  # first, so that a model can say otherwise
    if flash:
        arguments.add("-f", flash)
    if ctx.attr.compress:
        arguments.add("-c", ctx.attr.compress)
    if ctx.attr.scheduler:
        arguments.add("--scheduler", ctx.attr.scheduler)
    for flag, wanted in [("--xip", ctx.attr.xip), ("--keep-names", ctx.attr.keep_names), ("--no-prove", not ctx.attr.prove)]:
        if wanted:
            arguments.add(flag)
    for tensor in sorted(ctx.attr.input_shapes):
        arguments.add("--input-shape", tensor + ":" + ctx.attr.input_shapes[tensor])
    arguments.add_all(ctx.attr.stream_inputs, before_each = "--stream-input")
    arguments.add_all(ctx.attr.compile_options)
    run_stowplan(
        ctx,
        mnemonic = "StowplanCompile",
        message = "Fitting %s into %s" % (ctx.label, " and ".join(memory)),
        arguments = arguments,
        inputs = depset([ctx.file.model] + ctx.files.data),
        outputs = [plan],
    )

def _codegen(ctx, name, plan, outputs):
    arguments = ctx.actions.args()
    arguments.add("codegen")
    arguments.add(plan)
    arguments.add("--format", "core")
    arguments.add("--name", name)
    arguments.add("-o", outputs[0])
    arguments.add_all(toolchain_of(ctx).codegen_options)
    for flag, value in [("--weights", ctx.attr.weights), ("--specialize", ctx.attr.specialize)]:
        if value:
            arguments.add(flag, value)
    arguments.add_all(ctx.attr.codegen_options)
    run_stowplan(
        ctx,
        mnemonic = "StowplanCodegen",
        message = "Writing C for %s" % ctx.label,
        arguments = arguments,
        inputs = depset([plan]),
        outputs = outputs,
    )

def _report(ctx, plan, report):
    arguments = ctx.actions.args()
    arguments.add(report, format = "--stdout=%s")
    arguments.add("inspect")
    arguments.add(plan)
    arguments.add("-v")
    run_stowplan(
        ctx,
        mnemonic = "StowplanReport",
        message = "Describing the plan of %s" % ctx.label,
        arguments = arguments,
        inputs = depset([plan]),
        outputs = [report],
    )

def _cc_info(ctx, sources, header):
    toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compilation, objects = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = toolchain,
        feature_configuration = features,
        srcs = sources,
        public_hdrs = [header],
        includes = [header.dirname],
        user_compile_flags = ctx.attr.copts,
    )
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        cc_toolchain = toolchain,
        feature_configuration = features,
        compilation_outputs = objects,
        user_link_flags = ctx.attr.linkopts,
    )
    return CcInfo(compilation_context = compilation, linking_context = linking)

_ATTRIBUTES = {
    "c_name": attr.string(doc = "Prefix of all C names and name of the files; the target's name when empty."),
    "codegen_options": attr.string_list(doc = "More options for `stowplan codegen`, as they are."),
    "compile_options": attr.string_list(doc = "More options for `stowplan compile`, as they are."),
    "compress": attr.string(doc = "How weights are packed per stage: `none`, `lz4` or `range`."),
    "copts": attr.string_list(
        default = ["-ffp-contract=off"],
        doc = "Options for compiling the C. The default keeps a compiler from fusing multiplications with additions, which would change the results of float models.",
    ),
    "data": attr.label_list(
        allow_files = True,
        doc = "Files that the model refers to, such as weights that lie beside it.",
    ),
    "flash": attr.string(doc = "Flash that the plan must fit, such as `512K`; the platform's when empty."),
    "input_shapes": attr.string_dict(doc = "Shapes for inputs that the model leaves open: `{\"image\": \"1x96x96x3\"}`."),
    "keep_names": attr.bool(doc = "Whether the plan keeps the names of all operators and tensors."),
    "linkopts": attr.string_list(
        default = ["-lm"],
        doc = "Options for linking whatever uses the model.",
    ),
    "memory": attr.string_list(doc = "The memories to fit into, fast and then slow: `[\"32K\"]` or `[\"32K\", \"1M\"]`. When empty: `--@rules_stowplan//stowplan:memory=32K+1M`, else what the platform's `stowplan_toolchain` says."),
    "model": attr.label(
        allow_single_file = True,
        mandatory = True,
        doc = "The model: a TFLite file, or any format that an installed importer reads.",
    ),
    "prove": attr.bool(
        default = True,
        doc = "Whether the plan is run, before it is written, against the unscheduled model.",
    ),
    "scheduler": attr.string(doc = "The scheduler; stowplan's default when empty."),
    "specialize": attr.string(doc = "For which nodes functions of their own are written: `none`, `hot` or `all`; stowplan's default when empty."),
    "stream_inputs": attr.string_list(doc = "Inputs whose rows the application pushes as they arrive."),
    "weights": attr.string(
        default = "inline",
        values = ["inline", "c"],
        doc = "Where the plan's bytes are: `inline` in the one source, or `c` for a source of their own.",
    ),
    "xip": attr.bool(doc = "Whether weights are read in place from flash at run time."),
    "_cc_toolchain": attr.label(default = Label("@rules_cc//cc:current_cc_toolchain")),
    "_flash": attr.label(
        default = Label("//stowplan:flash"),
        providers = [SettingInfo],
    ),
    "_memory": attr.label(
        default = Label("//stowplan:memory"),
        providers = [SettingInfo],
    ),
}

_ATTRIBUTES.update(PROTOCOL)

stowplan_model = rule(
    implementation = _model_impl,
    doc = """Fits a model into memory, proves the plan, and makes it a dependency of cc rules.

A `cc_binary` that names it in `deps` includes `NAME.h` and calls `NAME_init` and `NAME_invoke`. The files are the same
bytes that `stowplan compile` and `stowplan codegen` write. Output groups: `plan` (the .stow file), `source` (C and
header) and `report` (what `stowplan inspect -v` says of the plan).""",
    attrs = _ATTRIBUTES,
    fragments = ["cpp"],
    toolchains = [TOOLCHAIN_TYPE] + use_cc_toolchain(),
    provides = [StowplanModelInfo, CcInfo],
)
