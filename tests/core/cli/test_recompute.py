"""`--recompute F`: what it takes and refuses, and that report, `--json`, generated C and the cache know of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stowplan.native.toolchain import find_compiler

FACTOR = ("--recompute", "1.5", "--stream-input", "image")
BUDGET = "440"
"""Between what the digits model needs with streamed input when nothing is computed twice, 528 bytes, and 336."""


def test_the_minima_say_how_much_arithmetic_they_take(stowplan, digits: Path) -> None:
    found = {}
    for factor in ("1.0", "1.5"):
        out = stowplan("analyze", digits, "--minimum", "--time-limit", "2", "--recompute", factor, "--json").out
        found[factor] = json.loads(out)["minimum"]["streamed_input"]
    assert found["1.0"]["recompute"] == 1.0
    assert 1.0 < found["1.5"]["recompute"] <= 1.5
    assert found["1.5"]["proven"]
    assert found["1.5"]["lower_bound_bytes"] <= found["1.5"]["bytes"] < found["1.0"]["bytes"] * 0.8
    text = stowplan("analyze", digits, "--minimum", "--time-limit", "2", "--recompute", "1.5").out
    assert f"{found['1.5']['recompute']:.2f} times the arithmetic" in text


def test_the_curve_has_plans_with_and_without_more_arithmetic(stowplan, digits: Path) -> None:
    asked = ("analyze", digits, "--pareto", "--time-limit", "1", "--recompute", "1.5")
    points = json.loads(stowplan(*asked, "--json").out)["pareto"]
    once = [point for point in points if point["recompute"] == 1.0]
    again = [point for point in points if point["recompute"] > 1.0]
    assert min(p["fast_bytes"] for p in again) < max(p["fast_bytes"] for p in once)
    for a in points:
        assert not any(
            b is not a
            and b["fast_bytes"] <= a["fast_bytes"]
            and b["recompute"] <= a["recompute"]
            and b["slow_read_bytes"] + b["slow_written_bytes"] <= a["slow_read_bytes"] + a["slow_written_bytes"]
            for b in points
        )
    assert "arithmetic" in stowplan(*asked).out


@pytest.mark.parametrize("command", ["compile", "analyze"])
@pytest.mark.parametrize("factor", ["0.9", "101", "nan", "much"])
def test_what_is_no_factor_is_refused(stowplan, digits: Path, command: str, factor: str) -> None:
    done = stowplan(command, digits, "-m", "4K", "--recompute", factor)
    assert (done.code, done.out) == (2, "")
    assert f"--recompute {factor}: write a factor from 1 (nothing twice) to 100, such as 1.1" in done.err


def test_a_budget_that_needs_more_arithmetic_is_met_and_said(stowplan, digits: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.stow"
    assert stowplan("compile", digits, "-m", BUDGET, "--stream-input", "image", "-o", plan).code == 1
    done = stowplan("compile", digits, "-m", BUDGET, *FACTOR, "-o", plan)
    assert done.code == 0, done.err
    assert "arithmetic" in done.out
    assert "times over" in done.out
    facts = json.loads(stowplan("compile", digits, "-m", BUDGET, *FACTOR, "-o", plan, "--json").out)
    assert 1.0 < facts["recompute"] <= 1.5
    assert facts["inputs"][0]["turns"] > 1


def test_generated_c_reads_its_input_again_from_a_file_but_not_from_a_pipe(
    stowplan, digits: Path, tmp_path: Path
) -> None:
    compiler = find_compiler().command
    plan, source, program = tmp_path / "plan.stow", tmp_path / "net.c", tmp_path / "net"
    assert stowplan("compile", digits, "-m", BUDGET, *FACTOR, "-o", plan).code == 0
    assert stowplan("codegen", plan, "--format", "app", "-o", source).code == 0
    subprocess.run(
        [*compiler, "-std=c11", "-O1", "-ffp-contract=off", "-o", str(program), str(source), "-lm"], check=True
    )
    image = tmp_path / "image.bin"
    image.write_bytes(bytes(range(64)))
    whole = tmp_path / "whole.stow"
    assert stowplan("compile", digits, "-m", "64K", "-o", whole).code == 0
    assert stowplan("codegen", whole, "--format", "app", "-o", source).code == 0
    reference = tmp_path / "reference"
    subprocess.run(
        [*compiler, "-std=c11", "-O1", "-ffp-contract=off", "-o", str(reference), str(source), "-lm"], check=True
    )
    expected = subprocess.run([reference, image], capture_output=True, text=True, check=True).stdout
    assert subprocess.run([program, image], capture_output=True, text=True, check=True).stdout == expected
    piped = subprocess.run([program], input=image.read_bytes(), capture_output=True, check=False)
    assert piped.returncode == 1
    assert b"times over, so it must be a file" in piped.stderr
    image.write_bytes(bytes(60))
    short = subprocess.run([program, image], capture_output=True, text=True, check=False)
    assert short.returncode == 1
    assert "ends before the 64 bytes" in short.stderr
