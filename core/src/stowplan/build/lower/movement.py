"""Operators that only move elements: by an offset per axis, by computed indices, by a condition, with a margin."""

from __future__ import annotations

import struct
from math import prod

from stowplan.build.lower.fixed_point import words
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.build.moves import Offsets, reach
from stowplan.build.rows import nhwc
from stowplan.flow.dtypes import SIZE_BYTES

AXES = 8
SELECT_AXES = 4


def rearrange(site: Site) -> Lowered:
    if site.input().dtype != site.output.dtype:
        raise site.refusal("its input and output differ in type")
    source = site.layout.source(site.index)
    span = reach(source)
    if source.elements != site.output.elements or span.start < 0 or span.stop > site.input().elements:
        raise site.refusal(f"it does not make {list(site.output.shape)} of {list(site.input().shape)}")
    axes = _merged(source.axes)
    if len(axes) > AXES:
        raise site.refusal(f"it moves along {len(axes)} axes at once; {AXES} are supported")
    params: dict[str, ParamValue] = {"element_bytes": SIZE_BYTES[site.output.dtype], "offset": source.base}
    for number, axis in enumerate([range(1)] * (AXES - len(axes)) + axes):
        even = isinstance(axis, range)
        step = axis.step if isinstance(axis, range) and len(axis) > 1 else 0
        params |= {f"size{number}": len(axis), f"stride{number}": step}
        params[f"table{number}"] = None if even or not any(axis) else words(list(axis))
    return Lowered(kind="rearrange", params=params, operands=(site.operand(),))


def _merged(axes: tuple[Offsets, ...]) -> list[Offsets]:
    """Join neighbouring axes that step evenly into one; leave axes of one element out."""
    found: list[Offsets] = []
    for axis in axes:
        if len(axis) == 1 and not axis[0]:
            continue
        last = found[-1] if found else None
        if isinstance(last, range) and isinstance(axis, range) and last.step == axis.step * len(axis):
            found[-1] = range(0, len(last) * len(axis) * axis.step, axis.step)
        else:
            found.append(axis)
    return found


def gather(site: Site) -> Lowered:
    shape, axis = site.input().shape, site.operator.integer("axis")
    indices = site.input(1)
    if not 0 <= axis < len(shape) or indices.dtype not in ("int32", "int64"):
        raise site.refusal(f"axis {axis} of {list(shape)} by {indices.dtype} indices is not supported")
    expected = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    if expected != site.output.shape or site.input().dtype != site.output.dtype:
        raise site.refusal(f"its output has shape {list(site.output.shape)} instead of {list(expected)}")
    params = dict(
        outer=prod(shape[:axis]), count=shape[axis], inner=prod(shape[axis + 1 :]) * SIZE_BYTES[site.output.dtype],
        to_count=indices.elements, index_bytes=SIZE_BYTES[indices.dtype],
    )  # fmt: skip
    return Lowered(kind="gather", params=params, operands=(site.operand(0), site.operand(1)))


def select(site: Site) -> Lowered:
    shape = (1,) * (SELECT_AXES - len(site.output.shape)) + site.output.shape
    if len(shape) != SELECT_AXES or site.input(0).dtype != "bool":
        raise site.refusal("a choice by a bool tensor of up to four axes is supported")
    params: dict[str, ParamValue] = {"element_bytes": SIZE_BYTES[site.output.dtype]}
    params |= {f"size{axis}": size for axis, size in enumerate(shape)}
    for position, name in enumerate("cab"):
        tensor = site.input(position)
        if position and tensor.dtype != site.output.dtype:
            raise site.refusal(f"{tensor.dtype} does not become {site.output.dtype}")
        steps = stretched(tensor.shape, shape)
        if steps is None:
            raise site.refusal(f"shape {list(tensor.shape)} cannot be broadcast to {list(site.output.shape)}")
        params |= {f"{name}_step{axis}": step for axis, step in enumerate(steps)}
    return Lowered(kind="select", params=params, operands=tuple(site.operand(p) for p in range(3)))


def stretched(shape: tuple[int, ...], result: tuple[int, ...]) -> list[int] | None:
    """Return how far apart neighbours along each axis of `result` lie in a tensor stretched over it."""
    padded = (1,) * (len(result) - len(shape)) + shape
    if len(shape) > len(result) or any(a not in (1, b) for a, b in zip(padded, result, strict=True)):
        return None
    return [prod(padded[axis + 1 :]) if size > 1 else 0 for axis, size in enumerate(padded)]


def pad_with(site: Site) -> Lowered:
    dtype = site.input().dtype
    value, size = site.operator.number("value"), SIZE_BYTES[dtype]
    if dtype in ("float32", "int32"):
        data = struct.pack("<f", value) if dtype == "float32" else struct.pack("<i", int(value))
    elif size <= 2:
        data = (int(value) % (1 << (8 * size))).to_bytes(size, "little") * (4 // size)
    elif value == 0:
        data = bytes(4)
    else:
        raise site.refusal(f"padding {dtype} with {value:g} is not supported")
    return padded(site, struct.unpack("<i", data)[0])


def pad(site: Site) -> Lowered:
    return padded(site, _zero(site))


def _zero(site: Site) -> int:
    """Real 0 as elements that fill four bytes."""
    dtype = site.input().dtype
    if dtype in ("int8", "int16"):
        return pattern(site.same_quantization().zero_point, SIZE_BYTES[dtype])
    if dtype not in ("float32", "int32", "int64", "bool", "uint8"):
        raise site.refusal(f"padding {dtype} is not supported")
    return 0


def pattern(value: int, size: int) -> int:
    """Return small integers side by side as one word."""
    data = (value % (1 << (8 * size))).to_bytes(size, "little") * (4 // size)
    return int.from_bytes(data, "little", signed=True)


def padded(site: Site, value: int) -> Lowered:
    """Return the node that puts a margin around images; `value` is what four bytes of it hold."""
    source, result = site.input().shape, site.output.shape
    before, after = site.operator.integers("before"), site.operator.integers("after")
    if site.input().dtype != site.output.dtype or not len(source) == len(result) == len(before) == len(after):
        raise site.refusal("its paddings do not match its shapes")
    wide = tuple(b + n + a for b, n, a in zip(before, source, after, strict=True))
    if min((*before, *after), default=0) < 0 or wide != result:
        raise site.refusal(f"paddings {list(before)} and {list(after)} do not make {list(result)} of {list(source)}")
    if not source or (len(source) > 4 and any((*before[:-3], *after[:-3]))):
        raise site.refusal("padding is supported on one to four axes")
    if site.input_form() != site.layout.default(site.operator.inputs[0]):
        raise site.refusal("its input is not cut into rows of its height")
    size = SIZE_BYTES[site.input().dtype]
    first = {1: (0, 0, 0), 2: (0, before[0], 0), 3: (0, *before[:-1])}.get(len(before), before[-4:-1])
    inside, outside = nhwc(source), nhwc(result)
    params = dict(
        in_h=inside[1], in_w=inside[2], in_c=inside[3] * size,
        out_h=outside[1], out_w=outside[2], out_c=outside[3] * size,
        before_n=first[0], before_h=first[1], before_w=first[2], before_c=before[-1] * size, value=value,
    )  # fmt: skip
    return Lowered(kind="pad", params=params, operands=(site.operand(),))
