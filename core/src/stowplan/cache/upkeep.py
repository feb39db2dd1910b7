"""Keeps the cache small and clean: reads the journal up, evicts the least recently used, sweeps what is left over."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.cache import journal, subjects
from stowplan.cache.entry import Damaged, Record
from stowplan.cache.files import sha256, sweep_temporaries
from stowplan.cache.locks import held, is_held
from stowplan.cache.store import Store
from stowplan.nouns import dataclass, replace
from stowplan.units import parse_size

if TYPE_CHECKING:
    from stowplan.cache.index import Index, Row

LIMIT_BYTES = 5 * 1024**3
LOW_WATER = 0.8
"""Eviction goes on until this share of the limit is in use, so that it is not needed again at once."""
EVICTION_LOCK = "upkeep.lock"


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What an upkeep removed: entries, files that no entry had, leftovers of killed writers; and bytes in all."""

    entries: int = 0
    objects: int = 0
    leftovers: int = 0
    freed_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What the cache holds and what it has done so far."""

    entries: int
    size_bytes: int
    limit_bytes: int
    counters: Mapping[str, int]


def limit_bytes() -> int:
    """Return how large the cache may get: STOWPLAN_CACHE_SIZE, or 5 GiB. Raises `UsageError`."""
    text = os.environ.get("STOWPLAN_CACHE_SIZE", "")
    return parse_size(text, "STOWPLAN_CACHE_SIZE") if text else LIMIT_BYTES


def after_store(store: Store, key: str, size_bytes: int) -> None:
    """Evict if it is time to: rarely, unless what was stored is large. Never removes the entry just stored."""
    limit = limit_bytes()
    if store.read_only or not (journal.is_long(store.folder) or size_bytes > limit // 16):
        return
    keep_small(store, limit, spare=frozenset({key}), wait_seconds=0)


def keep_small(store: Store, limit: int, *, spare: frozenset[str] = frozenset(), wait_seconds: float = 10) -> Swept:
    """Evict entries, least recently used first, when they take more than `limit` bytes; sweep leftovers."""

    def evict(index: Index) -> list[str]:
        fold(store, index)
        return victims(dict(index.rows()), limit, lambda key: key in spare or is_held(store.lock_path(key)))

    return _upkeep(store, evict, wait_seconds)


def drop(store: Store, chosen: Callable[[str, Record | None, Row | None], bool]) -> Swept:
    """Remove the entries that `chosen` picks by key, record (None when damaged) and row of the index, and sweep."""

    def pick(index: Index) -> list[str]:
        fold(store, index)
        rows = dict(index.rows())
        return [key for key in store.all_keys() if chosen(key, intact(store, key), rows.get(key))]

    return _upkeep(store, pick, 30)


def statistics(store: Store) -> Stats:
    """Return what the cache holds. Without a usable index the counters are zero; sizes are then those of the files."""
    from stowplan.cache.index import COUNTERS, guarded

    def work(index: Index) -> tuple[int, int, Mapping[str, int]]:
        with held(store.folder / EVICTION_LOCK, wait_seconds=10, leave=True) as got:
            if got and not store.read_only:
                fold(store, index)
        rows = dict(index.rows())
        return len(rows), sum(row.size_bytes for row in rows.values()), dict(index.counters())

    found = None if not store.folder.is_dir() or store.read_only else guarded(store.folder, work, store.report)
    if found is None:
        files = [*store.objects(), *map(store.record_path, store.all_keys())]
        found = sum(1 for _ in store.all_keys()), sum(map(_size, files)), dict.fromkeys(COUNTERS, 0)
    entries, size, counters = found
    return Stats(entries=entries, size_bytes=size, limit_bytes=limit_bytes(), counters=counters)


def damaged(store: Store) -> dict[str, str]:
    """Read every byte of the cache; map the keys that cannot be trusted to why."""
    found: dict[str, str] = {}
    sound: dict[str, bool] = {}
    for key in store.all_keys():
        try:
            record = store.record(key)
        except Damaged as err:
            found[key] = str(err)
            continue
        for name, (digest, size) in (record.files if record else {}).items():
            if digest not in sound:
                sound[digest] = _is_sound(store.object_path(digest), digest, size)
            if not sound[digest]:
                found[key] = f"its file {name} is damaged or missing"
    return found


def victims(rows: Mapping[str, Row], limit: int, spared: Callable[[str], bool]) -> list[str]:
    """Return which keys to evict: none up to the limit, beyond it the least recently used until the low-water mark."""
    total = sum(row.size_bytes for row in rows.values())
    if total <= limit:
        return []
    chosen = []
    for key, row in sorted(rows.items(), key=lambda item: (item[1].used_ns, item[0])):
        if total <= limit * LOW_WATER:
            break
        if not spared(key):
            chosen.append(key)
            total -= row.size_bytes
    return chosen


def fold(store: Store, index: Index) -> None:
    """Read the journal up into the index, and give a row to every record that has none."""
    from stowplan.cache.index import Row

    rows = dict(index.rows())
    before = dict(rows)
    counts: Counter[str] = Counter()
    for line in journal.take(store.folder):
        counts[line.what] += 1
        if line.what in ("hit", "warm"):
            counts["saved_ns"] += max(line.value, 0)
        row = rows.get(line.key)
        if line.what == "store":
            rows[line.key] = Row(size_bytes=line.size_bytes, made_ns=line.time_ns, used_ns=line.time_ns)
        elif row is not None and line.what in ("hit", "warm"):
            rows[line.key] = replace(row, used_ns=max(row.used_ns, line.time_ns))
    present = set(store.all_keys())
    for key in present - rows.keys():  # the journal's line was lost, or the whole index was
        rows[key] = _row_of(store, key)
    with index.together():
        for key in before.keys() - present:
            index.forget(key)
        for key in present:
            if rows[key] != before.get(key):
                index.set(key, rows[key])
        index.count(counts)


def intact(store: Store, key: str) -> Record | None:
    try:
        return store.record(key)
    except Damaged:
        return None


def _upkeep(store: Store, choose: Callable[[Index], list[str]], wait_seconds: float) -> Swept:
    from stowplan.cache.index import guarded

    if store.read_only or not store.folder.is_dir():
        return Swept()
    with held(store.folder / EVICTION_LOCK, wait_seconds=wait_seconds, leave=True) as got:
        if not got:
            return Swept()

        def work(index: Index) -> Swept:
            chosen = choose(index)
            for key in chosen:
                store.remove(key)
            swept = _sweep(store)
            fold(store, index)  # what was just removed leaves the index, too
            return replace(swept, entries=len(chosen))

        return guarded(store.folder, work, store.report) or Swept()


def _sweep(store: Store) -> Swept:
    """Remove files that no record names, and leftovers; waits for writers, who are between file and record."""
    with held(store.writers, wait_seconds=5, leave=True) as alone:
        leftovers = sweep_temporaries(store.folder)
        subjects.keep_few(store.folder)
        for path in (store.folder / "locks").glob("*"):
            if not is_held(path):
                with held(path, wait_seconds=0):  # removes the file at the end, and only if nobody else has it
                    pass
        if not alone:
            return Swept(leftovers=leftovers)
        records = [record for key in store.all_keys() if (record := intact(store, key)) is not None]
        wanted = {digest for record in records for digest, _ in record.files.values()}
        freed = [(path, _size(path)) for path in store.objects() if path.name not in wanted]
        _unlink(path for path, _ in freed)
    return Swept(objects=len(freed), leftovers=leftovers, freed_bytes=sum(size for _, size in freed))


def _row_of(store: Store, key: str) -> Row:
    from stowplan.cache.index import Row

    record, path = intact(store, key), store.record_path(key)
    try:
        time_ns = os.stat(path).st_mtime_ns
    except OSError:
        time_ns = time.time_ns()
    size = _size(path) + (record.size_bytes if record else 0)
    return Row(size_bytes=size, made_ns=time_ns, used_ns=time_ns)


def _is_sound(path: Path, digest: str, size: int) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return len(data) == size and sha256(data) == digest


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()
