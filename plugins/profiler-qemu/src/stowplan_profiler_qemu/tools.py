"""The programs a board needs: compiler and emulator, found or missed with a line that says how to get them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from stowplan.errors import RuntimeFailure
from stowplan_profiler_qemu.boards import Board

PACKAGES = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
}
"""Where Debian and Ubuntu have them."""


def missing(board: Board) -> str:
    """Return what this machine lacks to run a board, with how to get it; nothing when all is there."""
    for program in (board.compiler, board.emulator):
        if shutil.which(program) is None:
            return f"{program} is not installed; on Debian or Ubuntu: apt-get install {PACKAGES[program]}"
    return ""


def run(command: Sequence[str], folder: Path, seconds: float, what: str) -> str:
    """Run a program of the toolchain and return its output. Raises `RuntimeFailure` with the line that says most."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeFailure(f"{what} did not finish within {seconds:g} s") from None
    except OSError as err:
        raise RuntimeFailure(f"{command[0]} cannot be run: {err.strerror or err}") from err
    if done.returncode != 0:
        raise RuntimeFailure(f"{what} failed: {telling_line(done.stdout + done.stderr)}")
    return done.stdout


def telling_line(text: str) -> str:
    """Return the line of a tool's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for word in ("overflowed by", "fault:", "refused:", "undefined reference", "error:", "cannot", "error"):
        for line in lines:
            if word in line and "collect2" not in line:
                return line
    return lines[-1] if lines else "it said nothing"
