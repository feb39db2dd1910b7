"""The toolchain is what pip installed: an upgrade is noticed, and a reinstallation of the same bytes is none."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from bazel_workspace import Workspace

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
MEMBERS = [ROOT / "core", *(path.parent for path in sorted((ROOT / "plugins").glob("[!_]*/pyproject.toml")))]
MOST_INPUTS_OF_STAMP = 40
TARGET = "//:digits"


class Installation:
    """An environment with stowplan's wheels in it, and everything else where the tests have it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "env" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        self.site = next((folder / "env" / "lib").glob("python3*/site-packages"))
        here = [path for path in sys.path if path.endswith("site-packages")] or [sysconfig.get_path("purelib")]
        (self.site / "others.pth").write_text("\n".join(here))
        self.wheels: dict[str, Path] = {member.name: self.wheel(member, "first") for member in MEMBERS}
        self.install(*self.wheels.values())

    def wheel(self, member: Path, into: str) -> Path:
        folder = self.folder / into / member.name
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=member, check=True, capture_output=True)
        return next(folder.glob("*.whl"))

    def install(self, *wheels: Path) -> None:
        options = ["--quiet", "--no-deps", "--no-index", "--force-reinstall", "--no-compile"]
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", *options, *wheels]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    pytest.importorskip("hatchling", reason="needs hatchling to build wheels")
    pytest.importorskip("pip", reason="needs pip")
    return Installation(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def in_mode(make_workspace: Callable[..., Workspace], disk_cache: str, installation: Installation):
    def make(mode: str) -> Workspace:
        workspace = make_workspace(disk_cache, python=str(installation.python))
        path = workspace.folder / "WORKSPACE"
        path.write_text(path.read_text("utf-8").replace("_toolchains()", f'_toolchains(mode = "{mode}")'), "utf-8")
        return workspace

    return make


def changed_core(installation: Installation, tmp_path: Path) -> Path:
    """Return a wheel of core with one line more."""
    import shutil

    copy = tmp_path / "core"
    shutil.copytree(ROOT / "core", copy)
    with (copy / "src" / "stowplan" / "units.py").open("a") as file:
        file.write("# one line more\n")
    return installation.wheel(copy, "second")


@pytest.mark.parametrize("mode", ["stamp", "files"])
def test_an_upgrade_is_noticed_and_the_same_again_is_not(
    in_mode: Callable[[str], Workspace], installation: Installation, tmp_path: Path, mode: str
) -> None:
    workspace = in_mode(mode)
    compiled = [entry for entry in workspace.log(TARGET) if entry["mnemonic"] == "StowplanCompile"]
    if mode == "stamp":
        assert len(compiled[0]["inputs"]) <= MOST_INPUTS_OF_STAMP
    made = (workspace.bin / "digits.stow").read_bytes()
    installation.install(installation.wheels["core"])
    assert workspace.built(TARGET).ran == 0
    installation.install(changed_core(installation, tmp_path))
    upgraded = workspace.built(TARGET)
    assert upgraded.ran >= 2, upgraded.text
    assert (workspace.bin / "digits.stow").read_bytes() == made
    installation.install(installation.wheels["core"])


def test_what_lies_in_the_environment_beside_stowplan_is_no_input(in_mode: Callable[[str], Workspace]) -> None:
    workspace = in_mode("files")
    workspace.add('stowplan_model(name = "own", model = "models/digits_int8.tflite", memory = ["805"])')
    entries = [entry for entry in workspace.log("//:own") if entry["mnemonic"] == "StowplanCompile"]
    names = [file["path"] for file in entries[0]["inputs"]]
    packages = {name.partition("/site/")[2].partition("/")[0] for name in names if "/site/" in name}
    imported = {name for name in packages if not name.endswith(".dist-info")}
    assert {"diskcache", "lz4", "pluggy", "stowplan"} <= imported
    assert not imported & {"rich", "pygments", "pytest", "_pytest", "hypothesis", "pip"}
    assert not [name for name in names if "__pycache__" in name or name.endswith("RECORD")]
