"""Entries for tests of the cache, and ways to damage what is stored; light, since many processes import it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from stowplan.cache.entry import Entry


def entry(number: int = 0, size_bytes: int = 1000, **meta: Any) -> Entry:
    """Return an entry like no other of another number."""
    data = random.Random(number).randbytes(size_bytes)
    document = {
        "format": 1,
        "kind": "test",
        "number": number,
        "target": {"label": f"t{number % 2}", "name": "portable"},
    }
    return Entry(document=document, files={"plan.stow": data, "note.txt": b"%d" % number}, meta={"facts": {}, **meta})


def stored_files(folder: Path) -> list[Path]:
    """Return every file of a store that holds something: records and objects."""
    return sorted(p for part in ("records", "objects") for p in (folder / part).rglob("*") if p.is_file())


def flipped(path: Path, bit: int) -> None:
    """Turn one bit of a file around, if it has any."""
    data = bytearray(path.read_bytes())
    if not data:
        return
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


def truncated(path: Path, keep: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
