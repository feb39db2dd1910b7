"""Who takes part in a build, and in which version: plugins with their sources, compiler and processor of the proof.

Sources are digested for installed plugins as well as for editable ones: what was edited in place is another tool,
whatever its version says. Digests are remembered by the files' identities, so that a warm build reads no source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stowplan.build.request import CompileRequest
from stowplan.cache.directory import cache_directory
from stowplan.cache.files import Identity, identity, is_settled, write_durably
from stowplan.plugins.host import Host
from stowplan.plugins.index import Plugin
from stowplan.version import VERSION

BASELINE = "greedy"
LIGHT = ("cli", "cache", "testing")
"""Parts of core that no byte of a plan comes from: command line and cache. A warm start watches them all the same."""
MEMO = "sources.json"
MOST_FILES = 4000


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A package on disk: the digest of its files, and what to watch to notice a change: its files and folders."""

    digest: str
    watched: tuple[str, ...]


class Identities:
    """Looks up who is who, each package once; `watched` collects the files and folders that were looked at."""

    def __init__(self, plugins: Host) -> None:
        self.host = plugins
        self.watched: dict[str, None] = {}
        self._memo = _Memo(cache_directory() / MEMO)
        self._found: dict[str, Sources] = {}

    def toolchain(self, request: CompileRequest) -> dict[str, Any]:
        """Return the toolchain section of a key: core, each plugin that takes part, and the host of the proof."""
        suffix = request.model_path.suffix.lower()
        plugins: dict[str, Any] = {}
        for plugin, offer in self.host.offered("importer"):
            if suffix in offer.suffixes:  # all of them: which one reads the file is decided by the file's content
                plugins[f"importer {offer.name}"] = self.plugin(plugin, offer.version)
        chosen = [("scheduler", request.scheduler), ("scheduler", BASELINE), ("backend", request.backend)]
        if request.compressor != "none":
            chosen.append(("compressor", request.compressor))
        for kind, name in chosen:
            for plugin, offer in self.host.offered(kind, name):
                plugins[f"{kind} {name}"] = self.plugin(plugin, offer.version)
        document: dict[str, Any] = {"stowplan": self.core(), "plugins": plugins}
        if request.prove:
            document["host"] = self.machine(request.backend)
        return document

    def core(self) -> dict[str, Any]:
        return {"version": VERSION, "sources": self._sources("stowplan", skip=LIGHT).digest}

    def plugin(self, plugin: Plugin, version: str = "") -> dict[str, Any]:
        """Return one plugin's part: distribution and version, what it stands on, and its sources."""
        found = {"provider": plugin.title, "sources": self._sources(plugin.module.partition(".")[0]).digest}
        if version:
            found["version"] = version
        return {**found, "requires": dict(plugin.requires)} if plugin.requires else found

    def machine(self, backend: str) -> dict[str, Any]:
        """Return where plans of a backend run: what it says of its compiler and processor, if it says anything."""
        describe = getattr(self.host.backends()[backend], "host_identity", None)
        if describe is None:
            return {}
        facts, files = describe()
        self.watched.update(dict.fromkeys(files))
        return dict(facts)

    def save(self) -> None:
        self._memo.save()

    def _sources(self, module: str, skip: tuple[str, ...] = ()) -> Sources:
        if module not in self._found:
            self._found[module] = self._digested(module, skip)
            self.watched.update(dict.fromkeys(self._found[module].watched))
        return self._found[module]

    def _digested(self, module: str, skip: tuple[str, ...]) -> Sources:
        origin = _origin(module)
        if origin is None:
            return Sources(digest="absent", watched=())
        if origin.name != "__init__.py":
            return Sources(digest=self._memo.digest(origin.parent, [origin]), watched=(str(origin),))
        files, folders = _files(origin.parent)
        hashed = [file for file in files if file.relative_to(origin.parent).parts[0] not in skip]
        return Sources(digest=self._memo.digest(origin.parent, hashed), watched=(*map(str, [*folders, *files]),))


def file_digest(path: Path, memo: dict[str, Any] | None = None) -> str:
    """Return the SHA-256 of a file, "absent" when it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "absent"


class _Memo:
    """SHA-256 of files by path, believed only while size, times and inode are the same and were not too new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        self._known: dict[str, list[Any]] = {}
        with suppress(OSError, ValueError, RecursionError):
            known = json.loads(path.read_bytes())
            if isinstance(known, dict):
                self._known = known

    def digest(self, root: Path, files: Iterable[Path]) -> str:
        """Return one digest over names and contents; where the files lie does not matter."""
        total = hashlib.sha256()
        for file in files:
            name = file.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
            total.update(b"%d:" % len(name) + name + self._one(file).encode())
        return total.hexdigest()

    def save(self) -> None:
        if self._changed:
            with suppress(OSError):
                write_durably(self._path, json.dumps(self._known).encode())
            self._changed = False

    def _one(self, file: Path) -> str:
        now, found = time.time_ns(), identity(file)
        if found is None:
            return "absent"
        known = self._known.get(str(file))
        if isinstance(known, list) and len(known) == 5 and known[:4] == list(found) and isinstance(known[4], str):
            return known[4]
        digest = file_digest(file)
        if is_settled(found, now) and identity(file) == found:
            self._known[str(file)] = [*found, digest]
            self._changed = True
        return digest


def unsettled(paths: Iterable[str], now_ns: int) -> bool:
    """Say whether some file changed so recently that its identity does not tell its next version from this one."""
    return any((found := identity(path)) is not None and not is_settled(found, now_ns) for path in paths)


def identities(paths: Iterable[str]) -> Mapping[str, Identity | None]:
    return {path: identity(path) for path in paths}


def _origin(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not os.path.isabs(spec.origin):
        return None
    return Path(spec.origin)


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of a package and its folders, sorted; what Python makes of the files is left out."""
    files, folders = [], []
    for where, inside, names in os.walk(folder):
        inside[:] = sorted(name for name in inside if name != "__pycache__")
        folders.append(Path(where))
        files += [Path(where, name) for name in sorted(names) if not name.endswith((".pyc", ".pyo"))]
        if len(files) > MOST_FILES:
            break
    return files, folders
