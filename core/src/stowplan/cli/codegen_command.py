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

KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long main "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile "
    "while".split()
)
LONGEST_NAME = 31  # that many characters of an external name every C compiler tells apart


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
    name = _checked(arguments.name) if arguments.name else _identifier(output.stem)
    check_output(output, [arguments.plan])
    options = SourceOptions(name=name, format=arguments.format)
    sources = host().backends()[arguments.backend].generate(plan.data, options)
    files = {_place(output, file, name): data for file, data in sources.items()}
    write_files(files)
    if arguments.json:
        written = [dict(file=str(path), size_bytes=len(data)) for path, data in files.items()]
        print_json(dict(report=1, plan=plan.name, name=name, format=arguments.format, files=written))
    else:
        print("\n".join(columns((("wrote", str(p), format_size(len(d))) for p, d in files.items()), indent="")))
    return 0


def _place(output: Path, file: str, name: str) -> Path:
    """Return where a generated file goes: the source under the name asked for, everything else beside it."""
    if Path(file).name != file:
        raise OutputError(f"the backend named a file {file!r}, which is no plain file name")
    return output if file == f"{name}.c" else output.parent / file


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII) or name in KEYWORDS or len(name) > LONGEST_NAME:
        raise UsageError(
            f"--name {name[:40]}: is no name for C functions; use up to {LONGEST_NAME} letters, digits and underscores"
        )
    return name


def _identifier(stem: str) -> str:
    """Return a C identifier made from a file's name."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:LONGEST_NAME]
    return name if name[:1].isalpha() and name not in KEYWORDS else f"model_{name}"[:LONGEST_NAME].rstrip("_")
