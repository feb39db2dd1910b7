"""Constants, and operators about shapes that are known once the inputs are bound."""

from __future__ import annotations

import math

import numpy as np

from stowplan_importer_onnx.builder import Refusal, Value
from stowplan_importer_onnx.parse import Array, dtype_name, spelled
from stowplan_importer_onnx.site import ANYTHING, FLOAT, Site

MAX_FILLED = 1 << 26
KINDS = ("value", "value_float", "value_floats", "value_int", "value_ints")
WIDE = (*ANYTHING, "float16", "float64")


def constant(site: Site) -> Value:
    found = [name for name in KINDS if site.has(name)]
    if len(found) != 1:
        raise Refusal("strings or sparse tensors; a dense tensor of numbers would be supported")
    value = site.node.attributes[found[0]]
    if isinstance(value, np.ndarray):
        return site.builder.constant(value)
    return site.builder.constant(np.array(value, np.float32 if "float" in found[0] else np.int64))


def shape(site: Site) -> Value:
    x = site.value(0, WIDE)
    start, end = site.integer("start", 0), site.integer("end", x.rank)
    return site.builder.constant(np.array(x.shape[slice(start, end)], np.int64))


def size(site: Site) -> Value:
    return site.builder.constant(np.array(site.value(0, WIDE).elements, np.int64))


def constant_of_shape(site: Site) -> Value:
    sizes = site.numbers(0, "the shape")
    value = site.node.attributes.get("value", np.zeros(1, np.float32))
    if (
        not isinstance(value, np.ndarray)
        or value.size != 1
        or any(n < 0 for n in sizes)
        or math.prod(sizes) > MAX_FILLED
    ):
        raise Refusal(f"a constant of shape {spelled(sizes[:8])}")
    return site.builder.constant(np.full(sizes, value.reshape(-1)[0], value.dtype))


def range_(site: Site) -> Value:
    arrays = [site.array(position, word) for position, word in enumerate(("the start", "the limit", "the step"))]
    if any(a.size != 1 or a.dtype != arrays[0].dtype for a in arrays):
        raise Refusal("a range of several types")
    start, limit, step = (a.reshape(-1)[0] for a in arrays)
    count = math.ceil((float(limit) - float(start)) / float(step)) if step and math.isfinite(float(step)) else 0
    if not 0 <= count <= MAX_FILLED:
        raise Refusal(f"a range of {count} numbers")
    return site.builder.constant(
        (start + np.arange(max(count, 0)).astype(arrays[0].dtype) * step).astype(arrays[0].dtype)
    )


def eye_like(site: Site) -> Value:
    x, code = site.value(0, WIDE), site.node.attributes.get("dtype")
    dtype = dtype_name(code) if isinstance(code, int) else x.dtype
    if x.rank != 2 or x.elements > MAX_FILLED:
        raise Refusal(f"of shape {spelled(x.shape)}; two axes are defined")
    return site.builder.constant(np.eye(x.shape[0], x.shape[1], site.integer("k", 0), dtype=_numpy(dtype)))


def _numpy(dtype: str) -> np.dtype[np.generic]:
    if dtype not in WIDE:
        raise Refusal(f"{dtype} tensors are not supported")
    return np.dtype(dtype)


def non_zero(site: Site) -> Value:
    """Lower NonZero of a constant: how many there are decides the shape."""
    array = site.array(0, "its input")
    return site.builder.constant(np.array(np.nonzero(array), np.int64))


def one_hot(site: Site) -> Value:
    """Lower OneHot: indices compared with each place, then one of two values."""
    from stowplan_importer_onnx.lower.elementwise import cast
    from stowplan_importer_onnx.lower.joining import binary, select
    from stowplan_importer_onnx.lower.movement import permuted

    builder, indices = site.builder, site.value(0)
    depth, values = int(site.scalar(1, "the depth")), site.array(2, "the values")
    if not 0 < depth <= 1 << 20 or values.size != 2:
        raise Refusal(f"depth {depth} and {values.size} values")
    axis = site.axis(indices.rank + 1, -1)
    places = cast(builder, indices, "int32")
    below = binary(builder, "less", places, builder.constant(np.array(0, np.int32)))
    moved = binary(builder, "add", places, builder.constant(np.array(depth, np.int32)))
    wide = builder.reshaped(select(builder, below, moved, places), (*indices.shape, 1))
    hit = binary(builder, "equal", wide, builder.constant(np.arange(depth, dtype=np.int32)))
    off, on = (builder.constant(np.array(v)) for v in values.reshape(-1))
    found = select(builder, hit, on, off)
    last = found.rank - 1
    return permuted(found, [*range(axis), last, *range(axis, last)])


def triangle(site: Site) -> Value:
    """Lower Trilu: a mask of what is kept."""
    from stowplan_importer_onnx.lower.joining import select

    x = site.value(0)
    k = int(site.scalar(1, "the diagonal")) if site.optional(1) is not None else 0
    if x.rank < 2 or not x.elements:
        raise Refusal(f"of shape {spelled(x.shape)}")
    ones: Array = np.ones(x.shape[-2:], bool)
    mask = np.triu(ones, k) if site.integer("upper", 1) else np.tril(ones, k)
    return select(site.builder, site.builder.constant(mask), x, site.builder.constant(np.zeros((), x.dtype)))


def window(site: Site, name: str) -> Value:
    """Lower HannWindow and its like, whose size is constant."""
    count = int(site.scalar(0, "the size"))
    code = site.integer("output_datatype", 1)
    if not 0 < count <= MAX_FILLED or code != 1:
        raise Refusal(f"a window of {count} {dtype_name(code)}")
    angle = 2 * np.pi * np.arange(count) / max(count - (0 if site.integer("periodic", 1) else 1), 1)
    series = {"hann": (0.5, 0.5, 0.0), "hamming": (25 / 46, 21 / 46, 0.0), "blackman": (0.42, 0.5, 0.08)}[name]
    values = series[0] - series[1] * np.cos(angle) + series[2] * np.cos(2 * angle)
    return site.builder.constant(values.astype(np.float32))


def random_free(site: Site) -> Value:
    site.value(0, FLOAT)
    raise Refusal("random numbers; a plan gives the same answer each time")
