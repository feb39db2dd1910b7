"""One copy of the example, with its Bazel server, for all tests of a file that only read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bazel_workspace import Workspace, why_not


@pytest.fixture(scope="session")
def disk_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The option that lets workspaces share C objects: in a folder that parallel test processes share, too."""
    base = tmp_path_factory.getbasetemp()
    return f"--disk_cache={(base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base) / 'bazel-disk-cache'}"


@pytest.fixture(scope="module")
def make_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Workspace]]:
    """A function that makes workspaces; their servers end with the tests of the file."""
    if why_not():
        pytest.skip(why_not())
    made: list[Workspace] = []

    def make(*options: str, **more: str) -> Workspace:
        folder = tmp_path_factory.mktemp("bazel", numbered=True) / "checkout"
        made.append(Workspace(folder, *options, **more))
        return made[-1]

    yield make
    for workspace in made:
        workspace.close()


@pytest.fixture(scope="module")
def workspace(make_workspace: Callable[..., Workspace], disk_cache: str) -> Workspace:
    return make_workspace(disk_cache)


@pytest.fixture(scope="session")
def digits() -> Path:
    return Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.tflite"
