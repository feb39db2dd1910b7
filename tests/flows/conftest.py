"""Whole flows run the command as users do, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def stowplan() -> Command:
    """Run a command that has to succeed and to have nothing to complain about; return what it prints."""

    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", "stowplan", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def shared_models() -> Path:
    """The folder with the models that are too large for the repository."""
    folder = ROOT.parent / "shared" / "models"
    if not folder.is_dir():
        pytest.skip("needs ../shared/models")
    return folder
