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
from state_models import Sizes, svdf
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import UnsupportedError
from stowplan_backend_c import CBackend
from tflite_import import import_bytes

RUNS = 6
SIZES: list[Sizes] = [(1, 5, 3, 1, 4), (1, 8, 4, 2, 7), (2, 3, 2, 3, 2), (1, 4, 6, 1, 1)]


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
        (
            {"state": (2**31 - 1, 2**31 - 1)},
            '"memory" keeps 18446744056529682436 bytes between runs; up to 268435456 would be supported',
        ),
        ({"state": (1, 13)}, "a memory of shape 1x13 for 3 filters of 4"),
        ({"bias": np.ones(3, np.int32)}, 'biases "bias"; a constant of float32 for each output would be supported'),
        ({"bias": np.ones(4, np.float32)}, 'biases "bias"; a constant of float32 for each output would be supported'),
    ],
)
def test_what_does_not_go_together_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(svdf(SIZES[0], **changed))
    assert caught.value.reasons[0].endswith(f"): {why}")
