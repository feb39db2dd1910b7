"""The integer arithmetic of lowering, against exact fractions and against what TFLite Micro answers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import run_tflm
from stowplan.build.lower.fixed_point import (
    Factor,
    exp_of_negative,
    factor,
    float32,
    high_product,
    inverse_of_one_plus,
    logistic,
    rounding_shift,
    wrap,
)
from tflite_builder import ModelBuilder

int32 = st.integers(-(2**31), 2**31 - 1)
scale32 = st.floats(2.0**-20, 2.0**4, width=32)


@given(int32, st.integers(0, 31))
def test_shifts_round_halves_away_from_zero(value: int, bits: int) -> None:
    exact = Fraction(value, 2**bits)
    away = math.floor(abs(exact) + Fraction(1, 2))
    assert rounding_shift(value, bits) == (away if value >= 0 else -away)


@given(int32, int32)
def test_products_keep_the_upper_half_of_twice_the_product(a: int, b: int) -> None:
    exact = math.floor(Fraction(a * b, 2**31) + Fraction(1, 2))
    assert high_product(a, b) == min(exact, 2**31 - 1)


@given(st.floats(2.0**-30, 2.0**29))
def test_a_factor_has_31_bits_of_precision(real: float) -> None:
    found = factor(real)
    assert 2**30 <= found.multiplier < 2**31
    exact = Fraction(found.multiplier) * Fraction(2) ** (found.shift - 31)
    assert abs(exact - Fraction(real)) <= Fraction(real) / 2**31


def test_factors_at_the_ends_of_their_range() -> None:
    assert factor(0.0) == Factor(0, 0)
    assert factor(2.0**-40) == Factor(0, 0)
    assert factor(1.0 - 2.0**-40) == Factor(2**30, 1), "rounding up to 1 moves into the shift"
    assert factor(2.0**40) == Factor(2**31 - 1, 30)


@given(st.integers(-(2**40), 2**40))
def test_wrapping_is_what_32_bits_keep(value: int) -> None:
    assert (wrap(value) - value) % 2**32 == 0
    assert -(2**31) <= wrap(value) < 2**31


@given(st.floats(allow_nan=False))
def test_float32_rounds_as_numpy_does(value: float) -> None:
    with np.errstate(over="ignore"):
        assert float32(value) == float(np.float32(value))


@given(scale32, scale32)
def test_products_and_quotients_of_float32_are_those_of_float32_arithmetic(a: float, b: float) -> None:
    assert float32(a * b) == float(np.float32(a) * np.float32(b))
    assert float32(a / b) == float(np.float32(a) / np.float32(b))


@given(st.integers(-(2**31), -1), st.sampled_from([4, 5]))
def test_exponentials_are_right_to_a_millionth(value: int, integer_bits: int) -> None:
    exact = math.exp(value / 2 ** (31 - integer_bits))
    assert abs(exp_of_negative(value, integer_bits) / 2**31 - exact) < 1e-6


@given(st.integers(0, 2**31 - 1))
def test_inverses_are_right_to_a_millionth(value: int) -> None:
    assert abs(inverse_of_one_plus(value) / 2**31 - 1 / (1 + value / 2**31)) < 1e-6


@given(st.integers(-(2**30), 2**30))
def test_the_logistic_function_is_symmetric_and_right_to_a_millionth(value: int) -> None:
    assert abs(logistic(value) / 2**31 - 1 / (1 + math.exp(-value / 2**27))) < 1e-6
    if value:
        assert logistic(value) + logistic(-value) == 2**31 - 1


def telling_sums(one: Factor, other: Factor) -> list[int]:
    """Return sums that the two factors round to different int8 values: they lie next to halves."""
    real = one.multiplier * 2.0 ** (one.shift - 31)
    near = [round((n + 0.5) / real) for n in range(-100, 100)]
    tried = {s + d for s in near for d in (-64, -16, -4, -1, 0, 1, 4, 16, 64) if abs(s) < 2**31 - 100}
    return sorted(s for s in tried if one(s) != other(s) and abs(one(s)) < 120)


@pytest.mark.parametrize("kind", ["fully connected", "fully connected per channel", "conv", "conv per channel"])
def test_scales_of_inputs_and_weights_are_multiplied_in_double_precision(kind: str) -> None:
    """Weights are 0 and biases are sums for which it matters: the output tells how the runtime multiplied."""
    random = np.random.default_rng(5)
    told = 0
    for _ in range(40):
        source, weight = (float(np.float32(random.uniform(0.001, 0.1))) for _ in range(2))
        result = float(np.float32(source * weight * random.uniform(2.0**23, 2.0**24)))
        rounded, exact = factor(float32(source * weight) / result), factor(source * weight / result)
        sums = telling_sums(rounded, exact) if rounded != exact else []
        if sums:
            told += len(sums)
            assert answers(kind, sums, source, weight, result) == [exact(s) for s in sums]
    assert told > 100, "the test found too few sums that tell"


@pytest.mark.parametrize("kind", ["RELU", "QUANTIZE"])
def test_scales_of_input_and_output_are_divided_in_double_precision(kind: str) -> None:
    random = np.random.default_rng(6)
    told = 0
    while told < 20:
        value, half = int(random.integers(65, 128)), int(random.integers(1, 60)) + 0.5
        result = float(np.float32(random.uniform(0.01, 0.1)))
        source = float(np.float32(half / value * result))
        exact, rounded = factor(source / result), factor(float32(source / result))
        if exact(value) == rounded(value):
            continue
        told += 1
        model = ModelBuilder()
        x, y = model.input("x", (1, 1), scale=source), model.tensor("y", (1, 1), scale=result)
        model.operator(kind, [x], [y])
        (out,) = run_tflm(model.outputs(y).build(), [np.full((1, 1), value, np.int8)])
        assert out.item() == exact(value)


def answers(kind: str, sums: list[int], source: float, weight: float, result: float) -> list[int]:
    """Return what TFLite Micro makes of these sums."""
    model, count = ModelBuilder(), len(sums)
    scales = [weight] * count if "channel" in kind else weight
    bias = model.constant("b", np.array(sums, np.int32), scale=1.0)
    if kind.startswith("conv"):
        x = model.input("x", (1, 1, 1, 1), scale=source)
        w = model.constant("w", np.zeros((count, 1, 1, 1), np.int8), scale=scales)
        y = model.tensor("y", (1, 1, 1, count), scale=result)
        model.operator("CONV_2D", [x, w, bias], [y])
    else:
        x = model.input("x", (1, 1), scale=source)
        w = model.constant("w", np.zeros((count, 1), np.int8), scale=scales)
        y = model.tensor("y", (1, count), scale=result)
        model.operator("FULLY_CONNECTED", [x, w, bias], [y])
    shape = (1, 1, 1, 1) if kind.startswith("conv") else (1, 1)
    (out,) = run_tflm(model.outputs(y).build(), [np.zeros(shape, np.int8)])
    return [int(v) for v in out.ravel()]
