"""stowplan_budget_test: fails when a plan needs more memory than it is allowed, in the words of the command."""

load("//stowplan:providers.bzl", "StowplanModelInfo")
load("//stowplan/private:actions.bzl", "TOOLCHAIN_TYPE", "toolchain_of")

_SCRIPT = """#!/bin/sh
exec {words}
"""

def _budget_test_impl(ctx):
    if not ctx.attr.memory and not ctx.attr.flash:
        fail("%s: nothing to check: set memory, flash or both" % ctx.label)
    toolchain, plan = toolchain_of(ctx), ctx.attr.model[StowplanModelInfo].plan
    words = [toolchain.tool.executable.short_path, "inspect", plan.short_path]
    for size in ctx.attr.memory:
        words += ["-m", size]
    if ctx.attr.flash:
        words += ["-f", ctx.attr.flash]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, _SCRIPT.format(words = " ".join([_quoted(word) for word in words])), is_executable = True)
    return [DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles([plan, toolchain.tool.executable]).merge(toolchain.runfiles),
    )]

def _quoted(word):
    return "'%s'" % word.replace("'", "'\\''")

stowplan_budget_test = rule(
    implementation = _budget_test_impl,
    doc = """Fails when a model's plan needs more memory or flash than is allowed here.

A model is fitted into what the target has; this test holds what a project wants to keep free.""",
    test = True,
    attrs = {
        "flash": attr.string(doc = "What the plan may take of flash, such as `100K`."),
        "memory": attr.string_list(doc = "What the plan may take of fast and of slow memory; one size means: no slow memory."),
        "model": attr.label(
            mandatory = True,
            providers = [StowplanModelInfo],
            doc = "The `stowplan_model`.",
        ),
    },
    toolchains = [TOOLCHAIN_TYPE],
)
