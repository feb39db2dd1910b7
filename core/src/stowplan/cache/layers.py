"""Caches in front of one another: memory of this process, disk of this user, a server of the team."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from stowplan.cache.entry import Entry, Record, record_of
from stowplan.nouns import replace

MEMORY_BYTES = 256 * 1024**2


class Layer(Protocol):
    """What a cache can do. None of it raises for a cache that does not work: that is a miss."""

    @property
    def name(self) -> str: ...
    def get(self, key: str) -> Entry | None: ...
    def put(self, entry: Entry) -> bool: ...
    def remove(self, key: str) -> bool: ...
    def records(self) -> Iterator[tuple[str, Record]]: ...
    def alone(self, key: str) -> AbstractContextManager[None]: ...
    def note(self, what: str, key: str) -> None: ...


class Memory:
    """Entries of this process, the least recently used dropped beyond `limit_bytes`; safe for threads."""

    name = "memory"

    def __init__(self, limit_bytes: int = MEMORY_BYTES) -> None:
        self._limit = limit_bytes
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._lock = threading.RLock()
        self._working: dict[str, tuple[threading.Lock, int]] = {}

    def get(self, key: str) -> Entry | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return None if entry is None else replace(entry, layer=self.name)

    def put(self, entry: Entry) -> bool:
        with self._lock:
            self._entries[entry.key] = entry
            self._entries.move_to_end(entry.key)
            while len(self._entries) > 1 and sum(e.size_bytes for e in self._entries.values()) > self._limit:
                self._entries.popitem(last=False)
        return True

    def remove(self, key: str) -> bool:
        with self._lock:
            return self._entries.pop(key, None) is not None

    def records(self) -> Iterator[tuple[str, Record]]:
        with self._lock:
            found = [(key, record_of(entry)) for key, entry in self._entries.items()]
        return iter(found)

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Let one thread at a time work on a key."""
        with self._lock:
            lock, waiting = self._working.get(key, (threading.Lock(), 0))
            self._working[key] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._working[key]
                if waiting == 1:
                    del self._working[key]
                else:
                    self._working[key] = (lock, waiting - 1)

    def note(self, what: str, key: str) -> None:
        """Count nothing: a process knows its own hits."""


class Layered:
    """The layers asked in order; what a later one has is given to those before it, what is new to all."""

    name = "layered"

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)

    def get(self, key: str) -> Entry | None:
        for index, layer in enumerate(self.layers):
            entry = layer.get(key)
            if entry is not None:
                for nearer in self.layers[:index]:
                    nearer.put(entry)
                return entry
        return None

    def put(self, entry: Entry) -> bool:
        stored = [layer.put(entry) for layer in self.layers]
        return any(stored)

    def remove(self, key: str) -> bool:
        removed = [layer.remove(key) for layer in self.layers]
        return any(removed)

    def records(self) -> Iterator[tuple[str, Record]]:
        seen: set[str] = set()
        for layer in self.layers:
            for key, record in layer.records():
                if key not in seen:
                    seen.add(key)
                    yield key, record

    def alone(self, key: str) -> AbstractContextManager[None]:
        """The last layer that lets one work at a time decides: the disk, which other processes share, before memory."""
        locking = [layer for layer in self.layers if layer.name in ("memory", "disk")]
        return locking[-1].alone(key) if locking else nullcontext()

    def note(self, what: str, key: str) -> None:
        for layer in self.layers:
            layer.note(what, key)

    def finish(self) -> None:
        """Wait for what layers still do in the background."""
        for layer in self.layers:
            finish = getattr(layer, "finish", None)
            if finish is not None:
                finish()
