"""The store: what goes in comes out, damage of every kind is a miss and a note, and nothing leads outside."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from cache_entries import entry, flipped, stored_files, truncated
from stowplan.cache.entry import Damaged, decode_any, encode, record_of
from stowplan.cache.files import sha256
from stowplan.cache.store import Store


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> Store:
    return Store(tmp_path / "cache", report=said.append)


def test_an_entry_comes_back_with_all_its_parts(store: Store, said: list[str]) -> None:
    assert store.get(entry(1).key) is None
    assert store.put(entry(1, cost_ns=7))
    found = store.get(entry(1).key)
    assert found is not None
    assert (found.files, found.meta, found.document) == (entry(1).files, entry(1, cost_ns=7).meta, entry(1).document)
    assert (found.layer, said) == ("disk", [])


def test_equal_files_of_two_entries_are_kept_once(store: Store) -> None:
    first = entry(1)
    store.put(first)
    store.put(type(first)(document={"kind": "other"}, files=first.files, meta={}))
    assert len(list(store.objects())) == len(first.files)


@pytest.mark.skipif(sys.platform == "win32", reason="rights work differently there")
def test_everything_is_for_its_owner_alone(store: Store, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store.put(entry(1))
    finally:
        os.umask(old)
    paths = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert {stat.S_IMODE(p.stat().st_mode) & 0o077 for p in paths} == {0}


@pytest.mark.parametrize("harm", ["bit", "truncate", "empty", "remove", "longer"])
def test_damage_to_any_stored_file_is_a_note_and_a_miss_and_the_next_put_heals_it(
    store: Store, harm: str, said
) -> None:
    """Every file in turn; bit flips at 24 places of each."""
    store.put(entry(1))
    count = len(stored_files(store.folder))
    for index in range(count):
        for place in range(24 if harm == "bit" else 1):
            path = stored_files(store.folder)[index]
            size = path.stat().st_size
            if harm == "bit":
                flipped(path, place * max(size * 8 // 24, 1) + place)
            elif harm == "truncate":
                truncated(path, 0.6)
            elif harm == "empty":
                path.write_bytes(b"")
            elif harm == "longer":
                path.write_bytes(path.read_bytes() + b"\0")
            else:
                path.unlink()
            said.clear()
            assert store.get(entry(1).key) is None
            if not (harm == "remove" and "records" in str(path)):
                assert len(said) == 1
                assert f"cache entry {entry(1).key[:12]}... is damaged" in said[0]
            store.put(entry(1))
            found = store.get(entry(1).key)
            assert found is not None and found.files == entry(1).files


def test_a_record_moved_to_another_key_is_not_believed(store: Store, said: list[str]) -> None:
    store.put(entry(1))
    place = store.record_path(entry(2).key)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(store.record_path(entry(1).key).read_bytes())
    assert store.get(entry(2).key) is None
    assert "it belongs to another key" in said[0]


@pytest.mark.parametrize("name", ["../../evil", "/etc/hostname", "a/b", "..", "", "a\0b", "C:x", "x\ny", "a\x1b[2J"])
def test_a_planted_file_name_is_refused(name: str) -> None:
    body = json.dumps({"record": 1, "document": {}, "files": {name: ["a" * 64, 1]}, "meta": {}}).encode()
    with pytest.raises(Damaged, match="it names the file"):
        decode_any(b"stowplan-record 1 " + sha256(body).encode() + b"\n" + body)


@pytest.mark.parametrize("digest", ["../../../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n", 5])
def test_a_planted_digest_is_refused_and_no_path_is_made_from_it(store: Store, digest: object) -> None:
    body = json.dumps({"record": 1, "document": {}, "files": {"x": [digest, 1]}, "meta": {}}).encode()
    with pytest.raises(Damaged):
        decode_any(b"stowplan-record 1 " + sha256(body).encode() + b"\n" + body)
    with pytest.raises(ValueError, match="is no digest"):
        store.object_path(str(digest))


def test_a_link_in_the_place_of_a_file_is_not_followed(store: Store, tmp_path: Path, said: list[str]) -> None:
    store.put(entry(1))
    record = record_of(entry(1))
    digest = record.files["plan.stow"][0]
    outside = tmp_path / "outside"
    outside.write_bytes(entry(1).files["plan.stow"])
    store.object_path(digest).unlink()
    store.object_path(digest).symlink_to(outside)
    assert store.get(entry(1).key) is None
    assert "cannot be read" in said[0]


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'"x"', b"\xff", b"{" * 5000, b'{"document":1,"files":{},"meta":{}}',
             b'{"document":{},"files":{"a":1},"meta":{}}']
)  # fmt: skip
def test_a_sealed_record_that_is_none_is_damage_and_no_traceback(body: bytes) -> None:
    with pytest.raises(Damaged):
        decode_any(b"stowplan-record 1 " + sha256(body).encode() + b"\n" + body)


def test_a_record_is_the_same_bytes_each_time() -> None:
    assert encode(record_of(entry(3))) == encode(record_of(entry(3)))


def test_an_entry_larger_than_the_whole_cache_is_not_stored_and_empties_nothing(
    store: Store, said, monkeypatch
) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_SIZE", "20K")
    store.put(entry(1, 5000))
    assert not store.put(entry(2, 30_000))
    assert "more than the whole cache may hold" in said[0]
    assert store.get(entry(1, 5000).key) is not None


def test_a_cache_below_a_file_can_neither_be_read_nor_written_and_says_so_once(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file", report=said.append)
    assert store.get(entry(1).key) is None
    assert not store.put(entry(1))
    assert len(said) == 1, "nothing is called damaged where nothing ever was"
    assert "cannot be written" in said[0]
    assert list(store.all_keys()) == []


def test_read_only_finds_entries_and_changes_nothing(tmp_path: Path, store: Store, said: list[str]) -> None:
    store.put(entry(1))
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*")}
    reader = Store(tmp_path / "cache", read_only=True, report=said.append)
    assert reader.get(entry(1).key) is not None
    assert not reader.put(entry(2))
    assert not reader.remove(entry(1).key)
    with reader.alone(entry(2).key):
        pass
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*")} == before
