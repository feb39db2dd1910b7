"""`stowplan_add_model()`: its options, what it refuses, and one process for many models."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cmake_projects import GENERATORS, NOTHING, CMake, Steps

from .conftest import LISTS

pytestmark = pytest.mark.slow
HEAD = "cmake_minimum_required(VERSION 3.21...4.0)\nproject(p C)\nfind_package(stowplan CONFIG REQUIRED)\n"
TOGETHER = LISTS.replace("stowplan_add_model(one", "set(STOWPLAN_ONE_PROCESS ON)\nstowplan_add_model(one")
Two = Callable[..., CMake]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("m MODEL one.tflite MEMORY 800", "stowplan_add_model(m): unknown words: MEMORY;800"),
        ("m MODEL one.tflite MEM", "stowplan_add_model(m): nothing follows MEM"),
        ("m MEM 800", "stowplan_add_model(m): MODEL is missing"),
        ("m MODEL one.tflite MEM 800 TYPE MODULE", "TYPE MODULE: write STATIC, OBJECT or SHARED"),
        ("m MODEL three.tflite MEM 800", "stowplan_add_model(m): Error: {source}/three.tflite: no such file"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_at_its_line(two: Two, call: str, said: str) -> None:
    project = two(lists=f"{HEAD}stowplan_add_model({call})\n")
    done = project.configure()
    assert done.code != 0 and "CMakeLists.txt:4 (stowplan_add_model)" in done.text
    assert said.format(source=project.source) in " ".join(done.text.split()), done.text


def test_a_project_without_c_is_told_so(two: Two) -> None:
    lists = HEAD.replace("p C", "p NONE") + "stowplan_add_model(m MODEL one.tflite MEM 800)\n"
    done = two(lists=lists).configure()
    assert done.code != 0 and "a model becomes C; add C to the languages of project()" in " ".join(done.text.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("MEM 8", "Error: no plan written: "),
        ("MEM 8Q", "Error: -m 8Q: "),
        ("", "Error: the following arguments are required: -m/--mem"),
        ("MEM 0", "Error: -m 0: "),
        ("MEM 800 FLASH 0", "Error: -f 0: "),
        ("MEM 800 COMPRESS zip", "Error: -c zip: compressors are none, lz4"),
        ("MEM 800 SCHEDULER none", "Error: no scheduler"),
        ("MEM 800 NAME stow_net", "Error: --name stow_net: would clash with the runtime's own names"),
        ("MEM 800 INPUT_SHAPE image", "Error: --input-shape"),
        ("MEM 800 STREAM_INPUT nothing", "Error: "),
    ],
)
def test_what_the_command_refuses_the_build_shows_in_its_words(two: Two, words: str, said: str) -> None:
    project = two(lists=f"{HEAD}stowplan_add_model(m MODEL one.tflite {words})\n")
    assert project.configure().code == 0
    done = project.try_build()
    assert done.code != 0 and said in done.text, done.text
    assert not [path for path in project.folder.glob("stowplan/**/*") if path.is_file()]
    words_of_the_command = [line for line in done.text.splitlines() if line.startswith("Error: ")]
    (call,) = [line for line in done.text.splitlines() if line.startswith("cd ")]
    alone = project.run("sh", "-c", call.partition(" && ")[2].partition(" && ")[0])
    assert alone.text.splitlines() == words_of_the_command


def test_every_option_reaches_the_command(two: Two) -> None:
    lists = HEAD + (
        "stowplan_add_model(m MODEL one.tflite MEM 1K 2K FLASH 64K COMPRESS lz4 SCHEDULER greedy XIP KEEP_NAMES"
        " NO_PROVE INPUT_SHAPE image:1x8x8x1 a:2 STREAM_INPUT image b NAME net TYPE OBJECT)\n"
    )
    project = two(lists=lists)
    assert project.configure().code == 0
    rule = (project.folder / "build.ninja").read_text("utf-8")
    assert (
        "--name net -m 1K+2K --flash 64K --compress lz4 --scheduler greedy --input-shape=image:1x8x8x1"
        " --input-shape=a:2 --stream-input=image --stream-input=b --xip --keep-names --no-prove --depfile "
    ) in rule


def test_a_model_may_be_made_by_the_build(two: Two) -> None:
    lists = HEAD + (
        "add_custom_command(OUTPUT made.tflite COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_SOURCE_DIR}/one.tflite"
        " made.tflite DEPENDS one.tflite)\n"
        "stowplan_add_model(m MODEL ${CMAKE_CURRENT_BINARY_DIR}/made.tflite MEM 800)\n"
    )
    project = two(lists=lists)
    done = project.configure()
    assert done.code == 0, done.text
    assert project.build().fitted == 1
    assert project.build() == NOTHING
    os.utime(project.source / "one.tflite")
    assert project.build() == Steps(1, 0, 0)


@pytest.mark.parametrize("generator", GENERATORS)
def test_one_process_makes_all_models_with_the_same_bytes(
    two: Two, commands: Path, tmp_path: Path, generator: str
) -> None:
    apart = two()
    assert apart.configure("-DTWO_FLASH=64K").code == 0 and apart.build() == Steps(2, 3, 3)
    (apart.source / "CMakeLists.txt").write_text(TOGETHER, "utf-8")
    project = CMake(apart.source, tmp_path / "together", commands, generator)
    assert project.configure("-DTWO_FLASH=64K").code == 0
    assert project.build() == Steps(1, 3, 3) and project.build() == NOTHING
    for name in ("one.stow", "one.c", "one.h", "second.stow", "second.c", "second.h"):
        assert project.product(name).read_bytes() == apart.product(name).read_bytes()
    os.utime(project.source / "with blank" / "two.tflite")
    assert project.build() == Steps(1, 0, 0) and project.build() == NOTHING
    project.product("second.h").unlink()
    assert project.build() == Steps(1, 2, 2) and project.build() == NOTHING
    assert project.configure("-DTWO_FLASH=10").code == 0
    done = project.try_build()
    assert done.code != 0 and "commands.txt: that was command 2: compile " in done.text
    assert project.configure("-DTWO_FLASH=32K").code == 0
    assert project.build() == Steps(1, 0, 0) and project.build() == NOTHING


def test_configurations_have_options_and_files_of_their_own(two: Two) -> None:
    project = two("Ninja Multi-Config")
    assert project.configure().code == 0
    for _ in range(2):  # going to and fro builds nothing again
        for name in ("Debug", "Release"):
            done = project.run("cmake", "--build", str(project.folder), "--config", name)
            assert done.code == 0, done.text
    assert "Fitting" not in done.text
    sizes = [
        len((project.folder / "stowplan/two" / name / "second.stow").read_bytes()) for name in ("Debug", "Release")
    ]
    assert sizes[0] != sizes[1]  # compressed for one of them
