"""`stowplan inspect`: reads a model or a plan back, told apart by content, and runs nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from stowplan.cli.options import add_json
from stowplan.cli.output import safe
from stowplan.errors import UsageError
from stowplan.flow.model import Model
from stowplan.units import parse_pools, parse_size


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="model or plan")
    parser.add_argument("-v", "--verbose", action="store_true", help="every operator, or every stage and buffer")
    parser.add_argument("--text", action="store_true", help="the complete text form: for diffs and bug reports")
    parser.add_argument(
        "-m", "--mem", metavar="SIZE", action="append", default=[], help="refuse a plan that needs more"
    )
    parser.add_argument("-f", "--flash", metavar="SIZE", help="refuse a plan that is larger")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from stowplan.planfile.reader import is_plan

    pools = dict(parse_pools(arguments.mem))
    flash_bytes = None if arguments.flash is None else parse_size(arguments.flash, "-f")
    if arguments.text and arguments.json:
        raise UsageError("--text: is a form of its own; leave out --json")
    file = Model.read(arguments.file)
    if is_plan(file.data) or file.path.suffix.lower() == ".stow":
        from stowplan.cli import inspect_plan

        inspect_plan.check_budgets(file, pools, flash_bytes)
        return inspect_plan.show(file, arguments.verbose, arguments.text, arguments.json)
    if pools or flash_bytes is not None:
        raise UsageError(
            f"{safe(file.name)} is a model, and only plans have sizes to check: compile it first, or drop -m, -f"
        )
    from stowplan.cli import inspect_model

    return inspect_model.show(file, arguments.verbose, arguments.text, arguments.json)
