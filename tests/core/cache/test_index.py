"""The index: planted pickles and paths are refused and never run; a lost index is made again from the records."""

from __future__ import annotations

import os
import pickle
import sqlite3
from pathlib import Path

import pytest

from cache_entries import entry
from stowplan.cache import upkeep
from stowplan.cache.index import Index, Refused, Row, guarded
from stowplan.cache.store import Store

ROW = Row(size_bytes=1, made_ns=2, used_ns=3)
KEY = "a" * 64


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.target}",)


def plant(folder: Path, **columns: object) -> None:
    """Write a row as somebody else with access to the folder would."""
    Index(folder).close()
    defaults = dict(
        key=KEY, raw=1, store_time=0, access_time=0, access_count=0, size=0, mode=1, filename=None, value=b""
    )
    row = {**defaults, **columns}
    database = sqlite3.connect(folder / "index" / "cache.db")
    with database:
        names = ", ".join(row)
        database.execute(f"INSERT INTO Cache ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    database.close()


def test_rows_come_back(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.set(KEY, ROW)
    assert (index.row(KEY), list(index.rows()), index.row("b" * 64)) == (ROW, [(KEY, ROW)], None)
    index.forget(KEY)
    assert index.row(KEY) is None
    index.close()


@pytest.mark.parametrize("place", ["value", "key", "file"])
def test_a_planted_pickle_is_refused_and_nothing_runs(tmp_path: Path, place: str) -> None:
    fuse = tmp_path / "ran"
    bomb = pickle.dumps(Bomb(fuse))
    folder = tmp_path / "store"
    folder.mkdir()
    if place == "value":
        plant(folder, mode=4, value=bomb)
    elif place == "key":
        plant(folder, key=bomb, raw=0, value=b"{}")
    else:
        (folder / "planted.val").write_bytes(bomb)
        plant(folder, mode=4, filename="../planted.val", value=None)
    index = Index(folder)
    with pytest.raises(Refused):
        list(index.rows())
    index.close()
    said: list[str] = []
    assert guarded(folder, lambda index: list(index.rows()), said.append) == []
    assert len(said) == 1 and "the index of the cache is damaged" in said[0]
    assert not fuse.exists()


def test_a_planted_path_is_neither_read_nor_removed(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_bytes(b"{}")
    folder = tmp_path / "store"
    folder.mkdir()
    plant(folder, mode=2, filename="../../precious", value=None)
    index = Index(folder)
    with pytest.raises(Refused):
        index.row(KEY)
    index.forget(KEY)
    index.close()
    assert outside.read_bytes() == b"{}"


def test_nothing_but_text_keys_and_bytes_goes_in(tmp_path: Path) -> None:
    index = Index(tmp_path)
    with pytest.raises(Refused, match="keys are text"):
        index._cache.set(("a", 1), b"x")
    with pytest.raises(Refused, match="values are bytes"):
        index._cache.set(KEY, {"a": 1})
    index._cache.set(KEY, b"x" * 1_000_000)
    assert not list((tmp_path / "index").rglob("*.val"))
    index.close()


@pytest.mark.parametrize("harm", ["garbage", "empty", "truncated", "removed"])
def test_a_damaged_index_is_made_again_from_the_records(tmp_path: Path, harm: str) -> None:
    said: list[str] = []
    store = Store(tmp_path, report=said.append)
    for number in range(5):
        store.put(entry(number))
    assert upkeep.statistics(store).entries == 5
    database = store.folder / "index" / "cache.db"
    for extra in ("-wal", "-shm"):
        Path(f"{database}{extra}").unlink(missing_ok=True)
    data = database.read_bytes()
    if harm == "removed":
        database.unlink()
    else:
        database.write_bytes({"garbage": b"x" * 8192, "empty": b"", "truncated": data[: len(data) // 2]}[harm])
    stats = upkeep.statistics(store)
    assert stats.entries == 5
    assert stats.size_bytes >= 5 * 1000
    assert store.get(entry(3).key) is not None
