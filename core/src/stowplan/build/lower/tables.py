"""Functions that int16 kernels look up: 512 intervals with an interpolation between their ends."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from stowplan.build.lower.fixed_point import factor, round_away, saturate
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.flow.dtypes import SIZE_BYTES

INTERVALS = 512
EXP_REACH = 10.0
"""Numbers further than this below the largest count as exp(-10)."""


def softmax_s16(site: Site, depth: int, beta: float) -> Lowered:
    source, result = site.quantization(site.input()), site.quantization(site.output)
    if site.input().dtype == "int8":
        raise site.refusal("from int8 to int16 is not supported")
    if (result.scale, result.zero_point) != (1 / 32768, 0):
        raise site.refusal("its int16 output needs scale 1/32768 and zero point 0")
    scale = factor(source.scale * beta / (EXP_REACH / 65535.0))
    params: dict[str, ParamValue] = {
        "depth": depth,
        "input_bytes": SIZE_BYTES[site.input().dtype],
        "multiplier": scale.multiplier,
        "shift": scale.shift,
        "exp": interpolated(math.exp, -EXP_REACH, 0.0),
        "inverse": interpolated(lambda x: 1.0 / (1.0 + x), 0.0, 1.0),
    }
    return Lowered(kind="softmax_s16", params=params, operands=(site.operand(),))


def interpolated(function: Callable[[float], float], low: float, high: float) -> bytes:
    """Return a function's values at 513 points in Q0.15, shifted so that the error in the middle is halved."""
    step = (high - low) / INTERVALS
    values = [round_away(function(low + i * step) * 32768.0) for i in range(INTERVALS + 1)]
    entries = []
    for i, value in enumerate(values[:-1]):
        between = round_away((function(low + (i + 1) * step) * 32768.0 + value) / 2.0)
        middle = round_away(function(low + i * step + step / 2.0) * 32768.0)
        entries.append(saturate(value - round_away((between - middle) / 2.0), -32768, 32767))
    entries.append(saturate(values[-1], -32768, 32767))
    return struct.pack(f"<{len(entries)}h", *entries)
