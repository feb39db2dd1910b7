"""`stowplan codegen`: writes C from a plan, as a program or as a core to link into firmware."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from stowplan.cli.options import add_json
from stowplan.cli.output import check_output, columns, print_json, write_files
from stowplan.cli.plans import open_plan
from stowplan.errors import OutputError, UsageError
from stowplan.plugins.host import host
from stowplan.plugins.kinds import SourceOptions
from stowplan.units import format_size

LONGEST_NAME = 48  # leaves room for what a backend appends


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
    if output.suffix.lower() != ".c":
        raise OutputError(f"{output}: write a name that ends in .c; headers go beside it")
    name = identifier(output.stem) if arguments.name is None else _checked(arguments.name)
    check_output(output, [arguments.plan])
    files = generated(plan.data, output, SourceOptions(name=name, format=arguments.format), arguments.backend)
    write_files(files)
    if arguments.json:
        written = [dict(file=str(path), size_bytes=len(data)) for path, data in files.items()]
        print_json(dict(report=1, plan=plan.name, name=name, format=arguments.format, files=written))
    else:
        print("\n".join(columns((("wrote", str(p), format_size(len(d))) for p, d in files.items()), indent="")))
    return 0


def generated(plan: bytes, output: Path, options: SourceOptions, backend: str) -> dict[Path, bytes]:
    """Return the C of a plan by the files it goes into: the source at `output`, headers beside it."""
    sources = host().backends()[backend].generate(plan, options)
    return {_place(output, file, options.name): data for file, data in sources.items()}


def _place(output: Path, file: str, name: str) -> Path:
    """Return where a generated file goes: the source under the name asked for, everything else beside it."""
    if Path(file).name != file:
        raise OutputError(f"the backend named a file {file!r}, which is no plain file name")
    return output if file == f"{name}.c" else output.parent / file


def identifier(stem: str) -> str:
    """Return the beginning of C identifiers made from a file's name; what the user names is the backend's to judge."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:LONGEST_NAME]
    return name if name[:1].isalpha() and not name.lower().startswith("stow") else f"model_{name}".rstrip("_")


def _checked(name: str) -> str:
    if not name:
        raise UsageError("--name: is empty; leave it out to use the output's name")
    return name
