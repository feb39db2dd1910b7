"""What the command line tests share: the shipped model, and running a command in this process or in its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from stowplan.cli.entry import main

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits"


class Outcome(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A copy of the shipped model, in a folder that a test may fill."""
    path = tmp_path / "digits.tflite"
    path.write_bytes((EXAMPLE / "digits_int8.tflite").read_bytes())
    return path


@pytest.fixture
def sample() -> Path:
    return EXAMPLE / "sample.npy"


@pytest.fixture
def stowplan(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*arguments: object) -> Outcome:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture
def shell() -> Command:
    """Run a command in its own process; keywords add to the environment."""

    def run(*arguments: object, **environment: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "stowplan", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run
