"""`stowplan inspect`: reads a model or a plan back, told apart by content, and runs nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from stowplan.cli.options import add_json
from stowplan.flow.model import Model


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="model or plan")
    parser.add_argument("-v", "--verbose", action="store_true", help="every operator, or every stage and buffer")
    parser.add_argument("--text", action="store_true", help="the complete text form: for diffs and bug reports")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from stowplan.planfile.reader import is_plan

    file = Model.read(arguments.file)
    if is_plan(file.data) or file.path.suffix.lower() == ".stow":
        from stowplan.cli import inspect_plan

        return inspect_plan.show(file, arguments.verbose, arguments.text, arguments.json)
    from stowplan.cli import inspect_model

    return inspect_model.show(file, arguments.verbose, arguments.text, arguments.json)
