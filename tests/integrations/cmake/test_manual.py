"""What the manual shows is what works: its projects build, its signature is the function's, its commands are tried."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cmake_projects import CMake, clean_environment, meson, run
from wheels import ROOT, environment

MANUAL = (ROOT / "docs" / "cmake.md").read_text("utf-8")
FUNCTIONS = (ROOT / "integrations/cmake/src/stowplan_cmake/cmake/stowplanModel.cmake").read_text("utf-8")


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", MANUAL, re.DOTALL)[number]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "integrations/cmake/example/main.c", tmp_path)
    shutil.copy(ROOT / "examples/digits/digits_int8.tflite", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_first_project_and_its_property_build(program: Path) -> None:
    (program / "CMakeLists.txt").write_text(block("cmake") + block("cmake", 1))
    project = CMake(program, program / "build", environment())
    done = project.configure("-DCMAKE_BUILD_TYPE=Debug")
    assert done.code == 0, done.text
    assert project.build().fitted == 1
    assert "--keep-names" in (project.folder / "build.ninja").read_text()


@pytest.mark.slow
def test_the_meson_rule_builds(program: Path) -> None:
    tool = meson()
    lists = f"project('app', 'c')\n{block('meson')}".replace(
        "'-ffp-contract=off')", "'-ffp-contract=off', link_args: '-lm')"
    )
    (program / "meson.build").write_text(lists)
    for words in (["setup", "build"], ["compile", "-C", "build"]):
        done = run([*tool, *words], clean_environment(environment()), program)
        assert done.code == 0, done.text
    assert "digit 2 in 640 bytes" in run([str(program / "build/app")], clean_environment(None), program).text


def test_the_signature_is_the_functions() -> None:
    (signature,) = re.findall(r"```\n(stowplan_add_model.*?)```", MANUAL, re.DOTALL)
    commented = "".join(f"# {line}\n" for line in signature.splitlines())
    assert commented in FUNCTIONS


def test_every_command_of_the_manual_is_run_by_a_test() -> None:
    shown = re.findall(r"^\$ (.*)$", MANUAL, re.MULTILINE)
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests/integrations").rglob("test_*.py"))
    said = re.sub(r'["\[\],]', "", tests)
    assert shown
    for command in shown:
        words = command.replace("build-m4", "build").removeprefix("meson ")
        assert words in said, command
