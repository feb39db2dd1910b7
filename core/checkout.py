"""Hatch metadata hook of the checkout: its dependencies, scripts and entry points are the union of its members'."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # hatchling brings it where the standard library has none


def members(root: Path) -> list[dict[str, Any]]:
    """Return the `[project]` tables of core and of every plugin folder without a leading underscore."""
    folders = [root / "core", *sorted(p.parent for p in (root / "plugins").glob("[!_]*/pyproject.toml"))]
    return [tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"] for folder in folders]


class CheckoutHook(MetadataHookInterface):
    """Fills in what the root's `[project]` table declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        projects = members(Path(self.root))
        own = {project["name"] for project in projects}
        needed = {line for project in projects for line in project.get("dependencies", ())}
        # By name, since members require one another with version ranges.
        metadata["dependencies"] = sorted(line for line in needed if re.split(r"[^\w.-]", line)[0] not in own)
        metadata["scripts"] = {k: v for project in projects for k, v in project.get("scripts", {}).items()}
        groups: dict[str, dict[str, str]] = {}
        for project in projects:
            for group, entries in project.get("entry-points", {}).items():
                groups.setdefault(group, {}).update(entries)
        metadata["entry-points"] = groups
