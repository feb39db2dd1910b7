"""`stowplan codegen`: writes C from a plan, as a program or as a core to link into firmware."""

from __future__ import annotations

import argparse
from pathlib import Path

from stowplan.cli.options import add_json
from stowplan.cli.output import beside, check_output, columns, make_folder, print_json, write_files
from stowplan.cli.plans import open_plan
from stowplan.cli.sources import check_source, generated, prefix_of
from stowplan.errors import OutputError
from stowplan.plugins.kinds import SourceOptions
from stowplan.units import format_size


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", type=Path, help="plan file (.stow)")
    parser.add_argument("-b", "--backend", metavar="NAME", default="c", help="whose kernels (default c)")
    parser.add_argument(
        "--format", choices=("app", "core"), default="core", help="a program, or a core to link (default)"
    )
    parser.add_argument("--name", help="prefix of the functions; two cores with two names link into one program")
    parser.add_argument(
        "--package", metavar="KIND", default="",
        help="a folder that a build system takes: cmake, zephyr, esp-idf, arduino or platformio",
    )  # fmt: skip
    parser.add_argument(
        "--weights", metavar="WHERE", default="inline",
        help="the plan's bytes: inline (default), c for a source of their own, bin for a binary that one includes",
    )  # fmt: skip
    parser.add_argument(
        "--specialize", metavar="WHICH", default="none",
        help="functions of their own for nodes: none (default), hot for those that take most time, all",
    )  # fmt: skip
    parser.add_argument(
        "--kernels", metavar="SET", default="auto",
        help="portable, dsp, helium, neon or x86; auto (default) has them all and leaves the choice to the C compiler",
    )  # fmt: skip
    parser.add_argument("--no-selftest", dest="selftest", action="store_false", help="leave out NAME_selftest()")
    parser.add_argument(
        "-o", "--output", metavar="FILE.c", type=Path,
        help="C source to write (default NAME.c), or a package's folder (default NAME)",
    )  # fmt: skip
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    plan = open_plan(arguments.plan)
    output = _output(arguments)
    name = prefix_of(output, arguments.name)
    options = SourceOptions(
        name=name, format=arguments.format, package=arguments.package, weights=arguments.weights,
        specialize=arguments.specialize, kernels=arguments.kernels, selftest=arguments.selftest,
    )  # fmt: skip
    files = generated(plan.data, output, options, arguments.backend)
    for folder in {path.parent for path in files}:
        make_folder(folder)
    write_files(files)
    if arguments.json:
        written = [dict(file=str(path), size_bytes=len(data)) for path, data in files.items()]
        print_json(dict(report=1, plan=plan.name, name=name, format=arguments.format, files=written))
    else:
        print("\n".join(columns((("wrote", str(p), format_size(len(d))) for p, d in files.items()), indent="")))
    return 0


def _output(arguments: argparse.Namespace) -> Path:
    """Return the source to write, or the folder of a package; what cannot become one is refused before any work."""
    plan: Path = arguments.plan
    if not arguments.package:
        output: Path = arguments.output or beside(plan, ".c")
        check_source(output)
        check_output(output, [plan])
        return output
    output = arguments.output or beside(plan, "")
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output}: is no folder; a package is one")
    if not output.parent.is_dir():
        raise OutputError(f"{output}: the folder {output.parent} does not exist")
    return output
