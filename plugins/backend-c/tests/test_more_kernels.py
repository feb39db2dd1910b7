"""The kernels beyond a plain CNN's, against the runtimes that decide: TFLite Micro, else LiteRT's reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from every_other_kernel import FAMILIES
from more_operator_models import COMPUTED, FLOATS, GATES, INT16, MOVES, int16_model, of_every_number
from operator_models import Sampler
from oracles import random_inputs, run_litert_reference, run_tflm
from scattered import run_scattered, run_whole
from tflite_builder import ModelBuilder

MODELS = 12
"""Random models of each operator and dtype."""
CLOSE = 2e-5
"""Of the largest output: functions are approximated here and there, each within a few units in the last place."""


PADS_WITH_BYTES = frozenset({"space_to_batch_nd"})
"""Where TFLite Micro adds bytes of 0 to int8 images, which mean anything but 0; LiteRT adds zero points, as we do."""


def truth(kind: str, model: bytes, inputs: Sequence[Any]) -> list[Any]:
    if kind in PADS_WITH_BYTES:
        return run_litert_reference(model, inputs)
    try:
        return run_tflm(model, inputs)
    except RuntimeError:
        return run_litert_reference(model, inputs)


def check(model: bytes, seed: int, label: str, spread: float = 1.0) -> None:
    """Compare a run in one piece and one with rows anywhere with what a runtime computes."""
    inputs = [spread * array if array.dtype.kind == "f" else array for array in random_inputs(model, seed)]
    inputs = [array.astype(np.float32) if array.dtype.kind == "f" else array for array in inputs]
    data = [np.ascontiguousarray(array).tobytes() for array in inputs]
    whole = run_whole(model, data)
    assert run_scattered(model, data, seed) == whole, label
    for got, want in zip(whole, truth(label.split()[0], model, inputs), strict=True):
        found = np.frombuffer(got, want.dtype).reshape(want.shape)
        if want.dtype.kind == "f":
            finite = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            np.testing.assert_allclose(found, want, rtol=CLOSE, atol=CLOSE * float(finite), err_msg=label)
        else:
            np.testing.assert_array_equal(found, want, err_msg=label)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("kind", [*MOVES, *COMPUTED])
def test_int8_and_float_kernels_compute_what_the_runtimes_compute(kind: str, dtype: str) -> None:
    make = {**MOVES, **COMPUTED}[kind]
    for seed in range(MODELS):
        check(make(Sampler(dtype, seed)), seed, f"{kind} {dtype} model {seed}", spread=2.0)


@pytest.mark.parametrize("kind", FLOATS)
def test_float_functions_are_close_to_the_runtimes(kind: str) -> None:
    for seed in range(MODELS):
        check(FLOATS[kind](Sampler("float32", seed)), seed, f"{kind} model {seed}", spread=3.0)


@pytest.mark.parametrize("kind", INT16)
def test_int16_kernels_compute_the_bytes_that_tflite_micro_computes(kind: str) -> None:
    for seed in range(MODELS):
        check(int16_model(kind, seed), seed, f"{kind} model {seed}")


@pytest.mark.parametrize(("kind", "dtype"), [
    *((kind, "int8") for kind in ("ABS", "RELU", "HARD_SWISH", "ELU", "LEAKY_RELU", "QUANTIZE", *GATES, "RSQRT")),
    *((kind, "int16") for kind in ("RELU", "LEAKY_RELU", "QUANTIZE", "ABS", "RSQRT", *GATES)),
])  # fmt: skip
def test_functions_of_every_number_there_is_equal_tflite_micro(kind: str, dtype: str) -> None:
    for seed in range(24):
        model, values = of_every_number(kind, dtype, seed)
        (got,), (want,) = run_whole(model, [values.tobytes()]), run_tflm(model, [values])
        np.testing.assert_array_equal(np.frombuffer(got, dtype), want.ravel(), err_msg=f"{kind} model {seed}")


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_floats_times_narrower_constants_are_the_product_with_their_real_numbers(dtype: str, exchanged: bool) -> None:
    random, model = np.random.default_rng(2), ModelBuilder()
    x, w = random.normal(size=(2, 3, 8)).astype(np.float32), (random.normal(size=(8, 5)) * 30).astype(dtype)
    a, scale = model.input("x", x.shape, "float32"), {"scale": 0.25} if dtype == "int8" else {}
    b = model.constant("b", w.T if exchanged else w, **scale)
    y = model.tensor("y", (2, 3, 5), "float32")
    model.operator("BATCH_MATMUL", [a, b], [y], options="BatchMatMulOptions", adj_y=exchanged)
    (got,) = run_whole(model.outputs(y).build(), [x.tobytes()])
    real = x.astype(np.float64) @ (w.astype(np.float64) * scale.get("scale", 1))
    np.testing.assert_allclose(np.frombuffer(got, np.float32).reshape(2, 3, 5), real, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("exchanged", [False, True])
def test_int16_times_constant_int8_per_channel_is_the_real_product_within_a_step(exchanged: bool) -> None:
    """LiteRT converts to this and leaves zeros in its place, so that the product itself decides."""
    random, model = np.random.default_rng(1), ModelBuilder()
    x, w = random.integers(-32768, 32768, (6, 12)).astype(np.int16), random.integers(-128, 128, (12, 5)).astype(np.int8)
    scales = random.uniform(1e-4, 3e-4, 5).astype(np.float32)
    a = model.input("a", x.shape, "int16", scale=3e-5)
    b = model.constant("b", w.T if exchanged else w, scale=scales.tolist(), axis=0 if exchanged else 1)
    y = model.tensor("y", (6, 5), "int16", scale=4e-5)
    model.operator("BATCH_MATMUL", [a, b], [y], options="BatchMatMulOptions", adj_y=exchanged)
    (got,) = run_whole(model.outputs(y).build(), [x.tobytes()])
    real = x.astype(np.float64) @ w * scales.astype(np.float64) * (np.float32(3e-5) / np.float64(np.float32(4e-5)))
    assert np.abs(np.frombuffer(got, np.int16).reshape(6, 5) - np.clip(real, -32768, 32767)).max() <= 1
    assert np.abs(real).max() > 1000


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"detections"}))  # tests/flows/test_detections.py has these
def test_whole_models_of_these_kernels_give_what_the_runtimes_give(family: str) -> None:
    model = FAMILIES[family]()
    for seed in range(4):
        check(model, seed, f"{family} model {seed}")
