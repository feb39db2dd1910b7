"""Two and more values side by side: in one order of axes, stretched over each other, or joined along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.build.rows import nhwc
from stowplan.flow.operators import COMPARISONS, LOGICAL
from stowplan_importer_onnx.builder import Builder, Refusal, Value, plain
from stowplan_importer_onnx.fold import Attributes
from stowplan_importer_onnx.parse import spelled
from stowplan_importer_onnx.site import broadcast_shape

WITHOUT_ACTIVATION = frozenset((*COMPARISONS, *LOGICAL))


def raised(builder: Builder, value: Value, rank: int) -> Value:
    """Return a value with axes of one element in front, up to this rank."""
    return builder.reshaped(value, (1,) * (rank - value.rank) + value.shape)


def common_order(builder: Builder, values: Sequence[Value]) -> tuple[int, ...]:
    """Return the order of the largest activation among values of one rank; what is not transposed wins a draw."""
    moving = [value for value in values if not builder.is_constant(value)] or list(values)
    most = max(value.elements for value in moving)
    return next(value.order for value in moving if value.elements == most)


def expanded(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    """Return a value stretched over a shape of its rank, as elements."""
    if shape == value.shape:
        return value
    strides, step = [], 1
    for axis in reversed(value.order):
        strides.append(step if value.shape[axis] > 1 else 0)
        step *= value.shape[axis]
    sizes = tuple(shape[axis] for axis in value.order)
    attributes: Attributes = {"sizes": sizes, "strides": tuple(reversed(strides)), "offset": 0}
    found = builder.tensors[value.tensor]
    tensor = builder.step("rearrange", (value.tensor,), sizes, found.dtype, attributes, found.quantization)
    return Value(tensor, shape, value.dtype, value.order)


def binary(builder: Builder, kind: str, a: Value, b: Value, dtype: str = "", activation: str = "none") -> Value:
    """Return a function of two values of one type, one stretched over the other where their shapes differ."""
    shape = broadcast_shape(a.shape, b.shape)
    operands = [raised(builder, builder.real(value), len(shape)) for value in (a, b)]
    order = common_order(builder, operands)
    stored = tuple(shape[axis] for axis in order)
    tensors = []
    for operand in operands:
        held = tuple(operand.shape[axis] for axis in order)
        if not _stretches(held, stored):
            operand = expanded(builder, operand, shape)
        tensors.append(builder.stored(operand, order))
    limited = "unbounded" if activation == "none" and a.dtype == "float32" else activation
    attributes: Attributes = {} if kind in WITHOUT_ACTIVATION else {"activation": limited}
    result = "bool" if kind in WITHOUT_ACTIVATION else dtype or a.dtype
    return builder.result(kind, tensors, shape, result, attributes, order)


def _stretches(shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Say whether kernels can stretch a tensor: along rows, columns, channels, and all images or none."""
    if shape == result:
        return True
    images = nhwc(shape)[0]
    return images in (1, nhwc(result)[0])


def select(builder: Builder, condition: Value, a: Value, b: Value) -> Value:
    shape = broadcast_shape(condition.shape, a.shape, b.shape)
    values = [raised(builder, builder.real(value), len(shape)) for value in (condition, a, b)]
    order = common_order(builder, values)
    if len(shape) > 4:  # kernels count along four axes
        values = [expanded(builder, value, shape) for value in values]
        tensors = [builder.stored(value, order) for value in values]
        flat = [builder.step("reshape", (t,), (values[0].elements,), builder.tensors[t].dtype) for t in tensors]
        found = builder.step("select", flat, (values[0].elements,), a.dtype)
        stored = tuple(shape[axis] for axis in order)
        return Value(builder.step("reshape", (found,), stored, a.dtype), shape, a.dtype, order)
    return builder.result("select", [builder.stored(value, order) for value in values], shape, a.dtype, {}, order)


def joined(builder: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Return values one after another along an axis; integers that stand for reals stay so if all are of one scale."""
    first = parts[0]
    for part in parts:
        if part.rank != first.rank or part.dtype != first.dtype or any(
            part.shape[i] != first.shape[i] for i in range(first.rank) if i != axis
        ):  # fmt: skip
            shapes = " and ".join(spelled(p.shape) for p in (first, part))
            raise Refusal(
                f"inputs of shapes {shapes} ({first.dtype}, {part.dtype}) do not go together along axis {axis}"
            )
    found = {(builder.tensors[p.tensor].dtype, builder.tensors[p.tensor].quantization) for p in parts}
    if len(found) > 1 or (not builder.is_quantized(first) and builder.tensors[first.tensor].dtype != first.dtype):
        parts = [builder.real(part) for part in parts]
    filled = [part for part in parts if part.elements] or [first]
    order = common_order(builder, filled)
    shape = (*first.shape[:axis], sum(part.shape[axis] for part in filled), *first.shape[axis + 1 :])
    if len(filled) == 1:
        return filled[0]
    tensors = [builder.stored(part, order) for part in filled]
    held = builder.tensors[tensors[0]]
    stored = tuple(shape[i] for i in order)
    attributes: Attributes = {"axis": order.index(axis)}
    tensor = builder.step("concatenation", tensors, stored, held.dtype, attributes, held.quantization)
    return Value(tensor, shape, first.dtype, order)


def scalar(builder: Builder, number: float, dtype: str = "float32") -> Value:
    return builder.constant(np.array(number, dtype))


def full(shape: tuple[int, ...], number: float, dtype: str = "float32") -> np.ndarray:
    return np.full(shape, number, dtype)


__all__ = ["binary", "common_order", "expanded", "full", "joined", "plain", "raised", "scalar", "select"]
