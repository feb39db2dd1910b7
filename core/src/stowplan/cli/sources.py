"""C sources made from a plan, for the commands that write them: what they are called, and which files they are."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

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
    return identifier(output.stem) if given is None else given


def generated(plan: bytes, output: Path, options: SourceOptions, backend: str) -> dict[Path, bytes]:
    """Return the files of a plan's C code: the source under the name asked for, everything else beside or below it."""
    made = host().backends()[backend].generate(plan, options)
    if options.package:
        return {_within(output, file): data for file, data in made.items()}
    return {_place(output, file, options.name): data for file, data in made.items()}


def _within(folder: Path, file: str) -> Path:
    """Return where a package's file goes."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise OutputError(f"the backend named a file {file!r}, which does not lie in the package")
    return folder / path


def _place(output: Path, file: str, name: str) -> Path:
    """Return where a generated file goes: the source under the name asked for, everything else beside it."""
    if Path(file).name != file:
        raise OutputError(f"the backend named a file {file!r}, which is no plain file name")
    return output if file == f"{name}.c" else output.parent / file


def identifier(stem: str) -> str:
    """Return the beginning of C identifiers made from a file's name; what the user names is the backend's to judge."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:LONGEST_NAME]
    return name if name[:1].isalpha() and not name.lower().startswith("stow") else f"model_{name}".rstrip("_")
