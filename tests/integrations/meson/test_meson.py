"""The Meson example, as a newcomer runs it: here and on a Cortex-M4, and what is built again after a change."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cmake_projects import Done, clean_environment, meson, needs, run
from wheels import ROOT, environment

pytestmark = pytest.mark.slow


class Meson:
    """A copy of the example with what it refers to."""

    def __init__(self, root: Path) -> None:
        self.tool = meson()
        for part in ("integrations/meson/example", "integrations/cmake/example", "examples/digits"):
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("build"))
        self.source = root / "integrations/meson/example"
        self.model = root / "examples/digits/digits_int8.tflite"
        self.environment = clean_environment(environment())

    def __call__(self, *words: str) -> Done:
        return run([*self.tool, *words], self.environment, self.source)

    def ninja(self) -> tuple[int, int]:
        """Build, and return how many models were fitted and sources compiled."""
        done = run(["ninja", "-C", "build", "-v"], self.environment, self.source)
        assert done.code == 0, done.text
        return done.text.count("stowplan compile"), done.text.count(" -c ")


@pytest.fixture
def project(tmp_path: Path) -> Meson:
    return Meson(tmp_path)


def test_it_builds_and_runs_here(project: Meson) -> None:
    assert project("setup", "build").code == 0
    done = project("test", "-C", "build", "-v")
    assert done.code == 0 and "digit 2 in 640 bytes" in done.text, done.text


def test_it_builds_for_a_cortex_m4_and_runs_there(project: Meson) -> None:
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    done = project("setup", "build", "--cross-file", "cortex-m4.ini")
    assert done.code == 0, done.text
    done = project("test", "-C", "build", "-v")
    assert done.code == 0 and "digit 2 in 640 bytes" in done.text, done.text


def test_only_what_must_be_is_built_again(project: Meson) -> None:
    assert project("setup", "build").code == 0
    assert project.ninja() == (1, 2)
    assert project.ninja() == (0, 0)
    os.utime(project.model)
    assert project.ninja() == (1, 0)
    assert project.ninja() == (0, 0)
    (project.source / "build" / "digits.h").unlink()
    assert project.ninja() == (1, 2)
    assert project.ninja() == (0, 0)
    assert project("configure", "build", "-Dmemory=1K").code == 0
    assert project.ninja()[0] == 1
    assert project.ninja() == (0, 0)


def test_what_the_command_refuses_the_build_shows_in_its_words_until_it_is_mended(project: Meson) -> None:
    assert project("setup", "build", "-Dmemory=8").code == 0
    for _ in range(2):
        done = project("compile", "-C", "build")
        assert done.code != 0 and "Error: no plan written: " in done.text
    assert not (project.source / "build" / "digits.c").exists()
    assert project("configure", "build", "-Dmemory=800").code == 0
    assert project.ninja() == (1, 2)
