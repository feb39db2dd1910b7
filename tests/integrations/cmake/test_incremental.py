"""What is built again after each kind of change, by every generator: what must be, and nothing the second time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmake_projects import GENERATORS, NOTHING, CMake, Steps
from wheels import site_packages

from .conftest import write_two

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=GENERATORS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, commands: Path) -> CMake:
    """The project of two models, built; each test leaves it so that nothing is to be done."""
    folder = tmp_path_factory.mktemp("incremental")
    write_two(folder / "source")
    project = CMake(folder / "source", folder / "build", commands, request.param)
    done = project.configure()
    assert done.code == 0, done.text
    assert project.build() == Steps(fitted=2, compiled=3, linked=3)
    return project


@pytest.fixture(autouse=True)
def _nothing_is_to_be_done_before_and_after(built: CMake) -> Iterator[None]:
    assert built.build() == NOTHING
    yield
    assert built.build() == NOTHING


def touch(path: Path) -> None:
    assert path.is_file()
    os.utime(path)


def test_a_touched_model_is_looked_at_and_nothing_is_compiled(built: CMake) -> None:
    touch(built.source / "one.tflite")
    assert built.build() == Steps(fitted=1, compiled=0, linked=0)


def test_a_model_with_other_bytes_is_built_with_what_includes_its_header(built: CMake) -> None:
    path = built.source / "with blank" / "two.tflite"
    before, header = path.read_bytes(), built.product("second.h").read_bytes()
    path.write_bytes(before + b"\0" * 16)  # the digest in the header is another one
    assert built.build() == Steps(fitted=1, compiled=2, linked=2)
    assert built.product("second.h").read_bytes() != header
    path.write_bytes(before)
    assert built.build() == Steps(fitted=1, compiled=2, linked=2)
    assert built.product("second.h").read_bytes() == header


def test_a_changed_option_is_a_matter_of_that_model_alone(built: CMake) -> None:
    for size in ("64K", ""):
        assert built.configure(f"-DTWO_FLASH={size}").code == 0
        assert built.build() == Steps(fitted=1, compiled=0, linked=0)


@pytest.mark.parametrize(
    ("name", "steps"),
    [("one.h", Steps(1, 2, 2)), ("one.c", Steps(1, 1, 2)), ("one.stow", Steps(1, 0, 0))],
)
def test_a_deleted_product_is_made_again(built: CMake, name: str, steps: Steps) -> None:
    before = built.product(name).read_bytes()
    built.product(name).unlink()
    assert built.build() == steps
    assert built.product(name).read_bytes() == before


def test_a_changed_plugin_has_every_model_looked_at(built: CMake, commands: Path) -> None:
    touch(site_packages(commands) / "stowplan_backend_c" / "codegen.py")
    assert built.build() == Steps(fitted=2, compiled=0, linked=0)


def test_a_build_that_failed_fails_until_its_cause_is_gone(built: CMake) -> None:
    products = [built.product(f"second.{suffix}") for suffix in ("stow", "c", "h")]
    before = [path.read_bytes() for path in products]
    assert built.configure("-DTWO_FLASH=10").code == 0
    for _ in range(2):
        done = built.try_build()
        assert done.code != 0
        assert "Error: no plan written: the plan is " in done.text and "the flash budget is 10 B" in done.text
    assert built.configure("-DTWO_FLASH=").code == 0
    steps = built.build()
    assert steps.compiled == 0 and [path.read_bytes() for path in products] == before


def test_a_model_that_is_gone_is_missed_in_the_words_of_the_command(built: CMake) -> None:
    path = built.source / "one.tflite"
    path.rename(path.with_suffix(".away"))
    for _ in range(2):
        done = built.try_build()
        assert done.code != 0 and f"Error: {path}: no such file\n" in done.text
    path.with_suffix(".away").rename(path)
    assert built.build()[1:] == (0, 0)


def test_cleaning_removes_what_was_made(built: CMake) -> None:
    assert built.run("cmake", "--build", str(built.folder), "--target", "clean").code == 0
    left = [path.name for path in built.folder.glob("stowplan/**/*") if path.is_file()]
    assert left in ([], ["one.stamp"]), left
    assert built.build() == Steps(fitted=2, compiled=3, linked=3)
