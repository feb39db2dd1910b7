"""Files appear whole or not at all, and only where they may."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stowplan.cli import output
from stowplan.cli.output import check_output, columns, safe, write_file
from stowplan.errors import OutputError


def test_a_file_is_written_whole_and_leaves_no_other_behind(tmp_path: Path) -> None:
    target = tmp_path / "plan.stow"
    target.write_bytes(b"old")
    write_file(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["plan.stow"]
    assert target.read_bytes() == b"new"


def test_a_new_file_has_the_rights_the_user_asks_for(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_file(tmp_path / "plan.stow", b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "plan.stow").stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    target = tmp_path / "plan.stow"
    target.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_file(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["plan.stow"]
    assert target.read_bytes() == b"old"


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "plan.stow", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_a_missing_folder_a_device_and_the_input_itself_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "model.tflite"
    source.write_bytes(b"x")
    cases = [
        (tmp_path, "is a directory"),
        (tmp_path / "absent" / "plan.stow", "does not exist"),
        (Path(os.devnull), "not a regular file"),
        (tmp_path / "." / "model.tflite", "is the file that is read"),
        (Path("a\0b"), "no file name"),
    ]
    for path, message in cases:
        with pytest.raises(OutputError, match=message):
            check_output(path, [source])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_access_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="not writable"):
        check_output(tmp_path / "plan.stow")


def test_columns_line_up_and_end_without_blanks() -> None:
    rows = [("a", "1.00 KiB", "first"), ("longer", "17 B", "")]
    assert columns(rows) == ["  a        1.00 KiB   first", "  longer   17 B"]


def test_text_from_models_is_made_printable() -> None:
    assert safe("a\x1b[31m\u202eb\tä") == "a\\x1b[31m\\u202eb\\tä"
