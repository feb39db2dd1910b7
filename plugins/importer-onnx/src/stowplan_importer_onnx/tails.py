"""What follows a convolution, sum or pool and is computed with it: normalization, activation, quantization."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stowplan.flow.dtypes import RANGE
from stowplan.flow.graph import Quantization
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.parse import Array, FileNode
from stowplan_importer_onnx.site import Tail

if TYPE_CHECKING:
    from stowplan_importer_onnx.convert import Walk

CLIPS = {(0.0, 6.0): "relu6", (0.0, math.inf): "relu", (-1.0, 1.0): "relu_n1_to_1"}


def tail_of(walk: Walk, name: str, *, batch: bool, quantize: bool, activation: bool) -> Tail:
    """Follow an output as long as one operator reads it that can be computed in the same step."""
    found = Tail((), name)
    while True:
        readers = walk.readers.get(found.name, ())
        if len(readers) != 1 or found.name in walk.exits or found.quantization is not None:
            return found
        node = walk.nodes[readers[0]]
        further = None
        if node.domain == "" and node.inputs and node.inputs[0] == found.name and len(node.outputs) == 1:
            further = _next(walk, node, found, batch, quantize, activation)
        if further is None:
            return found
        found = further._replace(nodes=(*found.nodes, readers[0]), name=node.outputs[0])


def _next(walk: Walk, node: FileNode, found: Tail, batch: bool, quantize: bool, activation: bool) -> Tail | None:
    first = found.activation == "none"
    if node.kind == "BatchNormalization" and batch and first and found.scale is None:
        factors = normalization(walk, node)
        return found if factors is None else found._replace(scale=factors[0], shift=factors[1])
    if node.kind == "Relu" and activation and first:
        return found._replace(activation="relu")
    if node.kind == "Clip" and activation and first:
        word = CLIPS.get(limits(walk, node) or (0.0, 0.0))
        return None if word is None else found._replace(activation=word)
    if node.kind == "QuantizeLinear" and quantize and len(node.inputs) >= 2:
        q, dtype = quantization_of(walk, node)
        return None if q is None or q.per_channel else found._replace(quantization=q, dtype=dtype)
    return None


def normalization(walk: Walk, node: FileNode) -> tuple[Array, Array] | None:
    """Return factor and summand per channel of a batch normalization, if its numbers are constants."""
    if len(node.inputs) < 5 or node.attributes.get("training_mode"):
        return None
    arrays = [walk.known(name) for name in node.inputs[1:5]]
    known = [array.astype(np.float64).reshape(-1) for array in arrays if array is not None]
    if len(known) < 4 or len({array.size for array in known}) != 1:
        return None
    scale, bias, mean, variance = known
    epsilon = node.attributes.get("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + float(epsilon))
    return (factor, bias - mean * factor) if np.isfinite(factor).all() else None


def limits(walk: Walk, node: FileNode) -> tuple[float, float] | None:
    """Return the ends of a Clip's range, if they are known."""
    ends = []
    for position, key, default in ((1, "min", -math.inf), (2, "max", math.inf)):
        name = node.inputs[position] if position < len(node.inputs) else ""
        array = walk.known(name) if name else np.array(node.attributes.get(key, default))
        if array is None or array.size != 1 or array.dtype.kind not in "fiu":
            return None
        value = float(array.reshape(-1)[0])
        largest = float(np.finfo(np.float32).max)
        ends.append(math.copysign(math.inf, value) if abs(value) >= largest else value)
    return ends[0], ends[1]


def quantization_of(walk: Walk, node: FileNode) -> tuple[Quantization | None, str]:
    """Return the quantization that a QuantizeLinear or DequantizeLinear names, in int8's numbers, and its own type.

    None where it is not known now, or not of int8 or uint8 with a scale for all or for each index along an axis.
    """
    scales = walk.known(node.inputs[1])
    points = walk.known(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    dtype = str(points.dtype) if points is not None else "uint8"
    if scales is None or (len(node.inputs) > 2 and node.inputs[2] and points is None):
        return None, dtype
    if node.attributes.get("block_size") or scales.dtype != np.float32:
        return None, dtype
    axis = node.attributes.get("axis", 1)
    return quantization(scales, points, int(axis) if isinstance(axis, int) else 1, dtype), dtype


def quantization(scales: Array, points: Array | None, axis: int, dtype: str) -> Quantization | None:
    if dtype not in ("int8", "uint8") or scales.ndim > 1 or not scales.size:
        return None
    flat = np.zeros(scales.size, np.int64) if points is None else points.reshape(-1).astype(np.int64)
    if flat.size != scales.size or not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    low, high = RANGE[dtype]
    if flat.min() < low or flat.max() > high:
        return None
    zero_points = tuple(int(p) - (128 if dtype == "uint8" else 0) for p in flat)
    numbers = tuple(float(s) for s in scales.reshape(-1))
    return Quantization(scales=numbers, zero_points=zero_points, axis=axis if len(numbers) > 1 else None)


def matched(builder: Builder, value: Value, quantization: Quantization) -> bool:
    """Say whether a value is held as int8 in exactly this quantization."""
    return builder.is_quantized(value) and builder.quantization(value) == quantization


def finished(value: Value, tail: Tail) -> Value:
    """Return an integer result under the type that its QuantizeLinear gives it."""
    if tail.quantization is None:
        raise Refusal("its output is not quantized")
    return value._replace(dtype=tail.dtype)
