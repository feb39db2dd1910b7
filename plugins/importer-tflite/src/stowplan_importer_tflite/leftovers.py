"""What other runtimes leave unwritten: the places of a detector's outputs for which nothing was found."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from stowplan_importer_tflite.flatbuffer import Damaged
from stowplan_importer_tflite.flexbuffer import read_map
from stowplan_importer_tflite.lower.detection import KIND
from stowplan_importer_tflite.parse import FileOperator, FileSubgraph

PLACE_BYTES = (16, 4, 4)
"""Of a box, a class and a score."""


def cleared(main: FileSubgraph, found: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the bytes of tensors by index with zeros in such places, as plans have them."""
    result = dict(found)
    for operator in main.operators:
        if operator.kind != KIND or len(operator.outputs) != 4 or operator.outputs[3] not in found:
            continue
        places = _places(operator, found[operator.outputs[3]])
        for tensor, size in zip(operator.outputs, PLACE_BYTES, strict=False):
            data = result.get(tensor, b"")
            if tensor in result:
                result[tensor] = data[: places * size].ljust(len(data), b"\0")
    return result


def _places(operator: FileOperator, number: bytes) -> int:
    """Return how many places are filled: as many as detections, or that for each class of a box."""
    try:
        options = read_map(bytes(operator.custom))
    except Damaged:
        return 0
    slots = 1 if options.get("use_regular_nms") else int(options.get("max_classes_per_detection") or 1)
    return int(struct.unpack("<f", number)[0]) * slots
