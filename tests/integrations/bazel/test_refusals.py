"""What Bazel shows of a model that is refused: the command's words and code, at the target, and no file left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bazel_workspace import Workspace

pytestmark = pytest.mark.slow


def target(name: str, **attributes: str) -> str:
    words = {"model": '"models/digits_int8.tflite"', **attributes}
    return f"stowplan_model(name = {name!r}, {', '.join(f'{key} = {value}' for key, value in words.items())})"


def of_command(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("strategy", ["worker", "sandboxed"])
def test_a_model_that_does_not_fit_is_refused_in_the_commands_words(workspace: Workspace, strategy: str) -> None:
    name = f"too_big_{strategy}"
    workspace.add(target(name, memory='["100"]'))
    build = workspace.run("build", f"//:{name}", f"--strategy=StowplanCompile={strategy}")
    code, line = of_command(workspace.folder, "compile", "models/digits_int8.tflite", "-m", "100", "-o", "x.stow")
    assert (build.code, code) == (1, 1)
    assert line in build.text
    assert "BUILD.bazel" in build.text
    assert "(Exit 1)" in build.text
    assert not (workspace.bin / f"{name}.stow").exists()


def test_a_failed_build_leaves_no_output_of_an_earlier_one(workspace: Workspace) -> None:
    workspace.add(target("shrinking", memory='["800"]'))
    workspace.built("//:shrinking")
    assert (workspace.bin / "shrinking.stow").exists()
    build_file = workspace.folder / "BUILD.bazel"
    build_file.write_text(
        build_file.read_text("utf-8").replace(
            target("shrinking", memory='["800"]'), target("shrinking", memory='["99"]')
        ),
        "utf-8",
    )
    assert workspace.run("build", "//:shrinking").code == 1
    assert not (workspace.bin / "shrinking.stow").exists()


@pytest.mark.parametrize(
    ("attributes", "words", "code"),
    [
        ({"memory": '["many"]'}, ["-m", "many"], 2),
        ({"compress": '"zip"'}, ["-m", "800", "-c", "zip"], 2),
        ({"compile_options": '["--frobnicate"]'}, ["-m", "800", "--frobnicate"], 2),
        ({"stream_inputs": '["sound"]'}, ["-m", "800", "--stream-input", "sound"], 2),
        ({"flash": '"1K"'}, ["-m", "800", "-f", "1K"], 1),
    ],
)
def test_a_wrong_option_has_the_commands_code_and_words(
    workspace: Workspace, attributes: dict[str, str], words: list[str], code: int
) -> None:
    name = f"wrong_{next(iter(attributes))}"
    workspace.add(target(name, **attributes))
    build = workspace.run("build", f"//:{name}")
    found, line = of_command(
        workspace.folder, "compile", "models/digits_int8.tflite", "-o", "x.stow", "--no-cache", *words
    )
    assert found == code
    assert line in build.text
    assert f"(Exit {code})" in build.text


def test_a_file_that_is_no_model_is_refused_in_the_commands_words(workspace: Workspace) -> None:
    (workspace.folder / "models" / "broken.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    workspace.add(target("broken", model='"models/broken.tflite"'))
    build = workspace.run("build", "//:broken")
    code, line = of_command(workspace.folder, "compile", "models/broken.tflite", "-m", "800", "-o", "x.stow")
    assert (build.code, code) == (1, 1)
    assert line in build.text


def test_a_model_that_is_not_there_is_named(workspace: Workspace) -> None:
    workspace.add(target("absent", model='"models/absent.tflite"'))
    build = workspace.run("build", "//:absent")
    assert build.code == 1
    assert "models/absent.tflite" in build.text


def test_a_name_that_is_no_name_in_c_is_refused(workspace: Workspace) -> None:
    workspace.add(target("misnamed", c_name='"2nd"'))
    build = workspace.run("build", "//:misnamed")
    assert build.code == 1
    assert "--name 2nd: is no C identifier" in build.text


def test_a_budget_test_fails_in_the_commands_words(workspace: Workspace) -> None:
    workspace.add('stowplan_budget_test(name = "tight_test", size = "small", model = ":digits", memory = ["600"])')
    build = workspace.run("test", "//:tight_test")
    assert build.code == 3
    assert "digits.stow: fast memory needs 640 B, 600 B allowed (40 B over)" in build.text


@pytest.mark.parametrize(
    ("targets", "line"),
    [
        (
            'stowplan_library(name = "none_at_all", models = [])',
            "//:none_at_all: models: is empty",
        ),
        (
            target("twin", c_name='"digits"') + "\n"
            'stowplan_library(name = "twins", models = [":digits", ":twin"])',
            "//:twins: //:digits and //:twin would both be called digits in C: give one of them a c_name",
        ),
        (
            'stowplan_budget_test(name = "idle_test", model = ":digits")',
            "//:idle_test: nothing to check: set memory, flash or both",
        ),
    ],
)  # fmt: skip
def test_rules_that_make_no_sense_say_so(workspace: Workspace, targets: str, line: str) -> None:
    build_file = workspace.folder / "BUILD.bazel"
    before = build_file.read_text("utf-8")
    workspace.add(targets)
    build = workspace.run("build", "//:all", "--nobuild")
    build_file.write_text(before, "utf-8")
    assert build.code == 1
    assert line in build.text


def test_a_model_without_a_memory_says_where_to_set_one(make_workspace, disk_cache: str) -> None:
    workspace: Workspace = make_workspace(disk_cache)
    path = workspace.folder / "platforms" / "BUILD.bazel"
    path.write_text(path.read_text("utf-8").replace('memory = ["800"]', "memory = []"), "utf-8")
    build = workspace.run("build", "//:digits", "--nobuild")
    assert build.code == 1
    assert '//:digits: no memory to fit into: set memory = ["32K"]' in build.text
    assert workspace.run("build", "//:digits", "--nobuild", "--@rules_stowplan//stowplan:memory=1K+2K").code == 0


def test_a_worker_protocol_that_does_not_exist_is_refused(workspace: Workspace) -> None:
    build = workspace.run("build", "//:digits", "--nobuild", "--@rules_stowplan//stowplan:worker_protocol=xml")
    assert build.code == 1
    assert 'is "xml"; choose proto or json' in build.text


@pytest.mark.parametrize(
    ("python", "line"),
    [
        ("no-such-python", "stowplan: there is no interpreter no-such-python: set python of stowplan_installed"),
        ("/usr/bin/python3", "has no stowplan: install it there, or name another interpreter"),
    ],
)
def test_an_interpreter_without_stowplan_is_refused(make_workspace, python: str, line: str) -> None:
    if python.startswith("/") and not Path(python).exists():
        pytest.skip(f"needs {python}, without stowplan")
    workspace: Workspace = make_workspace(python=python)
    build = workspace.run("build", "//:digits", "--nobuild")
    assert build.code != 0
    assert line in build.text
