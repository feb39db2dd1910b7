"""MLPerf's integer models, and plans of them: with all the memory they like, or with the least."""

from __future__ import annotations

import pytest

from stowplan.build.pipeline import CompileRequest, compile_model
from tflite_import import shared_models

STANDARD = {
    "vww": "vww-person/mlperf_vww_int8.tflite",
    "kws": "kws/mlperf_kws_dscnn_int8.tflite",
    "resnet8": "image-cls/mlperf_resnet8_int8.tflite",
    "ad01": "anomaly/mlperf_ad01_int8.tflite",
    "strww": "wakeword/mlperf_streaming_ww_int8.tflite",
}
LEAST = {"vww": 28_032, "kws": 3_872, "resnet8": 10_304, "ad01": 768, "strww": 2_952}
"""The least single memory that each can do with, to 16 bytes: rows in rings, many firings."""
in_both_ways = pytest.mark.parametrize("least", [False, True], ids=["whole", "least"])


def standard_model(name: str) -> bytes:
    """Return a model's bytes; skips where the shared models are not beside the checkout."""
    (path,) = shared_models(STANDARD[name])
    return path.read_bytes()


def standard_plan(name: str, least: bool) -> bytes:
    (path,) = shared_models(STANDARD[name])
    pools = (("fast", LEAST[name]),) if least else ()
    return compile_model(CompileRequest(model_path=path, prove=False, pools=pools)).data
