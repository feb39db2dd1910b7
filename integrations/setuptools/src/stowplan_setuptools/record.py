"""Which files a project's builds have put where, so that those of models that are gone are removed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from stowplan.cli.output import make_folder, write_file

Place = tuple[str, str]
"""A package and the name of a file in it."""


def recorded(file: Path) -> tuple[Place, ...]:
    """Return what was written at the last build; nothing where that is not known."""
    try:
        return tuple((str(package), str(name)) for package, name in json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


def record(file: Path, places: Iterable[Place]) -> None:
    """Keep what is being written, before it is. Raises `OutputError`."""
    make_folder(file.parent)
    write_file(file, json.dumps(sorted(set(places))).encode())
