"""Long short-term memory: gates one after another in one kernel, in the fixed-point arithmetic of TFLite Micro."""

from __future__ import annotations

import math
import struct

from stowplan.build.lower.fixed_point import factor, float32, words
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site

GATES = 4
X, HIDDEN, CELL, FIRST_GATE = range(4)
"""Positions of the inputs; each gate then has three: weights of x, weights of the last output, biases."""
GATE_SCALE = 2.0**-12
SIGMOID_ENTRIES, SIGMOID_STEPS = 256, 24
UNIT = 2.0**-15
"""The scales in which gates are summed, and in which they come out of sigmoid and tanh."""


def lstm(site: Site) -> Lowered:
    x, hidden, cell = (site.input(position) for position in (X, HIDDEN, CELL))
    if len(x.shape) != 3 or len(hidden.shape) != 2 or hidden.shape != cell.shape or x.shape[0] != hidden.shape[0]:
        raise site.refusal(f"an input of shape {list(x.shape)} with states of shape {list(hidden.shape)}")
    batches, steps, features = x.shape
    outputs = hidden.shape[1]
    for gate in range(GATES):
        shapes = [site.input(FIRST_GATE + 3 * gate + i).shape for i in range(3)]
        if shapes != [(outputs, features), (outputs, outputs), (outputs,)]:
            raise site.refusal(f"weights of shapes {shapes} for {features} features and {outputs} outputs")
    params: dict[str, ParamValue] = dict(batches=batches, steps=steps, features=features, outputs=outputs)
    operands = tuple(site.operand(position) for position in (X, HIDDEN, CELL))
    if x.dtype == "float32":
        clip = site.operator.number("clip") or math.inf
        params |= {"clip": clip, **_weights(site, "float32", "float32")}
        return Lowered(kind="lstm_f32", params=params, operands=operands)
    if (x.dtype, hidden.dtype, cell.dtype) != ("int8", "int8", "int16"):
        raise site.refusal(f"of {x.dtype} with states of {hidden.dtype} and {cell.dtype} is not supported")
    return Lowered(kind="lstm_s8", params=params | _integers(site), operands=operands)


def _weights(site: Site, dtype: str, bias_dtype: str) -> dict[str, ParamValue]:
    """Return the weights and biases of all gates, one gate after another."""

    def joined(part: int, of: str) -> bytes:
        return b"".join(site.constant(FIRST_GATE + 3 * gate + part, of, "weights") for gate in range(GATES))

    return {"x_weights": joined(0, dtype), "h_weights": joined(1, dtype), "bias": joined(2, bias_dtype)}


def _integers(site: Site) -> dict[str, ParamValue]:
    x, hidden, cell = (site.quantization(site.input(position)) for position in (X, HIDDEN, CELL))
    power = round(math.log2(cell.scale))
    if cell.scale != 2.0**power or cell.zero_point:
        raise site.refusal("its cell needs a power of two as scale, and zero point 0")
    factors = []
    for gate in range(GATES):
        for part, source in enumerate((x, hidden)):
            weights = site.weight_quantization(FIRST_GATE + 3 * gate + part, 1)
            found = factor(source.scale * weights.scale / GATE_SCALE)
            factors += [found.multiplier, found.shift]
    named = {
        "forget": factor(UNIT * cell.scale / cell.scale),
        "input": factor(UNIT * UNIT / cell.scale),
        "hidden": factor(UNIT * UNIT / hidden.scale),
    }
    clip = site.operator.number("clip")
    shift = 15 + power - 3  # the cell in steps of 2^-12, as tanh takes it
    return {
        "input_zero_point": x.zero_point,
        "hidden_zero_point": hidden.zero_point,
        "clip": int(min(max(float32(clip / cell.scale), 0.0), 32767.0)) if clip > 0 else 0,
        "cell_multiplier": 3 if shift < 0 else 3 << shift,
        "cell_shift": max(-shift, 0),
        **{f"{name}_multiplier": value.multiplier for name, value in named.items()},
        **{f"{name}_shift": value.shift for name, value in named.items()},
        **_weights(site, "int8", "int32"),
        "gate_factors": words(factors),
        "sigmoid": sigmoid_table(),
    }


def sigmoid_table() -> bytes:
    """Return the sigmoid in steps of 1/24 from 0 on, in Q0.16, as far as it fits 16 bits.

    Each entry is moved up by half of what a chord lies below the curve at most, so that interpolation errs evenly. The
    last one is where everything beyond it lies.
    """
    entries = []
    for i in range(SIGMOID_ENTRIES):
        value = 1.0 / (1.0 + math.exp(-i / SIGMOID_STEPS))
        bend = value * (1.0 - value) * (2.0 * value - 1.0) / (16.0 * SIGMOID_STEPS**2)
        entries.append(min(math.floor(65536.0 * (value + bend) + 0.5), 65535))
    return struct.pack(f"<{SIGMOID_ENTRIES}H", *entries[:-1], 65535)
