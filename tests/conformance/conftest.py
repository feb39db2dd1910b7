"""Fixtures of the tests of the kit itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted import Planted


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    for variable in ("STOWPLAN_PLUGINS", "STOWPLAN_PLUGINS_BLOCK"):
        monkeypatch.delenv(variable, raising=False)
    return Planted(tmp_path, monkeypatch)
