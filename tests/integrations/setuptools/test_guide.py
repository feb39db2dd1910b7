"""docs/setuptools.md: its project is the example's, and each of its commands works."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from python_builds import READ, blocks, commands, contents
from stowplan.build.project import read_project
from wheel_house import ROOT, Env, NoWheels, fetch

GUIDE = ROOT / "docs" / "setuptools.md"
PACKAGE = ROOT / "integrations" / "setuptools"


def test_the_project_of_the_page_is_the_example() -> None:
    first, *_ = blocks(GUIDE, "toml")
    assert first == (PACKAGE / "example" / "pyproject.toml").read_text()
    (short,) = blocks(PACKAGE / "README.md", "toml")
    assert [line for line in short.splitlines() if line and line not in first.splitlines()] == []


def test_every_key_of_a_model_is_on_the_page() -> None:
    from stowplan.build.schema import project_schema

    text = GUIDE.read_text()
    definitions = project_schema()["$defs"]
    for key in (*definitions["model"]["properties"], *definitions["options"]["properties"]):
        assert f"`{key}`" in text, key


def test_the_example_is_a_project_of_stowplan_build_too() -> None:
    (job,) = read_project(PACKAGE / "example" / "pyproject.toml").jobs
    assert (job.name, job.package, job.with_c) == ("digits", "digit_reader", True)


@pytest.mark.slow
def test_every_command_of_the_page_works(house: Path, cache: Path, example: Path, tmp_path: Path) -> None:
    try:
        fetch(house, "pip")
    except NoWheels as err:
        pytest.skip(str(err))
    env = Env(tmp_path / "env", house, cache)
    env.install("pip", "setuptools", "wheel", "build", "stowplan-setuptools", cwd=house)
    path = os.pathsep.join((str(env.python.parent), os.environ["PATH"]))
    for command in commands(GUIDE):
        if command.startswith("uv ") and find_spec("uv") is None:
            continue
        # Isolated builds have tests of their own, and take their time; "0" is how pip says that there is none.
        quicker = command.replace("-m build", "-m build --no-isolation").replace("uv ", f"{sys.executable} -m uv ")
        done = env.run("sh", "-c", quicker, cwd=example, PATH=path, PIP_NO_BUILD_ISOLATION="0")
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert env.done(env.python, "-c", READ, cwd=tmp_path).strip() == "2"
    (wheel,) = (example / "dist").glob("*.whl")
    assert "digit_reader/digits.h" in contents(wheel)
    assert list((example / "wheels").glob("stowplan_setuptools-*.whl"))
