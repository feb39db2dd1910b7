"""Functions of each element, of two tensors, and of conditions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stowplan.flow.graph import Attribute, Quantization
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.joining import binary, scalar, select
from stowplan_importer_onnx.site import ANYTHING, FLOAT, NUMBERS, Lowering, Result, Site, Tailed
from stowplan_importer_onnx.tails import limits

TABULATED = frozenset({"logistic", "tanh", "exp", "sqrt", "erf", "softplus", "gelu"})
"""Functions whose int8 tables are the function of the real number, rounded once."""
LARGEST = float(np.finfo(np.float32).max)


def unary(builder: Builder, kind: str, x: Value, **attributes: Attribute) -> Value:
    """Return a function of each element of a real value."""
    x = builder.real(x)
    return builder.result(kind, (x.tensor,), x.shape, x.dtype, attributes, x.order)


def function(kind: str) -> Lowering:
    """Return the lowering of a function of floats that needs no attributes; between int8 numbers it is a table."""

    def lowering(site: Site) -> Result:
        x, builder = site.value(0, FLOAT), site.builder
        if builder.is_quantized(x) and kind in TABULATED:
            tail = site.tail(quantize=True, activation=False)
            if tail.quantization is not None:
                tensor = builder.step(kind, (x.tensor,), x.stored_shape, "int8", {}, tail.quantization)
                return Tailed(x._replace(tensor=tensor, dtype=tail.dtype), tail)
        return unary(builder, kind, x)

    return lowering


def composed(make: Callable[[Builder, Value], Value]) -> Lowering:
    """Return the lowering of a function of floats that is made of others."""

    def lowering(site: Site) -> Value:
        return make(site.builder, site.value(0, FLOAT))

    return lowering


def either(kind: str, of_integers: Callable[[Builder, Value], Value]) -> Lowering:
    """Return the lowering of a function that integers have as well, made of others for those."""

    def lowering(site: Site) -> Value:
        x = site.value(0, NUMBERS)
        return unary(site.builder, kind, x) if x.dtype == "float32" else of_integers(site.builder, x)

    return lowering


def neg(builder: Builder, x: Value) -> Value:
    return binary(builder, "sub", scalar(builder, 0, x.dtype), x)


def absolute(builder: Builder, x: Value) -> Value:
    return binary(builder, "maximum", x, neg(builder, x)) if x.dtype.startswith("int") else x


def sign(builder: Builder, x: Value) -> Value:
    above = cast(builder, binary(builder, "greater", x, scalar(builder, 0, x.dtype)), x.dtype)
    below = cast(builder, binary(builder, "less", x, scalar(builder, 0, x.dtype)), x.dtype)
    return binary(builder, "sub", above, below)


def relu(site: Site) -> Value:
    x = site.value(0, NUMBERS)
    builder = site.builder
    if x.dtype != "float32":
        return binary(builder, "maximum", x, scalar(builder, 0, x.dtype))
    q = builder.quantization(x)
    if builder.is_quantized(x):  # the same numbers from the zero point on
        return x._replace(tensor=builder.step("relu", (x.tensor,), x.stored_shape, "int8", {}, q))
    return unary(builder, "relu", x)


def clip(site: Site) -> Value:
    x = site.value(0, NUMBERS)
    ends = limits(site.walk, site.node)
    if x.dtype == "float32" and ends is not None:
        return clipped(site.builder, x, *ends)
    low, high = site.optional(1), site.optional(2)
    if low is not None:
        x = binary(site.builder, "maximum", x, low)
    return x if high is None else binary(site.builder, "minimum", x, high)


def clipped(builder: Builder, x: Value, low: float, high: float) -> Value:
    if low > high:
        return binary(builder, "minimum", binary(builder, "maximum", x, scalar(builder, low)), scalar(builder, high))
    found = {(0.0, 6.0): "relu6", (0.0, math.inf): "relu"}.get((low, high))
    if found:
        return unary(builder, found, x)
    return unary(builder, "clip", x, minimum=max(low, -LARGEST), maximum=min(high, LARGEST))


def elu(site: Site) -> Value:
    return scaled_elu(site.builder, site.value(0, FLOAT), site.number("alpha", 1.0))


def scaled_elu(builder: Builder, x: Value, alpha: float) -> Value:
    if alpha == 1.0:
        return unary(builder, "elu", x)
    below = unary(builder, "elu", binary(builder, "minimum", x, scalar(builder, 0.0)))
    return binary(builder, "add", unary(builder, "relu", x), binary(builder, "mul", below, scalar(builder, alpha)))


def selu(site: Site) -> Value:
    alpha = site.number("alpha", 1.67326319217681884765625)
    gamma = site.number("gamma", 1.05070102214813232421875)
    found = scaled_elu(site.builder, site.value(0, FLOAT), alpha)
    return binary(site.builder, "mul", found, scalar(site.builder, gamma))


def celu(site: Site) -> Value:
    builder, x, alpha = site.builder, site.value(0, FLOAT), site.number("alpha", 1.0)
    if alpha == 0:
        raise Refusal("alpha 0")
    inner = unary(builder, "elu", binary(builder, "minimum", divided(builder, x, alpha), scalar(builder, 0.0)))
    return binary(builder, "add", unary(builder, "relu", x), binary(builder, "mul", inner, scalar(builder, alpha)))


def divided(builder: Builder, x: Value, number: float) -> Value:
    return binary(builder, "div", x, scalar(builder, number))


def leaky_relu(site: Site) -> Value:
    return unary(site.builder, "leaky_relu", site.value(0, FLOAT), alpha=site.number("alpha", 0.01))


def hard_sigmoid(site: Site) -> Value:
    alpha, beta = site.number("alpha", 0.2), site.number("beta", 0.5)
    return unary(site.builder, "hard_sigmoid", site.value(0, FLOAT), alpha=alpha, beta=beta)


def gelu(site: Site) -> Value:
    kind = {"none": "gelu", "tanh": "gelu_tanh"}.get(site.text("approximate", "none"))
    if kind is None:
        raise Refusal(f"approximation {site.text('approximate', 'none')}; none and tanh are defined")
    return unary(site.builder, kind, site.value(0, FLOAT))


def softsign(builder: Builder, x: Value) -> Value:
    return binary(builder, "div", x, binary(builder, "add", unary(builder, "abs", x), scalar(builder, 1.0)))


def mish(builder: Builder, x: Value) -> Value:
    return binary(builder, "mul", x, unary(builder, "tanh", unary(builder, "softplus", x)))


def swish(site: Site) -> Value:
    x, alpha = site.value(0, FLOAT), site.number("alpha", 1.0)
    inner = x if alpha == 1.0 else binary(site.builder, "mul", x, scalar(site.builder, alpha))
    return binary(site.builder, "mul", x, unary(site.builder, "logistic", inner))


def thresholded_relu(site: Site) -> Value:
    builder, x = site.builder, site.value(0, FLOAT)
    above = binary(builder, "greater", x, scalar(builder, site.number("alpha", 1.0)))
    return select(builder, above, x, scalar(builder, 0.0))


def shrink(site: Site) -> Value:
    builder, x = site.builder, site.value(0, FLOAT)
    lambd, bias = site.number("lambd", 0.5), site.number("bias", 0.0)
    low = binary(builder, "less", x, scalar(builder, -lambd))
    high = binary(builder, "greater", x, scalar(builder, lambd))
    up = binary(builder, "add", x, scalar(builder, bias))
    down = binary(builder, "sub", x, scalar(builder, bias))
    return select(builder, low, up, select(builder, high, down, scalar(builder, 0.0)))


def tan(builder: Builder, x: Value) -> Value:
    return binary(builder, "div", unary(builder, "sin", x), unary(builder, "cos", x))


def sinh(builder: Builder, x: Value) -> Value:
    """Half of the difference of exp(x) and exp(-x), as (e + e / (e + 1)) / 2 with e = exp(x) - 1, exact near 0."""
    size = unary(builder, "abs", x)
    e = neg(builder, unary(builder, "elu", neg(builder, size)))  # 1 - exp(-|x|)
    grown = binary(builder, "div", e, binary(builder, "sub", scalar(builder, 1.0), e))  # exp(|x|) - 1
    half = binary(builder, "mul", binary(builder, "add", grown, e), scalar(builder, 0.5))
    return binary(builder, "mul", half, unary(builder, "sign", x))


def cosh(builder: Builder, x: Value) -> Value:
    both = binary(builder, "add", unary(builder, "exp", x), unary(builder, "exp", neg(builder, x)))
    return binary(builder, "mul", both, scalar(builder, 0.5))


def is_nan(site: Site) -> Value:
    x = site.value(0, FLOAT)
    return binary(site.builder, "not_equal", x, x)


def is_inf(site: Site) -> Value:
    builder, x = site.builder, site.value(0, FLOAT)
    high, low = (binary(builder, "equal", x, scalar(builder, end)) for end in (math.inf, -math.inf))
    positive, negative = site.integer("detect_positive", 1), site.integer("detect_negative", 1)
    if positive and negative:
        return binary(builder, "logical_or", high, low)
    if not positive and not negative:
        raise Refusal("it looks for neither infinity")
    return high if positive else low


def logical_not(site: Site) -> Value:
    x = site.value(0, ("bool",))
    return site.builder.result("logical_not", (x.tensor,), x.shape, "bool", {}, x.order)


def cast(builder: Builder, x: Value, dtype: str) -> Value:
    x = builder.real(x)
    return x if x.dtype == dtype else builder.result("cast", (x.tensor,), x.shape, dtype, {}, x.order)


# Functions of two and more tensors.


def arithmetic(kind: str, *, logical: bool = False) -> Lowering:
    """Return the lowering of a function of two tensors; int8 numbers where a QuantizeLinear follows."""

    def lowering(site: Site) -> Result:
        a, b = _pair(site, ("bool",) if logical else NUMBERS)
        if kind in ("add", "mul", "sub") and a.dtype == "float32":
            found = _quantized(site, kind, a, b)
            if found is not None:
                return found
            tail = site.tail()
            return Tailed(binary(site.builder, kind, a, b, activation=tail.activation), tail)
        return binary(site.builder, kind, a, b)

    return lowering


def _pair(site: Site, dtypes: tuple[str, ...]) -> tuple[Value, Value]:
    if len(site.inputs) != 2:
        raise Refusal(f"{len(site.inputs)} inputs where 2 are defined")
    a, b = site.value(0, dtypes), site.value(1, dtypes)
    if a.dtype != b.dtype:
        raise Refusal(f"{a.dtype} with {b.dtype}; two inputs of one type are defined")
    if site.version < 7 and site.integer("broadcast", 0) and site.has("axis"):
        after = a.rank - site.axis(a.rank) - b.rank
        b = site.builder.reshaped(b, b.shape + (1,) * max(after, 0))
    return a, b


def _quantized(site: Site, kind: str, a: Value, b: Value) -> Tailed | None:
    """Return the operator in int8, where its inputs are held so and its output becomes so."""
    builder = site.builder
    if not (builder.is_quantized(a) and builder.is_quantized(b)):
        return None
    tail = site.tail(quantize=True)
    if tail.quantization is None:
        return None
    return Tailed(int8_binary(builder, kind, a, b, tail.activation, tail.quantization, tail.dtype), tail)


def int8_binary(builder: Builder, kind: str, a: Value, b: Value, activation: str, q: Quantization, dtype: str) -> Value:
    from stowplan_importer_onnx.lower.joining import common_order, expanded, raised
    from stowplan_importer_onnx.site import broadcast_shape

    shape = broadcast_shape(a.shape, b.shape)
    operands = [raised(builder, value, len(shape)) for value in (a, b)]
    order = common_order(builder, operands)
    if len(shape) > 4:
        operands = [expanded(builder, value, shape) for value in operands]
    tensors = [builder.stored(value, order) for value in operands]
    stored = tuple(shape[axis] for axis in order)
    tensor = builder.step(kind, tensors, stored, "int8", {"activation": activation}, q)
    return Value(tensor, shape, dtype, order)


def comparison(kind: str) -> Lowering:
    def lowering(site: Site) -> Value:
        a, b = _pair(site, ANYTHING)
        return binary(site.builder, kind, a, b)

    return lowering


def power(site: Site) -> Value:
    base, exponent = site.value(0, NUMBERS), site.value(1, NUMBERS)
    builder = site.builder
    known = builder.array(exponent)
    if base.dtype == "float32" and known is not None and known.size == 1 and exponent.rank <= base.rank:
        number = float(known.reshape(-1)[0])
        if number in (2.0, 0.5, 1.0):
            return base if number == 1.0 else unary(builder, "square" if number == 2.0 else "sqrt", base)
    if base.dtype == exponent.dtype:
        return binary(builder, "pow", base, exponent)
    if base.dtype != "float32":
        raise Refusal(f"{base.dtype} to the power of {exponent.dtype}; one type would be supported")
    return binary(builder, "pow", base, cast(builder, exponent, "float32"))


def modulo(site: Site) -> Value:
    a, b = _pair(site, NUMBERS)
    if site.integer("fmod", 0):
        return _remainder(site.builder, a, b)
    return binary(site.builder, "floor_mod", a, b)


def _remainder(builder: Builder, a: Value, b: Value) -> Value:
    """Return the remainder with the sign of the first operand, as C's % has it."""
    if a.dtype == "float32":
        size = binary(builder, "floor_mod", unary(builder, "abs", a), unary(builder, "abs", b))
        return binary(builder, "mul", size, unary(builder, "sign", a))
    whole = binary(builder, "div", a, b)
    return binary(builder, "sub", a, binary(builder, "mul", whole, b))


def many(kind: str, *, average: bool = False) -> Lowering:
    """Return the lowering of Sum, Max and their like, over any number of tensors."""

    def lowering(site: Site) -> Value:
        if not site.inputs:
            raise Refusal("no inputs")
        found = site.value(0, NUMBERS)
        for position in range(1, len(site.inputs)):
            other = site.value(position, NUMBERS)
            if other.dtype != found.dtype:
                raise Refusal(f"{found.dtype} with {other.dtype}; inputs of one type are defined")
            found = binary(site.builder, kind, found, other)
        return divided(site.builder, found, len(site.inputs)) if average else found

    return lowering


def prelu(site: Site) -> Value:
    x, slope = _pair(site, NUMBERS)
    if slope.rank == 1 and x.rank > 2 and slope.shape[0] == x.shape[1] and slope.shape[0] != x.shape[-1]:
        slope = site.builder.reshaped(slope, (slope.shape[0], *(1,) * (x.rank - 2)))  # before opset 7
    return binary(site.builder, "prelu", x, slope)


def where(site: Site) -> Value:
    condition, a, b = site.value(0, ("bool",)), site.value(1), site.value(2)
    if a.dtype != b.dtype:
        raise Refusal(f"{a.dtype} or {b.dtype}; one type is defined")
    return select(site.builder, condition, a, b)


def converted(site: Site) -> Value:
    return cast_to(site, site.node.attributes.get("to"))


def cast_like(site: Site) -> Value:
    return cast_to(site, None if site.optional(1) is None else site.value(1, (*ANYTHING, "float16", "float64")).dtype)


def cast_to(site: Site, target: object) -> Value:
    from stowplan_importer_onnx.parse import dtype_name

    dtype = dtype_name(target) if isinstance(target, int) else str(target)
    x = site.value(0, (*ANYTHING, "float16", "float64"))
    if x.dtype == dtype:
        return x
    if dtype not in (*ANYTHING, "float16", "float64") or (not site.builder.is_constant(x) and x.dtype not in ANYTHING):
        raise Refusal(f"from {x.dtype} to {dtype} is not supported")
    return cast(site.builder, x, dtype)


def identity(site: Site) -> Value:
    return site.value(0, (*ANYTHING, "float16", "float64"))


def dropout(site: Site) -> Result:
    if len(site.inputs) > 2 and site.optional(2) is not None and bool(site.scalar(2, "the training mode")):
        raise Refusal("in training mode")
    x = site.value(0, FLOAT)
    return [x, site.builder.constant(np.ones(x.shape, bool))] if len(site.node.outputs) > 1 else x
