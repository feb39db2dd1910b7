"""Profiles of what LLVM made: the same bytes as without, every operator where it belongs, times that add up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_sources import shared
from oracles import open_tflm, random_inputs
from stowplan.errors import RuntimeFailure, UnsupportedError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import LoadOptions
from stowplan_backend_mlir import Context, MlirBackend, MlirProfiler, compile, jit  # noqa: A004
from tflite_builder import ModelBuilder


def loaded(path: Path) -> Any:
    return MlirBackend().load_model(Model.read(path), LoadOptions(profile=True))


NAME = 'middle "quoted" \\ Größe; ' + "long" * 60


def slow_and_quick() -> bytes:
    """A convolution of 37 million products between two sums of 4096 elements."""
    model, rng = ModelBuilder(), np.random.default_rng(1)
    x = model.input("x", (1, 16, 16, 16), "float32")
    first, middle, last = (model.tensor(name, (1, 16, 16, 16), "float32") for name in ("first", NAME, "last"))
    w = model.constant("w", rng.standard_normal((16, 9, 9, 16)).astype(np.float32))
    b = model.constant("b", np.zeros(16, np.float32))
    model.operator("ADD", [x, model.constant("one", np.ones((1, 1, 1, 16), np.float32))], [first])
    model.operator("CONV_2D", [first, w, b], [middle], padding="SAME")
    model.operator("ADD", [middle, x], [last])
    return model.outputs(last).build()


def test_recorded_runs_give_the_bytes_of_tflite_micro(digits: Path) -> None:
    model = loaded(digits)
    recording = MlirProfiler().attach(model)
    recording.resume()
    for seed in range(5):
        inputs = random_inputs(digits.read_bytes(), seed)
        found = model.run([one.tobytes() for one in inputs])
        assert found == [one.tobytes() for one in open_tflm(digits.read_bytes())(inputs)]
    model.close()
    totals = recording.by_operator()
    assert [total.name for total in totals] == ["conv", "depthwise", "pointwise", "pool", "logits", "probabilities"]
    assert [total.index for total in totals] == [0, 1, 2, 3, 5, 6]  # a reshape is no code
    assert {total.count for total in totals} == {5}
    assert recording.by_kind()[0].name == "CONV_2D" and recording.by_kind()[0].count == 10


def test_the_operator_that_computes_most_takes_most(tmp_path: Path) -> None:
    path = tmp_path / "slow.tflite"
    path.write_bytes(slow_and_quick())
    model = loaded(path)
    recording = MlirProfiler().attach(model)
    recording.resume()
    spent = sum(model.run_with_metrics([bytes(port.size_bytes) for port in model.inputs])[1].duration_ns
                for _ in range(5))  # fmt: skip
    model.close()
    by_name = {total.name: total.duration_ns for total in recording.by_operator()}
    assert by_name[NAME] > 0.9 * spent
    assert sum(by_name.values()) == pytest.approx(spent, rel=0.01)
    starts = [event.start_ns for event in recording.events(0)]
    assert starts == sorted(starts) and starts[0] == 0 and recording.pending() == len(starts)


def test_every_operator_with_code_is_in_the_profile_of_a_real_model() -> None:
    model = loaded(shared("kws", "mlperf_kws_dscnn_int8.tflite"))
    recording = MlirProfiler().attach(model)
    recording.resume()
    model.run([bytes(port.size_bytes) for port in model.inputs])
    model.close()
    kinds = {total.name: total.count for total in recording.by_kind()}
    assert (kinds["CONV_2D"], kinds["DEPTHWISE_CONV_2D"], kinds["FULLY_CONNECTED"]) == (5, 4, 1)


def test_code_for_a_profile_is_other_code_of_the_same_structure_and_kept_nowhere(
    digits: Path, context: Context
) -> None:
    from stowplan.cache.layers import Memory

    cache = Memory()
    plain = compile(digits, cache=cache, context=context)
    timed = compile(digits, cache=cache, context=context, profile=True)
    assert (timed.cache, timed.structure, plain.parts) == ("off", plain.structure, ())
    assert timed.bytecode != plain.bytecode and len(timed.parts) == 6
    with jit(timed, context=context) as code:
        code.run([bytes(64)])
        ticks = code.ticks()
    assert len(ticks) == 7 and ticks == sorted(ticks) and ticks[0] > 0


def test_what_cannot_be_recorded_is_refused_in_one_line(digits: Path, context: Context) -> None:
    model: Any = MlirBackend().load_model(Model.read(digits), LoadOptions())
    model.close()
    for given, message in ((object(), "records models of backend mlir, not a object"),
                           (model, "was not compiled for a profile: load it with profile=True")):  # fmt: skip
        with pytest.raises(RuntimeFailure) as err:
            MlirProfiler().attach(given)
        assert message in str(err.value)
    moved = ModelBuilder()
    x, y = moved.input("x", (1, 4), "float32"), moved.tensor("y", (4,), "float32")
    moved.operator("RESHAPE", [x, moved.constant("shape", np.int32([4]))], [y])
    with pytest.raises(UnsupportedError, match="nothing of it can be told apart for a profile"):
        compile(moved.outputs(y).build(), cache="off", context=context, profile=True)


def test_the_command_shows_kinds_operators_and_a_trace(digits: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    words = ["profile", str(digits), "-b", "mlir", "--runs", "20", "--each", "--json", "--trace", str(trace)]
    done = subprocess.run([sys.executable, "-m", "stowplan", *words], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["on"], len(found["operators"]), found["kinds"][0]["name"]) == ("cpu", 6, "CONV_2D")
    assert found["recorded_run_us"] > 0 and len(json.loads(trace.read_text())["traceEvents"]) == 121
