"""What is remembered of the tools holds while none of their files moved, and no longer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stowplan.build import toolmemo
from stowplan.cache.files import identity

QUESTION = {"scheduler": "stream", "prove": True}
SECTION = {"stowplan": {"version": "1"}, "plugins": {}}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(toolmemo, "search_path", list)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolmemo, "is_settled", lambda found, now: True)
    file = tmp_path / "tool.py"
    file.write_text("one")
    return file


def _remember(*files: Path) -> None:
    toolmemo.remember(QUESTION, SECTION, {str(file): identity(file) for file in files})


def test_it_is_recalled_with_what_it_stands_on(tool: Path) -> None:
    absent = tool.parent / "absent.py"
    _remember(tool, absent)
    assert toolmemo.recall(QUESTION) == (SECTION, {str(tool): identity(tool), str(absent): None})
    assert toolmemo.recall({**QUESTION, "prove": False}) is None


def test_a_tool_that_is_edited_touched_removed_or_appears_ends_it(tool: Path) -> None:
    absent = tool.parent / "absent.py"

    def edited() -> None:
        tool.write_text("two")

    def touched() -> None:
        os.utime(tool, ns=(1, 1))

    for change in (edited, touched, tool.unlink, lambda: absent.write_text("")):
        tool.write_text("one")
        absent.unlink(missing_ok=True)
        _remember(tool, absent)
        assert toolmemo.recall(QUESTION) is not None
        change()
        assert toolmemo.recall(QUESTION) is None


def test_another_environment_has_its_own(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _remember(tool)
    monkeypatch.setenv("CC", "another-cc")
    assert toolmemo.recall(QUESTION) is None


def test_a_tool_that_changed_a_moment_ago_leaves_no_memo(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tool.parent / "cache"))
    os.utime(tool, ns=(time.time_ns(), time.time_ns()))
    _remember(tool)
    assert toolmemo.recall(QUESTION) is None


def test_a_damaged_memo_is_none_whatever_bit_was_flipped(tool: Path) -> None:
    _remember(tool)
    (file,) = (tool.parent / "cache" / toolmemo.FOLDER).iterdir()
    whole = file.read_bytes()
    for index in range(0, len(whole), 7):
        file.write_bytes(whole[:index] + bytes([whole[index] ^ 4]) + whole[index + 1 :])
        assert toolmemo.recall(QUESTION) is None
    for cut in (0, 1, 64, 65, len(whole) - 1):
        file.write_bytes(whole[:cut])
        assert toolmemo.recall(QUESTION) is None


def test_there_are_never_very_many(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolmemo, "MOST_MEMOS", 5)
    for number in range(12):
        toolmemo.remember({"number": number}, SECTION, {})
    assert len(list((tool.parent / "cache" / toolmemo.FOLDER).iterdir())) <= 6
