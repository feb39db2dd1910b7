"""C sources made from a plan, for the commands that write them: what they are called, and which files they are."""

from __future__ import annotations

import re
from pathlib import Path

from stowplan.errors import OutputError, UsageError
from stowplan.plugins.host import host
from stowplan.plugins.kinds import SourceOptions

LONGEST_NAME = 48  # leaves room for what a backend appends


def check_source(output: Path) -> None:
    """Raise `OutputError` for a name that no C source has."""
    if output.suffix.lower() != ".c":
        raise OutputError(f"{output}: write a name that ends in .c; headers go beside it")


def prefix_of(output: Path, given: str | None) -> str:
    """Return what the functions begin with: the name that was given, else the output's. Raises `UsageError`."""
    if given == "":
        raise UsageError("--name: is empty; leave it out to use the output's name")
    return _identifier(output.stem) if given is None else given


def sources(plan: bytes, output: Path, name: str, *, form: str = "core", backend: str = "c") -> dict[Path, bytes]:
    """Return the files of a plan's C code: the source under the name asked for, everything else beside it."""
    made = host().backends()[backend].generate(plan, SourceOptions(name=name, format=form))
    return {_place(output, file, name): data for file, data in made.items()}


def _place(output: Path, file: str, name: str) -> Path:
    if Path(file).name != file:
        raise OutputError(f"the backend named a file {file!r}, which is no plain file name")
    return output if file == f"{name}.c" else output.parent / file


def _identifier(stem: str) -> str:
    """Return the beginning of C identifiers made from a file's name; what the user names is the backend's to judge."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:LONGEST_NAME]
    return name if name[:1].isalpha() and not name.lower().startswith("stow") else f"model_{name}".rstrip("_")
