"""Detections: the best boxes around anchors that do not overlap, chosen by one kernel of integers or floats."""

from __future__ import annotations

from math import isfinite

from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.planfile.layout import DTYPE_CODES

BOXES, SCORES, ANCHORS = range(3)
COUNTS = ("classes", "max_detections", "classes_per_detection", "detections_per_class")
THRESHOLDS = ("score_threshold", "overlap_threshold")
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


def detection_postprocess(site: Site) -> Lowered:
    boxes, scores, result = site.input(BOXES), site.input(SCORES), site.output
    if len(boxes.shape) != 3 or len(scores.shape) != 3 or boxes.shape[:2] != scores.shape[:2]:
        raise site.refusal(f"boxes of shape {list(boxes.shape)} with scores of shape {list(scores.shape)}")
    number, size, classes = boxes.shape[1], boxes.shape[2], scores.shape[2]
    counts = {name: site.operator.integer(name) for name in COUNTS}
    per_class = bool(site.operator.attributes["per_class"])
    if boxes.shape[0] != 1 or size < 4 or min(counts.values()) < 1 or not 0 <= classes - counts["classes"] <= 1:
        raise site.refusal(f"boxes of shape {list(boxes.shape)} with {classes} scores each, and {counts}")
    wanted = result_elements(number, per_class, counts)
    if result.dtype != "float32" or result.elements != wanted or site.output_form.rows != 1:
        raise site.refusal(f"a result of {result.elements} {result.dtype}, not one row of {wanted} float32")
    params: dict[str, ParamValue] = {
        "boxes": number, "box_size": size, "box_classes": classes, **counts, "per_class": int(per_class),
        **_reals(site, BOXES, "box"), **_reals(site, SCORES, "score"), **_reals(site, ANCHORS, "anchor"),
        **_numbers(site), "anchors": _anchors(site, number),
    }  # fmt: skip
    return Lowered(kind="detections", params=params, operands=(site.operand(BOXES), site.operand(SCORES)))


def result_elements(boxes: int, per_class: bool, counts: dict[str, int]) -> int:
    """Return how many float32 the result has: what is found, then a score and a place for each box, then one class."""
    of_class = 4 * min(boxes, counts["detections_per_class"]) if per_class else 0
    return 6 * counts["max_detections"] * counts["classes_per_detection"] + 1 + 2 * boxes + of_class


def _reals(site: Site, position: int, name: str) -> dict[str, ParamValue]:
    tensor = site.input(position)
    if tensor.dtype not in ("int8", "float32"):
        raise site.refusal(f"{name} tensors of {tensor.dtype}; supported are int8 and float32")
    found = site.quantization(tensor) if tensor.dtype == "int8" else None
    return {
        f"{name}_dtype": DTYPE_CODES[tensor.dtype],
        f"{name}_scale": found.scale if found else 1.0,
        f"{name}_zero_point": found.zero_point if found else 0,
    }


def _numbers(site: Site) -> dict[str, ParamValue]:
    numbers = {name: site.operator.number(name) for name in (*THRESHOLDS, *SCALES)}
    if not all(map(isfinite, numbers.values())) or not all(numbers[name] > 0 for name in SCALES):
        raise site.refusal(f"thresholds and scales that are no numbers, or scales that are not positive: {numbers}")
    return dict(numbers)


def _anchors(site: Site, number: int) -> bytes:
    anchors = site.input(ANCHORS)
    if anchors.shape != (number, 4):
        raise site.refusal(f"anchors of shape {list(anchors.shape)} for {number} boxes")
    return site.constant(ANCHORS, anchors.dtype, "anchors")
