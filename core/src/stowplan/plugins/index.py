"""What the installed plugins offer, remembered on disk: a warm start imports only the plugins it uses.

One JSON file per environment. It counts only while nothing it was made from has changed: the interpreter, the search
path with each folder's time stamp, and the size and time stamp of each plugin's module. Anything odd means: scan again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from stowplan.cache.directory import cache_directory
from stowplan.nouns import asdict, dataclass

SCHEMA = 3
MOST_INDICES = 16
Stamp = tuple[str, int, int]
"""A path, its size and its time stamp in nanoseconds (an integer: a float would lose the last digits)."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One record that a plugin offers, as far as it can be known without importing the plugin.

    `version` is the record's own where it has one. `external` says that an importer can name files beside a model.
    """

    kind: str
    name: str
    summary: str
    suffixes: tuple[str, ...] = ()
    version: str = ""
    external: bool = False


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One installed plugin. `state` is ok, broken or blocked; `reason` says why it is not ok.

    `requires` are the distributions it stands on, with the versions that are installed. `contract` is the number of the
    contract that it was written for (0: unknown), `load_us` what importing it and asking its hooks took when that was
    last done, `deprecated` what it still uses that will go.
    """

    entry: str
    module: str
    provider: str
    version: str
    state: str
    reason: str = ""
    offers: tuple[Offer, ...] = ()
    observes: bool = False
    stamps: tuple[Stamp, ...] = ()
    requires: tuple[tuple[str, str], ...] = ()
    contract: int = 0
    load_us: int = 0
    deprecated: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.provider} {self.version}"


def load(path: Path, search_path: list[str]) -> tuple[Plugin, ...] | None:
    """Return the remembered plugins, or None when the file is missing, damaged or out of date."""
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA or document["folders"] != _folders(search_path):
            return None
        plugins = tuple(_plugin(fields) for fields in document["plugins"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    current = all(stamp(s[0]) == s for plugin in plugins for s in plugin.stamps)
    return plugins if current else None


def save(path: Path, search_path: list[str], plugins: Iterable[Plugin]) -> None:
    """Remember the plugins. Failing to is no error: the next start scans again."""
    document = {
        "schema": SCHEMA,
        "folders": _folders(search_path),
        "plugins": [asdict(plugin) for plugin in plugins],
    }
    with suppress(OSError):
        import tempfile  # only when the index is written

        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".plugins-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file)
            os.replace(temporary, path)
            _forget_old(path.parent)
        except OSError:
            os.unlink(temporary)


def location(search_path: list[str], selection: str) -> Path:
    """Return the file for this environment and choice of plugins, so that two environments do not evict each other."""
    facts = [sys.version, sys.prefix, search_path, selection]
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    return cache_directory() / f"plugins-{name}.json"


def stamp(path: str) -> Stamp:
    """Return what tells one version of a file from another; zeros for a file that is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return (path, 0, 0)
    return (path, status.st_size, status.st_mtime_ns)


def _forget_old(folder: Path) -> None:
    """Remove the indices of environments that nobody uses any more: all but the newest few."""
    newest_first = sorted(folder.glob("plugins-*.json"), key=lambda file: -stamp(str(file))[2])
    for file in newest_first[MOST_INDICES:]:
        file.unlink(missing_ok=True)


def _folders(search_path: list[str]) -> list[list[Any]]:
    # Sizes of folders are left out: they say nothing that the time stamp does not.
    return [[folder, stamp(folder)[2]] for folder in search_path]


def _plugin(fields: dict[str, Any]) -> Plugin:
    offers = tuple(Offer(**{**offer, "suffixes": tuple(offer["suffixes"])}) for offer in fields.pop("offers"))
    stamps = tuple((str(path), int(size), int(time)) for path, size, time in fields.pop("stamps"))
    requires = tuple((str(name), str(version)) for name, version in fields.pop("requires"))
    deprecated = tuple(str(line) for line in fields.pop("deprecated"))
    return Plugin(offers=offers, stamps=stamps, requires=requires, deprecated=deprecated, **fields)
