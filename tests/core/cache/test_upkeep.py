"""Upkeep: evicts the least recently used to the low-water mark, spares what is in use, and leaves no orphan."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from cache_entries import entry, stored_files
from stowplan.cache import journal, subjects, upkeep
from stowplan.cache.entry import record_of
from stowplan.cache.files import TEMPORARY, sha256, sweep_temporaries
from stowplan.cache.locks import try_lock
from stowplan.cache.store import Store
from stowplan.errors import UsageError

SIZE = 10_000


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Ten entries of about 10 KB, used in the order of their numbers."""
    ticks = itertools.count(1)
    monkeypatch.setattr(journal.time, "time_ns", lambda: next(ticks) * 10**9)
    store = Store(tmp_path)
    for number in range(10):
        store.put(entry(number, SIZE))
    return store


def present(store: Store) -> list[int]:
    return [number for number in range(20) if store.record(entry(number, SIZE).key) is not None]


def test_nothing_goes_below_the_limit(store: Store) -> None:
    assert upkeep.keep_small(store, 1_000_000) == upkeep.Swept()
    assert present(store) == list(range(10))


def test_the_least_recently_used_go_until_the_low_water_mark(store: Store) -> None:
    store.get(entry(0, SIZE).key)
    swept = upkeep.keep_small(store, 100_000)
    left = present(store)
    assert left == [0, *range(10 - len(left) + 1, 10)], "entry 0 was used last"
    assert sum(p.stat().st_size for p in stored_files(store.folder)) <= 100_000 * upkeep.LOW_WATER
    assert (swept.entries, swept.objects) == (10 - len(left), 2 * (10 - len(left)))


def test_what_another_process_works_on_is_spared(store: Store) -> None:
    busy = store.lock_path(entry(0, SIZE).key)
    descriptor = os.open(busy, os.O_RDWR | os.O_CREAT)
    assert try_lock(descriptor)
    upkeep.keep_small(store, 50_000)
    assert 0 in present(store)
    os.close(descriptor)
    upkeep.keep_small(store, 10_000)
    assert 0 not in present(store)


def test_a_large_entry_does_not_empty_the_cache(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_SIZE", "150000")
    store.put(entry(11, 60_000))
    assert store.get(entry(11, 60_000).key) is not None, "what was just stored stays"
    assert len(present(store)) >= 4
    assert sum(p.stat().st_size for p in stored_files(store.folder)) <= 150_000


def test_the_cache_stays_below_its_limit_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_SIZE", "100000")
    monkeypatch.setattr(journal, "FULL_BYTES", 1000)
    store = Store(tmp_path)
    for number in range(40):
        store.put(entry(number, 5000))
        assert sum(p.stat().st_size for p in stored_files(store.folder)) <= 100_000 + 12 * 6000
    assert store.get(entry(39, 5000).key) is not None


def test_a_shared_file_stays_while_one_entry_has_it(store: Store) -> None:
    first = entry(0, SIZE)
    store.put(type(first)(document={"kind": "other"}, files=first.files, meta={}))
    store.remove(first.key)
    swept = upkeep.keep_small(store, 10**9)
    assert swept.objects == 0
    found = store.get(type(first)(document={"kind": "other"}, files={}, meta={}).key)
    assert found is not None and found.files == first.files


def test_a_leftover_of_a_killed_writer_is_swept_and_one_in_the_making_is_not(tmp_path: Path) -> None:
    dead, alive = tmp_path / f"{TEMPORARY}1-a", tmp_path / f"{TEMPORARY}2-b"
    dead.write_bytes(b"x")
    descriptor = os.open(alive, os.O_RDWR | os.O_CREAT)
    assert try_lock(descriptor)
    assert sweep_temporaries(tmp_path) == 1
    assert (dead.exists(), alive.exists()) == (False, True)
    os.close(descriptor)
    assert sweep_temporaries(tmp_path) == 1


def test_files_without_a_record_are_swept(store: Store) -> None:
    store.record_path(entry(4, SIZE).key).unlink()
    swept = upkeep.keep_small(store, 10**9)
    assert (swept.objects, swept.freed_bytes) == (2, SIZE + 1)


def test_outputs_of_long_ago_are_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        subjects.remember(store.folder, f"plan{number}", {"number": number}, ())
        os.utime(next((store.folder / "subjects").glob(sha256(f"plan{number}".encode()))), (number, number))
    subjects.keep_few(store.folder, 4)
    assert sorted(subject.name for subject in subjects.recalled(store.folder)) == ["plan2", "plan3", "plan4", "plan5"]
    monkeypatch.setattr(subjects.keep_few, "__defaults__", (1,))
    upkeep.keep_small(store, 10**9)
    assert [subject.name for subject in subjects.recalled(store.folder)] == ["plan5"]


def test_verify_finds_what_is_damaged_and_drop_removes_it(store: Store) -> None:
    record = store.record_path(entry(2, SIZE).key)
    record.write_bytes(record.read_bytes()[:-3])
    digest, _ = record_of(entry(7, SIZE)).files["plan.stow"]
    store.object_path(digest).write_bytes(b"y" * SIZE)
    found = upkeep.damaged(store)
    assert len(found) == 2
    assert set(found.values()) >= {"its file plan.stow is damaged or missing"}
    assert upkeep.drop(store, lambda key, record, row: key in found).entries == 2
    assert upkeep.damaged(store) == {}


def test_statistics_count_hits_misses_and_what_was_saved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(entry(1, cost_ns=5_000))
    store.note("miss", entry(1).key)
    store.get(entry(1).key)
    store.get(entry(1).key)
    stats = upkeep.statistics(store)
    assert (stats.entries, stats.counters["hit"], stats.counters["miss"]) == (1, 2, 1)
    assert stats.counters["saved_ns"] == 10_000
    assert upkeep.statistics(store).counters == stats.counters, "a second look counts nothing again"


def test_lines_of_the_journal_that_are_none_are_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(entry(1))
    with (store.folder / "journal").open("ab") as file:
        file.write(b"hit ../../etc 1 1 1\nnonsense\n\xff\xfe\nhit " + b"a" * 64 + b" x y z\n")
    assert upkeep.statistics(store).counters["hit"] == 0


def test_a_limit_that_is_no_size_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_SIZE", "lots")
    with pytest.raises(UsageError, match="STOWPLAN_CACHE_SIZE lots: is no size"):
        upkeep.limit_bytes()
