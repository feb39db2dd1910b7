"""Fixtures of the tests of the kit itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from planted import Planted


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    for variable in ("STOWPLAN_PLUGINS", "STOWPLAN_PLUGINS_BLOCK"):
        monkeypatch.delenv(variable, raising=False)
    variables = dict(os.environ)
    yield Planted(tmp_path, monkeypatch)
    # What was planted is imported here, too: a module named torch, say, or one that sets a variable.
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", None)):
            del sys.modules[name]
    for name in set(os.environ) - set(variables):
        del os.environ[name]
