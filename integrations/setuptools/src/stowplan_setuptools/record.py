"""Which files a project's builds have put where, so that those of models that are gone are removed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

Place = tuple[str, str]
"""A package and the name of a file in it."""


def recorded(file: Path) -> tuple[Place, ...]:
    """Return what was written at the last build; nothing where that is not known."""
    try:
        return tuple((str(package), str(name)) for package, name in json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return ()


def record(file: Path, places: Iterable[Place]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(sorted(set(places))), "utf-8")
