"""A wheel house, an environment to build in, and copies of the example to build."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stowplan.cache.directory import cache_directory
from wheel_house import ROOT, Env, NoWheels, build_members, fetch

EXAMPLE = ROOT / "integrations" / "setuptools" / "example"
OTHERS = ("diskcache", "pluggy", "rich", "setuptools", "wheel", "hatchling", "editables", "tomli", "build")


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything an isolated build asks for, as wheels."""
    pytest.importorskip("hatchling", reason="needs hatchling to build wheels")
    folder = tmp_path_factory.mktemp("house")
    build_members(folder)
    try:
        fetch(folder, *OTHERS)
    except NoWheels as err:
        pytest.skip(str(err))
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache of the tests' own, but for the compiled C runtime: that would take each of them seconds."""
    folder = tmp_path_factory.mktemp("cache")
    native = cache_directory() / "native"
    native.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "native").symlink_to(native)
    return folder


@pytest.fixture(scope="session")
def builder(house: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Env:
    """An environment to build in without isolation: it has the newest setuptools and us."""
    env = Env(tmp_path_factory.mktemp("builder") / "env", house, cache)
    env.install("setuptools", "wheel", "stowplan-setuptools", "build", cwd=house)
    return env


@pytest.fixture
def new_env(house: Path, cache: Path, tmp_path: Path) -> Callable[[str], Env]:
    """Makes empty environments."""
    return lambda name: Env(tmp_path / name, house, cache)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return copied(EXAMPLE, tmp_path / "example")


def copied(source: Path, target: Path) -> Path:
    """Copy a project without what builds may have left in it."""
    left = shutil.ignore_patterns("build", "dist", "*.egg-info", "*.stow", "digits.c", "digits.h", "__pycache__")
    return Path(shutil.copytree(source, target, ignore=left))
