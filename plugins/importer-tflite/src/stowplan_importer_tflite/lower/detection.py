"""TFLite_Detection_PostProcess: the custom operator at the end of object detectors, which chooses among their boxes."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping

from stowplan.flow.graph import Attribute
from stowplan_importer_tflite.flatbuffer import Damaged
from stowplan_importer_tflite.flexbuffer import Value as Option
from stowplan_importer_tflite.flexbuffer import read_map
from stowplan_importer_tflite.lower.rearranging import rearranged
from stowplan_importer_tflite.parse import shown, spelled
from stowplan_importer_tflite.site import (
    MAX_TENSOR_BYTES,
    Conversion,
    Mismatch,
    Refusal,
    Site,
    Value,
    check_activation,
    scale_of,
)

KIND = "CUSTOM:TFLite_Detection_PostProcess"
OUTPUTS = ("boxes", "classes", "scores", "their number")
MOST = MAX_TENSOR_BYTES // 4
DETECTIONS_PER_CLASS = 100
"""Where the options do not say."""


def detection_postprocess(site: Site) -> list[Conversion]:
    """Its inputs are the encoded boxes, the scores of all classes, and the anchors; its outputs are four."""
    site.arity(3, 3)
    if [value.dtype for value in site.outputs] != ["float32"] * len(OUTPUTS):
        raise Refusal(f"{len(site.outputs)} outputs; 4 of float32 are defined: {', '.join(OUTPUTS)}")
    boxes, scores = site.activation(0), site.activation(1)
    attributes = _attributes(site)
    if len(boxes.shape) != 3 or len(scores.shape) != 3 or boxes.shape[:2] != scores.shape[:2]:
        raise Mismatch(f"boxes of shape {spelled(boxes.shape)} with scores of shape {spelled(scores.shape)}")
    if boxes.shape[0] != 1 or boxes.shape[2] < 4:
        raise Mismatch(f"boxes of shape {spelled(boxes.shape)}; 1xNx4, or more than 4, are defined")
    classes = _count(attributes, "classes")
    if not 0 <= scores.shape[2] - classes <= 1:
        raise Refusal(f"{scores.shape[2]} scores for each box; num_classes {classes}, or one more, are defined")
    number = boxes.shape[1]
    anchors = _anchors(site, number)
    places = _count(attributes, "max_detections") * _count(attributes, "classes_per_detection")
    of_class = min(number, _count(attributes, "detections_per_class")) if attributes["per_class"] else 0
    packed = site.new((6 * places + 1 + 2 * number + 4 * of_class,), "float32", None, None)
    inputs = (boxes.tensor, scores.tensor, anchors.tensor)
    return [
        Conversion("detection_postprocess", inputs, packed.shape, attributes, packed.tensor),
        *_parts(site, packed, places),
    ]


def _parts(site: Site, packed: Value, places: int) -> list[Conversion]:
    """Cut the four outputs from the one result that has them all."""
    shapes = ((1, places, 4), (1, places), (1, places), (1,))
    steps, start = [], 0
    for value, shape in zip(site.outputs, shapes, strict=True):
        size = math.prod(shape)
        steps.append(rearranged(packed, shape, [(size, 1)], start, value.tensor))
        start += size
    return steps


def _attributes(site: Site) -> dict[str, Attribute]:
    """Return the options, every one of them judged."""
    try:
        options = read_map(bytes(site.custom))
    except Damaged as err:
        raise Refusal(f"its options are damaged: {err}") from err
    per_class = bool(options.get("use_regular_nms", False))
    found: dict[str, Attribute] = {
        "classes": _positive(options, "num_classes"),
        "max_detections": _positive(options, "max_detections"),
        "classes_per_detection": _positive(options, "max_classes_per_detection"),
        "detections_per_class": _positive(options, "detections_per_class", DETECTIONS_PER_CLASS),
        "per_class": per_class,
        "score_threshold": _number(options, "nms_score_threshold"),
        "overlap_threshold": _number(options, "nms_iou_threshold"),
        **{f"{axis}_scale": _number(options, f"{axis}_scale") for axis in "yxhw"},
    }
    if not 0 < _real(found, "overlap_threshold") <= 1:
        raise Refusal(f"its option nms_iou_threshold is {found['overlap_threshold']}; above 0 and up to 1 is defined")
    for axis in "yxhw":
        if _real(found, f"{axis}_scale") <= 0:
            raise Refusal(f"its option {axis}_scale is {found[f'{axis}_scale']}; above 0 is defined")
    return found


def _positive(options: Mapping[str, Option], name: str, default: int | None = None) -> int:
    value = options.get(name, default)
    if value is None:
        raise Refusal(f"its option {name} is missing")
    if not math.isfinite(value) or not 1 <= int(value) <= MOST:
        raise Refusal(f"its option {name} is {value}; 1 to {MOST} is defined")
    return int(value)


def _number(options: Mapping[str, Option], name: str) -> float:
    value = options.get(name)
    if value is None:
        raise Refusal(f"its option {name} is missing")
    if not abs(value) <= 3e38:
        raise Refusal(f"its option {name} is {value}, which is no finite float32")
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return single


def _count(attributes: Mapping[str, Attribute], name: str) -> int:
    value = attributes[name]
    assert isinstance(value, int), name
    return value


def _real(attributes: Mapping[str, Attribute], name: str) -> float:
    value = attributes[name]
    assert isinstance(value, float), name
    return value


def _anchors(site: Site, number: int) -> Value:
    """Return the anchors: centre and size of each, numbers that no run changes."""
    anchors = site.constant(2, "the anchors")
    if anchors.shape != (number, 4):
        raise Mismatch(f"anchors of shape {spelled(anchors.shape)} for {number} boxes")
    check_activation(anchors)
    for index, (y, x, height, width) in enumerate(_fours(anchors)):
        if not all(map(math.isfinite, (y, x, height, width))) or min(height, width) < 0:
            raise Refusal(f"anchor {index} of {shown(anchors.name)} lies at {y:g}, {x:g} and is {height:g} x {width:g}")
    return anchors


def _fours(anchors: Value) -> Iterator[tuple[float, ...]]:
    data = bytes(anchors.data or b"")
    if anchors.dtype == "float32":
        yield from struct.iter_unpack("<4f", data)
        return
    scale, point = scale_of(anchors), anchors.quantization.zero_point if anchors.quantization else 0
    for four in struct.iter_unpack("<4b", data):
        yield tuple((value - point) * scale for value in four)
