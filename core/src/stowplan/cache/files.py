"""Files of the cache: written whole or not at all, durable, private; and what tells one version of a file from another.

A temporary file is locked while it is written, so that a sweep knows a leftover (no lock) from a file in the making.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stowplan.cache.locks import try_lock

TEMPORARY = ".tmp-"
TOO_NEW_NS = 2_000_000_000
"""A file changed this shortly before it was looked at may change again within the same tick of its clock."""
Identity = tuple[int, int, int, int]
"""Size in bytes, modification and change time in nanoseconds, inode."""


def identity(path: str | Path) -> Identity | None:
    """Return what is cheap to know of a file and moves with its content; None for a file that is not there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def is_settled(found: Identity, now_ns: int) -> bool:
    """Say whether an identity seen at `now_ns` can be trusted to change with the content from now on."""
    return max(found[1], found[2]) + TOO_NEW_NS < now_ns


def begin_anew(folder: Path, most: int) -> None:
    """Remove the files of a folder that has more than `most`: they are made again, at the price of one longer way."""
    with suppress(OSError):
        names = os.listdir(folder)
        if len(names) > most:
            for name in names:
                with suppress(OSError):
                    os.unlink(folder / name)


def write_durably(path: Path, data: bytes) -> None:
    """Write a file of the cache: all of it or nothing, and still there after a power cut. Raises `OSError`."""
    make_private(path.parent)
    for attempt in (1, 2):  # a sweep between creating and locking the temporary file may take it for a leftover
        try:
            return _write(path, data)
        except FileNotFoundError:
            if attempt == 2:
                raise
    return None


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone. Raises `OSError`."""
    if not folder.is_dir():
        make_private(folder.parent)  # one by one: `parents=True` gives the mode to the last one only
        folder.mkdir(mode=0o700, exist_ok=True)


def sweep_temporaries(folder: Path) -> int:
    """Remove what killed writers left below a folder; return how many files went."""
    count = 0
    for path in walk(folder):
        if path.name.startswith(TEMPORARY) and _is_abandoned(path):
            with suppress(OSError):
                path.unlink()
                count += 1
    return count


def walk(folder: Path) -> Iterator[Path]:
    """Yield all regular files below a folder, links not followed; a folder that is not there has none."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from walk(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def is_digest(text: object) -> bool:
    """Say whether text is a SHA-256 in lower case: the only thing that may become a path in the cache."""
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        try_lock(descriptor)
        _write_all(descriptor, data)
        os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)
    _sync_folder(path.parent)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; platforms that cannot open a folder do it themselves."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_abandoned(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return try_lock(descriptor)
    finally:
        os.close(descriptor)
