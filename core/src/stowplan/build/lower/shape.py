"""Operators that move bytes in their order: copy, reshape, concatenation."""

from __future__ import annotations

from math import prod

from stowplan.build.lower.nodes import Lowered
from stowplan.build.lower.site import Site
from stowplan.build.rows import nhwc


def copy(site: Site) -> Lowered:
    if site.input().dtype != site.output.dtype or site.input().elements != site.output.elements:
        raise site.refusal("its input and output differ in size")
    return Lowered(kind="copy", operands=(site.operand(),))


def bitcast(site: Site) -> Lowered:
    if site.input().size_bytes != site.output.size_bytes:
        raise site.refusal("its input and output differ in size")
    return Lowered(kind="copy", operands=(site.operand(),))


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
    if site.layout.joins(site.operator):
        return Lowered(kind="join", params={"outer": prod(shape[:axis])}, operands=operands)
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
    if part.quantization is not None and part.dtype in ("int8", "int16"):
        site.same_quantization(position)
