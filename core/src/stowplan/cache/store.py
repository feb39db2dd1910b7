"""The cache on disk: files under their SHA-256, a record per key, every byte checked before it is believed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stowplan.cache import journal
from stowplan.cache.directory import cache_directory
from stowplan.cache.entry import Damaged, Entry, Record, decode, encode, record_of
from stowplan.cache.files import is_digest, make_private, sha256, walk, write_durably
from stowplan.cache.locks import held

LAYOUT = "v1"
"""Goes up when the folder's layout changes; other versions are left alone."""
Report = Callable[[str], None]


class Store:
    """Entries below `folder`. Nothing here raises for a cache that is damaged, full, read-only or gone.

    What went wrong is told to `report`, one line each: a damaged entry is a note and a miss, never an error.
    """

    name = "disk"

    def __init__(self, folder: Path | None = None, *, read_only: bool = False, report: Report = lambda line: None):
        self.folder = (cache_directory() if folder is None else folder) / "store" / LAYOUT
        self.read_only = read_only
        self.report = report

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key with all its files, or None."""
        try:
            record = self.record(key)
            if record is None:
                return None
            files = {name: self._object(digest, size) for name, (digest, size) in record.files.items()}
        except Damaged as err:
            self.report(f"cache entry {key[:12]}... is damaged ({err}); rebuilt")
            self.remove(key)
            return None
        self._note("hit", key, record)
        return Entry(document=record.document, files=files, meta=record.meta, layer=self.name)

    def record(self, key: str) -> Record | None:
        """Return what is known of a key without reading its files. Raises `Damaged`."""
        data = self._read(self.record_path(key))
        return None if data is None else decode(data, key)

    def put(self, entry: Entry) -> bool:
        """Store an entry; say whether it is there now. A cache that cannot be written to is reported, no more."""
        from stowplan.cache.upkeep import after_store, limit_bytes  # which keep stores: only writers need them

        if self.read_only:
            return False
        if entry.size_bytes > limit_bytes():
            self.report(f"{entry.size_bytes} bytes are more than the whole cache may hold; not cached")
            return False
        record = record_of(entry)
        data = encode(record)
        try:
            make_private(self.folder / "locks")
            # Shared: a sweep that removes files without a record waits until no writer is between file and record.
            with held(self.writers, shared=True, leave=True):
                for name, (digest, _) in record.files.items():
                    self._put_object(digest, entry.files[name])
                write_durably(self.record_path(record.key), data)
        except OSError as err:
            self.report(f"the cache in {self.folder} cannot be written ({err.strerror or err}); built without it")
            return False
        self._note("store", record.key, record, len(data))
        after_store(self, record.key, record.size_bytes)
        return True

    def remove(self, key: str) -> bool:
        """Forget a key; its files go with the next sweep when nobody else has them."""
        if self.read_only:
            return False
        try:
            self.record_path(key).unlink()
        except OSError:
            return False
        self._note("remove", key)
        return True

    def records(self) -> Iterator[tuple[str, Record]]:
        """Yield all records that can be read; damaged ones are found when they are asked for."""
        for key in self.all_keys():
            with suppress(Damaged):
                record = self.record(key)
                if record is not None:
                    yield key, record

    def all_keys(self) -> Iterator[str]:
        """Yield all keys, sorted."""
        for path in walk(self.folder / "records"):
            if is_digest(path.name):
                yield path.name

    def objects(self) -> Iterator[Path]:
        """Yield the files of all entries."""
        return (path for path in walk(self.folder / "objects") if is_digest(path.name))

    def record_path(self, key: str) -> Path:
        if not is_digest(key):
            raise ValueError(f"{key[:80]!r} is no key")
        return self.folder / "records" / key[:2] / key

    def object_path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise ValueError(f"{digest[:80]!r} is no digest")
        return self.folder / "objects" / digest[:2] / digest

    @property
    def writers(self) -> Path:
        return self.folder / "writers.lock"

    def lock_path(self, key: str) -> Path:
        return self.folder / "locks" / key[:64]

    @contextmanager
    def alone(self, key: str, wait_seconds: float = 600.0) -> Iterator[None]:
        """Let one process at a time work on a key; others wait here. Without a usable folder nobody waits."""
        if self.read_only:
            yield
            return
        with suppress(OSError):
            make_private(self.folder / "locks")
        with held(self.lock_path(key), wait_seconds=wait_seconds):
            yield

    def _read(self, path: Path) -> bytes | None:
        """Return a file's bytes, None when it is not there. Raises `Damaged` when it cannot be read."""
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(descriptor, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):  # the second where the cache's own folder is a file
            return None
        except OSError as err:
            raise Damaged(f"{path.parent.parent.name[:-1]} cannot be read: {err.strerror or err}") from err

    def _object(self, digest: str, size: int) -> bytes:
        data = self._read(self.object_path(digest))
        if data is None:
            raise Damaged("a file of it is missing")
        if len(data) != size:
            self._drop(digest)
            raise Damaged(f"{len(data)} of {size} bytes")
        if sha256(data) != digest:
            self._drop(digest)
            raise Damaged(f"the digest of its {size} bytes is wrong")
        return data

    def _put_object(self, digest: str, data: bytes) -> None:
        """Write a file unless it is there, whole: a shorter one is damage that would otherwise stay."""
        path = self.object_path(digest)
        try:
            if path.read_bytes() == data:
                return
        except OSError:
            pass
        write_durably(path, data)

    def _drop(self, digest: str) -> None:
        if not self.read_only:
            with suppress(OSError):
                self.object_path(digest).unlink()

    def note(self, what: str, key: str, saved_ns: int = 0) -> None:
        """Count something for the statistics."""
        if not self.read_only:
            journal.append(self.folder, what, key, 0, saved_ns)

    def _note(self, what: str, key: str, record: Record | None = None, record_bytes: int = 0) -> None:
        if self.read_only:
            return
        size = 0 if record is None else record.size_bytes + record_bytes
        saved = 0 if record is None else int(record.meta.get("cost_ns", 0))
        journal.append(self.folder, what, key, size, saved)
