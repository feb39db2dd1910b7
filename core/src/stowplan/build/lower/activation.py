"""Operators on each element by itself, and softmax. int8 functions become tables, in the runtime's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

from stowplan.build.lower.fixed_point import (
    INT8_MAX,
    INT8_MIN,
    factor,
    input_radius,
    logistic,
    round_away,
    rounding_shift,
    saturate,
)
from stowplan.build.lower.nodes import Lowered
from stowplan.build.lower.ranges import FLOAT_MAX, quantized
from stowplan.build.lower.site import Site
from stowplan.build.lower.tables import softmax_s16
from stowplan.flow.dtypes import RANGE
from stowplan.flow.graph import Quantization
from stowplan.planfile.layout import DTYPE_CODES

SOFTMAX_BITS = 5
LOGISTIC_BITS = 4
"""Integer bits of the fixed-point numbers that int8 softmax and logistic compute with."""
SOFTMAX_MAX_DEPTH = 4095
"""A longer sum of exponentials could overflow 32 bits."""
UNIT_SCALE = 1.0 / 256.0
WIDE_TOLERANCE = 1e-3
"""How far the scale of an int16 output of softmax may be from 1/65536; files hold rounded ones."""


def relu(site: Site) -> Lowered:
    check_rows(site)
    if site.dtype(0) == "float32":
        return Lowered(kind="clamp_f32", params={"minimum": 0.0, "maximum": float("inf")}, operands=(site.operand(),))
    source, result = site.quantization(site.input()), site.quantization(site.output)
    scale = factor(source.scale / result.scale)

    def entry(value: int) -> int:
        return saturate(scale(value - source.zero_point) + result.zero_point, low=result.zero_point)

    return table_of(site, entry)


def relu6(site: Site) -> Lowered:
    check_rows(site)
    if site.dtype(0) == "float32":
        return Lowered(kind="clamp_f32", params={"minimum": 0.0, "maximum": 6.0}, operands=(site.operand(),))
    quantization = site.same_quantization()  # the runtime does not rescale here
    six = saturate(quantized(6.0, quantization))
    return table_of(site, lambda value: saturate(value, quantization.zero_point, six))


def logistic_(site: Site) -> Lowered:
    check_rows(site)
    if site.dtype(0) == "float32":
        return Lowered(kind="logistic_f32", operands=(site.operand(),))
    source, result = site.quantization(site.input()), site.quantization(site.output)
    if not _is_unit(result):
        return table_of(site, _logistic_by_real_numbers(source, result))
    scale = factor(source.scale * (1 << (31 - LOGISTIC_BITS)))
    if scale.shift < 0:
        raise site.refusal("the scale of its input is too small")
    radius = input_radius(LOGISTIC_BITS, scale.shift)

    def entry(value: int) -> int:
        centred = value - source.zero_point
        if abs(centred) >= radius:
            return INT8_MAX if centred > 0 else INT8_MIN
        return saturate(rounding_shift(logistic(scale(centred)), 23) + INT8_MIN)

    return table_of(site, entry)


def _logistic_by_real_numbers(source: Quantization, result: Quantization) -> Callable[[int], int]:
    """The function of the real number, rounded once: for outputs of other scales than 1/256, as onnxruntime has it."""

    def entry(value: int) -> int:
        x = source.scale * (value - source.zero_point)
        y = 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else 0.0
        return saturate(round_away(min(y / result.scale, 1e6)) + result.zero_point)

    return entry


def quantize(site: Site) -> Lowered:
    check_rows(site)
    source, result = site.input(), site.quantization(site.output)
    pair = (source.dtype, site.output.dtype)
    if pair == ("float32", "int8"):
        params = {"scale": result.scale, "zero_point": result.zero_point}
        return Lowered(kind="quantize_f32_s8", params=params, operands=(site.operand(),))
    if source.dtype == "float32" and site.output.dtype in ("int16", "uint8", "int32"):
        params = {"to": DTYPE_CODES[site.output.dtype], "scale": result.scale, "zero_point": result.zero_point}
        return Lowered(kind="quantize_f32", params=params, operands=(site.operand(),))
    if not set(pair) <= {"int8", "uint8", "int16", "int32"}:
        raise site.refusal(f"from {source.dtype} to {site.output.dtype} is not supported")
    before = site.quantization(source)
    scale = factor(before.scale / result.scale)
    if set(pair) <= {"int8", "uint8"}:
        return _requantized_bytes(site, lambda value: scale(value - before.zero_point) + result.zero_point)
    codes = {"from": DTYPE_CODES[source.dtype], "to": DTYPE_CODES[site.output.dtype]}
    points = {"input_zero_point": before.zero_point, "output_zero_point": result.zero_point}
    factors = {"multiplier": scale.multiplier, "shift": scale.shift}
    return Lowered(kind="requantize", params={**codes, **points, **factors}, operands=(site.operand(),))


def _requantized_bytes(site: Site, entry: Callable[[int], int]) -> Lowered:
    """A table from int8 or uint8 to either; it is counted from the byte that means -128 as int8."""
    signed, (low, high) = site.input().dtype == "int8", RANGE[site.output.dtype]
    values = (value if signed else value & 0xFF for value in range(INT8_MIN, INT8_MAX + 1))
    table = bytes(saturate(entry(value), low, high) & 0xFF for value in values)
    return Lowered(kind="table_s8", params={"table": table}, operands=(site.operand(),))


def dequantize(site: Site) -> Lowered:
    check_rows(site)
    dtype = site.input().dtype
    if site.output.dtype != "float32" or dtype not in ("int8", "uint8", "int16", "int32"):
        raise site.refusal(f"from {dtype} to {site.output.dtype} is not supported")
    source = site.quantization(site.input())
    params = {"scale": source.scale, "zero_point": source.zero_point}
    if dtype == "int8":
        return Lowered(kind="dequantize_s8_f32", params=params, operands=(site.operand(),))
    return Lowered(kind="dequantize_f32", params={"from": DTYPE_CODES[dtype], **params}, operands=(site.operand(),))


def softmax(site: Site) -> Lowered:
    check_rows(site)
    beta = site.operator.number("beta")
    depth = site.input().shape[-1] if site.input().shape else 1
    if not 0.0 < beta <= FLOAT_MAX:
        raise site.refusal(f"beta {beta} is not a positive number")
    if site.output.dtype != "int16" and site.dtype(0) == "float32":
        return Lowered(kind="softmax_f32", params={"depth": depth, "beta": beta}, operands=(site.operand(),))
    if site.input().dtype == "int16":
        return softmax_s16(site, depth, beta)
    if depth > SOFTMAX_MAX_DEPTH:
        raise site.refusal(f"over {depth} int8 values; at most {SOFTMAX_MAX_DEPTH} are supported")
    source = site.quantization(site.input())
    wide = site.output.dtype == "int16"
    if wide:
        _check_wide_unit(site, site.quantization(site.output))
    else:
        _check_unit(site, site.quantization(site.output))
    scale = factor(min(beta * source.scale * (1 << (31 - SOFTMAX_BITS)), 2.0**31 - 1.0))
    if scale.shift < 0:
        raise site.refusal("the scale of its input is too small")
    params = {
        "depth": depth,
        "multiplier": scale.multiplier,
        "shift": scale.shift,
        "diff_min": -input_radius(SOFTMAX_BITS, scale.shift),
    }
    return Lowered(kind="softmax_s8_s16" if wide else "softmax_s8", params=params, operands=(site.operand(),))


def table_of(site: Site, entry: Callable[[int], int]) -> Lowered:
    table = bytes(entry(value) & 0xFF for value in range(INT8_MIN, INT8_MAX + 1))
    return Lowered(kind="table_s8", params={"table": table}, operands=(site.operand(),))


def check_rows(site: Site) -> None:
    if site.input().shape != site.output.shape or site.input_form().rows != site.output_form.rows:
        raise site.refusal(f"{list(site.input().shape)} to {list(site.output.shape)}: input and output differ in shape")


def _check_wide_unit(site: Site, quantization: Quantization) -> None:
    near = abs(quantization.scale * 65536.0 - 1.0) < WIDE_TOLERANCE
    if not near or quantization.zero_point != -32768:
        raise site.refusal("its int16 output needs scale 1/65536 and zero point -32768")


def _is_unit(quantization: Quantization) -> bool:
    return quantization.scale == UNIT_SCALE and quantization.zero_point == INT8_MIN


def _check_unit(site: Site, quantization: Quantization) -> None:
    """The fixed-point result has 8 bits below the point, counted from -128."""
    if not _is_unit(quantization):
        raise site.refusal("its int8 output needs scale 1/256 and zero point -128")
