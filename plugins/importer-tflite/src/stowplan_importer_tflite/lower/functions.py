"""TANH, ABS, CAST and their like, functions of two tensors, and reductions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import ABSENT, Attribute, Quantization
from stowplan.flow.operators import COMPARISONS, LOGICAL
from stowplan.nouns import replace
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.lower.convolution import widened
from stowplan_importer_tflite.lower.elementwise import broadcast_shape, check_gate
from stowplan_importer_tflite.lower.rearranging import rearranged, steps_of
from stowplan_importer_tflite.parse import shown, spelled
from stowplan_importer_tflite.site import (
    ANYTHING,
    COMPUTED,
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

UNIT = Quantization(scales=(1 / 128,), zero_points=(0,))
"""The quantization of TANH's int8 output."""
MOST_ROOT = 1024.0
"""Of an input's root and an output's scale: beyond it the inverse root of int16 has no bits left."""
NUMBERS = ("int8", "int16", "float32", "int32", "int64")
Lowering = Callable[[Site], Conversion]


def unary(kind: str) -> Lowering:
    """Return the lowering of a function that needs no options."""

    def lowering(site: Site) -> Conversion:
        site.arity(1, 1)
        dtypes = COMPUTED if kind in ("tanh", "abs", "rsqrt") else ("int8", "float32")
        x = site.activation(0, NUMBERS if site.value(0).data is not None else dtypes)
        y = site.result(x.dtype)
        if x.dtype == "int16" and kind == "tanh":
            check_gate(x, y)
        if kind == "tanh" and y.dtype == "int8" and y.quantization != UNIT:
            raise Refusal(f"output {shown(y.name)} is not quantized with scale 1/128 and zero point 0")
        if x.dtype == "int16" and kind == "rsqrt":
            _check_root(x, y)
        if kind in ("relu_n1_to_1", "neg"):
            check_same_quantization(x, y)
        if kind == "neg" and x.quantization is not None and x.quantization.zero_point:
            raise Refusal(f"{x.dtype} {shown(x.name)} has zero point {x.quantization.zero_point}; 0 would be supported")
        return Conversion(kind, (x.tensor,), x.shape)

    return lowering


def _check_root(x: Value, y: Value) -> None:
    for value in (x, y):
        if value.quantization is not None and value.quantization.zero_point:
            raise Refusal(f"int16 {shown(value.name)} has zero point {value.quantization.zero_point}; 0 is defined")
    if math.sqrt(scale_of(x)) * scale_of(y) > MOST_ROOT:
        raise Refusal(f"{shown(x.name)} and {shown(y.name)} have too large scales for int16 arithmetic")


def leaky_relu(site: Site) -> Conversion:
    site.arity(1, 1)
    x = site.activation(0, COMPUTED)
    y = site.result(x.dtype)
    alpha = site.options().scalar(schema.LEAKY_RELU_ALPHA, "f")
    if not math.isfinite(alpha):
        raise Refusal(f"a slope of {alpha}")
    if x.dtype != "float32":
        check_rescale(scale_of(x) / scale_of(y) * max(abs(alpha), 1))
    return Conversion("leaky_relu", (x.tensor,), x.shape, {"alpha": alpha})


def gelu(site: Site) -> Conversion:
    kind = "gelu_tanh" if site.table is not None and site.table.flag(schema.GELU_APPROXIMATE) else "gelu"
    return unary(kind)(site)


def relu_0_to_1(site: Site) -> Conversion:
    found = unary("clip")(site)
    check_same_quantization(site.value(0), site.output)
    return found._replace(attributes={"minimum": 0.0, "maximum": 1.0})


def cast(site: Site) -> Conversion:
    site.arity(1, 1)
    x = site.activation(0, ANYTHING)
    check_activation(site.output, ANYTHING)
    return Conversion("cast", (x.tensor,), x.shape)


def logical_not(site: Site) -> Conversion:
    site.arity(1, 1)
    x = site.activation(0, ("bool",))
    site.result("bool")
    return Conversion("logical_not", (x.tensor,), x.shape)


def binary(kind: str, dtypes: tuple[str, ...]) -> Lowering:
    """Return the lowering of a function of two tensors, int8 among `dtypes` if there is a kernel for it."""

    def lowering(site: Site) -> Conversion:
        site.arity(2, 2)
        known = all(site.value(i).data is not None for i in (0, 1))
        a, b = (site.activation(i, NUMBERS if known else dtypes) for i in (0, 1))
        if a.dtype != b.dtype:
            raise Refusal(f"{a.dtype} with {b.dtype}; two inputs of one type would be supported")
        y = site.result(a.dtype)
        if a.dtype in ("int8", "int16") and kind in ("prelu", "squared_difference"):
            check_rescale(scale_of(a) / scale_of(y) * max(scale_of(b), 1))
        if kind in ("maximum", "minimum"):
            check_same_quantization(a, b)
            check_same_quantization(a, y)
        options = kind in ("sub", "div") and site.table is not None
        activation = site.activation_function(schema.ARITHMETIC_ACTIVATION) if options else "none"
        shape = broadcast_shape(a.shape, b.shape)
        return Conversion(kind, (a.tensor, b.tensor), shape, {"activation": activation})

    return lowering


def add_n(site: Site) -> list[Conversion]:
    """The sum of all inputs, one after another."""
    parts = [site.activation(position, ("float32",)) for position in range(len(site.inputs))]
    y = site.result("float32")
    if len(parts) < 2 or any(part.shape != parts[0].shape for part in parts):
        raise Mismatch(f"{len(parts)} inputs of shapes {', '.join(spelled(part.shape) for part in parts[:8])}")
    steps, total = [], parts[0]
    for part in parts[1:]:
        following = y if part is parts[-1] else site.new(part.shape, "float32", None, None)
        operands = (total.tensor, part.tensor)
        steps.append(Conversion("add", operands, part.shape, {"activation": "unbounded"}, following.tensor))
        total = following
    return steps


def comparison(kind: str) -> Lowering:
    def lowering(site: Site) -> Conversion:
        site.arity(2, 2)
        dtypes = ("bool",) if kind in LOGICAL else ("float32", "int32", "int64", "bool", "int8", "int16")
        a, b = site.activation(0, dtypes), site.activation(1, dtypes)
        if a.dtype != b.dtype:
            raise Refusal(f"{a.dtype} with {b.dtype}; two inputs of one type would be supported")
        check_same_quantization(a, b)
        site.result("bool")
        return Conversion(kind, (a.tensor, b.tensor), broadcast_shape(a.shape, b.shape))

    return lowering


def select(site: Site) -> Conversion:
    site.arity(3, 3)
    c, a, b = site.activation(0, ("bool",)), site.activation(1, ANYTHING), site.activation(2, ANYTHING)
    if a.dtype != b.dtype:
        raise Refusal(f"{a.dtype} or {b.dtype}; one type would be supported")
    check_same_quantization(a, b)
    check_same_quantization(a, site.result(a.dtype))
    shape = broadcast_shape(broadcast_shape(c.shape, a.shape), b.shape)
    return Conversion("select", (c.tensor, a.tensor, b.tensor), shape)


def reduction(function: str) -> Lowering:
    def lowering(site: Site) -> Conversion:
        site.arity(2, 2)
        dtypes = ("bool",) if function in ("any", "all") else ("float32", "int32", "int64")
        x = site.activation(0, (*dtypes, "int8", "int16") if function in ("max", "min", "sum") else dtypes)
        y = site.result(x.dtype)
        if function != "sum":
            check_same_quantization(x, y)
        elif x.quantization is not None:
            check_rescale(scale_of(x) / scale_of(y))
        axes = axes_of(site, x.shape)
        keep = site.table is not None and site.table.flag(schema.REDUCER_KEEP_DIMS)
        shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape) if keep or i not in axes)
        return Conversion("reduce", (x.tensor,), shape, {"function": function, "axes": axes})

    return lowering


def axes_of(site: Site, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that the second input lists, from 0 on and in order."""
    found = site.constant_integers(1, "the list of axes")
    for axis in found:
        if not -len(shape) <= axis < len(shape):
            raise Mismatch(f"axis {axis} of an input of shape {spelled(shape)}")
    return tuple(sorted({axis % len(shape) for axis in found}))


def arg_extreme(kind: str) -> Callable[[Site], list[Conversion]]:
    def lowering(site: Site) -> list[Conversion]:
        site.arity(2, 2)
        x = site.activation(0, ("int8", "int16", "float32", "int32"))
        check_activation(site.output, ("int32", "int64"))
        axes = axes_of(site, x.shape)
        if len(axes) != 1:
            raise Mismatch(f"axes {axes} where one is defined")
        (axis,) = axes
        rest = tuple(size for i, size in enumerate(x.shape) if i != axis)
        if axis == len(x.shape) - 1:
            return [Conversion(kind, (x.tensor,), rest)]
        shape = (*rest, x.shape[axis])
        inner, steps = site.new(shape, x.dtype, x.quantization, None), steps_of(x.shape)
        order = [i for i in range(len(x.shape)) if i != axis] + [axis]
        last = rearranged(x, shape, [(x.shape[i], steps[i]) for i in order], output=inner.tensor)
        return [last, Conversion(kind, (inner.tensor,), rest)]

    return lowering


def along_runs(kind: str) -> Lowering:
    def lowering(site: Site) -> Conversion:
        site.arity(1, 1)
        x = site.activation(0, ("int8", "float32") if kind == "l2_normalization" else ("float32",))
        y = site.result(x.dtype)
        if x.dtype == "int8" and y.quantization != UNIT:
            raise Refusal(f"output {shown(y.name)} is not quantized with scale 1/128 and zero point 0")
        if not x.shape:
            raise Refusal("a scalar has no axis to go along")
        return Conversion(kind, (x.tensor,), x.shape)

    return lowering


def batch_matmul(site: Site) -> Conversion:
    """Of a matrix that no run changes it is FULLY_CONNECTED, which takes its input row by row."""
    site.arity(2, 2)
    if site.value(1).data is not None:
        found = _with_known_matrix(site)
        if found is not None:
            return found
    a, b = site.activation(0, COMPUTED), site.activation(1, COMPUTED)
    if a.dtype != b.dtype:
        raise Refusal(f"{a.dtype} with {b.dtype}; two inputs of one type would be supported")
    y = site.result(a.dtype)
    if a.dtype != "float32":
        check_rescale(scale_of(a) * scale_of(b) / scale_of(y))
    names = schema.BatchMatMulField
    exchanged = [site.table is not None and site.table.flag(n) for n in (names.ADJOINT_X, names.ADJOINT_Y)]
    if min(len(a.shape), len(b.shape)) < 2:
        raise Mismatch(f"inputs of shapes {spelled(a.shape)} and {spelled(b.shape)} are no matrices")
    m, k = a.shape[:-3:-1] if exchanged[0] else a.shape[-2:]
    k_too, n = b.shape[:-3:-1] if exchanged[1] else b.shape[-2:]
    if k != k_too:
        raise Mismatch(f"inputs of shapes {spelled(a.shape)} and {spelled(b.shape)} do not go together")
    shape = (*broadcast_shape(a.shape[:-2], b.shape[:-2]), m, n)
    attributes: dict[str, Attribute] = {"adjoint_x": exchanged[0], "adjoint_y": exchanged[1]}
    return Conversion("batch_matmul", (a.tensor, b.tensor), shape, attributes)


def _with_known_matrix(site: Site) -> Conversion | None:
    """Return a product with one constant matrix as weights; None where it is several, or of no type of weights."""
    x, known = site.activation(0, COMPUTED), site.value(1)
    exchanged = site.table is not None and site.table.flag(schema.BatchMatMulField.ADJOINT_Y)
    if site.table is not None and site.table.flag(schema.BatchMatMulField.ADJOINT_X):
        return None
    plain = 2 <= len(known.shape) <= len(x.shape) and math.prod(known.shape[:-2]) == 1 and 0 not in known.shape
    if not plain or known.dtype not in (("float32", "int8", "float16") if x.dtype == "float32" else ("int8",)):
        return None
    if x.dtype == "float32" and known.dtype != "float32":
        known = widened(site, known)
    outputs, features = known.shape[-2:] if exchanged else known.shape[:-3:-1]
    if x.shape[-1] != features:
        raise Mismatch(f"inputs of shapes {spelled(x.shape)} and {spelled(known.shape)} do not go together")
    w = _as_weights(site, known, exchanged, (outputs, features))
    if w.quantization is not None:
        check_rescale(scale_of(x) * max(w.quantization.scales) / scale_of(site.result(x.dtype)))
    return Conversion("fully_connected", (x.tensor, w.tensor, ABSENT), (*x.shape[:-1], outputs), {"activation": "none"})


def _as_weights(site: Site, known: Value, exchanged: bool, shape: tuple[int, int]) -> Value:
    """Return a matrix with a row for each output, and its scales, one for all or one for each output."""
    outputs, features = shape
    data, size = bytes(known.data or b""), SIZE_BYTES[known.dtype]
    if not exchanged:
        columns = (data[i::outputs] for i in range(outputs))
        if size > 1:
            words = memoryview(data).cast("I")
            columns = (struct.pack(f"<{features}I", *words[i::outputs]) for i in range(outputs))
        data = b"".join(columns)
    quantization = known.quantization
    if known.dtype == "int8" and quantization is None:
        raise Refusal(f"int8 weights {shown(known.name)} have no scale")
    if quantization is not None and quantization.per_channel:
        axis = len(known.shape) - (2 if exchanged else 1)
        if quantization.axis != axis or any(quantization.zero_points):
            raise Refusal(f"weights {shown(known.name)} have scales along axis {quantization.axis}; {axis} with zero "
                          "points 0 would be supported")  # fmt: skip
        quantization = replace(quantization, axis=0)
    return site.new(shape, known.dtype, quantization, data)


COMPARED = {name.upper(): comparison(name) for name in (*COMPARISONS, *LOGICAL)}
