"""The cache folder: where it is, and that it is nobody else's."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from stowplan.cache.directory import cache_directory


def test_the_variable_names_it_outright(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "a" / "b"))
    assert cache_directory() == tmp_path / "a" / "b"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="other platforms have conventions of their own")
def test_otherwise_the_xdg_folder_or_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOWPLAN_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "stowplan"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == tmp_path / ".cache" / "stowplan"


@pytest.mark.skipif(sys.platform == "win32", reason="rights work differently there")
def test_it_is_made_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "cache"))
    assert stat.S_IMODE(cache_directory().stat().st_mode) == 0o700


def test_a_place_that_cannot_be_made_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert not cache_directory().exists()
