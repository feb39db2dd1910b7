"""The index of the cache: when each entry was used, how large it is, and counters; by diskcache, and never believed.

The index can be lost at any time: it is made again from the records. Nothing in it is a path, and nothing is unpickled.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import diskcache  # type: ignore[import-untyped]
from diskcache.core import MODE_RAW  # type: ignore[import-untyped]

from stowplan.cache.files import is_digest, make_private
from stowplan.nouns import asdict, dataclass

FOLDER = "index"
COUNTERS = ("hit", "store", "remove", "miss", "warm", "remote", "failure", "saved_ns")
Result = TypeVar("Result")


class Refused(ValueError):
    """A row of the index is not one that we write."""


class PlainDisk(diskcache.Disk):  # type: ignore[misc]
    """Text keys and small JSON values inside the database; no pickle is read and no stored path is followed."""

    def __init__(self, directory: str, **options: Any) -> None:
        super().__init__(directory, min_file_size=2**62)

    def put(self, key: object) -> tuple[str, bool]:
        if not isinstance(key, str):
            raise Refused("keys are text")
        return key, True

    def get(self, key: object, raw: object) -> str:
        if not raw or not isinstance(key, str):
            raise Refused("a row has a key that is no text")
        return key

    def store(self, value: object, read: bool, key: object = None) -> tuple[int, int, None, sqlite3.Binary]:
        if read or not isinstance(value, bytes):
            raise Refused("values are bytes")
        return 0, MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> bytes:
        if mode != MODE_RAW or filename is not None or read or not isinstance(value, bytes):
            raise Refused("a row has a value that is no plain bytes")
        return value

    def remove(self, file_path: str) -> None:
        """Remove nothing: we store no files, so a path in a row is not ours."""

    def filename(self, *_: object, **__: object) -> tuple[str, str]:
        raise Refused("values are kept in the database")


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is known of one entry: bytes on disk, and when it was made and last used (nanoseconds since the epoch)."""

    size_bytes: int
    made_ns: int
    used_ns: int


class Index:
    """Rows by key, and counters. Every method may raise what `guarded` turns into a new index."""

    def __init__(self, folder: Path) -> None:
        # The private folder comes first: diskcache makes its own with the modes of the user's umask.
        make_private(folder / FOLDER)
        self._cache = diskcache.Cache(
            str(folder / FOLDER), disk=PlainDisk, eviction_policy="none", cull_limit=0, statistics=0, timeout=10
        )

    def rows(self) -> Iterator[tuple[str, Row]]:
        for key in self._cache:
            if is_digest(key):
                found = self._read(key)
                if found is not None:
                    yield key, Row(**{name: int(found[name]) for name in ("size_bytes", "made_ns", "used_ns")})

    def row(self, key: str) -> Row | None:
        found = self._read(key)
        return None if found is None else Row(**{k: int(v) for k, v in found.items()})

    def set(self, key: str, row: Row) -> None:
        self._cache.set(key, json.dumps(asdict(row)).encode())

    def forget(self, key: str) -> None:
        self._cache.delete(key)

    def counters(self) -> Mapping[str, int]:
        found = self._read("counters") or {}
        return {name: int(found.get(name, 0)) for name in COUNTERS}

    def count(self, more: Mapping[str, int]) -> None:
        now = self.counters()
        self._cache.set("counters", json.dumps({name: now[name] + more.get(name, 0) for name in COUNTERS}).encode())

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all changes of the block in one transaction."""
        with self._cache.transact():
            yield

    def close(self) -> None:
        self._cache.close()

    def _read(self, key: str) -> dict[str, Any] | None:
        value = self._cache.get(key)
        if value is None:
            return None
        found = json.loads(value)
        if not isinstance(found, dict):
            raise Refused("a row has a value that is no object")
        return found


def guarded(folder: Path, work: Callable[[Index], Result], report: Callable[[str], None]) -> Result | None:
    """Do something with the index; a damaged or planted one is reported, thrown away and made again, once.

    Returns None when there can be no index: a read-only or full disk, or a file system that SQLite cannot lock.
    """
    for attempt in (1, 2):
        index = None
        try:
            index = Index(folder)
            return work(index)
        except (Refused, sqlite3.DatabaseError, diskcache.Timeout, ValueError, KeyError, TypeError) as err:
            if attempt == 1 and not _is_circumstance(err):
                report(f"the index of the cache is damaged ({err}); made again")
                _throw_away(folder, index)
        except OSError:
            return None
        finally:
            if index is not None:
                with suppress(Exception):  # nothing is left to lose in an index that is being thrown away
                    index.close()
    return None


def _is_circumstance(err: Exception) -> bool:
    """Say whether an error is about the disk or another process and not about what the index holds."""
    text = str(err)
    words = ("locked", "readonly", "read-only", "full", "unable to open", "disk I/O")
    return isinstance(err, (sqlite3.OperationalError, diskcache.Timeout)) and any(word in text for word in words)


def _throw_away(folder: Path, index: Index | None) -> None:
    if index is not None:
        with suppress(Exception):
            index.close()
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
