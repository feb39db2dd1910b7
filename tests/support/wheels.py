"""An environment as pip makes it from our wheels: what build systems find, without the checkout."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = (
    "core",
    "plugins/importer-tflite",
    "plugins/scheduler-stream",
    "plugins/scheduler-greedy",
    "plugins/backend-c",
    "plugins/compressor-lz4",
    "integrations/cmake",
)
"""What the example of an integration needs: the tool, one plugin of each kind, the package for CMake."""


@cache
def environment() -> Path:
    """Make an environment with the wheels of `MEMBERS`, once; return the folder of its commands. Nobody changes it."""
    return fresh(*MEMBERS)


def fresh(*members: str) -> Path:
    """Make an environment with the wheels of some members, and return the folder of its commands.

    What our wheels require comes from the environment that runs the tests: nothing is downloaded.
    """
    pytest.importorskip("hatchling", reason="needs hatchling to build wheels")
    folder = Path(tempfile.mkdtemp(prefix="stowplan-wheels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    home = folder / "env"
    venv.create(home, with_pip=False)
    commands = home / ("Scripts" if sys.platform == "win32" else "bin")
    install(commands, *(ROOT / member for member in members))
    # Searched after the environment's own packages; the checkout's .pth files there are not read.
    (site_packages(commands) / "zz_requirements.pth").write_text("\n".join(_requirements()), "utf-8")
    return commands


def install(commands: Path, *projects: Path) -> None:
    """Build the wheels of some projects and install them into an environment, without what they require."""
    with tempfile.TemporaryDirectory(prefix="stowplan-built-") as folder:
        for project in projects:
            _done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=project)
        pip = (sys.executable, "-m", "pip", "--python", str(commands / "python"))
        found = [str(path) for path in sorted(Path(folder).glob("*.whl"))]
        _done(*pip, "install", "--quiet", "--no-deps", "--no-index", *found, cwd=Path(folder))


def cache_folder() -> Path:
    return environment().parents[1] / "cache"


def site_packages(commands: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(_done(str(commands / "python"), "-c", code, cwd=commands).strip())


def _requirements() -> list[str]:
    import pluggy
    import rich

    folders = [Path(module.__file__ or "").parents[1] for module in (pluggy, rich)]
    return [str(folder) for folder in dict.fromkeys([*folders, Path(sysconfig.get_path("purelib"))])]


def _done(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
