"""What setuptools calls in every build of an environment with this package: nothing happens without our table."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def finalize(distribution: Any) -> None:
    """Add the sub-command to `build` where the project has models for its packages."""
    path = Path("pyproject.toml")
    try:
        if b"stowplan" not in path.read_bytes():
            return
    except OSError:
        return
    from stowplan_setuptools.attach import attach  # imports stowplan, which other projects need not wait for

    attach(distribution, path)


finalize.order = 50  # type: ignore[attr-defined]  # how setuptools sorts its hooks; any place will do
