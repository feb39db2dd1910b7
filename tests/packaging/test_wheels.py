"""What is published, core and each plugin as a wheel of its own, is the same tool as the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from stowplan.plugins.known import BUNDLED

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("[!_]*/pyproject.toml"))

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def test_the_checkout_packages_every_member_and_nothing_else() -> None:
    packages = project(ROOT)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    members = ["core/src/stowplan"]
    members += [f"plugins/{name}/src/stowplan_{name.replace('-', '_')}" for name in PLUGINS]
    assert sorted(packages) == sorted(members)


def test_the_bundled_plugins_are_the_folders() -> None:
    assert sorted(BUNDLED) == PLUGINS


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_is_published_under_its_folders_name_with_one_entry_point(name: str) -> None:
    table = project(ROOT / "plugins" / name)["project"]
    assert table["name"] == f"stowplan-{name}"
    assert table["entry-points"] == {"stowplan": {name: f"stowplan_{name.replace('-', '_')}"}}
    assert (ROOT / "plugins" / name / table["readme"]).is_file()


@pytest.mark.parametrize("name", PLUGINS)
def test_plugins_move_in_lock_step_with_core(name: str) -> None:
    from stowplan.version import VERSION

    table = project(ROOT / "plugins" / name)["project"]
    major, minor, _ = VERSION.split(".")
    assert table["version"] == VERSION
    assert f"stowplan>={major}.{minor},<{major}.{int(minor) + 1}" in table["dependencies"]


def test_the_build_backends_plugin_moves_in_lock_step_too_and_needs_no_build_tool() -> None:
    from stowplan.version import VERSION

    table = project(ROOT / "integrations" / "setuptools")["project"]
    major, minor, _ = VERSION.split(".")
    bound = f">={major}.{minor},<{major}.{int(minor) + 1}"
    defaults = ("", "-backend-c", "-importer-tflite", "-scheduler-stream")
    assert table["version"] == VERSION
    assert table["dependencies"] == [f"stowplan{name}{bound}" for name in defaults]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build each distribution on its own."""
    pytest.importorskip("hatchling", reason="needs hatchling to build wheels")
    folder = tmp_path_factory.mktemp("wheels")
    for member in (ROOT / "core", *(ROOT / "plugins" / name for name in PLUGINS)):
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=member)
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the python of an environment that has the wheels alone."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    found = [str(path) for path in sorted(wheels.glob("*.whl"))]
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", *found], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"pip cannot install here: {done.stderr.strip().splitlines()[-1]}")
    return python


@pytest.mark.slow
def test_the_wheels_alone_offer_what_the_checkout_offers(installed: Path, tmp_path: Path) -> None:
    command = ("-m", "stowplan", "plugins", "list", "--json")
    apart = json.loads(run(str(installed), *command, cwd=tmp_path))
    together = json.loads(run(sys.executable, *command, cwd=tmp_path))
    assert {row["state"] for row in apart["plugins"]} == {"ok"}
    bundled = [row for row in together["plugins"] if row["provider"].removeprefix("stowplan-") in BUNDLED]
    for row in (*apart["plugins"], *bundled):
        assert row.pop("load_us") > 0
    assert apart["plugins"] == bundled
    entries = {row["provider"].removeprefix("stowplan-") for row in apart["plugins"]}
    assert sorted(entries) == PLUGINS, "each folder of plugins/ offers something"


@pytest.mark.slow
def test_the_wheels_alone_compile_run_and_generate(installed: Path, tmp_path: Path) -> None:
    example = ROOT / "examples" / "digits"
    stowplan = (str(installed), "-m", "stowplan")
    run(*stowplan, "compile", str(example / "digits_int8.tflite"), "-m", "800", "-o", "d.stow", cwd=tmp_path)
    out = run(*stowplan, "run", "d.stow", "--input", str(example / "sample.npy"), "--json", cwd=tmp_path)
    values = json.loads(out)["outputs"][0]["values"]
    assert max(range(10), key=values.__getitem__) == 2
    run(*stowplan, "codegen", "d.stow", "-o", "d.c", cwd=tmp_path)
    assert (tmp_path / "d.h").is_file()


@pytest.mark.slow
def test_the_wheels_alone_need_no_numpy_but_for_onnx_models(installed: Path, tmp_path: Path) -> None:
    arguments = ["stowplan", "compile", str(ROOT / "examples/digits/digits_int8.tflite"), "-m", "800", "-o", "d.stow"]
    without = f"import runpy, sys; sys.modules['numpy'] = None; sys.argv = {arguments!r}; "
    run(str(installed), "-c", without + "runpy.run_module('stowplan', run_name='__main__')", cwd=tmp_path)
    assert (tmp_path / "d.stow").is_file()


@pytest.mark.slow
def test_the_console_script_is_installed(installed: Path, tmp_path: Path) -> None:
    script = installed.with_name("stowplan.exe" if sys.platform == "win32" else "stowplan")
    assert run(str(script), "--version", cwd=tmp_path).startswith("stowplan ")


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
