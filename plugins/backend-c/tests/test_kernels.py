"""Kernels against the runtimes that decide: bytes equal to TFLite Micro's for int8, close to LiteRT's for float32."""

from __future__ import annotations

import numpy as np
import pytest

from operator_models import MAKERS, Sampler, dequantize, operator_model
from oracles import random_inputs, run_litert_reference, run_tflm
from scattered import run_scattered, run_whole
from tflite_builder import ModelBuilder
from tflite_import import shared_models

MODELS = 25
"""Random models of each operator and dtype."""
CLOSE = 1e-5
"""Of the largest output: float sums are added in another order than LiteRT's."""


def _bytes(arrays: list[np.ndarray]) -> list[bytes]:
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


@pytest.mark.parametrize("kind", MAKERS)
def test_int8_kernels_compute_the_bytes_that_tflite_micro_computes(kind: str) -> None:
    for seed in range(MODELS):
        model = operator_model(kind, "int8", seed)
        inputs = random_inputs(model, seed)
        assert run_whole(model, _bytes(inputs)) == _bytes(run_tflm(model, inputs)), f"{kind}, model {seed}"


@pytest.mark.parametrize("kind", MAKERS)
def test_float_kernels_compute_what_litert_computes(kind: str) -> None:
    for seed in range(MODELS):
        model = operator_model(kind, "float32", seed)
        inputs = [4 * array for array in random_inputs(model, seed)]
        (got,) = run_whole(model, _bytes(inputs))
        (want,) = run_litert_reference(model, inputs)
        found = np.frombuffer(got, want.dtype).reshape(want.shape)
        if want.dtype == np.int8:
            assert (found == want).all(), f"{kind}, model {seed}"
        else:
            np.testing.assert_allclose(found, want, rtol=CLOSE, atol=CLOSE * float(np.abs(want).max()))


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("kind", MAKERS)
def test_rows_anywhere_and_units_in_any_portions_give_the_same_bytes(kind: str, dtype: str) -> None:
    for seed in range(MODELS):
        model = operator_model(kind, dtype, seed)
        inputs = _bytes(random_inputs(model, seed))
        whole = run_whole(model, inputs)
        assert run_scattered(model, inputs, seed) == whole, f"{kind}, model {seed}"


def test_dequantize_computes_the_floats_that_tflite_micro_computes() -> None:
    for seed in range(MODELS):
        model = dequantize(Sampler("int8", seed))
        inputs = random_inputs(model, seed)
        want = _bytes(run_tflm(model, inputs))
        assert run_whole(model, _bytes(inputs)) == want
        assert run_scattered(model, _bytes(inputs), seed) == want


def test_exponentials_are_right_to_the_last_places_of_a_float() -> None:
    """Seen through logistic, whose result for a negative x is exp(x) / (1 + exp(x))."""
    x = np.linspace(-87.0, 0.0, 20000, dtype=np.float32)
    model = ModelBuilder()
    model.operator("LOGISTIC", [model.input("x", x.shape, "float32")], [model.tensor("y", x.shape, "float32")])
    (got,) = run_whole(model.outputs(1).build(), [x.tobytes()])
    exact = np.exp(x.astype(np.float64)) / (1 + np.exp(x.astype(np.float64)))
    np.testing.assert_allclose(np.frombuffer(got, np.float32), exact, rtol=4e-7)


@pytest.mark.parametrize(
    "name", ["kws/mlperf_kws_dscnn_int8", "image-cls/mlperf_resnet8_int8", "kws/mlonmcu_micro_kws_m_fp32"]
)
def test_whole_models_give_the_same_bytes_with_rows_anywhere(name: str) -> None:
    (path,) = shared_models(f"{name}.tflite")
    model = path.read_bytes()
    inputs = random_inputs(model, 1)
    whole = run_whole(model, _bytes(inputs))
    assert run_scattered(model, _bytes(inputs), 1) == whole
    if name.endswith("int8"):
        assert whole == _bytes(run_tflm(model, inputs))
