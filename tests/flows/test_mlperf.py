"""The standard models at ten budgets each: on fifty inputs equal to TFLite Micro byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from oracles import open_litert_reference, open_tflm
from stowplan.build.pipeline import CompileRequest, CompileResult, compile_model
from stowplan.errors import DoesNotFit
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Compiled

MODELS = Path(__file__).parents[3] / "shared" / "models"
INTEGER = [
    "vww-person/mlperf_vww_int8",
    "kws/mlperf_kws_dscnn_int8",
    "image-cls/mlperf_resnet8_int8",
    "anomaly/mlperf_ad01_int8",
    "wakeword/mlperf_streaming_ww_int8",
    "vww-person/tflm_person_detect_int8",
]
FLOAT = ["vww-person/mlperf_vww_fp32", "image-cls/mlperf_resnet8_fp32", "anomaly/mlperf_ad01_fp32"]
SLOW = 4 * 1024 * 1024
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not beside this checkout")


def fit(path: Path, *sizes: int, **options: object) -> CompileResult:
    pools = tuple(zip(("fast", "slow"), sizes, strict=False))
    return compile_model(CompileRequest(model_path=path, pools=pools, **options))  # type: ignore[arg-type]


def ten_budgets(path: Path) -> list[int]:
    """From the smallest fast budget that fits with ample slow memory to the one that needs none and no tiling."""
    high = fit(path, prove=False).facts.fast_bytes
    assert high is not None
    low = 16
    while low < high:
        middle = (low + high) // 2
        try:
            fit(path, middle, SLOW, prove=False)
            high = middle
        except DoesNotFit:
            low = middle + 1
    whole = fit(path, prove=False).facts.fast_bytes
    assert whole is not None
    return sorted({low + (whole - low) * i // 9 for i in range(10)})


def load(result: CompileResult) -> Compiled:
    return host().backends()["c"].compile(result.data)


def outputs_of(model: Compiled, inputs: Sequence[bytes]) -> list[list[bytes]]:
    return [model.run([data]) for data in inputs]


@needs_models
@pytest.mark.parametrize("name", INTEGER, ids=[Path(n).name for n in INTEGER])
def test_integer_models_equal_tflite_micro_at_every_budget(name: str) -> None:
    path = MODELS / f"{name}.tflite"
    whole = fit(path)
    random = np.random.default_rng(1234)
    with closing(load(whole)) as model:
        port = model.inputs[0]
        inputs = [random.integers(-128, 128, port.shape, dtype=np.int8) for _ in range(50)]
    reference = open_tflm(path.read_bytes())
    expected = [[out.tobytes() for out in reference([x])] for x in inputs]
    for budget in ten_budgets(path):
        result = fit(path, budget, SLOW)
        assert result.facts.fast_bytes is not None
        assert result.facts.fast_bytes <= budget
        with closing(load(result)) as model:
            assert outputs_of(model, [x.tobytes() for x in inputs]) == expected, budget


@needs_models
@pytest.mark.parametrize("name", FLOAT, ids=[Path(n).name for n in FLOAT])
def test_float_models_are_within_tolerance_of_litert(name: str) -> None:
    path = MODELS / f"{name}.tflite"
    random, reference = np.random.default_rng(7), open_litert_reference(path.read_bytes())
    for sizes in ((), (ten_budgets(path)[0], SLOW)):
        with closing(load(fit(path, *sizes))) as model:
            for _ in range(5):
                x = random.uniform(-1, 1, model.inputs[0].shape).astype(np.float32)
                ours = np.frombuffer(model.run([x.tobytes()])[0], np.float32)
                theirs = reference([x])[0].ravel()
                scale = np.maximum(np.abs(theirs), np.abs(theirs).max() * 1e-3)
                assert np.max(np.abs(ours - theirs) / scale) <= 1e-5
