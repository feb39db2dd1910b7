"""Sums, means and extremes over any axes, places of extremes, softmax, running sums."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from stowplan.flow.graph import Attribute
from stowplan_importer_onnx.builder import Builder, Refusal, Value, plain
from stowplan_importer_onnx.lower.elementwise import cast, unary
from stowplan_importer_onnx.lower.joining import binary
from stowplan_importer_onnx.lower.movement import permuted, picked
from stowplan_importer_onnx.site import FLOAT, NUMBERS, Lowering, Result, Site, axes_of

Made = Callable[[Builder, Value], Value]


def reduced(builder: Builder, x: Value, function: str, axes: tuple[int, ...], *, keep: bool) -> Value:
    """Return a function of a value over some of its axes."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    if not axes:
        return x
    if not x.elements and function in ("max", "min", "mean"):
        raise Refusal(f"{function} of nothing")
    stored = tuple(kept[axis] for axis in x.order)
    places = tuple(sorted(x.place(axis) for axis in axes))
    attributes: dict[str, Attribute] = {"function": function, "axes": places}
    found = Value(builder.step("reduce", (x.tensor,), stored, x.dtype, attributes), kept, x.dtype, x.order)
    if keep:
        return found
    return builder.reshaped(found, tuple(size for axis, size in enumerate(kept) if axis not in axes))


def _reduced_axes(site: Site, rank: int) -> tuple[int, ...] | None:
    """Return the axes to reduce; None says that nothing is to be done."""
    asked = site.integers("axes") if site.has("axes") else ()
    if not site.has("axes") and site.optional(1) is not None:
        asked = site.numbers(1, "the list of axes")
    if not asked:
        return None if site.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return axes_of(asked, rank)


def reduction(function: str, before: Made | None = None, after: Made | None = None) -> Lowering:
    """Return the lowering of a reduction, with functions of each element before and after."""

    def lowering(site: Site) -> Value:
        dtypes = NUMBERS if before is None and after is None else FLOAT
        x = site.builder.real(site.value(0, dtypes))
        axes = _reduced_axes(site, x.rank)
        x = x if before is None else before(site.builder, x)
        if axes is not None:
            x = _summed(site.builder, x, function, axes, bool(site.integer("keepdims", 1)))
        return x if after is None else after(site.builder, x)

    return lowering


def _summed(builder: Builder, x: Value, function: str, axes: tuple[int, ...], keep: bool) -> Value:
    if x.dtype in ("float32", "int32", "int64", "bool") or builder.is_constant(x):
        return reduced(builder, x, function, axes, keep=keep)
    wide = reduced(builder, cast(builder, x, "int32"), function, axes, keep=keep)
    return cast(builder, wide, x.dtype)


def log_sum_exp(site: Site) -> Value:
    x, builder = site.builder.real(site.value(0, FLOAT)), site.builder
    axes = _reduced_axes(site, x.rank)
    if axes is None:
        return x
    highest = reduced(builder, x, "max", axes, keep=True)
    total = reduced(builder, unary(builder, "exp", binary(builder, "sub", x, highest)), "sum", axes, keep=True)
    found = binary(builder, "add", unary(builder, "log", total), highest)
    if site.integer("keepdims", 1):
        return found
    return builder.reshaped(found, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))


def arg_extreme(kind: str) -> Lowering:
    def lowering(site: Site) -> Value:
        builder = site.builder
        x = builder.real(site.value(0, ("float32", "int8", "uint8", "int16", "int32")))
        axis = site.axis(x.rank)
        late = bool(site.integer("select_last_index", 0))
        if late:
            x = picked(builder, x, [range(n - 1, -1, -1) if i == axis else range(n) for i, n in enumerate(x.shape)])
        order = (*(i for i in x.order if i != axis), axis)
        tensor = builder.stored(x, order)
        kept = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        rest = tuple(kept[i] for i in order)
        small = builder.step(kind, (tensor,), rest[:-1], "int64")
        found = Value(builder.step("reshape", (small,), rest, "int64"), kept, "int64", order)
        if late:
            last = builder.constant(np.array(x.shape[axis] - 1, np.int64))
            found = binary(builder, "sub", last, found)
        if site.integer("keepdims", 1):
            return found
        return builder.reshaped(found, tuple(n for i, n in enumerate(kept) if i != axis))

    return lowering


def softmax(kind: str) -> Lowering:
    """Return the lowering of Softmax or LogSoftmax; before opset 13 they went over all axes from one on."""

    def lowering(site: Site) -> Result:
        x = site.builder.real(site.value(0, FLOAT))
        if site.version < 13:
            axis = site.axis(x.rank, 1) if x.rank else 0
            flat = site.builder.reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
            if prod(x.shape[axis + 1 :]) > 1:
                return site.builder.reshaped(along(site.builder, kind, flat, 1), x.shape)
            return along(site.builder, kind, x, axis)
        return along(site.builder, kind, x, site.axis(x.rank, -1))

    return lowering


def along(builder: Builder, kind: str, x: Value, axis: int) -> Value:
    """Return softmax along one axis of the model, which comes last in the tensor."""
    order = (*(i for i in x.order if i != axis), axis)
    attributes: dict[str, Attribute] = {"beta": 1.0} if kind == "softmax" else {}
    return builder.result(kind, (builder.stored(x, order),), x.shape, "float32", attributes, order)


def hardmax(site: Site) -> Value:
    builder = site.builder
    x = builder.real(site.value(0, FLOAT))
    axis = site.axis(x.rank, -1 if site.version >= 13 else 1)
    y = x
    if site.version < 13:
        y = builder.reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        axis = 1
    turned = permuted(y, [*(i for i in range(y.rank) if i != axis), axis])
    tensor = builder.stored(turned, plain(y.rank))
    place = builder.step("arg_max", (tensor,), turned.shape[:-1], "int64")
    wide = builder.step("reshape", (place,), (*turned.shape[:-1], 1), "int64")
    places = Value(wide, (*turned.shape[:-1], 1), "int64", plain(y.rank))
    hit = binary(builder, "equal", places, builder.constant(np.arange(turned.shape[-1])))
    found = cast(builder, hit, "float32")
    back = [*range(axis), y.rank - 1, *range(axis, y.rank - 1)]
    return builder.reshaped(permuted(found, back), x.shape)


def cumulative_sum(site: Site) -> Value:
    """Lower running sums as a product with a triangle of ones."""
    from stowplan_importer_onnx.lower.dense import connected

    builder = site.builder
    x = site.value(0, FLOAT)
    axis = axes_of(site.numbers(1, "the axis")[:1], x.rank)[0]
    size = x.shape[axis]
    if size > 4096:
        raise Refusal(f"a running sum of {size} elements; up to 4096 would be supported")
    ones = np.tril(np.ones((size, size), np.float32), -1 if site.integer("exclusive", 0) else 0)
    if site.integer("reverse", 0):
        ones = ones[::-1, ::-1]
    turned = permuted(builder.real(x), [*(i for i in range(x.rank) if i != axis), axis])
    found = connected(builder, turned, np.ascontiguousarray(ones), None, "none")
    return permuted(found, [*range(axis), x.rank - 1, *range(axis, x.rank - 1)])
