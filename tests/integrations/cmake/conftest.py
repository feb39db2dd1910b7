"""What the CMake tests share: our wheels in an environment, and a small project with two models."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cmake_projects import CMake
from wheels import ROOT, environment

MODEL = ROOT / "examples" / "digits" / "digits_int8.tflite"
LISTS = """\
cmake_minimum_required(VERSION 3.21...4.0)
project(two C)
find_package(stowplan CONFIG REQUIRED)
stowplan_add_model(one MODEL one.tflite MEM 800)
stowplan_add_model(two MODEL "with blank/two.tflite" MEM 4K 8K NAME second)
set_target_properties(two PROPERTIES STOWPLAN_FLASH "${TWO_FLASH}" STOWPLAN_COMPRESS "$<$<CONFIG:Release>:lz4>")
add_executable(app app.c)
target_link_libraries(app PRIVATE one two)
"""
APP = """\
#include "one.h"
#include "second.h"
static _Alignas(16) uint8_t a[ONE_FAST_BYTES], b[SECOND_FAST_BYTES];
int main(void)
{
    static one_context c;
    static second_context d;
    return one_init(&c, a, sizeof a, NULL, 0) || second_init(&d, b, sizeof b, NULL, 0);
}
"""


@pytest.fixture(scope="session")
def commands() -> Path:
    """The commands of an environment with our wheels."""
    return environment()


@pytest.fixture
def two(tmp_path: Path, commands: Path) -> Callable[..., CMake]:
    """Return a function that makes the project, with a generator and lists that may be given."""

    def make(generator: str = "Ninja", lists: str = LISTS) -> CMake:
        source = tmp_path / "source"
        write_two(source, lists)
        return CMake(source, tmp_path / "build", commands, generator)

    return make


def write_two(source: Path, lists: str = LISTS) -> None:
    (source / "with blank").mkdir(parents=True)
    shutil.copy(MODEL, source / "one.tflite")
    shutil.copy(MODEL, source / "with blank" / "two.tflite")
    (source / "CMakeLists.txt").write_text(lists, "utf-8")
    (source / "app.c").write_text(APP, "utf-8")
