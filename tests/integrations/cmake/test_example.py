"""The example project, as a newcomer runs it: here, on a Cortex-M4, installed and used from another project."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cmake_projects import CMake, needs
from wheels import ROOT

pytestmark = pytest.mark.slow
CONSUMER = """\
cmake_minimum_required(VERSION 3.21...4.0)
project(consumer C)
find_package(digits CONFIG REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer PRIVATE digits::digits)
"""


@pytest.fixture
def example(tmp_path: Path, commands: Path) -> CMake:
    """A copy of the example, with the model where it expects it."""
    source = tmp_path / "integrations" / "cmake" / "example"
    shutil.copytree(ROOT / "integrations/cmake/example", source, ignore=shutil.ignore_patterns("build"))
    shutil.copytree(ROOT / "examples/digits", tmp_path / "examples" / "digits")
    return CMake(source, source / "build" / "ninja", commands)


def supports_workflows(example: CMake) -> None:
    version = example.run("cmake", "--version").text.split()[2]
    if tuple(map(int, version.split(".")[:2])) < (3, 25):
        pytest.skip("needs CMake 3.25 for workflow presets")


def test_the_workflow_builds_and_runs_it_here(example: CMake) -> None:
    supports_workflows(example)
    done = example.run("cmake", "--workflow", "--preset", "here")
    assert done.code == 0 and "digit 2 in 640 bytes" in done.text and "100% tests passed" in done.text, done.text


def test_the_workflow_builds_it_for_a_cortex_m4_and_runs_it_there(example: CMake) -> None:
    supports_workflows(example)
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    done = example.run("cmake", "--workflow", "--preset", "cortex-m4")
    assert done.code == 0 and "digit 2 in 640 bytes" in done.text and "100% tests passed" in done.text, done.text
    scores = [line for line in done.text.splitlines() if line.startswith("1: -128 ")]
    assert scores == ["1: -128 -128 127 -128 -128 -128 -128 -128 -128 -128 "]


def test_a_program_that_fails_on_the_board_fails_the_test(example: CMake) -> None:
    supports_workflows(example)
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    main = example.source / "main.c"
    main.write_text(main.read_text().replace("shown = 2", "shown = 3"))
    done = example.run("cmake", "--workflow", "--preset", "cortex-m4")
    assert done.code != 0 and "0% tests passed" in done.text, done.text


@pytest.mark.parametrize("preset", ["make", "multi"])
def test_the_other_presets_build_and_run_it(example: CMake, preset: str) -> None:
    needs("make")
    supports_workflows(example)
    for command in (["cmake"], ["cmake", "--build"], ["ctest"]):
        done = example.run(*command, "--preset", preset)
        assert done.code == 0, done.text
    assert "digit 2 in 640 bytes" in done.text


@pytest.mark.parametrize("generator", ["Ninja", "Ninja Multi-Config"])
def test_an_installed_model_is_used_without_stowplan(
    example: CMake, commands: Path, tmp_path: Path, generator: str
) -> None:
    model = CMake(example.source, tmp_path / "build", commands, generator)
    assert model.configure(f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'prefix'}").code == 0
    model.build()
    options = ["--config", "Debug"] if "Multi" in generator else []
    done = model.run("cmake", "--install", str(model.folder), *options)
    assert done.code == 0, done.text
    source = tmp_path / "consumer"
    source.mkdir()
    shutil.copy(example.source / "main.c", source)
    (source / "CMakeLists.txt").write_text(CONSUMER)
    consumer = CMake(source, tmp_path / "consumer-build", None)
    done = consumer.configure(f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")
    assert done.code == 0, done.text
    consumer.build()
    assert "digit 2 in 640 bytes" in consumer.run(str(consumer.folder / "consumer")).text
