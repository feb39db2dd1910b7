"""TFLite Micro's integer arithmetic, exactly, in Python integers: what kernels are given, and what tables hold.

A *multiplier* stands for a real factor: `factor = multiplier / 2**31 * 2**shift`. Scales are float32 values held in
Python floats; where the runtime multiplies or divides in float32, so does `float32` here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from stowplan.nouns import NamedTuple

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT8_MIN, INT8_MAX = -128, 127


class Factor(NamedTuple):
    """A real factor as kernels apply it. A named tuple: a model has one for each channel of each layer."""

    multiplier: int
    shift: int

    def __call__(self, value: int) -> int:
        """Scale an int32: the product is rounded, then the right shift is rounded once more."""
        product = high_product(wrap(value << max(self.shift, 0)), self.multiplier)
        return rounding_shift(product, max(-self.shift, 0))


def float32(value: float) -> float:
    """Return the float32 nearest to a number. Sums, products and quotients of two float32 come out as in float32."""
    if abs(value) >= 3.4028235677973366e38:  # halfway to 2**128: from here on, rounding gives infinity
        return math.copysign(math.inf, value)
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def words(values: Sequence[int]) -> bytes:
    """Return int32 values as a constant."""
    return struct.pack(f"<{len(values)}i", *values)


def wrap(value: int) -> int:
    """Return an integer modulo 2**32, as an int32."""
    return (value + 2**31) % 2**32 - 2**31


def factor(real: float) -> Factor:
    """Return a factor with 31 bits of precision. Factors below 2**-32 become 0, as in the runtime."""
    if real == 0.0:
        return Factor(0, 0)
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    if shift < -31:
        return Factor(0, 0)
    if shift > 30:
        return Factor(INT32_MAX, 30)
    return Factor(multiplier, shift)


def high_product(a: int, b: int) -> int:
    """Return 2 * a * b / 2**32, rounded to nearest, saturated: the product of two numbers in Q0.31."""
    return min((a * b + 2**30) >> 31, INT32_MAX)


def rounding_shift(value: int, bits: int) -> int:
    """Return value / 2**bits, rounded to nearest, halves away from zero."""
    if bits == 0:
        return value
    return (value + (1 << (bits - 1)) - (value < 0)) >> bits


def round_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(value + 0.5) if value >= 0 else -math.floor(0.5 - value)


def saturate(value: int, low: int = INT8_MIN, high: int = INT8_MAX) -> int:
    return min(max(value, low), high)


def input_radius(integer_bits: int, shift: int) -> int:
    """Return the largest difference whose rescaled value still fits Q(integer_bits)."""
    limit = float((1 << integer_bits) - 1) * float(1 << (31 - integer_bits)) / float(1 << shift)
    return math.floor(limit)


def exp_of_negative(value: int, integer_bits: int) -> int:
    """Return exp(value) in Q0.31 for value <= 0 in Q(integer_bits): a polynomial for the last quarter, then factors."""
    if value == 0:
        return INT32_MAX
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    part = (value & (quarter - 1)) - quarter
    result = _exp_of_quarter(part << integer_bits)
    for exponent, constant in zip(range(-2, integer_bits), _EXP_FACTORS, strict=False):
        if (part - value) >> (fraction_bits + exponent) & 1:
            result = high_product(result, constant)
    return result


_EXP_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2**e) in Q0.31 for e = -2 .. 4."""


def _exp_of_quarter(value: int) -> int:
    constant, third = 1895147668, 715827883  # exp(-1/8) and 1/3 in Q0.31
    x = value + (1 << 28)
    x2 = high_product(x, x)
    x3 = high_product(x2, x)
    x4_by_4 = rounding_shift(high_product(x2, x2), 2)
    rest = rounding_shift(high_product(x4_by_4 + x3, third) + x2, 1)
    return constant + high_product(constant, x + rest)


def inverse_of_one_plus(value: int) -> int:
    """Return 1 / (1 + value) in Q0.31 for a value in [0, 1) in Q0.31, by three Newton steps."""
    half_denominator = (value + INT32_MAX + 1) >> 1
    x = 1515870810 + high_product(half_denominator, -1010580540)  # 48/17 - 32/17 * d, in Q2.29
    for _ in range(3):
        error = (1 << 29) - high_product(half_denominator, x)
        x = wrap(x + saturate(high_product(x, error) << 2, INT32_MIN, INT32_MAX))
    return saturate(x << 1, INT32_MIN, INT32_MAX)


def logistic(value: int) -> int:
    """Return 1 / (1 + exp(-value)) in Q0.31 for a value in Q4.27."""
    if value == 0:
        return 1 << 30
    positive = inverse_of_one_plus(exp_of_negative(-abs(value), 4))
    return positive if value > 0 else INT32_MAX - positive
