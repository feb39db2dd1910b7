"""`stowplan accelerate` and `stowplan profile` as users run them: reports, requirements, traces, bad input."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

import litert_models

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits_int8.tflite"
NO_DRIVER = {"VK_DRIVER_FILES": "/no/such/driver.json", "VK_ICD_FILENAMES": "/no/such/driver.json"}
openvino = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs openvino==2026.3.1")


class Outcome(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str


def stowplan(*arguments: object, **environment: str) -> Outcome:
    import os

    command = [sys.executable, "-m", "stowplan", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def refused(outcome: Outcome, code: int, words: str) -> None:
    assert (outcome.code, outcome.err.count("\n")) == (code, 1), outcome
    assert outcome.err.startswith("Error: ")
    assert words in outcome.err, outcome.err


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    path = tmp_path / "partial.tflite"
    path.write_bytes(litert_models.through_int64())
    return path


def test_accelerate_tells_what_became_of_each_accelerator() -> None:
    code, out, err = stowplan("accelerate", DIGITS, "--on", "gpu,cpu", **NO_DRIVER)
    assert (code, err) == (0, "")
    assert "runs on cpu: 0 of" in out
    assert "no Vulkan driver was found" in out


def test_accelerate_as_json_has_the_same_facts() -> None:
    code, out, _ = stowplan("accelerate", DIGITS, "--on", "cpu,gpu", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["used"], document["fully"], document["asked"]) == ("cpu", False, ["cpu", "gpu"])
    assert [share["accelerator"] for share in document["shares"]] == ["cpu", "gpu"]
    assert document["measured"] is None


@pytest.mark.parametrize("require", ["full", "any", "gpu"])
def test_a_requirement_that_is_not_met_is_exit_1_with_the_report(require: str) -> None:
    code, out, err = stowplan("accelerate", DIGITS, "--on", "gpu,cpu", "--require", require, **NO_DRIVER)
    assert code == 1
    assert "runs on cpu" in out
    assert err.startswith(f"Error: --require {require}: 0 of ")
    outcome = stowplan("accelerate", DIGITS, "--on", "gpu,cpu", "--require", require, "--json", **NO_DRIVER)
    assert (outcome.code, json.loads(outcome.out)["error"]["code"], outcome.err) == (1, "requirement", "")


def test_a_requirement_of_the_cpu_is_met_by_it() -> None:
    assert stowplan("accelerate", DIGITS, "--on", "gpu,cpu", "--require", "cpu", **NO_DRIVER).code == 0


@openvino
def test_the_npu_s_path_is_measured_against_the_cpu() -> None:
    arguments = ("accelerate", DIGITS, "--on", "npu,cpu", "--device", "cpu", "--require", "full", "--runs", 5)
    code, out, err = stowplan(*arguments)
    assert (code, err) == (0, "")
    assert "runs on npu: fully accelerated" in out
    assert "measured   " in out and "on the CPU alone" in out
    document = json.loads(stowplan(*arguments, "--json").out)
    assert document["measured"]["accelerated_us"] > 0 < document["measured"]["cpu_us"]
    assert document["taken"] == document["operators"] > 1
    assert "measured" not in stowplan(*arguments, "--no-measure").out


@openvino
def test_a_model_compiled_ahead_of_time_is_written_and_runs(tmp_path: Path) -> None:
    path = tmp_path / "digits_lnl.tflite"
    code, out, _ = stowplan("accelerate", DIGITS, "--aot", "intel", "--device", "cpu", "--require", "full", "-o", path)
    assert code == 0
    assert f"wrote {path}" in out
    outcome = stowplan("accelerate", path, "--on", "npu", "--device", "cpu", "--require", "full", "--no-measure")
    assert outcome.code == 0, outcome
    document = json.loads(stowplan("accelerate", DIGITS, "--aot", "intel", "--json").out)
    assert document["taken"] == document["operators"] and document["file"] is None


@openvino
def test_a_model_is_compiled_ahead_of_time_once(tmp_path: Path) -> None:
    path, cache = tmp_path / "a.tflite", tmp_path / "cache"
    command = ("accelerate", DIGITS, "--aot", "intel", "--device", "cpu", "-o", path, "--cache-dir", cache, "--json")
    first = json.loads(stowplan(*command).out)
    data = path.read_bytes()
    second = json.loads(stowplan(*command).out)
    assert (first["cached"], second["cached"]) == (False, True)
    assert path.read_bytes() == data
    assert (second["taken"], second["operators"]) == (first["taken"], first["operators"])
    for option in ("--recache", "--no-cache"):
        assert json.loads(stowplan(*command, option).out)["cached"] is False
    other = ("accelerate", DIGITS, "--aot", "intel:PTL", *command[4:])
    assert json.loads(stowplan(*other).out)["cached"] is False


def test_profile_ranks_operators_and_writes_a_trace(tmp_path: Path, partial: Path) -> None:
    trace = tmp_path / "trace.json"
    code, out, err = stowplan("profile", partial, "--on", "cpu", "--runs", 20, "--each", "--trace", trace)
    assert (code, err) == (0, "")
    assert "recording takes up to 68.00 MiB" in out.splitlines()[0]
    assert "20 runs on cpu" in out and "CAST" in out and "operators in the order of a run" in out
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["name"] == "CAST" for event in events) == 40
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in events if event["ph"] == "X")
    for event in events:
        assert event["ph"] != "X" or event["args"]["start"] in ("measured", "added up")


def test_profile_as_json_has_totals_by_kind_and_by_operator(partial: Path) -> None:
    document = json.loads(stowplan("profile", partial, "--on", "cpu", "--runs", 10, "--json").out)
    casts = [total for total in document["kinds"] if total["name"] == "CAST"]
    assert [total["count"] for total in casts] == [20]
    assert [total["order"] for total in document["operators"]] == list(range(len(document["operators"])))
    assert document["recorded_run_us"] > 0 < document["run_us"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["accelerate", "absent.tflite"], 1, "absent.tflite: no such file"),
        (["accelerate", __file__], 1, "is no TFLite model"),
        (["accelerate", DIGITS, "--on", "tpu"], 2, "accelerators: no 'tpu'; known are cpu, gpu, npu"),
        (["accelerate", DIGITS, "--on", "cpu,"], 2, "--on cpu,: write accelerators with commas"),
        (["accelerate", DIGITS, "--on", "cpu", "--require", "npu"], 2, "--require npu: write full, any, or one of cpu"),
        (["accelerate", DIGITS, "--runs", "0"], 2, "--runs 0: give a number from 1"),
        (["accelerate", DIGITS, "-o", "x.tflite"], 2, "-o: only --aot makes a file"),
        (["accelerate", DIGITS, "--aot", "acme"], 2, "--aot acme: no such vendor"),
        (["accelerate", DIGITS, "-b", "c"], 2, "-b c: runs plans, not models"),
        (["accelerate", DIGITS, "-b", "none"], 1, 'no backend "none"'),
        (["accelerate", DIGITS, "--on", "cpu", "--signature", "nobody"], 2, "no signature 'nobody'"),
        (["accelerate", DIGITS, "--on", "cpu", "--precision", "int4"], 2, "precision: no 'int4'"),
        (["accelerate", DIGITS, "--on", "cpu", "--threads", "0"], 2, "threads is 0"),
        (["profile", DIGITS, "--trace", "trace.txt"], 2, "--trace trace.txt: write a name that ends in .json"),
        (["profile", DIGITS, "--trace", "no/such/folder.json"], 1, "does not exist"),
        (["profile", DIGITS, "--warm-up", "0"], 2, "--warm-up 0"),
        (["profile", DIGITS, "--profiler", "none"], 1, 'no profiler "none"'),
    ],
)
def test_bad_input_is_one_line_and_the_right_exit_code(arguments: list[object], code: int, words: str) -> None:
    refused(stowplan(*arguments), code, words)


def test_a_plan_is_no_model_and_the_litert_backend_runs_no_plan(tmp_path: Path) -> None:
    plan = tmp_path / "d.stow"
    assert stowplan("compile", DIGITS, "-m", "4K", "-o", plan).code == 0
    refused(stowplan("accelerate", plan), 1, "is no TFLite model")
    sample = DIGITS.parent / "sample.npy"
    refused(stowplan("run", plan, "-b", "litert", "--input", sample), 1, "backend litert runs models, not plans")


def test_without_the_library_the_commands_say_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['ai_edge_litert'] = None\n")
    outcome = stowplan("accelerate", DIGITS, PYTHONPATH=str(tmp_path))
    refused(outcome, 1, "backend litert does not work on this machine: LiteRT is not installed here")
    assert "pip install" in outcome.err


def test_the_short_name_reaches_the_plugin() -> None:
    from stowplan import litert
    from stowplan_backend_litert import CompiledModel

    assert litert.CompiledModel is CompiledModel
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = litert.nothing
