"""ADD, MUL, activations, SOFTMAX, QUANTIZE and DEQUANTIZE: operators that keep elements where they are."""

from __future__ import annotations

import math

from stowplan.flow.graph import Quantization
from stowplan_importer_tflite.parse import shown, spelled
from stowplan_importer_tflite.schema import ARITHMETIC_ACTIVATION, SOFTMAX_BETA
from stowplan_importer_tflite.site import (
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

ADD_SHIFT = 20


def add(site: Site) -> Conversion:
    a, b, y = _pair(site)
    if a.dtype == "int8":
        widest = 2 * max(scale_of(a), scale_of(b))
        # The sum has 20 extra bits; the kernel can only scale it down.
        if not widest / scale_of(y) < 2**ADD_SHIFT:
            raise Refusal(f"the output's scale {scale_of(y):.3g} is too small beside the inputs' ({widest / 2:.3g})")
    return _arithmetic(site, "add", a, b)


def mul(site: Site) -> Conversion:
    a, b, y = _pair(site)
    if a.dtype == "int8":
        check_rescale(scale_of(a) * scale_of(b) / scale_of(y))
    return _arithmetic(site, "mul", a, b)


def relu(site: Site) -> Conversion:
    x, y = _unary(site)
    if x.dtype == "int8":
        check_rescale(scale_of(x) / scale_of(y))
    return Conversion(kind="relu", inputs=(x.tensor,), shape=x.shape)


def relu6(site: Site) -> Conversion:
    x, y = _unary(site)
    check_same_quantization(x, y)
    return Conversion(kind="relu6", inputs=(x.tensor,), shape=x.shape)


def logistic(site: Site) -> Conversion:
    x, y = _unary(site)
    _check_probability(y)
    return Conversion(kind="logistic", inputs=(x.tensor,), shape=x.shape)


def softmax(site: Site) -> Conversion:
    x, y = _unary(site)
    _check_probability(y)
    if not x.shape:
        raise Refusal("a scalar has no axis to sum along")
    beta = site.options().scalar(SOFTMAX_BETA, "f")
    if not (math.isfinite(beta) and beta > 0):
        raise Refusal(f"beta {beta:g}, which is no positive number")
    return Conversion(kind="softmax", inputs=(x.tensor,), shape=x.shape, attributes={"beta": beta})


def quantize(site: Site) -> Conversion:
    site.arity(1, 1)
    x, y = site.activation(0), check_activation(site.output)
    if y.dtype != "int8":
        raise Refusal(f"{y.dtype} output; int8 would be supported")
    if x.dtype == "int8":
        check_rescale(scale_of(x) / scale_of(y))
    return Conversion(kind="quantize", inputs=(x.tensor,), shape=x.shape)


def dequantize(site: Site) -> Conversion:
    site.arity(1, 1)
    value = site.value(0)
    if value.data is not None:
        raise Refusal(
            f"weights stored in {value.dtype} and widened at run time; convert the model again in float32 or int8"
        )
    x, y = site.activation(0), site.output
    if (x.dtype, y.dtype) != ("int8", "float32"):
        raise Refusal(f"{x.dtype} to {y.dtype}; int8 to float32 would be supported")
    return Conversion(kind="dequantize", inputs=(x.tensor,), shape=x.shape)


def _unary(site: Site) -> tuple[Value, Value]:
    site.arity(1, 1)
    x = site.activation(0)
    return x, site.result(x.dtype)


def _check_probability(y: Value) -> None:
    if y.dtype == "int8" and y.quantization != PROBABILITY:
        assert y.quantization is not None
        found = f"scale {y.quantization.scale:.6g} and zero point {y.quantization.zero_point}"
        raise Refusal(f"output {shown(y.name)} has {found}; 1/256 and -128 would be supported")


def _pair(site: Site) -> tuple[Value, Value, Value]:
    """Return two inputs of one dtype, at most one of them constant, and the output."""
    site.arity(2, 2)
    a, b = check_activation(site.value(0)), check_activation(site.value(1))
    if a.data is not None and b.data is not None:
        raise Refusal("both inputs are constants; fold them before the export")
    if a.dtype != b.dtype:
        raise Refusal(f"{a.dtype} with {b.dtype}; two inputs of one type would be supported")
    return a, b, site.result(a.dtype)


def _arithmetic(site: Site, kind: str, a: Value, b: Value) -> Conversion:
    activation = site.activation_function(ARITHMETIC_ACTIVATION)
    return Conversion(
        kind=kind,
        inputs=(a.tensor, b.tensor),
        shape=_broadcast(a.shape, b.shape),
        attributes={"activation": activation},
    )


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    shape = []
    for first, second in pairs:
        if first != second and 1 not in (first, second):
            raise Mismatch(f"inputs of shapes {spelled(a)} and {spelled(b)} do not go together")
        shape.append(second if first == 1 else first)
    return tuple(shape)
