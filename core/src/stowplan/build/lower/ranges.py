"""The range that a fused activation leaves to an operator's output."""

from __future__ import annotations

import math

from stowplan.build.lower.fixed_point import INT8_MAX, INT8_MIN, float32, round_away
from stowplan.build.lower.nodes import ParamValue
from stowplan.build.lower.site import Site
from stowplan.flow.dtypes import RANGE
from stowplan.flow.graph import Quantization

LIMITS = {
    "unbounded": (-math.inf, math.inf),
    "none": (-math.inf, math.inf),
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
}
FLOAT_MAX = (2 - 2**-23) * 2.0**127
"""Float kernels limit to finite numbers, as LiteRT's do: an infinite sum becomes this, unless it is unbounded."""


def range_s8(site: Site, quantization: Quantization) -> dict[str, ParamValue]:
    """Return the ends of the range in the output's numbers, rounded in float32 as the runtime does."""
    low, high = _limits(site)
    least = INT8_MIN if low == -math.inf else max(INT8_MIN, quantized(low, quantization))
    most = INT8_MAX if high == math.inf else min(INT8_MAX, quantized(high, quantization))
    if least > most:
        raise site.refusal(f"no int8 of its output lies within its activation ({site.operator.text('activation')})")
    return {"act_min": least, "act_max": most}


def range_integer(site: Site, quantization: Quantization) -> dict[str, ParamValue]:
    """Return the ends of the range in the numbers of an output of any integer type."""
    least, most = integer_range(_limits(site), site.output.dtype, quantization)
    if least > most:
        raise site.refusal(f"no number of its output lies within its activation ({site.operator.text('activation')})")
    return {"act_min": least, "act_max": most}


def integer_range(limits: tuple[float, float], dtype: str, quantization: Quantization) -> tuple[int, int]:
    """Return the ends of the range between two reals in the numbers of a type; the first is larger if it is empty."""
    low, high = limits
    least, most = RANGE[dtype]
    if low != -math.inf:
        least = max(least, _steps(low, quantization))
    if high != math.inf:
        most = min(most, _steps(high, quantization))
    return least, most


def _steps(real: float, quantization: Quantization) -> int:
    steps = float32(real / quantization.scale)
    return quantization.zero_point + round_away(max(min(steps, 2.0**30), -(2.0**30)))


def range_f32(site: Site) -> dict[str, ParamValue]:
    low, high = _limits(site)
    if site.operator.text("activation") == "unbounded":
        return {"act_min": low, "act_max": high}
    return {"act_min": max(low, -FLOAT_MAX), "act_max": min(high, FLOAT_MAX)}


def quantized(real: float, quantization: Quantization) -> int:
    """Return the number that stands for a real value, not limited to int8."""
    steps = float32(real / quantization.scale)
    if math.isinf(steps):
        return INT8_MIN - 1 if steps < 0 else INT8_MAX + 1
    return quantization.zero_point + round_away(steps)


def _limits(site: Site) -> tuple[float, float]:
    activation = site.operator.text("activation")
    if activation not in LIMITS:
        raise site.refusal(f"fused activation {activation} is not supported; supported are {', '.join(LIMITS)}")
    return LIMITS[activation]
