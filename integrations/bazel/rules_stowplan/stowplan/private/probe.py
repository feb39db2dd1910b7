"""Says what an installed stowplan consists of: run by a repository rule with the interpreter that has it, prints JSON.

Packages are folders or modules by the name they are imported under; records are small files of distributions. Of
editable distributions the folders of their sources are taken.
"""

import importlib
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

GROUP = "stowplan"
RUNTIME = ("METADATA", "entry_points.txt")
"""What finds plugins at run time; other files of a distribution hold paths of this machine."""

ONLY_WATCHING = "profiler-"
"""Plugins of this kind watch plans run; no action needs their libraries."""


def main(mode, plugins, without):
    try:
        distributions = closure(plugins, without)
    except metadata.PackageNotFoundError as err:
        sys.exit(f"{sys.executable} has no {err.name}: install it there, or name another interpreter")
    packages, records = {}, {}
    for distribution in distributions:
        editable = is_editable(distribution)
        if mode == "files" or editable:
            packages.update(edited(distribution) if editable else installed(distribution))
        for path in distribution.files or ():
            kept = RUNTIME if mode == "files" or editable else ("RECORD",)
            if path.parent.name.endswith(".dist-info") and path.name in kept:
                records[str(path)] = str(path.locate())
    base = getattr(sys, "_base_executable", None) or sys.executable
    print(
        json.dumps(
            dict(
                interpreter=os.path.realpath(base) if mode == "files" else sys.executable,
                version=sys.version,
                forks=hasattr(os, "fork"),
                packages=packages,
                records=records,
                libraries=libraries(distributions),
            )
        )
    )


def closure(plugins, without):
    """Return stowplan, plugins (all that are installed when none is named) and what they require, each once."""
    wanted = ["stowplan", *plugins]
    if not plugins:
        wanted += [point.dist.name for point in metadata.entry_points(group=GROUP) if point.dist is not None]
    left_out, found = {plain(name) for name in without}, {}
    while wanted:
        name = plain(wanted.pop())
        if name in found or name in left_out:
            continue
        found[name] = metadata.distribution(name)
        wanted += [required(line) for line in found[name].requires or () if is_needed(line)]
    return [found[name] for name in sorted(found)]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required(line):
    return re.match(r"[A-Za-z0-9._-]+", line).group()


def is_needed(line):
    """Say whether a requirement holds here: extras do not, nor does a marker that is false for this interpreter."""
    marker = line.partition(";")[2]
    if "extra" in marker:
        return False
    older = re.search(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]", marker)
    return not older or sys.version_info[:2] < (int(older.group(1)), int(older.group(2)))


def is_editable(distribution):
    text = distribution.read_text("direct_url.json")
    return bool(text) and bool(json.loads(text).get("dir_info", {}).get("editable"))


def installed(distribution):
    """Return what a distribution put beside others, by the first part of each name."""
    found = {}
    for path in distribution.files or ():
        top = path.parts[0]
        if top not in ("..", "__pycache__") and not top.endswith(".dist-info"):
            found[top] = str(Path(distribution.locate_file(top)))
    return found


def edited(distribution):
    """Return the packages in the folders that an editable distribution adds to the search path."""
    found = {}
    for path in distribution.files or ():
        if path.suffix != ".pth":
            continue
        for folder in map(Path, path.locate().read_text("utf-8").splitlines()):
            if folder.is_dir():
                found.update({str(child.name): str(child) for child in folder.iterdir() if is_package(child)})
    return found


def is_package(path):
    return (path / "__init__.py").is_file()


def libraries(distributions):
    """Return the C libraries of plugins: file, folders of sources, options, and the module that says so."""
    from stowplan.native.library import NativeLibrary
    from stowplan.native.toolchain import library_suffix

    names = {distribution.name for distribution in distributions}
    points = [point for point in metadata.entry_points(group=GROUP) if point.dist and point.dist.name in names]
    points = [point for point in points if not point.name.startswith(ONLY_WATCHING)]
    found = {}
    for module in sorted({name for point in points for name in mentioning(point.module.partition(".")[0])}):
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, NativeLibrary):
                folders = [str(folder) for folder in value.folders]
                found[value.name] = dict(
                    file=value.name + library_suffix(),
                    folders=folders,
                    options=value.options(),
                    module=sys.modules[module].__file__,
                )
    return found


def mentioning(package):
    """Yield the modules of a package whose text makes a library; the others need not be imported."""
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.py")):
            if "NativeLibrary(" in path.read_text("utf-8"):
                yield f"{package}.{path.stem}" if path.stem != "__init__" else package


if __name__ == "__main__":
    import importlib.util

    options = json.loads(sys.argv[1])
    main(options["mode"], options["plugins"], options["without"])
