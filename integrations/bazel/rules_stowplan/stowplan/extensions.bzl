"""For MODULE.bazel: the installed stowplan as a toolchain, by the same repository rule as for WORKSPACE."""

load("//stowplan/private:installed.bzl", "stowplan_installed")

_installed = tag_class(
    doc = "Says which stowplan to use; only the root module is asked.",
    attrs = {
        "interpreter": attr.string(doc = "Absolute path of Python where actions run, if it is another one there."),
        "mode": attr.string(
            default = "files",
            values = ["files", "stamp"],
            doc = "See stowplan_installed.",
        ),
        "plugins": attr.string_list(doc = "Distributions of the plugins to use; all when empty."),
        "python": attr.string(
            default = "python3",
            doc = "The interpreter that has stowplan.",
        ),
    },
)

def _stowplan_impl(mctx):
    chosen = {}
    for module in mctx.modules:
        for tag in module.tags.installed:
            if module.is_root:
                chosen = {"interpreter": tag.interpreter, "mode": tag.mode, "plugins": tag.plugins, "python": tag.python}
    stowplan_installed(name = "stowplan_toolchains", **chosen)

stowplan = module_extension(
    implementation = _stowplan_impl,
    doc = "Makes the repository stowplan_toolchains.",
    tag_classes = {"installed": _installed},
)
