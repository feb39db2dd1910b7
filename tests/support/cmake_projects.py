"""A CMake or Meson project in a folder: made by the real tools, its steps counted from what they print."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from wheels import cache_folder

GENERATORS = ("Ninja", "Ninja Multi-Config", "Unix Makefiles")
TOOLS = {"Ninja": "ninja", "Ninja Multi-Config": "ninja", "Unix Makefiles": "make"}


class Steps(NamedTuple):
    """What a build did: models fitted, C sources compiled, programs and libraries linked."""

    fitted: int
    compiled: int
    linked: int


NOTHING = Steps(0, 0, 0)


class Done(NamedTuple):
    code: int
    text: str


def needs(*tools: str) -> None:
    """Skip where a tool is absent."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")


def meson() -> list[str]:
    """Return the command of Meson in the environment that runs the tests."""
    pytest.importorskip("mesonbuild", reason="needs Meson")
    needs("ninja", "cc")
    return [sys.executable, "-m", "mesonbuild.mesonmain"]


class CMake:
    """A source folder and its build folder; `commands`, with `stowplan`, come first on PATH."""

    def __init__(self, source: Path, build: Path, commands: Path | None, generator: str = "Ninja") -> None:
        needs("cmake", TOOLS[generator], "cc")
        self.source = source
        self.folder = build
        self.generator = generator
        self.environment = clean_environment(commands)

    def configure(self, *options: str) -> Done:
        return self.run("cmake", "-S", str(self.source), "-B", str(self.folder), "-G", self.generator, *options)

    def build(self) -> Steps:
        """Build all; fail unless that works."""
        done = self.try_build()
        assert done.code == 0, done.text
        return Steps(*(done.text.count(word) for word in ("Fitting ", "Building C ", "Linking C ")))

    def try_build(self) -> Done:
        return self.run("cmake", "--build", str(self.folder), "-j", "2")

    def product(self, name: str) -> Path:
        (found,) = self.folder.glob(f"stowplan/**/{name}")
        return found

    def run(self, *command: str, cwd: Path | None = None) -> Done:
        return run(command, self.environment, cwd or self.source)


def clean_environment(commands: Path | None) -> dict[str, str]:
    """Return an environment with nothing that would lead CMake or the tool elsewhere.

    All projects share one cache: the library that proves plans takes longer to compile than everything else.
    """
    hiding = ("VIRTUAL_ENV", "CMAKE_", "stowplan_", "STOWPLAN_", "PYTHONPATH", "MAKE", "CC", "CFLAGS", "NINJA")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hiding)}
    # No environment's commands but the one that is asked for: those that run the tests may have a stowplan, too.
    path = [part for part in kept["PATH"].split(os.pathsep) if not (Path(part) / "stowplan").exists()]
    path = [str(commands), *path] if commands else path
    return {
        **kept,
        "PATH": os.pathsep.join(path),
        "STOWPLAN_CACHE_DIR": str(cache_folder()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> Done:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env=environment, timeout=300,
        check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout)
