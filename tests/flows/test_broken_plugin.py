"""A plugin that raises at import: every command does its work all the same, with one line on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits"


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which a plugin that raises is installed."""
    site = tmp_path / "site"
    info = site / "broken_plugin-0.3.dist-info"
    info.mkdir(parents=True)
    (site / "broken_plugin.py").write_text("raise RuntimeError('no luck')")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text("[stowplan]\nbroken-plugin = broken_plugin\n")
    return {**os.environ, "PYTHONPATH": str(site)}


def test_every_command_works_with_exactly_one_line(tmp_path: Path, broken: dict[str, str]) -> None:
    model, sample = str(EXAMPLE / "digits_int8.tflite"), str(EXAMPLE / "sample.npy")
    commands = [
        ["compile", model, "-m", "800", "-o", "d.stow"],
        ["analyze", model, "-m", "800"],
        ["inspect", model],
        ["run", "d.stow", "--input", sample],
        ["codegen", "d.stow", "-o", "d.c"],
        ["plugins", "list"],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "stowplan", *command],
            capture_output=True, text=True, env=broken, cwd=tmp_path, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(
            "Warning: plugin broken-plugin (broken-plugin 0.3) is skipped: RuntimeError: no luck"
        )


@pytest.mark.parametrize("command", [["--version"], ["--help"], ["inspect", "d.stow"]])
def test_what_needs_no_plugin_does_not_mention_it(tmp_path: Path, broken: dict[str, str], command: list[str]) -> None:
    compiled = ["compile", str(EXAMPLE / "digits_int8.tflite"), "-m", "800", "-o", str(tmp_path / "d.stow")]
    subprocess.run([sys.executable, "-m", "stowplan", *compiled], capture_output=True, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", *command],
        capture_output=True, text=True, env=broken, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
