"""Our own rule for the cache folder's place is the one that platformdirs has."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.cache.directory import cache_location


@pytest.mark.parametrize("xdg", [None, "", "/somewhere/else", "relative/path"])
def test_the_place_is_the_one_that_platformdirs_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg) -> None:
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.delenv("STOWPLAN_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if xdg is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    wanted = platformdirs.user_cache_dir("stowplan", appauthor=False)
    if xdg == "relative/path":  # the specification says to ignore it; platformdirs takes it as it is
        wanted = str(tmp_path / ".cache" / "stowplan")
    assert cache_location() == wanted
