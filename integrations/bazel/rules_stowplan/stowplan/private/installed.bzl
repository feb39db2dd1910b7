"""Makes a toolchain of a stowplan that pip installed: one repository rule for WORKSPACE files and modules."""

_MAIN = """\"\"\"Runs the worker with the packages beside this file.\"\"\"

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
{search}os.environ["STOWPLAN_NATIVE"] = os.path.join(here, "native")
os.environ["PATH"] = os.environ.get("PATH") or os.defpath

from stowplan.worker.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
"""

_SEARCH = "sys.path.insert(0, os.path.join(here, \"site\"))\n"

_BUILD = """load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_stowplan//stowplan/private:toolchain.bzl", "stowplan_toolchain", "stowplan_tool")

package(default_visibility = ["//visibility:public"])

stowplan_tool(
    name = "stowplan",
    main = "main.py",
    interpreter = {interpreter},
    isolated = {isolated},
    data = glob(["site/**"], exclude = ["**/__pycache__/**", "**/*.pyc", "**/* *"]) + glob(["native/*.options"]) + ["version.txt"] + {libraries},
)

stowplan_toolchain(
    name = "any_platform_impl",
    supports_workers = {forks},
    tool = ":stowplan",
)

toolchain(
    name = "any_platform",
    toolchain = ":any_platform_impl",
    toolchain_type = "@rules_stowplan//stowplan:toolchain_type",
)
"""

_LIBRARY = """
cc_binary(
    name = {name},
    srcs = glob([{folder} + "/**/*.c", {folder} + "/**/*.h"]),
    copts = {flags},
    includes = {includes},
    linkopts = ["-lm"],
    linkshared = True,
)
"""

def _installed_impl(rctx):
    found = _probe(rctx)
    for name, path in found["packages"].items() + found["records"].items():
        rctx.symlink(path, "site/" + name)
    for path in found["records"].values():
        _watch(rctx, path)
    is_files = rctx.attr.mode == "files"
    rctx.file("main.py", _MAIN.format(search = _SEARCH if is_files else ""))
    rctx.file("version.txt", found["version"] + "\n")
    text = _BUILD.format(
        interpreter = repr(rctx.attr.interpreter or found["interpreter"]),
        isolated = is_files,
        forks = found["forks"],
        libraries = [":native/" + library["file"] for library in found["libraries"].values()],
    )
    for name, library in found["libraries"].items():
        text += _library(rctx, name, library)
    rctx.file("BUILD.bazel", text)

def _probe(rctx):
    """Returns what probe.py says of the chosen interpreter."""
    chosen = rctx.os.environ.get("STOWPLAN_PYTHON") or rctx.attr.python
    python = rctx.path(chosen) if chosen.startswith("/") else rctx.which(chosen)
    if not python or not python.exists:
        fail("stowplan: there is no interpreter %s: set python of stowplan_installed, or STOWPLAN_PYTHON, to the one that has stowplan" % chosen)
    options = json.encode({"mode": rctx.attr.mode, "plugins": rctx.attr.plugins, "without": rctx.attr.without})
    done = rctx.execute([python, "-I", "-B", rctx.path(Label("@rules_stowplan//stowplan/private:probe.py")), options])
    if done.return_code:
        fail("stowplan: %s" % done.stderr.strip().split("\n")[-1])
    return json.decode(done.stdout)

def _watch(rctx, path):
    """Has the repository made again when a file changes, where Bazel can: 7.1 and later."""
    if hasattr(rctx, "watch"):
        rctx.watch(path)

def _library(rctx, name, library):
    """Links a library's sources into the repository; returns the target that compiles them."""
    folder = "native/sources/" + name
    includes = []
    for index, path in enumerate(library["folders"]):
        includes.append("%s/%d" % (folder, index))
        rctx.symlink(path, includes[-1])
    rctx.file("native/%s.options" % name, "\n".join(library["options"]))
    _watch(rctx, library["module"])
    return _LIBRARY.format(
        name = repr("native/" + library["file"]),
        folder = repr(folder),
        flags = [option for option in library["options"] if option != "-shared"],
        includes = includes,
    )

stowplan_installed = repository_rule(
    implementation = _installed_impl,
    doc = """Makes a toolchain of a stowplan that is installed in a Python environment.

The libraries in C that schedule and prove are compiled by Bazel's own C toolchain, so actions need no compiler.""",
    attrs = {
        "interpreter": attr.string(doc = "Absolute path of Python where actions run, if it is another one there."),
        "mode": attr.string(
            default = "files",
            values = ["files", "stamp"],
            doc = "`files`: all files are inputs of actions, as remote execution and shared caches want it. `stamp`: the environment stays where it is, and pip's records of it stand for the files: smaller sandboxes, for one machine.",
        ),
        "plugins": attr.string_list(doc = "Distributions of the plugins to use; all that are installed when empty."),
        "python": attr.string(
            default = "python3",
            doc = "The interpreter that has stowplan, a name or an absolute path; STOWPLAN_PYTHON overrules it.",
        ),
        "without": attr.string_list(
            default = ["rich"],
            doc = "Requirements that no action needs: rich draws progress on terminals.",
        ),
    },
    configure = True,
    environ = ["PATH", "STOWPLAN_PYTHON"],
    local = True,
)
