"""Ends of object detectors: equal to TFLite Micro and LiteRT in both ways of choosing, at any budget, in any type."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_models import BOX_POINT, BOX_SCALE, SCORE_SCALE, Array, Detector, anchors, detector, postprocess
from oracles import run_litert_reference, run_tflm
from scattered import run_scattered, run_whole
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.cli.entry import main
from stowplan_backend_c import CBackend
from tflite_builder import ModelBuilder
from tflite_import import shared_models

SETTINGS = st.builds(
    Detector,
    boxes=st.integers(4, 40), classes=st.integers(1, 5), most=st.integers(2, 12), per_class=st.booleans(),
    most_of_class=st.integers(1, 12), background=st.integers(0, 1), box_size=st.integers(4, 6),
    score=st.sampled_from([-1.0, 0.25, 0.5, 0.9]), overlap=st.sampled_from([0.1, 0.3, 0.5, 0.75, 1.0]),
)  # fmt: skip
SEEDS = st.integers(0, 2**32 - 1)


def stepped(setting: Detector, seed: int, steps: int) -> list[Array]:
    """Return boxes and scores in so many steps: with few of them, many scores are equal."""
    random = np.random.default_rng(seed)
    boxes = random.integers(-60, 61, (1, setting.boxes, setting.box_size)) / 10
    scores = random.integers(0, steps + 1, (1, setting.boxes, setting.classes + setting.background)) / steps
    return [boxes.astype(np.float32), scores.astype(np.float32)]


def distinct(setting: Detector, seed: int) -> list[Array]:
    """Return boxes, and scores of which no two are equal."""
    boxes, scores = stepped(setting, seed, 8)
    order = np.random.default_rng(seed).permutation(scores.size).reshape(scores.shape)
    return [boxes, (order / scores.size).astype(np.float32)]


def run(model: bytes, inputs: Sequence[Array], seed: int) -> list[Array]:
    """Run the operator in one piece and with rows anywhere, which must be the same."""
    data = [np.ascontiguousarray(array).tobytes() for array in inputs]
    whole = run_whole(model, data)
    assert run_scattered(model, data, seed) == whole
    return [np.frombuffer(part, np.float32) for part in whole]


def check(setting: Detector, got: Sequence[Array], want: Sequence[Array]) -> None:
    """Compare what was found, bit for bit; runtimes leave anything where nothing was, we leave zeros."""
    count = int(want[3].ravel()[0])
    assert got[3].tolist() == [count]
    places = count * (1 if setting.per_class else setting.slots)
    for mine, other, size in zip(got[:3], want[:3], (4, 1, 1), strict=True):
        np.testing.assert_array_equal(mine[: places * size], other.ravel()[: places * size])
        assert not mine[places * size :].any()


@settings(max_examples=100, deadline=None)
@given(setting=SETTINGS, seed=SEEDS)
def test_floats_equal_tflite_micro_also_where_scores_are_equal(setting: Detector, seed: int) -> None:
    model, inputs = detector(setting, anchors(setting.boxes, seed)), stepped(setting, seed, 4)
    check(setting, run(model, inputs, seed), run_tflm(model, inputs))


@settings(max_examples=100, deadline=None)
@given(setting=SETTINGS, slots=st.integers(1, 3), seed=SEEDS)
def test_floats_equal_litert_also_with_several_classes_for_each_box(setting: Detector, slots: int, seed: int) -> None:
    wide = replace(setting, slots=1 if setting.per_class else min(slots, setting.classes))
    model, inputs = detector(wide, anchors(wide.boxes, seed)), distinct(wide, seed)
    check(wide, run(model, inputs, seed), run_litert_reference(model, inputs))


@settings(max_examples=100, deadline=None)
@given(setting=SETTINGS, seed=SEEDS)
def test_legacy_uint8_equals_litert_and_int8_equals_both(setting: Detector, seed: int) -> None:
    """LiteRT has no int8 here: the same real numbers as uint8 have the same answer."""
    random = np.random.default_rng(seed)
    shapes = (setting.boxes, setting.box_size), (setting.boxes, setting.classes + setting.background)
    legacy = [random.integers(0, 256, (1, *shape), np.uint8) for shape in shapes]
    if setting.per_class:  # LiteRT leaves the order of equal scores open here
        legacy[1] = random.permutation(legacy[1].size).astype(np.uint8).reshape(legacy[1].shape)
    around = anchors(setting.boxes, seed)
    found = run(detector(setting, around, "uint8"), legacy, seed)
    if not setting.per_class or legacy[1].size <= 256:
        check(setting, found, run_litert_reference(detector(setting, around, "uint8"), legacy))
    shifted = [(array.astype(np.int16) - 128).astype(np.int8) for array in legacy]
    for mine, other in zip(run(detector(setting, around, "int8"), shifted, seed), found, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_integers_have_the_answer_of_their_real_numbers() -> None:
    setting = Detector(boxes=30, classes=3, most=20, overlap=0.1)
    random = np.random.default_rng(5)
    legacy = [random.integers(0, 256, (1, 30, 4), np.uint8) for _ in range(2)]
    around = np.round(anchors(30, 5) * 128) / 128
    boxes = ((legacy[0].astype(np.float32) - BOX_POINT) * np.float32(BOX_SCALE)).astype(np.float32)
    reals = [boxes, (legacy[1] * np.float32(SCORE_SCALE)).astype(np.float32)]
    got = run(detector(setting, around, "uint8"), legacy, 5)
    check(setting, got, run_tflm(detector(setting, around.astype(np.float32)), reals))
    assert 2 < got[3][0] < 20  # some boxes were left out, and not for want of places


@pytest.mark.parametrize("per_class", [False, True])
def test_numbers_that_are_none_choose_no_box_and_hang_nothing(per_class: bool) -> None:
    setting = Detector(boxes=9, classes=2, most=5, per_class=per_class)
    boxes, scores = stepped(setting, 3, 9)
    scores[0, ::2] = np.nan
    boxes[0, 1] = (np.inf, -np.inf, 4000.0, -4000.0)
    got = run(detector(setting, anchors(9, 3)), [boxes, scores], 3)
    assert 0 < got[3][0] <= 5
    assert not np.isnan(got[2]).any()


@pytest.mark.parametrize("fast", [1380, 1 << 20])
def test_a_detector_at_the_end_of_a_network_fits_any_budget(fast: int, tmp_path: Path) -> None:
    """Its boxes come from concatenated heads, as in any SSD; scores pass through LOGISTIC."""
    path = tmp_path / "ssd.tflite"
    path.write_bytes(ssd())
    plan = compile_model(CompileRequest(model_path=path, pools=(("fast", fast), ("slow", 1 << 20)))).data
    with closing(CBackend().compile(plan)) as compiled:
        for seed in range(5):
            (image,) = [np.random.default_rng(seed).normal(0, 2, (1, 8, 4, 3)).astype(np.float32)]
            got = [np.frombuffer(part, np.float32) for part in compiled.run([image.tobytes()])]
            want = run_litert_reference(path.read_bytes(), [image])
            assert got[3].tolist() == want[3].tolist() and want[3][0] > 0
            count = int(want[3][0])
            np.testing.assert_array_equal(got[1][:count], want[1].ravel()[:count])
            for mine, other, size in ((got[0], want[0], 4), (got[2], want[2], 1)):
                np.testing.assert_allclose(mine[: size * count], other.ravel()[: size * count], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None,
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)
@pytest.mark.parametrize("board", ["cortex-m0plus", "cortex-m4"])
def test_a_board_without_doubles_finds_the_boxes_that_this_machine_finds(
    board: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, image, plan = tmp_path / "ssd.tflite", tmp_path / "image.npy", tmp_path / "ssd.stow"
    path.write_bytes(ssd())
    plan.write_bytes(compile_model(CompileRequest(model_path=path)).data)
    np.save(image, np.random.default_rng(0).normal(0, 2, (1, 8, 4, 3)).astype(np.float32))
    found = []
    for more in ([], ["--board", board]):
        assert main(["run", str(plan), "--input", str(image), "--json", *more]) == 0
        found.append(json.loads(capfd.readouterr().out)["outputs"])
    here, there = found
    assert there == here


def ssd() -> bytes:
    """An image of 8x4 with one anchor at each place of it, and of its half."""
    model, random = ModelBuilder(), np.random.default_rng(1)
    image = model.input("image", (1, 8, 4, 3), "float32")
    half = model.tensor("half", (1, 4, 2, 3), "float32")
    model.operator(
        "MAX_POOL_2D", [image], [half], padding="SAME", filter_height=2, filter_width=2, stride_h=2, stride_w=2
    )
    found: dict[int, list[int]] = {4: [], 2: []}
    for x, height, width in ((image, 8, 4), (half, 4, 2)):
        for depth in found:
            w = model.constant(f"w{x}_{depth}", random.normal(0, 0.5, (depth, 1, 1, 3)).astype(np.float32))
            y = model.tensor(f"y{x}_{depth}", (1, height, width, depth), "float32")
            b = model.constant(f"b{x}_{depth}", np.zeros(depth, np.float32))
            model.operator("CONV_2D", [x, w, b], [y], padding="SAME")
            z = model.tensor(f"z{x}_{depth}", (1, height * width, depth), "float32")
            model.operator("RESHAPE", [y, model.constant(f"s{z}", np.array([1, height * width, depth], np.int32))], [z])
            found[depth].append(z)
    joined = [model.tensor(f"joined_{depth}", (1, 40, depth), "float32") for depth in found]
    for depth, output in zip(found, joined, strict=True):
        model.operator("CONCATENATION", found[depth], [output], axis=1)
    scores = model.tensor("scores", (1, 40, 2), "float32")
    model.operator("LOGISTIC", [joined[1]], [scores])
    setting = Detector(boxes=40, classes=2, most=4, background=0)
    return model.outputs(*postprocess(model, joined[0], scores, setting, anchors(40, 2))).build()


@pytest.mark.parametrize(("per_class", "slots"), [(False, 1), (False, 2), (True, 1)])
def test_verify_does_not_compare_what_runtimes_leave_unwritten(per_class: bool, slots: int, tmp_path: Path) -> None:
    path, setting = tmp_path / "few.tflite", Detector(boxes=30, classes=2, most=20, overlap=0.05, score=0.9,
                                                      per_class=per_class, slots=slots)  # fmt: skip
    path.write_bytes(detector(setting, anchors(30, 1)))
    command = [sys.executable, "-m", "stowplan", "verify", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    outputs = [one for one in json.loads(done.stdout)["outputs"] if slots == 1 or one["oracle"] == "ai-edge-litert"]
    assert len(outputs) >= 4
    assert {one["verdict"] for one in outputs} == {"equal"}


def test_a_detector_from_the_field_equals_litert() -> None:
    paths = shared_models("op-tflite/mlonmcu_model_with_detection_postprocess.tflite")
    if not paths:
        pytest.skip("the shared models are absent")
    model = paths[0].read_bytes()
    for seed in range(3):
        random = np.random.default_rng(seed)
        inputs: list[Any] = [random.integers(0, 256, shape, np.uint8) for shape in ((1, 1917, 4), (1, 1917, 91))]
        got = run(model, inputs, seed)
        for mine, other in zip(got, run_litert_reference(model, inputs), strict=True):
            np.testing.assert_array_equal(mine, other.ravel())
