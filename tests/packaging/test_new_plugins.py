"""What `stowplan plugins new` writes: a package that installs beside the published wheels and passes its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wheels
from stowplan.plugins.known import KINDS_TO_WRITE
from stowplan.plugins.scaffold import KINDS, package

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = ("core", "plugins/importer-tflite", "plugins/scheduler-stream", "plugins/backend-c")


def test_the_template_folder_is_what_the_command_writes() -> None:
    for kind in KINDS_TO_WRITE:
        folder = ROOT / "plugins" / "_template" / kind
        there = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if is_source(p)}
        assert there == dict(package(kind, "acme")), f"write it again: stowplan plugins new {kind} acme -o {folder}"


def is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")


def test_every_kind_can_be_written() -> None:
    assert set(KINDS) == set(KINDS_TO_WRITE)


@pytest.fixture(scope="module")
def commands() -> Path:
    """The commands of an environment that has the published wheels and nothing of the checkout."""
    return wheels.fresh(*MEMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_TO_WRITE)
def test_a_new_plugin_installs_beside_the_wheels_and_passes_its_kit(commands: Path, kind: str, tmp_path: Path) -> None:
    stowplan = (str(commands / "python"), "-m", "stowplan")
    out = done(*stowplan, "plugins", "new", kind, "north-star", cwd=tmp_path)
    folder = tmp_path / f"stowplan-{kind}-north-star"
    assert out.startswith(f"wrote {folder.name}: ")
    wheels.install(commands, folder)
    listed = done(*stowplan, "plugins", "list", cwd=tmp_path)
    (row,) = (line for line in listed.splitlines() if line.split()[:2] == [kind, "north-star"])
    assert row.split()[2:5] == [f"stowplan-{kind}-north-star", "0.1.0", "ok"]
    tested = done(str(commands / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert " passed" in tested
    assert "failed" not in tested
    if kind == "compressor":  # the same checks again, without pytest
        checked = done(*stowplan, "plugins", "check", f"{kind}-north-star", cwd=tmp_path)
        assert checked.splitlines()[-1].endswith(" 0 at fault")
    place = "import stowplan.testing; print(stowplan.testing.__file__)"
    assert str(ROOT) not in done(str(commands / "python"), "-c", place, cwd=tmp_path)


def done(*command: str, cwd: Path) -> str:
    dropped = ("STOWPLAN_", "PYTHON", "VIRTUAL_ENV")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    environment |= {"STOWPLAN_CACHE_DIR": str(cwd / "cache"), "PATH": os.pathsep.join((os.environ["PATH"],))}
    (cwd / "cache").mkdir(exist_ok=True)
    found = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=300, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="looks at the modes of files")
def test_a_package_is_written_whole_or_refused(tmp_path: Path) -> None:
    stowplan = (sys.executable, "-m", "stowplan", "plugins", "new")
    for words, message in (
        (("scheduler", "Acme"), "is no name for a plugin"),
        (("scheduler", "a--b"), "is no name for a plugin"),
        (("scheduler", "../x"), "is no name for a plugin"),
        (("schedule", "acme"), 'no kind "schedule": kinds are importer, scheduler'),
        (("scheduler",), "plugins new needs a kind and a name"),
        (("scheduler", "acme", "-o", "/proc/none/x"), "cannot become a folder"),
    ):
        found = subprocess.run([*stowplan, *words], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert found.returncode in (1, 2)
        assert message in found.stderr
        assert found.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())
    (tmp_path / "stowplan-scheduler-acme").mkdir()
    (tmp_path / "stowplan-scheduler-acme" / "mine").write_text("")
    found = subprocess.run([*stowplan, "scheduler", "acme"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (found.returncode, "is there already and not empty" in found.stderr) == (2, True)
