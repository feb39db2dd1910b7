"""A folder of wheels to install from without a network, and environments that have nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = (
    "core", "plugins/backend-c", "plugins/importer-tflite", "plugins/scheduler-stream", "integrations/setuptools",
)  # fmt: skip
FETCH_SECONDS = 90


class NoWheels(Exception):
    """What a test needs cannot be fetched here; the text is the reason to skip it."""


def build_members(house: Path) -> None:
    """Build what we publish."""
    for member in MEMBERS:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(house)]
        done = subprocess.run(command, cwd=ROOT / member, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)


def fetch(house: Path, *requirements: str, alone: bool = False) -> None:
    """Put wheels of others into the house, with what they need. Raises `NoWheels` where pip cannot get them."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(house)]
    command += ["--find-links", str(house), *(["--no-deps"] if alone else []), *requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise NoWheels(f"pip cannot fetch {' '.join(requirements)} within {FETCH_SECONDS} s") from None
    if done.returncode:
        raise NoWheels(f"pip cannot fetch {' '.join(requirements)}: {done.stderr.strip().splitlines()[-1]}")


class Env:
    """An environment without pip; what is in it came from the house."""

    def __init__(self, folder: Path, house: Path, cache: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        self.folder = folder
        self.house = house
        self.cache = cache
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process that can reach nothing but the house."""
        dropped = ("STOWPLAN_", "PIP_", "UV_", "PYTHON", "SOURCE_DATE", "VIRTUAL_ENV", "CFLAGS")
        own = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
        offline = {
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.house), "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "UV_OFFLINE": "1", "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": str(self.house), "UV_NO_CONFIG": "1", "UV_NO_CACHE": "1",
            "STOWPLAN_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        return {**own, **offline, **more}

    def run(self, *command: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, command)], cwd=cwd, env=self.environment(**more), capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip

    def done(self, *command: str | Path, cwd: Path, **more: str) -> str:
        """Run what has to succeed, and return what it printed."""
        done = self.run(*command, cwd=cwd, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def pip(self, *arguments: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the pip of the tests on this environment."""
        return self.run(sys.executable, "-m", "pip", "--python", self.python, *arguments, cwd=cwd, **more)

    def install(self, *arguments: str | Path, cwd: Path, **more: str) -> str:
        done = self.pip("install", *arguments, cwd=cwd, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def tool(name: str) -> Sequence[str]:
    """Return the command of a tool that is installed beside the tests. Raises `NoWheels` where it is not."""
    from importlib.util import find_spec

    if find_spec(name) is None:
        raise NoWheels(f"{name} is not installed")
    return (sys.executable, "-m", name)
