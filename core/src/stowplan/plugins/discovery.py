"""Which plugins are installed: entry points of the group `stowplan`, found without importing any of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import PROJECT
from stowplan.plugins.known import BUNDLED, distribution

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NEUTRAL = frozenset({"diskcache", "platformdirs", "pluggy", "rich", "tomli"})
"""What core stands on: no byte of a result comes from these."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry point: its name, the module it names, and the distribution (with version) that provides it.

    `requires` are the distributions that one needs, with the versions installed; ours and pluggy, which every plugin
    has, are left out.
    """

    name: str
    module: str
    provider: str
    version: str
    requires: tuple[tuple[str, str], ...] = ()

    @property
    def bundled(self) -> bool:
        return self.name in BUNDLED and self.provider == distribution(self.name)


@dataclass(frozen=True)
class Selection:
    """What STOWPLAN_PLUGINS (only these; empty: only bundled ones) and STOWPLAN_PLUGINS_BLOCK (never these) ask for.

    Names are entry points or distributions. Applied before anything is imported, so that blocking a plugin also
    spares its import.
    """

    only: tuple[str, ...] | None
    block: tuple[str, ...]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Selection:
        only = environment.get("STOWPLAN_PLUGINS")
        block = environment.get("STOWPLAN_PLUGINS_BLOCK", "")
        return cls(None if only is None else _names(only), _names(block))

    def admits(self, entry: Entry) -> bool:
        names = {_normal(entry.name), _normal(entry.provider)}
        if names & set(self.block):
            return False
        if self.only is None:
            return True
        return entry.bundled if not self.only else bool(names & set(self.only))


def search_path() -> list[str]:
    """Return the folders to look in: `sys.path` without the script's own folder, which is no place for installations.

    Under `python -m` that folder is the working folder: its time stamp moves with every file written there, and
    whoever can put files there could otherwise add plugins.
    """
    path = list(sys.path)
    script = os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv and sys.argv[0] else ""
    if path and path[0] in ("", os.getcwd(), script) and not getattr(sys.flags, "safe_path", False):
        path = path[1:]
    return list(dict.fromkeys(path))


def find_entries() -> tuple[Entry, ...]:
    """Return all entry points of the group, sorted, exact duplicates left out.

    A bundled plugin that is installed both by the checkout and on its own is such a duplicate. Of two distributions
    with one name the first on the path counts, as it does for imports.
    """
    from importlib.metadata import distributions  # costs more than everything else here; a warm start needs no scan

    found: dict[tuple[str, str], Entry] = {}
    seen: set[str] = set()
    for package in distributions(path=search_path()):
        if PROJECT not in (package.read_text("entry_points.txt") or ""):
            continue  # before the metadata of every other package is parsed
        name = _package_name(package)
        if name is None or name in seen:
            continue
        seen.add(name)
        for entry in _entries(package, name):
            found.setdefault((entry.name, entry.module), entry)
    return tuple(sorted(found.values(), key=lambda e: (e.name, e.module)))


def _entries(package: Distribution, name: str) -> Iterator[Entry]:
    try:
        points = [point for point in package.entry_points if point.group == PROJECT]
    except (TypeError, ValueError):  # a malformed file; an entry without a module is reported as broken
        yield Entry(name=name, module="", provider=name, version=package.version or "0")
        return
    requires = _requirements(package)
    for point in points:
        # In the checkout all bundled plugins belong to one distribution; show what separate installs would show.
        provider = distribution(point.name) if name == PROJECT and point.name in BUNDLED else name
        yield Entry(
            name=point.name,
            module=point.value.strip(),
            provider=provider,
            version=package.version or "0",
            requires=requires,
        )


def _requirements(package: Distribution) -> tuple[tuple[str, str], ...]:
    """Return what a distribution needs beside the tool itself, with installed versions; "absent" where it is not."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for line in package.requires or ():
        name = _normal(re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0])
        if "extra ==" in line or name.startswith(PROJECT) or name in NEUTRAL:
            continue
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return tuple(sorted(found.items()))


def _package_name(package: Distribution) -> str | None:
    """Return a distribution's normal name; None for a folder with damaged metadata, which other tools skip as well."""
    try:
        name = package.metadata["Name"]
    except (KeyError, OSError, UnicodeDecodeError):
        return None
    return _normal(name) if name else None


def _names(text: str) -> tuple[str, ...]:
    return tuple(_normal(part) for part in text.replace(",", " ").split())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
