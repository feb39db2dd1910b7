"""What happened to the cache, one short line each: a hit costs an append, and the index reads it up later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stowplan.cache.files import is_digest
from stowplan.nouns import dataclass

NAME = "journal"
KINDS = ("hit", "store", "remove", "miss", "warm", "remote", "failure")
FULL_BYTES = 64 * 1024
"""Longer journals are read up by the next process that stores something."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened, `time_ns` since the epoch; `value` is what a hit saved in nanoseconds."""

    what: str
    key: str
    time_ns: int
    size_bytes: int
    value: int


def append(folder: Path, what: str, key: str, size_bytes: int = 0, value: int = 0) -> None:
    """Note something. Whatever goes wrong is no reason to stop: the journal only feeds statistics and eviction."""
    line = f"{what} {key} {time.time_ns()} {size_bytes} {value}\n".encode()
    with suppress(OSError):
        # One write of a short line: the kernel keeps lines of several processes apart.
        descriptor = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def is_long(folder: Path) -> bool:
    try:
        return os.stat(folder / NAME).st_size > FULL_BYTES
    except OSError:
        return False


def take(folder: Path) -> Iterator[Line]:
    """Yield all lines and start a new journal; call it under the eviction lock. What is no line is passed over."""
    taken = folder / f"{NAME}.taken"
    try:
        if not taken.exists():  # left by a process that was killed here: its lines come first
            os.replace(folder / NAME, taken)
        data = taken.read_bytes()
    except OSError:
        return
    for text in data.split(b"\n"):
        line = _line(text)
        if line is not None:
            yield line
    with suppress(OSError):
        taken.unlink()


def _line(text: bytes) -> Line | None:
    try:
        what, key, time_ns, size, value = text.decode("ascii").split(" ")
        found = Line(what=what, key=key, time_ns=int(time_ns), size_bytes=int(size), value=int(value))
    except ValueError:
        return None
    return found if what in KINDS and is_digest(key) else None
