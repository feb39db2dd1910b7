"""ADD, MUL, activations, SOFTMAX, QUANTIZE and DEQUANTIZE: operators that keep elements where they are."""

from __future__ import annotations

import math

from stowplan.flow.graph import Quantization
from stowplan_importer_tflite.parse import shown, spelled
from stowplan_importer_tflite.schema import ARITHMETIC_ACTIVATION, SOFTMAX_BETA
from stowplan_importer_tflite.site import (
    COMPUTED,
    REALS,
    Conversion,
    Mismatch,
    Refusal,
    Site,
    Value,
    check_activation,
    check_rescale,
    check_same_quantization,
    scale_of,
)

PROBABILITY = Quantization(scales=(1 / 256,), zero_points=(-128,))
"""The one quantization in which the fixed-point kernels of SOFTMAX and LOGISTIC deliver."""

PROBABILITY_16 = Quantization(scales=(1 / 32768,), zero_points=(0,))
ADD_SHIFT = 20
MOST_GATE_SCALE = 32767 / (3 * 4096)
"""Beyond it, the multiplier of sigmoid and tanh of int16 does not fit 15 bits."""


def add(site: Site) -> Conversion:
    a, b, y = _pair(site)
    if a.dtype in ("int8", "int16"):
        widest = 2 * max(scale_of(a), scale_of(b))
        # The sum has 20 extra bits; the kernel can only scale it down.
        if not widest / scale_of(y) < 2**ADD_SHIFT:
            raise Refusal(f"the output's scale {scale_of(y):.3g} is too small beside the inputs' ({widest / 2:.3g})")
    return _arithmetic(site, "add", a, b)


def mul(site: Site) -> Conversion:
    a, b, y = _pair(site)
    if a.dtype in ("int8", "int16"):
        check_rescale(scale_of(a) * scale_of(b) / scale_of(y))
    return _arithmetic(site, "mul", a, b)


def relu(site: Site) -> Conversion:
    x, y = _unary(site)
    if x.dtype != "float32":
        check_rescale(scale_of(x) / scale_of(y))
    return Conversion(kind="relu", inputs=(x.tensor,), shape=x.shape)


def relu6(site: Site) -> Conversion:
    x, y = _unary(site)
    check_same_quantization(x, y)
    return Conversion(kind="relu6", inputs=(x.tensor,), shape=x.shape)


def logistic(site: Site) -> Conversion:
    x, y = _unary(site)
    _check_probability(y)
    if x.dtype == "int16":
        check_gate(x, y)
    return Conversion(kind="logistic", inputs=(x.tensor,), shape=x.shape)


def softmax(site: Site) -> Conversion:
    site.arity(1, 1)
    x = site.activation(0, COMPUTED)
    y = check_activation(site.output, COMPUTED)
    if y.dtype != x.dtype and (x.dtype, y.dtype) != ("int8", "int16"):
        raise Refusal(f"{x.dtype} input but {y.dtype} output")
    _check_probability(y)
    if not x.shape:
        raise Refusal("a scalar has no axis to sum along")
    beta = site.options().scalar(SOFTMAX_BETA, "f")
    if not (math.isfinite(beta) and beta > 0):
        raise Refusal(f"beta {beta:g}, which is no positive number")
    return Conversion(kind="softmax", inputs=(x.tensor,), shape=x.shape, attributes={"beta": beta})


def quantize(site: Site) -> Conversion:
    site.arity(1, 1)
    x, y = site.activation(0, REALS), check_activation(site.output, ("int8", "int16", "int32"))
    if x.quantization is not None:
        assert y.quantization is not None
        check_rescale(scale_of(x) / scale_of(y))
    if y.quantization is None:
        raise Refusal(f"output {shown(y.name)} has no scale")
    return Conversion(kind="quantize", inputs=(x.tensor,), shape=x.shape)


def shift(site: Site) -> Conversion:
    """Between uint8 at the border of the model and int8 inside; see prepare.py."""
    return Conversion(kind="quantize", inputs=(site.value(0).tensor,), shape=site.value(0).shape)


def dequantize(site: Site) -> Conversion:
    site.arity(1, 1)
    value, y = site.value(0), site.output
    if y.dtype != "float32":
        raise Refusal(f"{value.dtype} to {y.dtype}; float32 output would be supported")
    if value.data is None:
        x = site.activation(0, ("int8", "int16", "int32"))
        if x.quantization is None:
            raise Refusal(f"input {shown(x.name)} has no scale")
    return Conversion(kind="dequantize", inputs=(value.tensor,), shape=value.shape)


def _unary(site: Site) -> tuple[Value, Value]:
    site.arity(1, 1)
    x = site.activation(0, COMPUTED)
    return x, site.result(x.dtype)


def check_gate(x: Value, y: Value) -> None:
    """Refuse int16 that the table of sigmoid and tanh does not know."""
    assert x.quantization is not None
    if x.quantization.zero_point or y.quantization != PROBABILITY_16:
        raise Refusal(
            f"int16 {shown(x.name)} to {shown(y.name)}; zero points 0 and an output scale of 1/32768 are defined"
        )
    if scale_of(x) > MOST_GATE_SCALE:
        raise Refusal(f"input {shown(x.name)} has scale {scale_of(x):.3g}; at most {MOST_GATE_SCALE:.3g} is defined")


def _check_probability(y: Value) -> None:
    if y.dtype == "int16" and y.quantization != PROBABILITY_16:
        assert y.quantization is not None
        if y.quantization.zero_point != -32768 or abs(y.quantization.scale * 65536 - 1) > 1e-3:
            found = f"scale {y.quantization.scale:.6g} and zero point {y.quantization.zero_point}"
            raise Refusal(f"output {shown(y.name)} has {found}; 1/32768 and 0 would be supported")
    if y.dtype == "int8" and y.quantization != PROBABILITY:
        assert y.quantization is not None
        found = f"scale {y.quantization.scale:.6g} and zero point {y.quantization.zero_point}"
        raise Refusal(f"output {shown(y.name)} has {found}; 1/256 and -128 would be supported")


def _pair(site: Site) -> tuple[Value, Value, Value]:
    """Return two inputs of one dtype, at most one of them constant, and the output."""
    site.arity(2, 2)
    known = all(site.value(i).data is not None for i in (0, 1))
    a, b = (site.activation(i, (*REALS, "int64") if known else REALS) for i in (0, 1))
    if a.dtype != b.dtype:
        raise Refusal(f"{a.dtype} with {b.dtype}; two inputs of one type would be supported")
    return a, b, site.result(a.dtype)


def _arithmetic(site: Site, kind: str, a: Value, b: Value) -> Conversion:
    activation = site.activation_function(ARITHMETIC_ACTIVATION)
    return Conversion(
        kind=kind,
        inputs=(a.tensor, b.tensor),
        shape=broadcast_shape(a.shape, b.shape),
        attributes={"activation": activation},
    )


def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    shape = []
    for first, second in pairs:
        if first != second and 1 not in (first, second):
            raise Mismatch(f"inputs of shapes {spelled(a)} and {spelled(b)} do not go together")
        shape.append(second if first == 1 else first)
    return tuple(shape)
