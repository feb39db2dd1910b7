"""SVDF of floats: equal to TFLite Micro run after run, and with int8 weights to the same network of floats."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from oracles import Array, open_litert_reference, open_tflm
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import UnsupportedError
from stowplan_backend_c import CBackend
from tflite_builder import ModelBuilder
from tflite_import import import_bytes

RUNS = 6
Sizes = tuple[int, int, int, int, int]
"""Batches, features, units, rank and memory."""
SIZES: list[Sizes] = [(1, 5, 3, 1, 4), (1, 8, 4, 2, 7), (2, 3, 2, 3, 2), (1, 4, 6, 1, 1)]


def svdf(sizes: Sizes, biased: bool = True, relu: bool = False, integers: bool = False, **changed: Any) -> bytes:
    """Return a model of one SVDF; with `integers`, the same weights as int8."""
    batches, features, units, rank, memory = sizes
    random, model, filters = np.random.default_rng(sum(sizes)), ModelBuilder(), units * rank
    x = model.input("x", (batches, features), "float32")
    inputs = [x]
    for name, shape in (("feature", (filters, features)), ("time", (filters, memory))):
        values = random.integers(-127, 128, shape).astype(np.int8)
        scaled = {"scale": 1 / 64} if integers else {}
        inputs.append(model.constant(name, values if integers else values.astype(np.float32) / 64, **scaled))
    bias = changed.get("bias", random.normal(size=units).astype(np.float32))
    inputs.append(model.constant("bias", bias) if biased else -1)
    inputs.append(
        model.tensor("memory", changed.get("state", (batches, filters * memory)), "float32", is_variable=True)
    )
    y = model.tensor("y", (batches, units), "float32")
    options = dict(rank=changed.get("rank", rank), fused_activation_function="RELU" if relu else "NONE")
    model.operator("SVDF", inputs, [y], options="SVDFOptions", **options)
    return model.outputs(y).build()


def runs(model: bytes, inputs: Sequence[Array], folder: Path) -> list[Array]:
    path = folder / "model.tflite"
    path.write_bytes(model)
    plan = compile_model(CompileRequest(model_path=path)).data
    with closing(CBackend().compile(plan)) as compiled:
        return [np.frombuffer(compiled.run([array.tobytes()])[0], np.float32) for array in inputs]


def noise(sizes: Sizes) -> list[Array]:
    return [np.random.default_rng(run).normal(size=sizes[:2]).astype(np.float32) for run in range(RUNS)]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_floats_equal_the_runtimes_run_after_run(sizes: Sizes, biased: bool, relu: bool, tmp_path: Path) -> None:
    model, inputs = svdf(sizes, biased, relu), noise(sizes)
    truth = open_tflm(model) if biased else open_litert_reference(model)  # TFLite Micro crashes without biases
    for got, array in zip(runs(model, inputs, tmp_path), inputs, strict=True):
        np.testing.assert_allclose(got, truth([array])[0].ravel(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", SIZES)
def test_int8_weights_mean_their_real_numbers(sizes: Sizes, tmp_path: Path) -> None:
    inputs = noise(sizes)
    floats, hybrid = (runs(svdf(sizes, integers=flag), inputs, tmp_path) for flag in (False, True))
    for one, other in zip(floats, hybrid, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rank": 2}, "weights of shapes 3x5 and 3x4 of rank 2"),
        ({"state": (1, 13)}, "a memory of shape 1x13 for 3 filters of 4"),
        ({"bias": np.ones(3, np.int32)}, 'biases "bias"; a constant of float32 for each output would be supported'),
        ({"bias": np.ones(4, np.float32)}, 'biases "bias"; a constant of float32 for each output would be supported'),
    ],
)
def test_what_does_not_go_together_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(svdf(SIZES[0], **changed))
    assert caught.value.reasons[0].endswith(f"): {why}")
