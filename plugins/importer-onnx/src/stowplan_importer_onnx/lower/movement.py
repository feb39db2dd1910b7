"""Operators that move elements: transpose, reshape, slice, split, pad, tile and their like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from stowplan.flow.graph import Attribute
from stowplan_importer_onnx.builder import Builder, Refusal, Value, plain
from stowplan_importer_onnx.fold import fold
from stowplan_importer_onnx.lower.joining import expanded, joined, raised
from stowplan_importer_onnx.parse import spelled
from stowplan_importer_onnx.site import ANYTHING, Site, axes_of, axis_of, broadcast_shape


def transpose(site: Site) -> Value:
    x = site.value(0)
    axes = site.integers("perm") if site.has("perm") else tuple(reversed(range(x.rank)))
    if sorted(axes) != list(range(x.rank)):
        raise Refusal(f"perm {list(axes[:8])} for {x.rank} axes")
    return permuted(x, axes)


def permuted(x: Value, axes: Sequence[int]) -> Value:
    """Return a value with its axes in another order; no element moves before somebody asks for it."""
    shape = tuple(x.shape[axis] for axis in axes)
    return x._replace(shape=shape, order=tuple(list(axes).index(axis) for axis in x.order))


def reshape(site: Site) -> Value:
    x = site.value(0)
    asked = site.integers("shape") if site.has("shape") else site.numbers(1, "the shape")
    zero = bool(site.integer("allowzero", 0))
    return site.builder.reshaped(x, full_shape(x.shape, asked, zero))


def full_shape(shape: tuple[int, ...], asked: Sequence[int], zero: bool = False) -> tuple[int, ...]:
    """Return a shape with its 0 (as before) and its -1 (whatever is left) filled in."""
    found = [shape[i] if n == 0 and not zero and i < len(shape) else n for i, n in enumerate(asked)]
    if found.count(-1) > 1 or any(n < -1 for n in found):
        raise Refusal(f"shape {spelled(asked[:8])} of a tensor of shape {spelled(shape)}")
    if -1 in found:
        rest = -prod(found)
        found[found.index(-1)] = prod(shape) // rest if rest and prod(shape) % rest == 0 else 0
    if prod(found) != prod(shape):
        raise Refusal(f"shape {spelled(asked[:8])} of a tensor of shape {spelled(shape)}")
    return tuple(found)


def flatten(site: Site) -> Value:
    x = site.value(0)
    axis = site.integer("axis", 1)
    axis = axis if axis == x.rank else axis_of(axis, x.rank)
    return site.builder.reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def squeeze(site: Site) -> Value:
    x = site.value(0)
    if site.has("axes") or site.optional(1) is not None:
        axes = axes_of(_axes(site), x.rank)
    else:
        axes = tuple(i for i, size in enumerate(x.shape) if size == 1)
    if any(x.shape[axis] != 1 for axis in axes):
        raise Refusal(f"axes {list(axes)} of a tensor of shape {spelled(x.shape)}")
    return site.builder.reshaped(x, tuple(size for i, size in enumerate(x.shape) if i not in axes))


def unsqueeze(site: Site) -> Value:
    x, asked = site.value(0), _axes(site)
    axes = axes_of(asked, x.rank + len(asked))
    sizes = iter(x.shape)
    shape = tuple(1 if i in axes else next(sizes) for i in range(x.rank + len(axes)))
    return site.builder.reshaped(x, shape)


def _axes(site: Site, position: int = 1) -> tuple[int, ...]:
    return site.integers("axes") if site.has("axes") else site.numbers(position, "the list of axes")


def picked(builder: Builder, x: Value, ranges: Sequence[range]) -> Value:
    """Return the elements at these places along each axis of the model, which step evenly."""
    if all(r == range(size) for r, size in zip(ranges, x.shape, strict=True)):
        return x
    shape = tuple(len(r) for r in ranges)
    strides = {axis: prod(x.stored_shape[place + 1 :]) for place, axis in enumerate(x.order)}
    stored = tuple(shape[axis] for axis in x.order)
    found = builder.tensors[x.tensor]
    if 0 in shape:
        if not builder.is_constant(x):
            raise Refusal(f"its output of shape {spelled(shape)} is empty")
        return builder.constant(np.zeros(shape, found.dtype))
    attributes: dict[str, Attribute] = {
        "sizes": stored,
        "strides": tuple(ranges[axis].step * strides[axis] if len(ranges[axis]) > 1 else 0 for axis in x.order),
        "offset": sum(ranges[axis].start * strides[axis] for axis in x.order),
    }
    q = found.quantization
    if q is not None and q.per_channel:
        return picked(builder, builder.real(x), ranges)
    return Value(_moved(builder, x.tensor, stored, attributes), shape, x.dtype, x.order)


def _moved(builder: Builder, tensor: int, shape: tuple[int, ...], attributes: dict[str, Attribute]) -> int:
    found = builder.tensors[tensor]
    held = builder.held(tensor)
    if held is not None and found.quantization is not None:
        moved = fold("rearrange", [held], shape, found.dtype, attributes)
        assert moved is not None
        return builder.constant(moved, found.quantization).tensor
    return builder.step("rearrange", (tensor,), shape, found.dtype, attributes, found.quantization)


def taken(builder: Builder, x: Value, axis: int, places: Sequence[int]) -> Value:
    """Return the elements at these places along one axis of the model, in any order."""
    steps = {b - a for a, b in pairwise(places)}
    if len(steps) <= 1 and places:
        step = steps.pop() if steps else 1
        if step:
            ends = range(places[0], places[-1] + (1 if step > 0 else -1), step)
            return picked(builder, x, [ends if i == axis else range(n) for i, n in enumerate(x.shape)])
    if not places:
        return picked(builder, x, [range(0) if i == axis else range(n) for i, n in enumerate(x.shape)])
    found = builder.tensors[x.tensor]
    if found.quantization is not None and (found.quantization.per_channel or builder.is_constant(x)):
        return taken(builder, builder.real(x), axis, places)
    shape = tuple(len(places) if i == axis else n for i, n in enumerate(x.shape))
    stored = tuple(shape[i] for i in x.order)
    attributes: dict[str, Attribute] = {"axes": (x.place(axis),), "indices": tuple(places)}
    tensor = builder.step("sample", (x.tensor,), stored, found.dtype, attributes, found.quantization)
    return Value(tensor, shape, x.dtype, x.order)


def slice_(site: Site) -> Value:
    x = site.value(0)
    if site.version < 10:
        starts, ends = site.integers("starts"), site.integers("ends")
        axes, steps = site.integers("axes") or tuple(range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = site.numbers(1, "the starts"), site.numbers(2, "the ends")
        axes = site.numbers(3, "the axes") if site.optional(3) is not None else tuple(range(len(starts)))
        steps = site.numbers(4, "the steps") if site.optional(4) is not None else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refusal(
            f"starts {list(starts[:8])}, ends {list(ends[:8])}, axes {list(axes[:8])}, steps {list(steps[:8])}"
        )
    ranges = [range(size) for size in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_of(axis, x.rank)
        ranges[place] = range(*slice(start, _end(end, x.shape[place], step), step).indices(x.shape[place]))
    return picked(site.builder, x, ranges)


def _end(end: int, size: int, step: int) -> int | None:
    """A far negative end counts backwards to before the first element, which Python spells None."""
    return None if step < 0 and end < -size else end


def split(site: Site) -> list[Value]:
    x, count = site.value(0), len(site.node.outputs)
    axis = site.axis(x.rank)
    size = x.shape[axis]
    if site.has("split") or site.optional(1) is not None:
        sizes = site.integers("split") if site.has("split") else site.numbers(1, "the sizes")
    else:
        count = site.integer("num_outputs", count)
        if not 1 <= count <= max(size, 1):
            raise Refusal(f"{count} parts of {size} elements")
        part = -(-size // count)
        sizes = (*(part,) * (count - 1), size - part * (count - 1))
    if sum(sizes) != size or min(sizes, default=0) < 0 or len(sizes) != len(site.node.outputs):
        raise Refusal(f"{size} elements in parts of {list(sizes[:8])}")
    found, start = [], 0
    for part in sizes:
        ranges = [range(start, start + part) if i == axis else range(n) for i, n in enumerate(x.shape)]
        found.append(picked(site.builder, x, ranges))
        start += part
    return found


def concat(site: Site) -> Value:
    parts = [site.value(position, (*ANYTHING, "float64")) for position in range(len(site.inputs))]
    if not parts or not parts[0].rank:
        raise Refusal("no inputs, or scalars")
    return joined(site.builder, parts, site.axis(parts[0].rank, 1))


def expand(site: Site) -> Value:
    x = site.value(0)
    shape = broadcast_shape(x.shape, site.numbers(1, "the shape"))
    return _stretched(site.builder, raised(site.builder, x, len(shape)), shape)


def _stretched(builder: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    if 0 in shape:
        return builder.constant(np.zeros(shape, x.dtype))
    return expanded(builder, x if not builder.is_constant(x) else builder.real(x), shape)


def tile(site: Site) -> Value:
    x = site.value(0)
    repeats = site.numbers(1, "the repeats")
    if len(repeats) != x.rank or min(repeats, default=1) < 1:
        raise Refusal(f"{list(repeats[:8])} repeats of a tensor of shape {spelled(x.shape)}")
    doubled = site.builder.reshaped(x, tuple(n for size in x.shape for n in (1, size)))
    wide = tuple(n for count, size in zip(repeats, x.shape, strict=True) for n in (count, size))
    found = _stretched(site.builder, doubled, wide)
    return site.builder.reshaped(found, tuple(a * b for a, b in zip(repeats, x.shape, strict=True)))


def pad(site: Site) -> Value:
    x = site.value(0)
    if site.version < 11:
        pads, value = site.integers("pads") or site.integers("paddings"), site.number("value", 0.0)
    else:
        pads = site.numbers(1, "the pads")
        value = site.scalar(2, "the value") if site.optional(2) is not None else 0.0
    axes = tuple(range(x.rank))
    if site.optional(3) is not None:
        axes = tuple(axis_of(axis, x.rank) for axis in site.numbers(3, "the axes"))
    if len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise Refusal(f"{len(pads)} pads for {len(axes)} axes")
    before, after = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[len(axes) + i]
    return margins(site.builder, x, before, after, site.text("mode", "constant"), value)


def margins(builder: Builder, x: Value, before: Sequence[int], after: Sequence[int], mode: str, value: float) -> Value:
    """Return a value with margins; negative ones cut."""
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise Refusal(f"mode {mode}; constant, reflect, edge and wrap are defined")
    cut = [range(max(-b, 0), n - max(-a, 0)) for b, n, a in zip(before, x.shape, after, strict=True)]
    x = picked(builder, x, cut)
    low, high = [max(b, 0) for b in before], [max(a, 0) for a in after]
    if max((*low, *high), default=0) > 1 << 24:
        raise Refusal("its pads are too large")
    if mode == "constant":
        return _filled(builder, x, low, high, value)
    for axis, size in enumerate(x.shape):
        if low[axis] or high[axis]:
            x = taken(builder, x, axis, _mirrored(size, low[axis], high[axis], mode))
    return x


def _mirrored(size: int, before: int, after: int, mode: str) -> list[int]:
    """Return which element of an axis stands at each place of the padded one."""
    places = range(-before, size + after)
    if mode == "edge":
        return [min(max(place, 0), size - 1) for place in places]
    if mode == "wrap":
        return [place % size for place in places]
    period = max(2 * (size - 1), 1)
    return [min(place % period, period - place % period) if size > 1 else 0 for place in places]


def _filled(builder: Builder, x: Value, before: Sequence[int], after: Sequence[int], value: float) -> Value:
    """Return constant margins; five and more axes are padded as four, neighbours without margins joined."""
    if not any((*before, *after)):
        return x
    keep = builder.is_quantized(x) and value == 0.0
    x = x if keep else builder.real(x)
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    if x.rank <= 4 and not (x.dtype == "int64" and value):
        return _padded(builder, x, before, after, value)
    for axis in range(x.rank):
        if before[axis] or after[axis]:
            parts = [x]
            for count, first in ((before[axis], True), (after[axis], False)):
                if count:
                    margin = tuple(count if i == axis else n for i, n in enumerate(x.shape))
                    block = builder.constant(np.full(margin, value, x.dtype))
                    parts = [block, *parts] if first else [*parts, block]
            x = joined(builder, [builder.real(part) for part in parts], axis)
    assert x.shape == shape
    return x


def _padded(builder: Builder, x: Value, before: Sequence[int], after: Sequence[int], value: float) -> Value:
    found = builder.tensors[x.tensor]
    low, high = (tuple(side[axis] for axis in x.order) for side in (before, after))
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    stored = tuple(shape[axis] for axis in x.order)
    plain_zero = value == 0 and found.dtype in ("float32", "int8")
    attributes: dict[str, Attribute] = {"before": low, "after": high}
    if not plain_zero or (found.dtype == "int8" and found.quantization is None):
        attributes["value"] = value if found.dtype == "float32" else int(value)
    kind = "pad_with" if "value" in attributes else "pad"
    tensor = builder.step(kind, (x.tensor,), stored, found.dtype, attributes, found.quantization)
    return Value(tensor, shape, x.dtype, x.order)


def depth_to_space(site: Site) -> Value:
    x, block = site.value(0), site.integer("blocksize", 0)
    mode = site.text("mode", "DCR")
    if x.rank != 4 or block < 1 or x.shape[1] % (block * block) or mode not in ("DCR", "CRD"):
        raise Refusal(f"blocks of {block} of an input of shape {spelled(x.shape)}, mode {mode}")
    n, c, h, w = x.shape
    depth = c // block // block
    shape = (n, block, block, depth, h, w) if mode == "DCR" else (n, depth, block, block, h, w)
    wide = site.builder.reshaped(x, shape)
    turned = permuted(wide, (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3))
    return site.builder.reshaped(turned, (n, depth, h * block, w * block))


def space_to_depth(site: Site) -> Value:
    x, block = site.value(0), site.integer("blocksize", 0)
    if x.rank != 4 or block < 1 or x.shape[2] % block or x.shape[3] % block:
        raise Refusal(f"blocks of {block} of an input of shape {spelled(x.shape)}")
    n, c, h, w = x.shape
    mode = site.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise Refusal(f"mode {mode}; DCR and CRD are defined")
    wide = site.builder.reshaped(x, (n, c, h // block, block, w // block, block))
    turned = permuted(wide, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return site.builder.reshaped(turned, (n, c * block * block, h // block, w // block))


def plain_order(builder: Builder, x: Value) -> Value:
    """Return a value in a tensor of its own type in the model's order."""
    return Value(builder.natural(x), x.shape, x.dtype, plain(x.rank))
