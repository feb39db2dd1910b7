"""What each output was last made from: the other half of every explanation, one small file per output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stowplan.cache.files import sha256, walk, write_durably
from stowplan.cache.key import Difference, Document, differences, digest
from stowplan.nouns import dataclass

MOST_SUBJECTS = 20_000
"""Outputs that are remembered, about 2 KB each; of one that is forgotten nothing can be explained, and that is all."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An output by name, the key document it was last made from, and what differed from the time before."""

    name: str
    document: Document
    reasons: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return digest(self.document)


def recall(folder: Path, name: str) -> Subject | None:
    """Return what is known of an output, None for nothing that can be read."""
    return _read(_path(folder, name))


def remember(folder: Path, name: str, document: Document, reasons: tuple[str, ...]) -> None:
    """Keep what an output was made from; a cache that cannot be written to explains less, and that is all."""
    body = json.dumps({"name": name, "document": document, "reasons": reasons}, sort_keys=True).encode()
    with suppress(OSError):
        write_durably(_path(folder, name), sha256(body).encode() + b"\n" + body)


def recalled(folder: Path) -> Iterator[Subject]:
    """Yield all outputs that are known."""
    for path in walk(folder / "subjects"):
        found = _read(path)
        if found is not None:
            yield found


def keep_few(folder: Path, most: int = MOST_SUBJECTS) -> None:
    """Forget the outputs that were made longest ago, beyond the latest `most`."""
    times = []
    for path in walk(folder / "subjects"):
        with suppress(OSError):
            times.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(times)[: max(len(times) - most, 0)]:
        with suppress(OSError):
            path.unlink()


def forget(folder: Path) -> None:
    """Remove what is known of all outputs."""
    for path in walk(folder / "subjects"):
        with suppress(OSError):
            path.unlink()


def compared(before: Subject | None, document: Document) -> tuple[str, ...]:
    """Return why an output is made again, one line for each input that differs; empty when none does."""
    if before is None:
        return ("nothing is known of an earlier build",)
    return tuple(map(str, changed(before.document, document)))


def changed(old: Document, new: Document) -> tuple[Difference, ...]:
    """Return the inputs that differ, without what only follows from another: a version says what its sources say."""
    found = differences(old, new)
    prefixes = {d.label.removesuffix(".provider") for d in found if d.label.endswith(".provider")}
    prefixes |= {d.label.removesuffix(".version") for d in found if d.label == "toolchain.stowplan.version"}
    versions = {f"{d.label.split('.')[1]}" for d in found if d.label.startswith("toolchain.plugins")}
    kept = [d for d in found if not (d.label.endswith(".sources") and d.label.removesuffix(".sources") in prefixes)]
    return tuple(d for d in kept if not (d.label == "schedule.version" and versions)) or found


def _path(folder: Path, name: str) -> Path:
    return folder / "subjects" / sha256(name.encode("utf-8", "surrogateescape"))


def _read(path: Path) -> Subject | None:
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        if head.decode("ascii") != sha256(body):
            return None
        fields: Mapping[str, Any] = json.loads(body)
        return Subject(
            name=str(fields["name"]), document=dict(fields["document"]), reasons=tuple(map(str, fields["reasons"]))
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
