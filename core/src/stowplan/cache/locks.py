"""Locks between processes that the kernel frees when their holder dies: nobody ever waits for the dead."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no flock: there processes may do the same work twice, and the last one wins
    fcntl = None

FIRST_WAIT_SECONDS = 0.002
LONGEST_WAIT_SECONDS = 0.1


@contextmanager
def held(path: Path, *, shared: bool = False, wait_seconds: float = 600.0, leave: bool = False) -> Iterator[bool]:
    """Hold a lock on `path` while the block runs; yields whether it was got.

    It is not got when another process keeps it for longer than `wait_seconds`, or when the file cannot be made (a
    read-only cache): then the block runs without. The file is removed afterwards unless `leave`.
    """
    descriptor = _acquire(path, shared, wait_seconds)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            if not leave:
                with suppress(OSError):  # still ours: whoever waits for it sees that the name is gone, and tries again
                    path.unlink()
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Say whether some process holds a lock on `path`."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, shared: bool = False) -> bool:
    """Lock an open file, or say that another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _acquire(path: Path, shared: bool, wait_seconds: float) -> int | None:
    deadline, pause = time.monotonic() + wait_seconds, FIRST_WAIT_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError:
            return None
        if try_lock(descriptor, shared):
            if _is_at(descriptor, path):
                return descriptor
            os.close(descriptor)  # the holder before us removed the file: what we locked has no name any more
            continue
        os.close(descriptor)
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_WAIT_SECONDS)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False
