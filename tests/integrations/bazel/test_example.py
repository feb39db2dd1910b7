"""The example project under Bazel: the command's bytes, nothing done twice, and the board in QEMU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bazel_workspace import Workspace
from oracles import run_tflm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("StowplanCompile", "StowplanCodegen", "StowplanReport")


def command(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "stowplan", *words], cwd=folder, check=True, capture_output=True)


def test_the_example_builds_and_its_tests_pass(workspace: Workspace) -> None:
    build = workspace.tested("//...")
    assert "//:networks_test" in build.text
    assert build.text.count("PASSED") == 2


def test_a_build_without_changes_runs_no_action(workspace: Workspace) -> None:
    workspace.built("//...")
    assert workspace.built("//...").ran == 0


def test_a_model_that_was_only_touched_runs_no_action(workspace: Workspace) -> None:
    workspace.built("//:digits")
    os.utime(workspace.folder / "models" / "digits_int8.tflite")
    assert workspace.built("//:digits").ran == 0


def test_plan_source_and_header_are_the_bytes_that_the_command_writes(
    workspace: Workspace, digits: Path, tmp_path: Path
) -> None:
    workspace.built("//:digits")
    shutil.copy(digits, tmp_path)
    command(tmp_path, "compile", "digits_int8.tflite", "-m", "800", "-o", "digits.stow")
    command(tmp_path, "codegen", "digits.stow", "--format", "core", "-o", "digits.c")
    for name in ("digits.stow", "digits.c", "digits.h"):
        assert (workspace.bin / name).read_bytes() == (tmp_path / name).read_bytes()


def test_workers_sandboxes_and_plain_processes_write_the_same_bytes(workspace: Workspace) -> None:
    made = set()
    for strategy in ("worker", "sandboxed", "local"):
        # A flash that never binds is another action with the same result, so that no cache answers.
        options = [f"--strategy={kind}={strategy}" for kind in KINDS]
        flash = {"worker": "1M", "sandboxed": "2M", "local": "3M"}[strategy]
        build = workspace.built("//:digits", f"--@rules_stowplan//stowplan:flash={flash}", *options)
        where = {"worker": "worker", "sandboxed": "linux-sandbox", "local": "local"}[strategy]
        assert build.processes.get(where, 0) >= 1, build.text
        made.add(b"".join((workspace.bin / f"digits.{suffix}").read_bytes() for suffix in ("stow", "c", "h")))
    assert len(made) == 1


def test_output_groups_are_the_plan_alone_the_source_and_a_report(workspace: Workspace) -> None:
    build = workspace.built("//:digits", "--output_groups=report")
    assert "bazel-bin/digits.txt" in build.text
    assert "fast memory   640 B" in (workspace.bin / "digits.txt").read_text("utf-8")
    assert "bazel-bin/digits.stow" in workspace.built("//:digits", "--output_groups=plan").text
    source = workspace.built("//:digits", "--output_groups=source").text
    assert "bazel-bin/digits.c" in source and "bazel-bin/digits.stow" not in source


def test_weights_and_functions_of_their_own_give_the_same_digit(workspace: Workspace) -> None:
    apart = workspace.folder / "apart"
    apart.mkdir()
    for name in ("recognise.c", "sample.h", "models/digits_int8.tflite"):
        shutil.copy(workspace.folder / name, apart)
    (apart / "BUILD.bazel").write_text(
        'load("@rules_cc//cc:cc_binary.bzl", "cc_binary")\n'
        'load("@rules_stowplan//stowplan:defs.bzl", "stowplan_model")\n'
        'stowplan_model(name = "digits", model = "digits_int8.tflite", weights = "c", specialize = "hot")\n'
        'cc_binary(name = "recognise", srcs = ["recognise.c", "sample.h"], deps = [":digits"])\n'
    )
    workspace.built("//apart:recognise", "//:recognise", "//apart:digits")
    assert (workspace.bin / "apart" / "digits_weights.c").exists()
    said = [subprocess.check_output([workspace.bin / name]) for name in ("recognise", "apart/recognise")]
    assert said[0] == said[1]


def test_the_program_says_what_tflite_micro_says(workspace: Workspace, digits: Path) -> None:
    (output,) = run_tflm(digits.read_bytes(), [np.load(digits.with_name("sample.npy"))])
    workspace.built("//:recognise")
    said = subprocess.run([workspace.bin / "recognise"], capture_output=True, text=True, check=True).stdout
    assert int(said) == int(output.argmax())
    sample = (workspace.folder / "sample.h").read_text("utf-8")
    assert f"sample_probabilities[10] = {{{', '.join(map(str, output.ravel().tolist()))}}};" in sample


def fresh_actions(workspace: Workspace, name: str, tags: str = "[]") -> list[dict]:
    """Return what is logged of compiling a model that no cache has: its flash and its name in C are its own."""
    attributes = f'name = "{name}", flash = "1M", tags = {tags}, memory = ["{1000 + len(name)}"]'
    workspace.add(f'stowplan_model(model = "models/digits_int8.tflite", {attributes})')
    log = workspace.log(f"//:{name}", "--noexperimental_allow_tags_propagation", "--strategy=StowplanCompile=sandboxed")
    found = [entry for entry in log if entry["mnemonic"] in KINDS]
    assert {entry["mnemonic"] for entry in found} == {"StowplanCompile", "StowplanCodegen"}
    return found


def test_actions_see_no_environment_no_network_and_no_path_of_this_machine(workspace: Workspace) -> None:
    for entry in fresh_actions(workspace, "logged"):
        assert entry.get("environmentVariables", []) == []
        words = entry["commandArgs"] + [file["path"] for file in entry["inputs"]]
        assert not [word for word in words if str(workspace.folder) in word or word.startswith("/")]


def test_every_action_says_that_it_needs_no_network_and_may_be_cached_across_paths(workspace: Workspace) -> None:
    text = workspace.run("aquery", 'mnemonic("Stowplan.*", //:digits)').text
    told = re.findall(r"ExecutionInfo: \{(.*)\}", text)
    assert len(told) >= 3
    for words in told:
        assert "block-network: 1" in words and "supports-path-mapping: 1" in words


def test_tags_that_forbid_remote_work_reach_the_actions(workspace: Workspace) -> None:
    for name, tags, wanted in (("here_only", '["no-remote", "no-cache"]', False), ("anywhere", "[]", True)):
        entries = fresh_actions(workspace, name, tags)
        assert [entry.get("remotable", False) for entry in entries] == [wanted] * 2
        assert [entry.get("cacheable", False) for entry in entries] == [wanted] * 2


def test_the_commands_and_the_targets_of_the_page_work(workspace: Workspace) -> None:
    page = (ROOT / "docs" / "bazel.md").read_text("utf-8")
    block = re.search(r"```starlark\n(load.*?)```", page, re.DOTALL)
    assert block is not None
    paged = workspace.folder / "paged"
    paged.mkdir()
    (paged / "BUILD.bazel").write_text(block[1])
    for name in ("recognise.c", "sample.h", "models/digits_int8.tflite"):
        (paged / name).parent.mkdir(exist_ok=True)
        shutil.copy(workspace.folder / name, paged / name)
    workspace.built("//paged:recognise")
    commands = re.findall(r"^\$ bazel (.*?)(?: *#.*)?$", page, re.MULTILINE)
    assert len(commands) >= 5
    for words in map(str.split, commands):
        if "--config=cortex_m3" not in words:  # see below
            build = workspace.run(*words)
            assert build.code == 0, build.text


needs_board = pytest.mark.skipif(
    not (shutil.which("qemu-system-arm") and Path("/usr/bin/arm-none-eabi-gcc").exists()),
    reason="needs qemu-system-arm and Debian's gcc-arm-none-eabi with newlib",
)


@needs_board
def test_the_platform_alone_chooses_memories_and_compiler_and_the_test_passes_on_a_cortex_m3(
    workspace: Workspace,
) -> None:
    build = workspace.tested("--config=cortex_m3", "//...")
    assert build.text.count("PASSED") == 2
    program = subprocess.check_output(["arm-none-eabi-readelf", "-A", workspace.bin / "networks_test"], text=True)
    assert 'Tag_CPU_name: "Cortex-M3"' in program or "Tag_CPU_arch: v7" in program
    workspace.built("//:digits", "--config=cortex_m3", "--output_groups=report")
    assert "fast memory   640 B" in (workspace.bin / "digits.txt").read_text("utf-8")


@needs_board
def test_a_wrong_byte_on_the_board_fails_the_test(workspace: Workspace) -> None:
    sample = workspace.folder / "sample.h"
    right = sample.read_text("utf-8")
    sample.write_text(right.replace("{-128, -128, 127", "{-128, -127, 127"), "utf-8")
    build = workspace.run("test", "--config=cortex_m3", "//:networks_test")
    sample.write_text(right, "utf-8")
    assert build.code == 3
    assert "whole: other bytes" in build.text
