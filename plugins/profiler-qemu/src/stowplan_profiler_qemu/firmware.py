"""The test firmware of a plan: its generated C, what runs it once, and a linker script with the product's memories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stowplan.errors import DoesNotFit, RuntimeFailure
from stowplan.nouns import dataclass
from stowplan.planfile.reader import PlanView
from stowplan.plugins.kinds import BoardOptions, SourceOptions
from stowplan.units import format_size
from stowplan_backend_c import CBackend
from stowplan_profiler_qemu import tools
from stowplan_profiler_qemu.boards import Board

SOURCES = Path(__file__).parent / "firmware"
NAME = "model"
PARTS = ("start.c", "semihost.c", "memory.c", "main.c")
"""Of the firmware beside the generated source; the last is generated too."""
BUILD_SECONDS = 300
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")


@dataclass(frozen=True, kw_only=True)
class Image:
    """A linked firmware, the address of each symbol in it, and the bytes of its sections."""

    path: Path
    symbols: Mapping[str, int]
    flash_bytes: int
    ram_bytes: int


def build(view: PlanView, board: Board, options: BoardOptions, folder: Path, marks: bool) -> Image:
    """Compile and link in `folder`. With `marks` each firing is marked for the counter.

    Raises `DoesNotFit` when the product's flash or RAM is too small, `RuntimeFailure` when a tool fails.
    """
    files = CBackend().generate(view.data, SourceOptions(name=NAME, format="core", selftest=False))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "main.c").write_text(_main(view), "utf-8")
    (folder / "board.ld").write_text(_script(board, options), "utf-8")
    _compile(board, options, folder, marks)
    objects = [f"{Path(name).stem}.o" for name in (*PARTS, f"{NAME}.c")]
    link = ["-nostdlib", "-nostartfiles", "-Wl,--gc-sections", "-Wl,-T,board.ld", "-Wl,--no-warn-rwx-segments"]
    command = [board.compiler, *board.flags, *link, *objects, "-lgcc", "-o", "image.elf"]
    try:
        tools.run(command, folder, BUILD_SECONDS, f"linking for {board.name}")
    except RuntimeFailure as err:
        raise _too_large(str(err), board, options) or err from None
    return _image(board, folder)


def _compile(board: Board, options: BoardOptions, folder: Path, marks: bool) -> None:
    own = ("-DSTOW_WITH_SET_DSP=0", "-DSTOW_WITH_SET_HELIUM=0") if options.kernels == "portable" else ()
    flags = [
        "-std=gnu11", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections", *WARNINGS, *board.flags,
        *board.headers, *own, "-I", str(SOURCES), "-I", ".",
    ]  # fmt: skip
    hook = ["-include", str(SOURCES / "mark.h")] if marks else []
    model = [f"-{options.optimize}", *hook, f"{NAME}.c"]
    # Without the option the loops of memcpy are taken for calls of memcpy.
    parts = ["-O2", "-fno-tree-loop-distribute-patterns", *(str(SOURCES / part) for part in PARTS[:-1]), PARTS[-1]]
    for sources in (model, parts):
        tools.run([board.compiler, *flags, "-c", *sources], folder, BUILD_SECONDS, f"compiling for {board.name}")


def _main(view: PlanView) -> str:
    values = {
        "NAME": NAME,
        "MACRO": NAME.upper(),
        "FAST": str(max(view.fast_bytes, 1)),
        "SLOW": str(max(view.slow_bytes, 1)),
        "FAST_BYTES": str(view.fast_bytes),
        "SLOW_BYTES": str(view.slow_bytes),
        "INPUTS": str(len(view.inputs)),
        "OUTPUTS": str(len(view.outputs)),
        "INPUT_NAMES": "".join(f'"input_{i}", ' for i in range(len(view.inputs))),
        "OUTPUT_NAMES": "".join(f'"output_{i}", ' for i in range(len(view.outputs))),
        "INPUT_BYTES": "".join(f"{port.size_bytes}, " for port in view.inputs),
        "OUTPUT_BYTES": "".join(f"{port.size_bytes}, " for port in view.outputs),
    }
    streamed = any(port.streamed for port in view.inputs)
    values["INVOKE"] = (SOURCES / ("push.c.in" if streamed else "invoke.c.in")).read_text("utf-8")
    values["ROW_BYTES"] = "".join(f"{port.row_bytes}, " for port in view.inputs)
    values["MOST_ROW_BYTES"] = str(max((port.row_bytes for port in view.inputs), default=0) or 1)
    text = (SOURCES / "main.c.in").read_text("utf-8").replace("@INVOKE@", values["INVOKE"])
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _script(board: Board, options: BoardOptions) -> str:
    values = {
        "FLASH_BASE": hex(board.flash[0]),
        "FLASH_BYTES": str(options.flash_bytes or board.flash[1]),
        "RAM_BASE": hex(board.ram[0]),
        "RAM_BYTES": str(options.ram_bytes or board.ram[1]),
        "STACK_BYTES": str(options.stack_bytes),
    }
    text = (SOURCES / "board.ld.in").read_text("utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _too_large(message: str, board: Board, options: BoardOptions) -> DoesNotFit | None:
    """Return the refusal that the linker's complaint stands for."""
    found = re.search(r"region [`']?(FLASH|RAM)'? overflowed by (\d+) bytes", message)
    if found is None:
        return None
    flash = found[1] == "FLASH"
    budget = (options.flash_bytes or board.flash[1]) if flash else (options.ram_bytes or board.ram[1])
    over = int(found[2])
    what, how = ("flash", "--flash") if flash else ("RAM (arenas, stack and all else)", "--ram")
    return DoesNotFit(
        f"the firmware needs {format_size(budget + over)} of {what} on {board.name}, there are {format_size(budget)} "
        f"({format_size(over)} over); compile for less memory, or give more with {how}",
        needed_bytes=budget + over,
        budget_bytes=budget,
    )


def _image(board: Board, folder: Path) -> Image:
    prefix = board.compiler.removesuffix("gcc")
    listing = tools.run([prefix + "nm", "image.elf"], folder, BUILD_SECONDS, "listing symbols")
    symbols = {}
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 3:
            symbols[fields[2]] = int(fields[0], 16)
    sizes = tools.run([prefix + "size", "image.elf"], folder, BUILD_SECONDS, "measuring the image").splitlines()[1]
    text, data, bss = (int(word) for word in sizes.split()[:3])
    return Image(path=folder / "image.elf", symbols=symbols, flash_bytes=text + data, ram_bytes=data + bss)
