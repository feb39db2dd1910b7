"""Operators that only move values: copy, reshape, pad, concatenation."""

from __future__ import annotations

from stowplan.build.lower.nodes import Lowered
from stowplan.build.lower.site import Site
from stowplan.build.rows import nhwc
from stowplan.flow.dtypes import SIZE_BYTES


def copy(site: Site) -> Lowered:
    if site.input().dtype != site.output.dtype or site.input().elements != site.output.elements:
        raise site.refusal("its input and output differ in size")
    return Lowered(kind="copy", operands=(site.operand(),))


def pad(site: Site) -> Lowered:
    source, result = site.input().shape, site.output.shape
    before, after = site.operator.integers("before"), site.operator.integers("after")
    if site.input().dtype != site.output.dtype or not len(source) == len(result) == len(before) == len(after):
        raise site.refusal("its paddings do not match its shapes")
    padded = tuple(b + n + a for b, n, a in zip(before, source, after, strict=True))
    if min((*before, *after), default=0) < 0 or padded != result:
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
        before_n=first[0], before_h=first[1], before_w=first[2], before_c=before[-1] * size, value=_zero(site),
    )  # fmt: skip
    return Lowered(kind="pad", params=params, operands=(site.operand(),))


def _zero(site: Site) -> int:
    """The byte that real 0 consists of."""
    if site.input().dtype == "int8":
        return site.same_quantization().zero_point & 0xFF
    if site.input().dtype != "float32":
        raise site.refusal(f"padding {site.input().dtype} is not supported")
    return 0


def concatenation(site: Site) -> Lowered:
    shape, axis = site.output.shape, site.operator.integer("axis")
    positions = range(len(site.operator.inputs))
    if not 0 <= axis < len(shape):
        raise site.refusal(f"axis {axis} does not exist in shape {list(shape)}")
    for position in positions:
        _check_part(site, position, axis)
    if sum(site.input(p).shape[axis] for p in positions) != shape[axis]:
        raise site.refusal(f"its inputs do not fill axis {axis} of {list(shape)}")
    operands = tuple(site.operand(position) for position in positions)
    if site.layout.streams(site.operator):
        return Lowered(kind="concatenation", params={"streams": 1, "groups": 1}, operands=operands)
    if axis < len(shape) - 2:  # rows of the height of several images come from several inputs
        raise site.refusal(f"concatenation along axis {axis} of {list(shape)} is not supported")
    for position in positions:
        if site.input_form(position).rows != site.output_form.rows:
            raise site.refusal("an input is not cut into rows of its height")
    groups = nhwc(shape)[2] if axis == len(shape) - 1 else 1
    return Lowered(kind="concatenation", params={"streams": 0, "groups": groups}, operands=operands)


def _check_part(site: Site, position: int, axis: int) -> None:
    part, whole = site.input(position), site.output
    expected = [*whole.shape[:axis], *part.shape[axis : axis + 1], *whole.shape[axis + 1 :]]
    if list(part.shape) != expected or part.dtype != whole.dtype:
        raise site.refusal(f"input {position} ({part.dtype} {list(part.shape)}) does not fit {list(whole.shape)}")
    if part.dtype == "int8":
        site.same_quantization(position)
