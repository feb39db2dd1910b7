"""An environment as pip makes it from our wheels: what build systems find, without the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
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
)
"""What the example of an integration needs: the tool, and one plugin of each kind."""


def environment(folder: Path, *more: str) -> Path:
    """Make an environment with the wheels of `MEMBERS` and of more folders; return the folder of its commands.

    What our wheels require comes from the environment that runs the tests: nothing is downloaded.
    """
    pytest.importorskip("hatchling", reason="needs hatchling to build wheels")
    wheels = folder / "wheels"
    for member in (*MEMBERS, *more):
        _done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels), cwd=ROOT / member)
    home = folder / "env"
    venv.create(home, with_pip=False)
    commands = home / ("Scripts" if sys.platform == "win32" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", str(commands / "python"))
    found = [str(path) for path in sorted(wheels.glob("*.whl"))]
    _done(*pip, "install", "--quiet", "--no-deps", "--no-index", *found, cwd=folder)
    # Searched after the environment's own packages; the checkout's .pth files there are not read.
    (site_packages(commands) / "zz_requirements.pth").write_text("\n".join(_requirements()), "utf-8")
    return commands


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
