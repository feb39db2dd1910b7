"""Functions of int16 alone: sigmoid and tanh by one table, and everything that is a factor above 0 and one below."""

from __future__ import annotations

import math

from stowplan.build.lower.activation import check_rows
from stowplan.build.lower.fixed_point import Factor, factor, float32
from stowplan.build.lower.lstm import sigmoid_table
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.ranges import integer_range
from stowplan.build.lower.site import Site
from stowplan.planfile.layout import DTYPE_CODES

GATES = ("logistic", "tanh")
UNIT_SCALE = 2.0**-15
STEPS = 3 * 4096.0
"""The table counts in steps of a third of 2^-12."""
MOST_STEPS = 32767.0
IDENTITY = Factor(1 << 30, 1)
LIMITS = {
    "relu": (0.0, math.inf), "relu6": (0.0, 6.0), "leaky_relu": (-math.inf, math.inf), "abs": (-math.inf, math.inf),
}  # fmt: skip
ROOT_BITS = 20
"""Bits that an inverse root gains below the point before it is scaled; a part of the meaning of `rsqrt_s16`."""


def function(site: Site) -> Lowered:
    """Lower any of `GATES` and `LIMITS`, of int16 in and out."""
    check_rows(site)
    if site.output.dtype != "int16":
        raise site.refusal(f"int16 to {site.output.dtype} is not supported")
    kind = site.operator.kind
    if kind in GATES:
        return _gate(site)
    if kind in LIMITS:
        return _slopes(site)
    if kind == "rsqrt":
        return _inverse_root(site)
    raise site.refusal(f"{kind} of int16 is not supported")


def _gate(site: Site) -> Lowered:
    source, result = site.quantization(site.input()), site.quantization(site.output)
    if source.zero_point or (result.scale, result.zero_point) != (UNIT_SCALE, 0):
        raise site.refusal("int16 needs zero point 0, and its output scale 1/32768")
    scale = _into_steps(site, source.scale)
    params: dict[str, ParamValue] = {
        "tanh": GATES.index(site.operator.kind), "multiplier": scale.multiplier, "shift": scale.shift,
        "sigmoid": sigmoid_table(),
    }  # fmt: skip
    return Lowered(kind="gate_s16", params=params, operands=(site.operand(),))


def _into_steps(site: Site, scale: float) -> Factor:
    """Return what makes steps of the input's numbers: a multiplier of 15 bits, and a shift to the right.

    Powers of two near the table's own steps are exact.
    """
    power = math.log2(scale) + 12
    if power in ((0, 1) if site.operator.kind == "tanh" else (0,)):
        return Factor(3 << int(power), 0)
    steps, shift = scale * STEPS, 0
    if steps > MOST_STEPS:
        raise site.refusal(f"its input's scale {scale:.3g} is too large; at most {MOST_STEPS / STEPS:.3g} is supported")
    while steps <= MOST_STEPS / 2 and shift <= 30:
        steps, shift = steps * 2, shift + 1
    return Factor(max(int(steps), 1), shift)


def _inverse_root(site: Site) -> Lowered:
    source, result = site.quantization(site.input()), site.quantization(site.output)
    if source.zero_point or result.zero_point:
        raise site.refusal("int16 needs zero points 0")
    scale = factor(1.0 / (math.sqrt(source.scale) * result.scale))
    if scale.shift - ROOT_BITS < -31:
        raise site.refusal("the scales of its input and output are too large")
    params = {"multiplier": scale.multiplier, "shift": scale.shift - ROOT_BITS}
    return Lowered(kind="rsqrt_s16", params=params, operands=(site.operand(),))


def _slopes(site: Site) -> Lowered:
    source, result = site.quantization(site.input()), site.quantization(site.output)
    above, below = factor(source.scale / result.scale), factor(0.0)
    if site.operator.kind == "relu6":
        above = IDENTITY
        site.same_quantization()  # the runtime does not rescale here
    if site.operator.kind == "leaky_relu":
        alpha = float32(site.operator.number("alpha"))
        below = factor(source.scale * alpha / result.scale)
    if site.operator.kind == "abs":
        above = IDENTITY if source.scale == result.scale else above
        below = Factor(-above.multiplier, above.shift)
    least, most = integer_range(LIMITS[site.operator.kind], "int16", result)
    params: dict[str, ParamValue] = {
        "dtype": DTYPE_CODES["int16"], "input_zero_point": source.zero_point, "output_zero_point": result.zero_point,
        "above_multiplier": above.multiplier, "above_shift": above.shift, "below_multiplier": below.multiplier,
        "below_shift": below.shift, "act_min": least, "act_max": most,
    }  # fmt: skip
    return Lowered(kind="leaky_int", params=params, operands=(site.operand(),))
