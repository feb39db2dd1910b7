"""The commands that docs/codegen.md shows are run, each as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHOWN = re.findall(r"^\$ (stowplan [^#\n]+)", (ROOT / "docs" / "codegen.md").read_text("utf-8"), re.MULTILINE)
WRITES = {"--weights c": ["net_weights.c"], "--weights bin": ["net_weights.bin"], "--package": ["net/CMakeLists.txt"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("guide")
    shutil.copy(ROOT / "examples" / "digits" / "digits_int8.tflite", place)
    run(SHOWN[0], place)
    return place


def run(command: str, folder: Path) -> None:
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_guide_shows_a_compile_and_what_follows_it() -> None:
    assert SHOWN[0].startswith("stowplan compile")
    assert len(SHOWN) == 8


@pytest.mark.parametrize("command", SHOWN[1:])
def test_a_shown_command_does_what_it_says(command: str, folder: Path) -> None:
    run(command, folder)
    output = folder / command.split("-o ")[1].strip()
    assert output.exists()
    for words, files in WRITES.items():
        assert all((folder / file).exists() for file in files) or words not in command
