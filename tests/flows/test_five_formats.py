"""One keyword spotter in five files (float32, int8, ONNX, QDQ, QOperator): each answers as its own oracle does.

All get the same sounds, numbers that int8 holds exactly. The five do not agree with each other (they were calibrated
apart, and the QDQ and QOperator files hear noise where the others hear words): where two of them name the same word,
so must their plans, and where they name different ones, so must these.
"""

from __future__ import annotations

from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")
pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")

import onnx

from onnx_models import run_onnxruntime
from onnx_stepwise import pieces
from oracles import Array, open_litert_reference, open_tflm
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan_backend_c import CBackend

FOLDER = Path(__file__).parents[3] / "shared" / "models" / "kws"
needs_models = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared models are not beside this checkout")
SOUNDS = 8
INPUT = "serving_default_input:0"
INPUT_SCALE, OUTPUT_SCALE, ZERO_POINT = np.float32(0.10171568393707275), np.float32(1 / 256), -128
"""Of the int8 file."""
TOLERANCES = {
    "fp32.tflite": 1e-6, "quantized.tflite": 0.0, "static_fp32.onnx": 1e-6, "static_qdq.onnx": 8 / 256,
    "static_qoperator_emx.onnx": 2.5 / 256,
}  # fmt: skip
"""How far from the oracle, of probabilities. int8: no byte. QDQ means float32 arithmetic between steps of 1/256, which
onnxruntime does in one order, or fused, and we in integers: a step early in the network is several of them at its end.
The operators one by one are held to a step below."""


def path_of(name: str) -> Path:
    return FOLDER / f"mlonmcu_micro_kws_m_{name}"


def sound(seed: int) -> Array:
    """Return noise over the whole range of int8, or, by turns, quieter one that leaves its ends empty."""
    random = np.random.default_rng(seed)
    if seed % 2:
        return np.clip(random.normal(0, 40, (1, 1960)).round(), -128, 127).astype(np.int8)
    return random.integers(-128, 128, (1, 1960)).astype(np.int8)


def reals(values: Array) -> Array:
    return ((values.astype(np.float32) - ZERO_POINT) * INPUT_SCALE).astype(np.float32)


def probabilities(values: Array) -> Array:
    return (values.astype(np.float32) - ZERO_POINT) * OUTPUT_SCALE


@cache
def answers(name: str) -> tuple[list[Array], list[Array]]:
    """Return what a file's plan and what its oracle make of each sound."""
    path = path_of(name)
    data, plan = path.read_bytes(), compile_model(CompileRequest(model_path=path)).data
    mine, theirs = [], []
    with closing(CBackend().compile(plan)) as compiled:
        for seed in range(SOUNDS):
            values = sound(seed)
            if name == "quantized.tflite":
                mine.append(probabilities(np.frombuffer(compiled.run([values.tobytes()])[0], np.int8)))
                theirs.append(probabilities(open_tflm(data)([values])[0].ravel()))
                continue
            real = reals(values)
            mine.append(np.frombuffer(compiled.run([real.tobytes()])[0], np.float32))
            if name.endswith(".tflite"):
                theirs.append(open_litert_reference(data)([real])[0].ravel())
            else:
                theirs.append(run_onnxruntime(data, {INPUT: real})[0].ravel())
    return mine, theirs


@needs_models
@pytest.mark.parametrize("name", TOLERANCES)
def test_each_file_answers_as_its_oracle_does(name: str) -> None:
    for mine, theirs in zip(*answers(name), strict=True):
        assert np.abs(mine - theirs).max() <= TOLERANCES[name]
        assert abs(theirs.sum() - 1) < 0.02  # probabilities indeed


@needs_models
def test_files_agree_on_a_word_where_their_oracles_do() -> None:
    words = {name: [[int(found.argmax()) for found in side] for side in answers(name)] for name in TOLERANCES}
    for mine, theirs in words.values():
        assert mine == theirs
    assert len({tuple(mine) for mine, _ in words.values()}) > 1, "sounds that all files hear alike would show less"


@needs_models
def test_formats_of_the_same_numbers_give_the_same_numbers() -> None:
    """The two float files are one network; the int8 file is near it, as far as its oracle is and no further."""
    (mine, theirs), (int8, true_int8) = answers("fp32.tflite"), answers("quantized.tflite")
    for ours, onnx_ours in zip(mine, answers("static_fp32.onnx")[0], strict=True):
        np.testing.assert_allclose(ours, onnx_ours, atol=1e-6)
    for ours, truth, small, true_small in zip(mine, theirs, int8, true_int8, strict=True):
        assert np.abs(small - ours).max() <= np.abs(true_small - truth).max() + 1e-6


@needs_models
def test_each_operator_of_the_qdq_file_is_within_a_step_of_onnxruntime() -> None:
    found = pieces(onnx.load(str(path_of("static_qdq.onnx"))), {INPUT: reals(sound(1))})
    assert len(found) > 4
    assert max(piece.steps for piece in found) <= 1
