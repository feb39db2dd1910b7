"""Functions of each element by itself beyond the simplest ones: kernels for floats, tables for int8."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from stowplan.build.lower.activation import check_rows, table_of
from stowplan.build.lower.fixed_point import (
    INT8_MAX,
    INT8_MIN,
    Factor,
    factor,
    float32,
    round_away,
    rounding_shift,
    saturate,
)
from stowplan.build.lower.nodes import Lowered
from stowplan.build.lower.site import Site
from stowplan.flow.operators import UNARY_FLOAT
from stowplan.planfile.layout import DTYPE_CODES

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1


def function(site: Site) -> Lowered:
    """Lower any operator of `UNARY_FLOAT`."""
    check_rows(site)
    kind = site.operator.kind
    if site.dtype(0) == "int8":
        return table_of(site, _TABLES.get(kind, _by_real_numbers)(site))
    attributes = site.operator.attributes
    alpha, beta = (site.operator.number(name) if name in attributes else 0.0 for name in ("alpha", "beta"))
    params = {"function": UNARY_FLOAT.index(kind), "alpha": alpha, "beta": beta}
    return Lowered(kind="function_f32", params=params, operands=(site.operand(),))


def clip(site: Site) -> Lowered:
    return _limited(site, site.operator.number("minimum"), site.operator.number("maximum"))


def relu_n1_to_1(site: Site) -> Lowered:
    return _limited(site, -1.0, 1.0)


def cast(site: Site) -> Lowered:
    check_rows(site)
    source, result = site.input().dtype, site.output.dtype
    for dtype in (source, result):
        if dtype not in ("bool", "int8", "uint8", "int16", "int32", "int64", "float32"):
            raise site.refusal(f"from {source} to {result} is not supported")
    params = {"from": DTYPE_CODES[source], "to": DTYPE_CODES[result]}
    return Lowered(kind="cast", params=params, operands=(site.operand(),))


def logical_not(site: Site) -> Lowered:
    check_rows(site)
    if site.input().dtype != "bool" or site.output.dtype != "bool":
        raise site.refusal("of bool only")
    return Lowered(kind="table_s8", params={"table": bytes(128) + b"\1" + bytes(127)}, operands=(site.operand(),))


def _limited(site: Site, low: float, high: float) -> Lowered:
    check_rows(site)
    if site.dtype(0) == "float32":
        return Lowered(kind="clamp_f32", params={"minimum": low, "maximum": high}, operands=(site.operand(),))
    quantization = site.same_quantization()

    def quantized(real: float) -> int:
        return saturate(quantization.zero_point + round_away(float32(max(min(real, 1e9), -1e9) / quantization.scale)))

    least, most = quantized(low), quantized(high)
    return table_of(site, lambda value: saturate(value, least, most))


Entry = Callable[[int], int]


def _by_real_numbers(site: Site) -> Entry:
    """The function of the real number, rounded once: what LiteRT tabulates for the rarer functions."""
    real = REAL.get(site.operator.kind)
    if real is None:
        raise site.refusal(f"{site.operator.kind} of int8 is not supported")
    source, result = site.quantization(site.input()), site.quantization(site.output)

    def entry(value: int) -> int:
        x = float32(source.scale * (value - source.zero_point))
        try:
            y = real(x) / result.scale
        except (ValueError, ZeroDivisionError, OverflowError):
            y = math.inf if x == 0 else -math.inf
        return saturate(round_away(max(min(y, 1e6), -1e6)) + result.zero_point)

    return entry


REAL: Mapping[str, Callable[[float], float]] = {
    "tanh": math.tanh,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "square": lambda x: x * x,
    "sin": math.sin,
    "cos": math.cos,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "neg": lambda x: -x,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "erf": math.erf,
    "reciprocal": lambda x: 1 / x,
    "softplus": lambda x: math.log1p(math.exp(x)),
}


def _abs(site: Site) -> Entry:
    source, result = site.quantization(site.input()), site.quantization(site.output)
    scale = factor(source.scale / result.scale)
    if source.scale == result.scale:
        scale = Factor(1 << 30, 1)
    return lambda value: saturate(scale(abs(value - source.zero_point)) + result.zero_point)


def _elu(site: Site) -> Entry:
    """In float32 at every step, as TFLite Micro fills its table."""
    source, result = site.quantization(site.input()), site.quantization(site.output)
    steps = float32(1.0 / result.scale)

    def entry(value: int) -> int:
        x = float32(source.scale * (value - source.zero_point))
        y = x if x >= 0 else float32(float32(math.exp(x)) - 1.0)
        return saturate(round_away(max(min(float32(y * steps), 1e6), -1e6)) + result.zero_point)

    return entry


def _leaky_relu(site: Site) -> Entry:
    source, result = site.quantization(site.input()), site.quantization(site.output)
    alpha = float32(site.operator.number("alpha"))
    below = factor(source.scale * alpha / result.scale)  # in doubles, as TFLite Micro; LiteRT rounds on the way
    above = factor(source.scale / result.scale)
    return lambda value: saturate(
        (above if value >= source.zero_point else below)(value - source.zero_point) + result.zero_point
    )


def _hard_swish(site: Site) -> Entry:
    """In 16 bits with 7 below the input's steps, as the runtimes' reference does; each rounding counts."""
    source, result = site.quantization(site.input()), site.quantization(site.output)
    fine = float32(float32(1.0 / 128.0) * source.scale)
    output = factor(float32(fine / result.scale))
    reluish = factor(float32(fine / float32(3.0 / 32768.0)))
    output_16, reluish_16 = _upper_half(output.multiplier), _upper_half(reluish.multiplier)

    def entry(value: int) -> int:
        hires = _saturate_16((value - source.zero_point) * 128)
        scaled = _high_product_16(hires, output_16)
        gate = hires
        if reluish.shift > 0:
            gate = _saturate_16(gate << (reluish.shift - 1))
        gate = _high_product_16(gate, reluish_16)
        if reluish.shift > 0:
            gate = _saturate_16(gate << 1)
        if reluish.shift < 0:
            gate = rounding_shift(gate, -reluish.shift)
        gate = (gate + (1 << 15)) >> 1
        product = gate * scaled
        whole = abs(product) // (1 << 15) * (1 if product >= 0 else -1)
        return saturate(rounding_shift(_saturate_16(whole), -output.shift) + result.zero_point, INT8_MIN, INT8_MAX)

    if output.shift > 0:
        raise site.refusal("the scale of its output is too small beside that of its input")
    return entry


def _upper_half(multiplier: int) -> int:
    return INT16_MAX if multiplier >= 2**31 - 1 - (1 << 15) else (multiplier + (1 << 15)) >> 16


def _saturate_16(value: int) -> int:
    return saturate(value, INT16_MIN, INT16_MAX)


def _high_product_16(a: int, b: int) -> int:
    """Return 2 * a * b / 2**16, rounded to nearest."""
    product = a * b
    nudged = product + ((1 << 14) if product >= 0 else 1 - (1 << 14))
    return _saturate_16(abs(nudged) // (1 << 15) * (1 if nudged >= 0 else -1))


_TABLES: Mapping[str, Callable[[Site], Entry]] = {
    "abs": _abs,
    "elu": _elu,
    "leaky_relu": _leaky_relu,
    "hard_swish": _hard_swish,
}
