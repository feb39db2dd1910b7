"""Runs stowplan in an action: the one place that says how, for all rules."""

load("//stowplan/private:settings.bzl", "SettingInfo")

TOOLCHAIN_TYPE = "@rules_stowplan//stowplan:toolchain_type"

PROTOCOL = {
    "_worker_protocol": attr.label(
        default = Label("//stowplan:worker_protocol"),
        providers = [SettingInfo],
    ),
}

# Tags that say how an action may run. Bazel 4 passes them on only with --experimental_allow_tags_propagation.
_EXECUTION_TAGS = [
    "local",
    "no-cache",
    "no-local",
    "no-remote",
    "no-remote-cache",
    "no-remote-exec",
    "no-sandbox",
]

def toolchain_of(ctx):
    """Returns the StowplanToolchainInfo for the platform."""
    return ctx.toolchains[TOOLCHAIN_TYPE].stowplan

def run_stowplan(ctx, *, mnemonic, message, arguments, inputs, outputs):
    """Declares an action that runs `stowplan` with arguments; it is quiet unless it fails.

    Args:
      ctx: the rule's context.
      mnemonic: names the kind of action, for --strategy.
      message: what Bazel shows while it runs.
      arguments: an Args object with the command and its options.
      inputs: the files it reads.
      outputs: the files it writes.
    """
    toolchain = toolchain_of(ctx)
    protocol = ctx.attr._worker_protocol[SettingInfo].value
    requirements = {
        "block-network": "1",
        "supports-path-mapping": "1",
    }
    if toolchain.supports_workers:
        requirements.update({
            "requires-worker-protocol": protocol,
            "supports-multiplex-sandboxing": "1",
            "supports-multiplex-workers": "1",
            "supports-worker-cancellation": "1",
            "supports-workers": "1",
            "worker-key-mnemonic": "Stowplan",  # one process for all kinds of actions, where Bazel knows this
        })
    requirements.update({tag: "1" for tag in ctx.attr.tags if tag in _EXECUTION_TAGS})
    startup = ctx.actions.args()
    startup.add("--protocol=" + protocol)
    arguments.use_param_file("@%s", use_always = True)
    arguments.set_param_file_format("multiline")
    ctx.actions.run(
        mnemonic = mnemonic,
        progress_message = message,
        executable = toolchain.tool,
        arguments = [startup, arguments],
        inputs = inputs,
        outputs = outputs,
        execution_requirements = requirements,
    )
