"""Counts what a file asks a protobuf library to build, before any library sees it.

A message of two bytes becomes an object of a hundred: a small file can be a large model in memory. Here nothing is
built: the walk follows the messages that ONNX nests, skips everything else by its length, and gives up at a limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.errors import ModelError

MAX_FIELDS = 2_000_000
MAX_DEPTH = 60
"""The libraries give up at 100."""

_NESTED: Mapping[str, Mapping[int, str]] = {
    "Model": {7: "Graph", 8: "Leaf", 14: "Leaf", 20: "Training", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Info", 12: "Info", 13: "Info", 14: "Annotation", 15: "Sparse", 16: "Leaf"},
    "Node": {5: "Attribute", 9: "Leaf"},
    "Attribute": {
        5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 14: "Type", 15: "Type", 22: "Sparse", 23: "Sparse",
    },
    "Tensor": {3: "Leaf", 13: "Leaf", 16: "Leaf"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Info": {2: "Type", 4: "Leaf"},
    "Type": {1: "TensorType", 4: "Element", 5: "Map", 8: "TensorType", 9: "Element"},
    "Element": {1: "Type"},
    "Map": {2: "Type"},
    "TensorType": {2: "Shape"},
    "Shape": {1: "Leaf"},
    "Annotation": {2: "Leaf"},
    "Training": {1: "Graph", 2: "Graph", 3: "Leaf", 4: "Leaf"},
    "Function": {7: "Node", 9: "Leaf", 11: "Attribute", 12: "Info", 14: "Leaf"},
    "Leaf": {},
}  # fmt: skip
"""Field numbers of each message that hold messages, as onnx.proto has them."""
VARINT, WORD_64, BYTES, WORD_32 = 0, 1, 2, 5


def check_wire(name: str, data: bytes) -> None:
    """Raise `ModelError` for a file that is no protobuf of ONNX's shape, or that would take too much to build."""
    pending = [(0, len(data), "Model", 0)]
    fields = 0
    while pending:
        at, end, message, depth = pending.pop()
        nested = _NESTED[message]
        while at < end:
            fields += 1
            key, at = _varint(name, data, at, end)
            kind, number = key & 7, key >> 3
            if kind == VARINT:
                _, at = _varint(name, data, at, end)
            elif kind in (WORD_64, WORD_32):
                at += 8 if kind == WORD_64 else 4
            elif kind == BYTES:
                size, at = _varint(name, data, at, end)
                if number in nested and size:
                    pending.append((at, at + size, nested[number], depth + 1))
                at += size
            else:
                raise _damaged(name)
            if at > end:
                raise _damaged(name)
        if fields + len(pending) > MAX_FIELDS or depth > MAX_DEPTH:
            raise ModelError(
                f"{name}: more than {MAX_FIELDS} parts, or nested {MAX_DEPTH} deep: not a model to compile"
            )


def _varint(name: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    result = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise _damaged(name)


def _damaged(name: str) -> ModelError:
    return ModelError(f"{name}: damaged, or no ONNX file: its parts do not lie within each other. Export it again")
