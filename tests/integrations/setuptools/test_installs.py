"""The example installed as users install it: isolated and offline, by pip, build and uv; editable, and rebuilt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from python_builds import READ, contents, edit
from wheel_house import Env, NoWheels, tool

pytestmark = pytest.mark.slow
MakeEnv = Callable[[str], Env]
DIGIT = "2"
REBUILD = """
import stowplan_setuptools
print(*[(result.job.model, result.status) for result in stowplan_setuptools.rebuild("digit-reader")])
"""


def reads(env: Env, cwd: Path) -> str:
    """Return the digit that the installed package sees in the sample, which is a 2."""
    return env.done(env.python, "-c", READ, cwd=cwd).strip()


def test_pip_install_in_isolation_and_offline(new_env: MakeEnv, example: Path, tmp_path: Path) -> None:
    env = new_env("env")
    env.install(example, cwd=tmp_path)
    assert reads(env, tmp_path) == DIGIT
    assert not list((example / "src").rglob("*.stow")), "nothing is generated among the sources"


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_an_editable_install_is_fresh_after_rebuild(new_env: MakeEnv, example: Path, tmp_path: Path, mode: str) -> None:
    env = new_env("env")
    env.install("stowplan-setuptools", cwd=tmp_path)
    env.install("-e", example, "--config-settings", f"editable_mode={mode}", cwd=tmp_path)
    assert reads(env, tmp_path) == DIGIT
    rebuild = (env.python, "-c", REBUILD)
    assert env.done(*rebuild, cwd=tmp_path).strip() == "('digits', 'unchanged')"
    where = "import digit_reader; print(digit_reader.plan().hex())"
    before = env.done(env.python, "-c", where, cwd=tmp_path)
    edit(example, 'memory = "800"', 'memory = "2K"\noptions = {keep_names = true}')
    assert env.done(*rebuild, cwd=tmp_path).strip() in ("('digits', 'built')", "('digits', 'restored')")
    assert env.done(env.python, "-c", where, cwd=tmp_path) != before
    assert reads(env, tmp_path) == DIGIT
    edit(example, 'memory = "2K"', 'memory = "100"')
    refused = env.run(*rebuild, cwd=tmp_path)
    assert "ModelFailed: digits: no plan written: " in refused.stderr
    gone = env.run(env.python, "-c", "import digit_reader; digit_reader.plan()", cwd=tmp_path)
    assert "FileNotFoundError" in gone.stderr, "an old plan is not taken for the new one"


SAID = """
import sys, stowplan_setuptools
try:
    stowplan_setuptools.rebuild(sys.argv[1])
except Exception as err:
    print(type(err).__name__, err)
"""


def test_rebuild_says_what_is_no_editable_install(builder: Env, example: Path, tmp_path: Path) -> None:
    def said(distribution: str) -> str:
        return builder.done(builder.python, "-c", SAID, distribution, cwd=tmp_path).strip()

    assert said("absent") == "UsageError absent: is not installed; install it with pip install -e FOLDER"
    assert said("stowplan") == "UsageError stowplan: is not an editable install; install it with pip install -e FOLDER"
    builder.install("--no-build-isolation", "--no-deps", "-e", example, cwd=tmp_path)
    try:
        shutil.rmtree(example / "src")
        lost = "UsageError digit_reader: no such package can be imported; install digit-reader again"
        assert said("digit-reader") == lost
        shutil.rmtree(example)
        assert said("digit-reader") == f"UsageError digit-reader: its folder {example} is gone; install it again"
    finally:
        builder.pip("uninstall", "-y", "digit-reader", cwd=tmp_path)


def test_build_makes_an_sdist_and_from_it_a_wheel_in_isolation(new_env: MakeEnv, example: Path, tmp_path: Path) -> None:
    try:
        command = tool("build")
    except NoWheels as err:
        pytest.skip(str(err))
    env = new_env("env")
    env.done(*command, example, cwd=tmp_path)
    (sdist,), (wheel,) = (list((example / "dist").glob(pattern)) for pattern in ("*.tar.gz", "*.whl"))
    assert "models/digits.tflite" in contents(sdist)
    assert "digit_reader/digits.stow" in contents(wheel)
    env.install(wheel, cwd=tmp_path)
    shutil.rmtree(example)
    assert reads(env, tmp_path) == DIGIT


def test_uv_builds_and_installs_in_isolation(new_env: MakeEnv, example: Path, tmp_path: Path) -> None:
    try:
        uv = tool("uv")
    except NoWheels as err:
        pytest.skip(str(err))
    env = new_env("env")
    env.done(*uv, "build", "--python", env.python, example, cwd=tmp_path)
    (wheel,) = (example / "dist").glob("*.whl")
    assert "digit_reader/digits.stow" in contents(wheel)
    env.done(*uv, "pip", "install", "--python", env.python, "-e", example, cwd=tmp_path)
    assert reads(env, tmp_path) == DIGIT


def test_an_isolated_build_without_a_home_works(new_env: MakeEnv, example: Path, tmp_path: Path) -> None:
    env = new_env("env")
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "", "STOWPLAN_CACHE_DIR": ""}
    env.install("setuptools", "wheel", "stowplan-setuptools", cwd=tmp_path)
    env.install("--no-build-isolation", example, cwd=tmp_path, **nowhere)
    assert reads(env, tmp_path) == DIGIT
