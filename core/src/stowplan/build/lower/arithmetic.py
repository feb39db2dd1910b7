"""Functions of two tensors with broadcast, beyond int8 sums and products: floats, int32, int16, comparisons."""

from __future__ import annotations

import math

from stowplan.build.lower.elementwise import broadcast, named, smaller_than_one
from stowplan.build.lower.fixed_point import factor
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.ranges import range_f32, range_integer, range_s8
from stowplan.build.lower.site import Site
from stowplan.flow.operators import ARITHMETIC, COMPARISONS, LOGICAL
from stowplan.planfile.layout import DTYPE_CODES

FUNCTIONS = (*ARITHMETIC, "add", "mul")
"""In the order of the kernels' enumeration."""
COMPARED = (*COMPARISONS, *LOGICAL)
PAIRS = ("squared_difference", "prelu")
"""In the order of the kernel's enumeration."""
SQUARE_BITS = 7
"""Bits that a difference gains before it is squared: as many as 32 bits hold."""
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
SUM_BITS = {"int8": 20, "int16": 15}
"""Bits that a difference gains below the point before it is scaled."""


def arithmetic(site: Site) -> Lowered:
    """Lower `add`, `mul` and everything in `ARITHMETIC`, by the dtype that all three tensors share."""
    kind, dtypes = site.operator.kind, {site.input(0).dtype, site.input(1).dtype, site.output.dtype}
    if is_raw(site) and dtypes != {"int32"}:
        return _raw(site)
    if kind in ("maximum", "minimum") and dtypes in ({"int8"}, {"int16"}):
        return _extreme(site)
    if kind in PAIRS and dtypes == {"int8"}:
        return _pair(site)
    if dtypes == {"int8"} and kind == "sub":
        return _sub_s8(site)
    if dtypes == {"int16"} and kind in ("add", "sub"):
        return _sum_s16(site)
    if dtypes == {"int16"} and kind == "mul":
        return _mul_s16(site)
    params, operands = broadcast(site)
    params["function"] = FUNCTIONS.index(kind)
    if dtypes == {"float32"}:
        limits: dict[str, ParamValue] = {"act_min": -math.inf, "act_max": math.inf}
        if site.operator.text("activation") != "none":
            limits = range_f32(site)
        return Lowered(kind="arithmetic_f32", params=params | limits, operands=operands)
    if dtypes != {"int32"} or site.operator.text("activation") != "none":
        found = ", ".join(sorted(dtypes))
        raise site.refusal(f"{kind} of {found} is not supported")
    return Lowered(kind="arithmetic_s32", params=params, operands=operands)


def is_raw(site: Site) -> bool:
    """Say whether an operator is on integers of one type without scales."""
    tensors = (site.input(0), site.input(1), site.output)
    return tensors[0].dtype in INTEGERS and all(t.dtype == tensors[0].dtype and not t.quantization for t in tensors)


def _raw(site: Site) -> Lowered:
    params, operands = broadcast(site)
    if site.operator.text("activation") != "none":
        raise site.refusal("an activation on integers without a scale is not supported")
    params |= {"function": FUNCTIONS.index(site.operator.kind), "dtype": DTYPE_CODES[site.output.dtype]}
    return Lowered(kind="arithmetic_int", params=params, operands=operands)


def comparison(site: Site) -> Lowered:
    dtype = site.input(0).dtype
    if site.input(1).dtype != dtype or site.output.dtype != "bool":
        raise site.refusal(f"{dtype} with {site.input(1).dtype} to {site.output.dtype} is not supported")
    if dtype not in ("bool", "int32", "int64", "float32") and site.input(0).quantization != site.input(1).quantization:
        raise site.refusal("its inputs are quantized differently")
    params, operands = broadcast(site)
    params |= {"function": COMPARED.index(site.operator.kind), "dtype": DTYPE_CODES[dtype]}
    return Lowered(kind="compare", params=params, operands=operands)


def _extreme(site: Site) -> Lowered:
    for position in (0, 1):
        site.same_quantization(position)
    params, operands = broadcast(site)
    if site.output.dtype == "int16":
        params |= {"function": FUNCTIONS.index(site.operator.kind), "dtype": DTYPE_CODES["int16"]}
        return Lowered(kind="arithmetic_int", params=params, operands=operands)
    params["largest"] = int(site.operator.kind == "maximum")
    return Lowered(kind="extreme_s8", params=params, operands=operands)


def _pair(site: Site) -> Lowered:
    """Lower `squared_difference` or `prelu` of int8."""
    params, operands = broadcast(site)
    a, b = site.quantization(site.input(0)), site.quantization(site.input(1))
    result = site.quantization(site.output)
    params |= {"function": PAIRS.index(site.operator.kind), "dtype": DTYPE_CODES[site.output.dtype]}
    if site.operator.kind == "prelu":
        params |= {"a_zero_point": a.zero_point, "b_zero_point": b.zero_point, "output_zero_point": result.zero_point}
        params |= {"left_shift": 0, **named("a", factor(a.scale / result.scale)), **named("output", factor(0.0))}
        params |= named("b", factor(a.scale * b.scale / result.scale))
        return Lowered(kind="pair_int", params=params | range_integer(site, result), operands=operands)
    twice = 2.0 * max(a.scale, b.scale)
    params |= {"left_shift": SQUARE_BITS, **_common_scale(site, SQUARE_BITS)}
    params |= named("output", factor(twice * twice / ((1 << 2 * SQUARE_BITS) * result.scale)))
    return Lowered(kind="pair_int", params=params | range_integer(site, result), operands=operands)


def _sub_s8(site: Site) -> Lowered:
    params, operands = broadcast(site)
    result = site.quantization(site.output)
    params |= _common_scale(site, SUM_BITS["int8"])
    return Lowered(kind="sub_s8", params=params | range_s8(site, result), operands=operands)


def _sum_s16(site: Site) -> Lowered:
    params, operands = broadcast(site)
    result = site.quantization(site.output)
    params |= {"subtract": int(site.operator.kind == "sub"), "left_shift": SUM_BITS["int16"]}
    params |= _common_scale(site, SUM_BITS["int16"])
    return Lowered(kind="add_int", params=params | range_integer(site, result), operands=operands)


def _common_scale(site: Site, bits: int) -> dict[str, ParamValue]:
    a, b = site.quantization(site.input(0)), site.quantization(site.input(1))
    result = site.quantization(site.output)
    twice = 2.0 * max(a.scale, b.scale)
    params: dict[str, ParamValue] = {"a_zero_point": a.zero_point, "b_zero_point": b.zero_point}
    params["output_zero_point"] = result.zero_point
    params |= named("a", smaller_than_one(site, a.scale / twice))
    params |= named("b", smaller_than_one(site, b.scale / twice))
    return params | named("output", smaller_than_one(site, twice / ((1 << bits) * result.scale)))


def _mul_s16(site: Site) -> Lowered:
    params, operands = broadcast(site)
    a, b = site.quantization(site.input(0)), site.quantization(site.input(1))
    result = site.quantization(site.output)
    params |= {"a_zero_point": a.zero_point, "b_zero_point": b.zero_point, "output_zero_point": result.zero_point}
    params |= named("output", factor(a.scale * b.scale / result.scale))
    return Lowered(kind="mul_int", params=params | range_integer(site, result), operands=operands)
