"""`stowplan codegen`: writes C from a plan, as a program or as a core to link into firmware."""

from __future__ import annotations

import argparse
from pathlib import Path

from stowplan.cli.options import add_json
from stowplan.cli.output import check_output, columns, print_json, write_files
from stowplan.cli.plans import open_plan
from stowplan.cli.sources import check_source, prefix_of, sources
from stowplan.units import format_size


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", type=Path, help="plan file (.stow)")
    parser.add_argument("-b", "--backend", metavar="NAME", default="c", help="whose kernels (default c)")
    parser.add_argument(
        "--format", choices=("app", "core"), default="core", help="a program, or a core to link (default)"
    )
    parser.add_argument("--name", help="prefix of the functions; two cores with two names link into one program")
    parser.add_argument("-o", "--output", metavar="FILE.c", type=Path, help="C source to write (default NAME.c)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    plan = open_plan(arguments.plan)
    output: Path = arguments.output or arguments.plan.with_suffix(".c")
    check_source(output)
    name = prefix_of(output, arguments.name)
    check_output(output, [arguments.plan])
    files = sources(plan.data, output, name, form=arguments.format, backend=arguments.backend)
    write_files(files)
    if arguments.json:
        written = [dict(file=str(path), size_bytes=len(data)) for path, data in files.items()]
        print_json(dict(report=1, plan=plan.name, name=name, format=arguments.format, files=written))
    else:
        print("\n".join(columns((("wrote", str(p), format_size(len(d))) for p, d in files.items()), indent="")))
    return 0
