"""What a cache has to survive: kills, power cuts, full and read-only disks, many writers, lock holders that die."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cache_entries import entry, stored_files
from stowplan.cache import upkeep
from stowplan.cache.files import TEMPORARY
from stowplan.cache.locks import held, is_held
from stowplan.cache.store import Store

SUPPORT = Path(__file__).resolve().parents[2] / "support"
WRITER = """
import sys
from pathlib import Path
from cache_entries import entry
from stowplan.cache.store import Store
store = Store(Path(sys.argv[1]), report=print)
first, count, size = map(int, sys.argv[2:5])
for number in range(first, first + count):
    if store.put(entry(number, size)):
        print("stored", number, flush=True)
"""
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def writer(folder: Path, first: int, count: int, size: int) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(first), str(count), str(size)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
@linux
def test_200_kills_during_writes_lose_nothing_damage_nothing_and_leave_no_orphan(tmp_path: Path) -> None:
    """Writers are killed at random moments, eight at a time; whatever one said it had stored is there, whole."""
    random.seed(7)
    stored: set[int] = set()
    for start in range(0, 200, 8):
        children = [writer(tmp_path, (start + i) * 1000, 500, 40_000) for i in range(8)]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        for child in children:
            time.sleep(random.uniform(0, 0.03))
            child.send_signal(signal.SIGKILL)
            assert child.stdout is not None
            # A last line that the kill cut off says nothing.
            lines = child.stdout.read().split("\n")[:-1]
            stored.update(int(line.split()[1]) for line in lines if line.startswith("stored"))
            child.stdout.close()
            child.wait()
        _sample_check(tmp_path, stored)
    store = Store(tmp_path, report=lambda line: pytest.fail(line))
    assert len(stored) > 200, "the writers had time to write"
    missing = [number for number in stored if store.get(entry(number, 40_000).key) is None]
    assert missing == []
    assert upkeep.damaged(store) == {}
    upkeep.keep_small(store, 10**12)
    assert [p for p in store.folder.rglob("*") if TEMPORARY in p.name] == []
    wanted = {digest for _, record in store.records() for digest, _ in record.files.values()}
    assert {p.name for p in store.objects()} == wanted


def _sample_check(folder: Path, stored: set[int]) -> None:
    store = Store(folder, report=lambda line: pytest.fail(line))
    for number in sorted(stored)[-5:]:
        found = store.get(entry(number, 40_000).key)
        assert found is not None and found.files == entry(number, 40_000).files


def test_eight_writers_of_one_key_leave_one_whole_entry(tmp_path: Path) -> None:
    children = [writer(tmp_path, 5, 1, 200_000) for _ in range(8)]
    for child in children:
        out, _ = child.communicate(timeout=60)
        assert out == "stored 5\n"
    store = Store(tmp_path, report=lambda line: pytest.fail(line))
    found = store.get(entry(5, 200_000).key)
    assert found is not None and found.files == entry(5, 200_000).files
    assert len(stored_files(store.folder)) == 3
    assert [p for p in store.folder.rglob("*") if TEMPORARY in p.name] == []


@linux
def test_a_full_disk_is_said_and_leaves_no_piece_behind_and_can_be_freed(mounted: Path) -> None:
    said: list[str] = []
    store = Store(mounted / "cache", report=said.append)
    results = [store.put(entry(number, 400_000)) for number in range(12)]
    assert results.count(True) >= 3
    assert not results[-1]
    assert "No space left on device" in said[0]
    assert [p for p in store.folder.rglob("*") if TEMPORARY in p.name] == []
    for number, result in enumerate(results):
        found = store.get(entry(number, 400_000).key)
        assert (found is not None) == result
        assert found is None or found.files == entry(number, 400_000).files
    upkeep.drop(store, lambda key, record, row: True)
    assert list(store.all_keys()) == []
    assert store.put(entry(100, 400_000)), "room again"


@linux
def test_a_read_only_file_system_still_gives_hits(mounted: Path) -> None:
    said: list[str] = []
    store = Store(mounted / "cache", report=said.append)
    store.put(entry(1))
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    found = store.get(entry(1).key)
    assert found is not None and found.files == entry(1).files
    assert not store.put(entry(2))
    assert "cannot be written" in said[0]
    with store.alone(entry(2).key):
        pass  # nobody waits where nobody can write


@pytest.mark.slow
@linux
def test_after_a_power_cut_what_was_stored_is_there_whole(tmp_path: Path) -> None:
    """An ext4 on a loop device: its image is copied while it is mounted and never synced, then mounted again."""
    image, copy, where = tmp_path / "disk", tmp_path / "after", tmp_path / "mnt"
    where.mkdir()
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("needs mkfs.ext4")
    image.write_bytes(b"")
    os.truncate(image, 64 * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    _mount_loop(image, where)
    try:
        child = writer(where / "cache", 0, 40, 100_000)
        out, _ = child.communicate(timeout=120)
        numbers = [int(line.split()[1]) for line in out.splitlines() if line.startswith("stored")]
        shutil.copyfile(image, copy)  # what the device has at this moment; memory that was not written is lost
    finally:
        subprocess.run(["umount", str(where)], check=True)
    _mount_loop(copy, where)
    try:
        store = Store(where / "cache", report=lambda line: pytest.fail(line))
        assert len(numbers) == 40
        for number in numbers:
            found = store.get(entry(number, 100_000).key)
            assert found is not None and found.files == entry(number, 100_000).files
    finally:
        subprocess.run(["umount", str(where)], check=True)


def _mount_loop(image: Path, where: Path) -> None:
    done = subprocess.run(["mount", "-o", "loop", str(image), str(where)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a loop device here: {done.stderr.strip()}")


def test_a_lock_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from stowplan.cache.locks import held\n"
        "with held(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    assert is_held(lock)
    with held(lock, wait_seconds=0.05) as got:
        assert not got, "somebody else has it"
    child.kill()
    child.wait()
    child.stdout.close()
    with held(lock, wait_seconds=5) as got:
        assert got
    assert not lock.exists()


def test_a_lock_that_is_removed_by_its_holder_is_not_held_twice(tmp_path: Path) -> None:
    """Eight processes count to forty in a file, which goes wrong when two of them hold the lock at once."""
    code = (
        "import sys, time; from pathlib import Path; from stowplan.cache.locks import held\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(5):\n"
        "    with held(folder / 'lock') as got:\n"
        "        assert got; value = int((folder / 'count').read_text()); time.sleep(0.001)\n"
        "        (folder / 'count').write_text(str(value + 1))\n"
    )
    (tmp_path / "count").write_text("0")
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(8)]
    assert [child.wait(timeout=60) for child in children] == [0] * 8
    assert (tmp_path / "count").read_text() == "40"
