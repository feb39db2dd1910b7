"""`--stream-input`: what it takes and refuses, what the report and `--json` say, and that `run` and the cache know."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stowplan.native.toolchain import find_compiler

INPUT = "image"


def refused(outcome, code: int, *words: str) -> None:
    """Assert that a command refused in one line that says `words`."""
    assert (outcome.code, outcome.err.count("\n")) == (code, 1), outcome
    for word in words:
        assert word in outcome.err


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def streamed(stowplan, digits: Path) -> Path:
    """The digits model with its input streamed."""
    plan = digits.parent / "streamed.stow"
    assert stowplan("compile", digits, "-m", "2K", "--stream-input", INPUT, "-o", plan).code == 0
    return plan


@pytest.mark.parametrize("command", ["compile", "analyze"])
def test_a_name_that_is_no_input_is_a_usage_error_that_lists_the_inputs(stowplan, digits, command) -> None:
    for name in ("nobody", "", "image2"):
        refused(
            stowplan(command, digits, "-m", "4K", "--stream-input", name), 2,
            f"--stream-input {name}: is no input of the model; its inputs are image",
        )  # fmt: skip
    twice = stowplan(command, digits, "-m", "4K", "--stream-input", INPUT, "--stream-input", INPUT)
    refused(twice, 2, "--stream-input image: is given twice")
    assert files(digits.parent) == {"digits.tflite"}


def test_a_scheduler_of_whole_tensors_refuses(stowplan, digits) -> None:
    outcome = stowplan("compile", digits, "-m", "4K", "--scheduler", "greedy", "--stream-input", INPUT)
    refused(outcome, 2, "scheduler greedy keeps whole tensors", "--scheduler stream")
    assert files(digits.parent) == {"digits.tflite"}


@pytest.mark.parametrize("command", ["compile", "analyze"])
def test_the_report_marks_the_input_and_says_how_it_is_cut(stowplan, digits, command) -> None:
    done = stowplan(command, digits, "-m", "2K", "--stream-input", INPUT)
    assert (done.code, done.err) == (0, "")
    (line,) = [line for line in done.out.splitlines() if line.split()[:1] == ["input"]]
    assert line.split()[1:] == f"{INPUT} 1x8x8x1 int8, streamed: 8 rows of 8 B".split()
    assert "equal to the untiled schedule" in done.out
    report = json.loads(stowplan(command, digits, "-m", "2K", "--stream-input", INPUT, "--json").out)
    (port,) = report["inputs"]
    assert (port["streamed"], port["rows"], port["row_bytes"]) == (True, 8, 8)
    assert not report["outputs"][0]["streamed"]


def test_a_refused_model_is_reported_with_its_streamed_input(stowplan, digits) -> None:
    done = stowplan("compile", digits, "-m", "64", "--stream-input", INPUT)
    assert done.code == 1
    assert "streamed: 8 rows of 8 B" in done.out


def test_inspect_names_the_streamed_input(stowplan, streamed: Path) -> None:
    assert "inputs streamed" in stowplan("inspect", streamed).out
    assert "streamed: 8 rows of 8 B" in stowplan("inspect", streamed).out
    assert "receive" in stowplan("inspect", "-v", streamed).out
    document = json.loads(stowplan("inspect", streamed, "--json").out)
    assert document["flags"] == ["proven", "streamed"]
    assert document["inputs"][0]["row_bytes"] == 8
    assert "receive() 8 units" in stowplan("inspect", "--text", streamed).out


def test_run_gives_what_it_gives_for_the_plan_with_the_whole_input(stowplan, digits, sample, streamed: Path) -> None:
    whole = digits.parent / "whole.stow"
    stowplan("compile", digits, "-m", "2K", "-o", whole)
    outputs = [json.loads(stowplan("run", p, "--input", sample, "--json").out)["outputs"] for p in (whole, streamed)]
    assert outputs[0] == outputs[1]


def test_generated_code_gives_what_run_gives(stowplan, sample, streamed: Path) -> None:
    source, data = streamed.with_suffix(".c"), streamed.with_suffix(".bin")
    assert stowplan("codegen", streamed, "--format", "app", "--name", "net", "-o", source).code == 0
    program = streamed.parent / "net"
    subprocess.run([*find_compiler().command, "-std=c11", "-ffp-contract=off", source, "-o", program], check=True)
    stowplan("run", streamed, "--input", sample, "--output", data)
    image = sample.read_bytes()[-64:]
    for arguments, given in ([], image), ([str(_written(streamed.with_suffix(".in"), image))], b""):
        done = subprocess.run([program, "--raw", *arguments], input=given, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, data.read_bytes())


def test_the_cache_tells_a_streamed_input_from_a_whole_one(stowplan, digits, monkeypatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(digits.parent / "cache"))
    plan = digits.parent / "cached.stow"

    def compiled(*more: str) -> tuple[str, bytes]:
        done = stowplan("compile", digits, "-m", "2K", "-o", plan, "--json", *more)
        return json.loads(done.out)["cache"]["status"], plan.read_bytes()

    first, whole = compiled()
    second, streamed = compiled("--stream-input", INPUT)
    assert (first, second) == ("miss", "miss")
    assert whole != streamed
    assert compiled("--stream-input", INPUT)[1] == streamed
    assert compiled()[1] == whole


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
