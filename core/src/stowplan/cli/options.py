"""The options that commands share, and a parser whose complaints are one line like every other error."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from stowplan.errors import UsageError
from stowplan.units import parse_shape

DAY_SECONDS = 86400


class Help(argparse.HelpFormatter):
    """Help as wide as the terminal. One is made for every option that is defined; by default each imports `shutil`."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else 0
        with suppress(OSError, ValueError):
            width = width or os.get_terminal_size().columns
        super().__init__(prog, width=(width or 80) - 2)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of printing its usage and leaving the process."""

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, formatter_class=Help)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def add_model(parser: argparse.ArgumentParser, what: str = "TFLite or ONNX model") -> None:
    """Add what `compile`, `analyze` and `report` all take."""
    parser.add_argument("model", metavar="MODEL", type=Path, help=what)
    parser.add_argument(
        "--input-shape",
        metavar="NAME:1x96x96x3",
        action="append",
        default=[],
        help="shape for an input the model leaves open (otherwise an open dimension is 1)",
    )
    parser.add_argument(
        "--stream-input",
        metavar="NAME",
        action="append",
        default=[],
        help="input whose rows the application pushes as they arrive, so that it never lies in memory as a whole; "
        "repeatable",
    )
    parser.add_argument(
        "--recompute",
        metavar="F",
        default="1.0",
        help="do up to F times the arithmetic where that saves memory (default 1.0); streamed inputs may then "
        "be wanted several times over",
    )
    parser.add_argument(
        "--optimal",
        action="store_true",
        help="go on to the least fast memory, and say how near the plan is to it",
    )
    parser.add_argument(
        "--time-limit", metavar="S", help="seconds that the search for each plan may take; otherwise it counts steps"
    )
    parser.add_argument("-f", "--flash", metavar="SIZE", help="flash for the plan; a larger plan is refused")
    parser.add_argument("--scheduler", metavar="NAME", default="stream", help="which scheduler (default stream)")
    add_json(parser)


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--plot", metavar="FILE.svg", type=Path, help=f"draw {what} as SVG")


def add_ascii(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ascii", action="store_true", help="print the memory map in letters as well")


def time_limit(text: str | None) -> float | None:
    """Return the seconds of `--time-limit`. Raises `UsageError` for what is no time between 0 and a day."""
    if text is None:
        return None
    with suppress(ValueError):
        seconds = float(text)
        if 0 < seconds <= DAY_SECONDS:
            return seconds
    raise UsageError(f"--time-limit {text[:40]}: write seconds, more than 0 and at most {DAY_SECONDS}")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output, for refusals too")


def compressor(name: str) -> str:
    """Return the name of an installed compressor, or "none". Raises `UsageError` with those there are."""
    if name == "none":
        return name
    from stowplan.plugins.host import host

    installed = host().compressors()
    if name not in installed:
        raise UsageError(f"-c {name[:40]}: compressors are {', '.join(['none', *installed])}")
    return name


def input_shapes(values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of `--input-shape`, each input once. Raises `UsageError`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, shape = parse_shape(value, "--input-shape")
        if name in shapes:
            raise UsageError(f"--input-shape: {name} is given twice")
        shapes[name] = shape
    return shapes
