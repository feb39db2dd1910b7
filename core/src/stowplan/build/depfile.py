"""Writes the inputs of a file as a rule that make and ninja read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write_depfile(path: Path, output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Write `output: inputs`, names escaped as both tools have it. Raises `OutputError`."""
    from stowplan.cli.output import check_output, write_file

    check_output(path)
    write_file(path, rule(output, inputs).encode("utf-8", "surrogateescape"))


def rule(output: str | Path, inputs: Iterable[str | Path]) -> str:
    # Folders are left out: their times move with every file that Python compiles in them.
    names = [escaped(name) for name in dict.fromkeys(map(str, inputs)) if not os.path.isdir(name)]
    return f"{escaped(str(output))}:" + "".join(f" \\\n  {name}" for name in names) + "\n"


def escaped(name: str) -> str:
    """Return a file name as a makefile writes it: blanks and hashes get a backslash, a dollar another dollar."""
    return name.replace("\\", "\\\\").replace(" ", "\\ ").replace("#", "\\#").replace("$", "$$")
