"""What `run` and `profile` share about boards: their options, who runs them, and what a run used."""

from __future__ import annotations

import argparse
from typing import Any, cast

from stowplan.cli.output import plain
from stowplan.errors import PluginError, UsageError
from stowplan.plugins.host import host
from stowplan.plugins.kinds import BoardBackend, BoardCompiled, BoardOptions, BoardReport
from stowplan.plugins.known import how_to_install
from stowplan.units import format_size, parse_size

LEVELS = ("O1", "O2", "O3", "Os")
SETS = ("own", "portable")


def add_board(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--board", metavar="NAME", help="run it as firmware on a board: cortex-m4, cortex-m55, rv32, ..."
    )
    parser.add_argument("--flash", metavar="SIZE", help="flash of the product that the board stands for (default all)")
    parser.add_argument("--ram", metavar="SIZE", help="its RAM: arenas, stack and all else (default all)")
    parser.add_argument("--stack", metavar="SIZE", help="its stack (default 4K)")
    parser.add_argument(
        "--optimize", metavar="LEVEL", help=f"of the firmware's compiler: {', '.join(LEVELS)} (default O2)"
    )
    parser.add_argument("--kernels", metavar="SET", help="own (of the board's core, the default) or portable")


def board_options(arguments: argparse.Namespace) -> BoardOptions | None:
    """Return the board that was asked for, None for none. Raises `UsageError`."""
    details = {name: getattr(arguments, name) for name in ("flash", "ram", "stack", "optimize", "kernels")}
    if arguments.board is None:
        given = [f"--{name}" for name, value in details.items() if value is not None]
        if given:
            raise UsageError(f"{given[0]} is for boards: say which with --board NAME")
        return None
    optimize, kernels = details["optimize"] or "O2", details["kernels"] or "own"
    if optimize not in LEVELS:
        raise UsageError(f"--optimize {optimize}: levels are {', '.join(LEVELS)}")
    if kernels not in SETS:
        raise UsageError(f"--kernels {kernels}: kernel sets are {' and '.join(SETS)}")
    return BoardOptions(
        board=arguments.board,
        flash_bytes=_size(details["flash"], "--flash"),
        ram_bytes=_size(details["ram"], "--ram"),
        stack_bytes=_size(details["stack"], "--stack") or 4096,
        optimize=optimize,
        kernels=kernels,
    )


def on_board(plan: bytes, options: BoardOptions) -> BoardCompiled:
    """Return a plan as firmware. Raises `PluginError` when nobody has boards, `UsageError` when nobody has this one."""
    backends = [cast(BoardBackend, backend) for backend in host().backends().values() if hasattr(backend, "boards")]
    if not backends:
        raise PluginError(f"--board {options.board}: no plugin has boards.{how_to_install('profiler', 'qemu')}")
    for backend in backends:
        if options.board in backend.boards():
            return backend.compile_on(plan, options)
    names = ", ".join(name for backend in backends for name in backend.boards())
    raise UsageError(f"--board {options.board}: there is no such board; boards are {names}")


def used_lines(report: BoardReport, fast_bytes: int, slow_bytes: int) -> list[str]:
    """Return what a run used, for people."""
    arenas = f"arena {report.fast_used_bytes} of {fast_bytes} B"
    if slow_bytes:
        arenas += f", slow arena {report.slow_used_bytes} of {slow_bytes} B"
    return [
        f"{report.instructions:,} instructions on {report.board} ({report.core}, emulated: instructions, not cycles)",
        f"{arenas}; stack {report.stack_bytes} B, opening the plan {report.opening_stack_bytes} B",
        f"firmware {format_size(report.flash_bytes)} of flash, {format_size(report.ram_bytes)} of RAM",
    ]


def report_document(report: BoardReport) -> dict[str, Any]:
    document: dict[str, Any] = plain(report)
    return document


def _size(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    size = parse_size(text, option)
    if not 0 < size < 2**31:
        raise UsageError(f"{option} {text}: no board has that much")
    return size
