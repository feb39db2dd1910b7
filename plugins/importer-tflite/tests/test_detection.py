"""TFLite_Detection_PostProcess: its options are read or refused by name, whatever their bytes."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_models import Detector, anchors, detector, packed
from stowplan.errors import UnsupportedError
from stowplan_importer_tflite.flatbuffer import Damaged
from stowplan_importer_tflite.flexbuffer import read_map
from tflite_builder import ModelBuilder
from tflite_import import import_bytes

NUMBERS = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.integers(-100, 100)
)  # fmt: skip
NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12)
PLAIN = Detector(boxes=6, classes=3, most=4)


def refusal(data: bytes) -> str:
    """Return why the one operator of a model does not convert."""
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(data)
    (reason,) = caught.value.reasons
    where, _, why = reason.partition("): ")
    assert where.startswith("operator 0 (CUSTOM:TFLite_Detection_PostProcess")
    return why


def changed(**options: Any) -> bytes:
    """Return a model with other options; None takes one away."""
    found = {name: value for name, value in {**PLAIN.options, **options}.items() if value is not None}
    return detector(PLAIN, anchors(6, 1), options=packed(found))


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, NUMBERS, max_size=9))
def test_maps_are_read_as_their_writer_meant_them(options: dict[str, Any]) -> None:
    found = read_map(packed(options))
    assert found == options
    assert [type(value) for value in found.values()] == [type(options[name]) for name in found]


def test_numbers_at_an_offset_and_what_is_no_number() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.IndirectInt("far", -(2**40))
        builder.IndirectUInt("wide", 2**63)
        builder.IndirectFloat("real", 0.1)
        builder.String("text", "no number")
        builder.Null("nothing")
        builder.VectorFromElements("list", [1, 2])
    assert read_map(bytes(builder.Finish())) == {"far": -(2**40), "wide": 2**63, "real": 0.1}


def test_damaged_maps_end_in_one_error_or_in_other_numbers() -> None:
    chance, sound, ends = random.Random(7), packed(PLAIN.options), {"read": 0, "damaged": 0}
    for _ in range(5000):
        data = bytearray(sound)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.randint(0, len(data))]) if chance.random() < 0.2 else bytes(data)
        try:
            read_map(cut)
            ends["read"] += 1
        except Damaged as err:
            ends["damaged"] += 1
            assert "\n" not in str(err)
    assert min(ends.values()) > 500, ends


def test_the_operator_becomes_one_with_all_its_options_and_four_parts() -> None:
    model = detector(replace(PLAIN, per_class=True, slots=2), anchors(6, 1))
    graph = import_bytes(model)
    assert [operator.kind for operator in graph.operators] == ["detection_postprocess", *["rearrange"] * 4]
    assert dict(graph.operators[0].attributes) == {
        "classes": 3, "max_detections": 4, "classes_per_detection": 2, "detections_per_class": 100, "per_class": True,
        "score_threshold": struct.unpack("<f", struct.pack("<f", 0.2))[0], "overlap_threshold": 0.5,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    assert [graph.tensors[t].shape for t in graph.outputs] == [(1, 8, 4), (1, 8), (1, 8), (1,)]


def test_options_that_may_be_missing_have_their_defaults() -> None:
    (operator, *_) = import_bytes(changed(use_regular_nms=None, detections_per_class=None)).operators
    assert operator.attributes["per_class"] is False
    assert operator.integer("detections_per_class") == 100


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_detections": None}, "its option max_detections is missing"),
        ({"max_detections": 0}, "its option max_detections is 0; 1 to 536870911 is defined"),
        ({"max_detections": 2**40}, "its option max_detections is 1099511627776; 1 to 536870911 is defined"),
        ({"max_detections": 10**8}, 'tensor "inner_7" of shape 600000013 takes 2 GiB or more'),
        ({"num_classes": -1}, "its option num_classes is -1; 1 to 536870911 is defined"),
        ({"num_classes": 5}, "4 scores for each box; num_classes 5, or one more, are defined"),
        ({"max_classes_per_detection": None}, "its option max_classes_per_detection is missing"),
        ({"detections_per_class": 0}, "its option detections_per_class is 0; 1 to 536870911 is defined"),
        ({"nms_score_threshold": None}, "its option nms_score_threshold is missing"),
        ({"nms_score_threshold": float("nan")}, "its option nms_score_threshold is nan, which is no finite float32"),
        ({"nms_iou_threshold": 1.5}, "its option nms_iou_threshold is 1.5; above 0 and up to 1 is defined"),
        ({"h_scale": 0.0}, "its option h_scale is 0.0; above 0 is defined"),
        ({"w_scale": 1e300}, "its option w_scale is 1e+300, which is no finite float32"),
        ({"x_scale": "10"}, "its option x_scale is missing"),
    ],
)
def test_each_bad_option_is_refused_by_name(options: dict[str, Any], why: str) -> None:
    assert refusal(changed(**options)) == why


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (b"", "its options are damaged: options of 0 bytes; a map of numbers has 3 to 65536"),
        (b"\x05\x04\x01", "its options are damaged: options of type 1, not a map (9)"),
        (b"\x05\x24\x03", "its options are damaged: an offset of 3 bytes"),
        (b"\x05\x24\x01", "its options are damaged: byte 0: 0 bytes are needed there, the options have 3"),
        (b"\x00\x03\x01\x00\x24\x01", "its options are damaged: byte 1: keys of 3 bytes"),
        (b"k\x01\x01\x01\x01\x05\x04\x02\x24\x01", "its options are damaged: byte 0: a name without an end"),
    ],
)
def test_damaged_options_are_refused_by_what_is_wrong(options: bytes, why: str) -> None:
    assert refusal(detector(PLAIN, anchors(6, 1), options=options)) == why


@pytest.mark.parametrize(
    ("boxes", "scores", "around", "why"),
    [
        ((1, 6, 4), (1, 5, 4), (6, 4), "boxes of shape 1x6x4 with scores of shape 1x5x4"),
        ((2, 6, 4), (2, 6, 4), (6, 4), "boxes of shape 2x6x4; 1xNx4, or more than 4, are defined"),
        ((1, 6, 3), (1, 6, 4), (6, 4), "boxes of shape 1x6x3; 1xNx4, or more than 4, are defined"),
        ((1, 6, 4), (1, 6, 2), (6, 4), "2 scores for each box; num_classes 3, or one more, are defined"),
        ((1, 6, 4), (1, 6, 4), (5, 4), "anchors of shape 5x4 for 6 boxes"),
    ],
)
def test_shapes_that_do_not_belong_together_are_refused(
    boxes: tuple[int, ...], scores: tuple[int, ...], around: tuple[int, ...], why: str
) -> None:
    assert refusal(_model(boxes, scores, np.ones(around, np.float32))) == why


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (np.full((6, 4), -1, np.float32), 'anchor 0 of "a" lies at -1, -1 and is -1 x -1'),
        (np.full((6, 4), np.inf, np.float32), 'anchor 0 of "a" lies at inf, inf and is inf x inf'),
        (np.ones((6, 4), np.int32), "int32 activations; int8 and float32 would be supported"),
        (None, 'the anchors "a" must be constant'),
    ],
)
def test_anchors_that_make_no_boxes_are_refused(around: Any, why: str) -> None:
    assert refusal(_model((1, 6, 4), (1, 6, 4), around)) == why


def test_other_outputs_than_four_of_float_are_refused() -> None:
    model = _model(
        (1, 6, 4), (1, 6, 4), np.ones((6, 4), np.float32), outputs=("float32", "int32", "float32", "float32")
    )
    assert refusal(model) == "4 outputs; 4 of float32 are defined: boxes, classes, scores, their number"


def _model(
    boxes: tuple[int, ...], scores: tuple[int, ...], around: Any, outputs: tuple[str, ...] = ("float32",) * 4
) -> bytes:
    model = ModelBuilder()
    inputs = [model.input("x", boxes, "float32"), model.input("s", scores, "float32")]
    inputs += [model.input("a", (6, 4), "float32") if around is None else model.constant("a", around)]
    shapes = ((1, 4, 4), (1, 4), (1, 4), (1,))
    found = [model.tensor(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(zip(shapes, outputs, strict=True))]
    model.operator("CUSTOM", inputs, found, custom_code="TFLite_Detection_PostProcess",
                   custom_options=packed(PLAIN.options))  # fmt: skip
    return model.outputs(*found).build()
