"""Who takes part in a build, and in which version: plugins with their sources, compiler and processor of the proof.

Sources are digested for installed plugins as well as for editable ones: what was edited in place is another tool,
whatever its version says. Digests are remembered by the files' identities, so that a warm build reads no source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stowplan.build import toolmemo
from stowplan.build.request import CompileRequest
from stowplan.cache.digests import Digests
from stowplan.cache.directory import cache_directory
from stowplan.cache.files import Identity, identity
from stowplan.nouns import dataclass
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
    """Looks up who is who, each package once; `watched` are the files and folders that were looked at, as they were.

    With `remembered` what an earlier process found is believed while no file of it moved: right for a command, which
    has its plugins from disk, and not for a process that may change them in memory.
    """

    def __init__(self, plugins: Host, *, remembered: bool = False) -> None:
        self.remembered = remembered
        self.host = plugins
        self.watched: dict[str, Identity | None] = {}
        self._sections: dict[str, dict[str, Any]] = {}
        self._machines: dict[str, dict[str, Any]] = {}
        self._digests = Digests(cache_directory() / MEMO)
        self._found: dict[str, Sources] = {}

    def toolchain(self, request: CompileRequest) -> dict[str, Any]:
        """Return the toolchain section of a key: core, each plugin that takes part, and the host of the proof."""
        question = {
            "suffix": request.model_path.suffix.lower(),
            "scheduler": request.scheduler,
            "backend": request.backend,
            "compressor": request.compressor,
            "prove": request.prove,
            "plugins": [[plugin.entry, plugin.module, plugin.title, plugin.state] for plugin in self.host.plugins],
        }
        name = str(question)
        if name not in self._sections:
            known = toolmemo.recall(question) if self.remembered else None
            if known is None:
                document = self._toolchain(request)
                if self.remembered:
                    toolmemo.remember(question, document, self.watched)
            else:
                document = known[0]
                self.watched.update(known[1])
            self._sections[name] = document
        return self._sections[name]

    def _toolchain(self, request: CompileRequest) -> dict[str, Any]:
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
        if backend not in self._machines:
            describe = getattr(self.host.backends()[backend], "host_identity", None)
            facts, files = ({}, ()) if describe is None else describe()
            self._watch(files)
            self._machines[backend] = dict(facts)
        return self._machines[backend]

    def changed(self) -> bool:
        """Say whether a file or folder that was looked at is not what it was."""
        return any(identity(path) != before for path, before in self.watched.items())

    def save(self) -> None:
        self._digests.save()

    def _watch(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.watched.setdefault(path, identity(path))

    def _sources(self, module: str, skip: tuple[str, ...] = ()) -> Sources:
        if module not in self._found:
            self._found[module] = self._digested(module, skip)
        return self._found[module]

    def _digested(self, module: str, skip: tuple[str, ...]) -> Sources:
        origin = _origin(module)
        if origin is None:
            return Sources(digest="absent", watched=())
        root = origin.parent
        files, folders = _files(root) if origin.name == "__init__.py" else ([origin], [])
        self._watch(map(str, [*folders, *files]))  # before they are read: what changes from now on shows
        hashed = [file for file in files if file.relative_to(root).parts[0] not in skip]
        total = hashlib.sha256()
        for file in hashed:
            name = file.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
            total.update(b"%d:" % len(name) + name + self._digests.of(file).encode())
        return Sources(digest=total.hexdigest(), watched=(*map(str, [*folders, *files]),))


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
