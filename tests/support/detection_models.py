"""The ends of object detectors: models of TFLite_Detection_PostProcess alone, with options of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from tflite_builder import ModelBuilder

Array = NDArray[Any]
BOX_SCALE, BOX_POINT, SCORE_SCALE = 0.05, 120, 1 / 256
"""How boxes and scores are quantized as uint8; as int8 their zero points are lower by 128."""


@dataclass(frozen=True, kw_only=True)
class Detector:
    """What decides about the outputs, and the numbers that do not change the model's shape."""

    boxes: int
    classes: int
    most: int
    per_class: bool = False
    slots: int = 1
    most_of_class: int = 100
    background: int = 1
    box_size: int = 4
    score: float = 0.2
    overlap: float = 0.5

    @property
    def places(self) -> int:
        return self.most * self.slots

    @property
    def options(self) -> dict[str, Any]:
        return {
            "num_classes": self.classes, "max_detections": self.most, "max_classes_per_detection": self.slots,
            "detections_per_class": self.most_of_class, "use_regular_nms": self.per_class,
            "nms_score_threshold": self.score, "nms_iou_threshold": self.overlap,
            "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
        }  # fmt: skip


def anchors(boxes: int, seed: int) -> Array:
    """Return anchors so large and so close that many of their boxes overlap."""
    random = np.random.default_rng(seed)
    return np.hstack([random.random((boxes, 2)), 0.1 + 0.4 * random.random((boxes, 2))]).astype(np.float32)


def packed(options: Mapping[str, Any]) -> bytes:
    """Return options as converters write them: one map by name, floats of 8 bytes."""
    builder = flexbuffers.Builder()
    adders = {bool: builder.Bool, int: builder.Int, float: lambda value: builder.Float(value, 8), str: builder.String}
    with builder.Map():
        for name, value in options.items():
            builder.Key(name.encode())
            adders[type(value)](value)
    return bytes(builder.Finish())


def postprocess(
    model: ModelBuilder, boxes: int, scores: int, setting: Detector, around: Array, options: bytes | None = None,
    **more: Any,
) -> list[int]:  # fmt: skip
    """Add the operator; return its four outputs. `more` is the quantization of anchors that are not float32."""
    anchored = model.constant(f"anchors_{boxes}", around, **more)
    shapes = ((1, setting.places, 4), (1, setting.places), (1, setting.places), (1,))
    outputs = [model.tensor(f"found_{boxes}_{i}", shape, "float32") for i, shape in enumerate(shapes)]
    model.operator("CUSTOM", [boxes, scores, anchored], outputs, custom_code="TFLite_Detection_PostProcess",
                   custom_options=packed(setting.options) if options is None else options)  # fmt: skip
    return outputs


def detector(setting: Detector, around: Array, dtype: str = "float32", options: bytes | None = None) -> bytes:
    """Return a model that is the operator alone, of float32 or of uint8 or int8 with one quantization."""
    model = ModelBuilder()
    shift = 128 if dtype == "int8" else 0
    of_boxes: dict[str, Any] = {} if dtype == "float32" else {"scale": BOX_SCALE, "zero_point": BOX_POINT - shift}
    of_scores: dict[str, Any] = {} if dtype == "float32" else {"scale": SCORE_SCALE, "zero_point": -shift}
    of_anchors: dict[str, Any] = {}
    if dtype != "float32":
        around = (np.round(around * 128) - shift).astype(dtype)
        of_anchors = {"scale": 1 / 128, "zero_point": -shift}
    boxes = model.input("boxes", (1, setting.boxes, setting.box_size), dtype, **of_boxes)
    scores = model.input("scores", (1, setting.boxes, setting.classes + setting.background), dtype, **of_scores)
    return model.outputs(*postprocess(model, boxes, scores, setting, around, options, **of_anchors)).build()
