"""Quantized operators: QuantizeLinear and its inverse, QLinear*, operators on raw integers, dynamic quantization."""

from __future__ import annotations

from math import prod

import numpy as np

from stowplan.flow.dtypes import RANGE
from stowplan.flow.graph import Quantization
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.convolution import Filter, checked_groups, convolved, int8_filter
from stowplan_importer_onnx.lower.dense import connected, product
from stowplan_importer_onnx.lower.elementwise import cast, clipped, int8_binary, unary
from stowplan_importer_onnx.lower.joining import binary, joined, scalar
from stowplan_importer_onnx.lower.windows import spans
from stowplan_importer_onnx.parse import Array, spelled
from stowplan_importer_onnx.site import FLOAT, Lowering, Site, axis_of
from stowplan_importer_onnx.tails import matched, quantization

BYTES = ("int8", "uint8")
EXACT = 2**24
"""Integers up to here are exact as float32."""


# To integers and back.


def quantize_linear(site: Site) -> Value:
    x = site.value(0, (*FLOAT, "int32"))
    scales, points, dtype = _constants(site)
    q = quantization(scales, points, site.integer("axis", 1), dtype)
    if q is not None and not q.per_channel and not site.integer("block_size", 0) and x.dtype == "float32":
        return quantized(site.builder, x, q, dtype)
    return _by_steps(site, x, scales, points, dtype)


def _constants(site: Site) -> tuple[Array, Array | None, str]:
    scales = site.array(1, "the scale")
    points = None if site.optional(2) is None else site.array(2, "the zero point")
    code = site.integer("output_dtype", 0)
    if points is None and code:
        from stowplan_importer_onnx.parse import dtype_name

        points = np.zeros(scales.shape, _known(dtype_name(code)))
    if scales.dtype != np.float32:
        raise Refusal(f"a scale of {scales.dtype}; float32 would be supported")
    return scales, points, "uint8" if points is None else str(points.dtype)


def _known(dtype: str) -> np.dtype[np.generic]:
    if dtype not in RANGE:
        raise Refusal(f"quantization to {dtype}")
    return np.dtype(dtype)


def quantized(builder: Builder, x: Value, q: Quantization, dtype: str) -> Value:
    """Return a real value as int8 numbers of this quantization, under the type that the model gives it."""
    if matched(builder, x, q):
        return x._replace(dtype=dtype)
    x = builder.real(x)
    if builder.is_constant(x):
        held = builder.held(x.tensor)
        assert held is not None
        numbers = np.rint(held.astype(np.float32) / np.float32(q.scale)) + q.zero_point
        tensor = builder.constant(np.clip(numbers, -128, 127).astype(np.int8), q).tensor
        return x._replace(tensor=tensor, dtype=dtype)
    return x._replace(tensor=builder.step("quantize", (x.tensor,), x.stored_shape, "int8", {}, q), dtype=dtype)


def _by_steps(site: Site, x: Value, scales: Array, points: Array | None, dtype: str) -> Value:
    """Return integers of other types or with other scales along an axis, made of plain operators."""
    if dtype not in RANGE or dtype == "int32":
        raise Refusal(f"quantization to {dtype}; int8, uint8 and int16 would be supported")
    builder = site.builder
    x = cast(builder, x, "float32")
    factors = builder.constant(_along(site, scales.astype(np.float32), x.shape))
    steps = unary(builder, "round", binary(builder, "div", x, factors))
    if points is not None and points.any():
        steps = binary(builder, "add", steps, builder.constant(_along(site, points.astype(np.float32), x.shape)))
    low, high = RANGE[dtype]
    return cast(builder, clipped(builder, steps, low, high), dtype)


def _along(site: Site, numbers: Array, shape: tuple[int, ...]) -> Array:
    """Return numbers in a form that is stretched over a tensor: one, one along the axis, or one per block of it."""
    if numbers.size == 1:
        return numbers.reshape(())
    axis = axis_of(site.integer("axis", 1), len(shape))
    block = site.integer("block_size", 0)
    if block and numbers.ndim == len(shape):
        wide = np.repeat(numbers, block, axis=axis)
        whole = wide[tuple(slice(0, n) for n in shape)]
        if whole.shape != shape:
            raise Refusal(f"blocks of {block} with scales of shape {spelled(numbers.shape)} for {spelled(shape)}")
        return whole
    if numbers.ndim != 1 or numbers.size != shape[axis]:
        raise Refusal(f"scales of shape {spelled(numbers.shape)} along axis {axis} of {spelled(shape)}")
    return numbers.reshape([-1 if i == axis else 1 for i in range(len(shape))])


def dequantize_linear(site: Site) -> Value:
    x = site.value(0, (*BYTES, "int16", "uint16", "int32"))
    scales, points, _ = _constants(site)
    if points is not None and points.dtype != x.dtype:
        raise Refusal(f"{x.dtype} numbers with a zero point of {points.dtype}")
    blocks = site.integer("block_size", 0)
    axis = axis_of(site.integer("axis", 1), x.rank) if scales.size > 1 else 0
    if scales.size > 1 and not blocks and scales.size != x.shape[axis]:
        raise Refusal(f"{scales.size} scales along axis {axis} of {spelled(x.shape)}")
    q = None if blocks else quantization(scales, points, axis, x.dtype)
    if q is not None and (not q.per_channel or site.builder.is_constant(x)):
        return real_of(site.builder, x, q)
    known = site.builder.array(x)
    if known is not None:
        zero = 0 if points is None else _along(site, points, x.shape).astype(np.float32)
        return site.builder.constant(((known - zero) * _along(site, scales, x.shape)).astype(np.float32))
    found = cast(site.builder, x, "float32")
    if points is not None and points.any():
        zeros = _along(site, points.astype(np.float32), x.shape)
        found = binary(site.builder, "sub", found, site.builder.constant(zeros))
    return binary(site.builder, "mul", found, site.builder.constant(_along(site, scales, x.shape)))


def real_of(builder: Builder, x: Value, q: Quantization) -> Value:
    """Return the real numbers that int8 or uint8 numbers stand for; nothing is computed yet."""
    found = builder.tensors[x.tensor]
    if found.constant is not None:
        held = builder.held(builder.real(x).tensor)
        assert held is not None
        signed = held if x.dtype == "int8" else (held.astype(np.int16) - 128).astype(np.int8)
        turned = q if q.axis is None else Quantization(scales=q.scales, zero_points=q.zero_points, axis=x.place(q.axis))
        return x._replace(tensor=builder.constant(signed, turned).tensor, dtype="float32")
    tensor = x.tensor
    if found.dtype == "uint8":
        raw = Quantization(scales=q.scales, zero_points=(q.zero_point + 128,))
        tensor = builder.step("reshape", (tensor,), found.shape, "uint8", {}, raw)
        return x._replace(tensor=builder.step("quantize", (tensor,), found.shape, "int8", {}, q), dtype="float32")
    if found.quantization != q:
        tensor = builder.step("reshape", (tensor,), found.shape, "int8", {}, q)
    return x._replace(tensor=tensor, dtype="float32")


# Operators on integers with their scales beside them.


def _real(site: Site, first: int, axis: int = 0) -> Value:
    """Return the real numbers of input `first`, its scale and zero point behind it."""
    x = site.value(first, BYTES)
    q = quantization(*_scale(site, first + 1), axis, x.dtype)
    if q is None or (q.per_channel and not site.builder.is_constant(x)):
        raise Refusal(f"input {first}: scales or zero points that are not those of {x.dtype}")
    return real_of(site.builder, x, q)


def _scale(site: Site, position: int) -> tuple[Array, Array | None]:
    points = None if site.optional(position + 1) is None else site.array(position + 1, "the zero point")
    return site.array(position, "the scale"), points


def _target(site: Site, position: int) -> tuple[Quantization, str]:
    scales, points = _scale(site, position)
    dtype = "uint8" if points is None else str(points.dtype)
    q = quantization(scales, points, 0, dtype)
    if q is None or q.per_channel:
        raise Refusal("the scale of its output is no positive number, or not of int8 or uint8")
    return q, dtype


def qlinear_conv(site: Site) -> Value:
    builder = site.builder
    x, w = _real(site, 0), _real(site, 3)
    q, dtype = _target(site, 6)
    groups = checked_groups(x, w.shape, site.integer("group", 1))
    windows = spans(site, x.shape[2:], w.shape[2:])
    bias = None
    if site.optional(8) is not None:
        of_x, of_w = builder.quantization(x), builder.quantization(w)
        assert of_x is not None and of_w is not None
        bias = site.array(8, "biases").astype(np.float64) * (np.array(of_w.scales) * of_x.scale)
    found = int8_filter(builder, x, w, bias, groups)
    if found is not None and len(windows) < 3:
        return convolved(builder, x, found, windows, "none", q)._replace(dtype=dtype)
    weights = builder.array(w)
    if weights is None:
        raise Refusal("computed weights; constant ones would be supported")
    wide = Filter(weights, None if bias is None else bias.astype(np.float32), groups)
    return quantized(builder, convolved(builder, builder.real(x), wide, windows, "none"), q, dtype)


def qlinear_matmul(site: Site) -> Value:
    builder, a, b = site.builder, _real(site, 0), _real(site, 3, 1)
    q, dtype = _target(site, 6)
    held, of_b = builder.held(b.tensor), builder.quantization(b)
    if held is not None and b.rank == 2 and of_b is not None and not (of_b.per_channel and any(of_b.zero_points)):
        integers = held.transpose([b.place(axis) for axis in range(2)]).T
        turned = Quantization(scales=of_b.scales, zero_points=of_b.zero_points, axis=0 if of_b.per_channel else None)
        if a.shape[-1:] != integers.shape[1:]:
            raise Refusal(f"{spelled(a.shape)} times {spelled(b.shape)}")
        return connected(builder, a, integers, None, "none", turned, q)._replace(dtype=dtype)
    return quantized(builder, product(builder, builder.real(a), builder.real(b)), q, dtype)


def q_gemm(site: Site) -> Value:
    builder, a = site.builder, _real(site, 0)
    b = _real(site, 3, 0 if site.integer("transB", 0) else 1)
    q, dtype = _target(site, 7)
    held, of_a, of_b = builder.held(b.tensor), builder.quantization(a), builder.quantization(b)
    if held is None or of_a is None or of_b is None or site.integer("transA", 0) or site.number("alpha", 1.0) != 1.0:
        raise Refusal("computed weights, transA or alpha; constant weights and neither would be supported")
    if of_b.per_channel and any(of_b.zero_points):
        raise Refusal("weights with zero points per channel; one for all would be supported")
    integers = held.transpose([b.place(axis) for axis in range(2)])
    integers = integers if site.integer("transB", 0) else integers.T
    bias = None if site.optional(6) is None else site.array(6, "biases").reshape(-1).astype(np.int32)
    if a.rank != 2 or a.shape[1] != integers.shape[1] or (bias is not None and bias.size != integers.shape[0]):
        raise Refusal(f"{spelled(a.shape)} times weights of shape {spelled(b.shape)}")
    turned = Quantization(scales=of_b.scales, zero_points=of_b.zero_points, axis=0 if of_b.per_channel else None)
    return connected(builder, a, integers, bias, "none", turned, q)._replace(dtype=dtype)


def qlinear_binary(kind: str) -> Lowering:
    def lowering(site: Site) -> Value:
        a, b = _real(site, 0), _real(site, 3)
        q, dtype = _target(site, 6)
        return int8_binary(site.builder, kind, a, b, "none", q, dtype)

    return lowering


def qlinear_unary(kind: str) -> Lowering:
    """Return the lowering of a function of each element, which becomes a table."""

    def lowering(site: Site) -> Value:
        x = _real(site, 0)
        q, dtype = _target(site, 3)
        attributes = {"alpha": site.number("alpha", 0.01)} if kind == "leaky_relu" else {}
        tensor = site.builder.step(kind, (x.tensor,), x.stored_shape, "int8", attributes, q)
        return x._replace(tensor=tensor, dtype=dtype)

    return lowering


def qlinear_softmax(site: Site) -> Value:
    from stowplan_importer_onnx.lower.reduction import along

    builder, x = site.builder, _real(site, 0)
    q, dtype = _target(site, 3)
    version, axis = site.integer("opset", 13), site.axis(x.rank, -1)
    x = builder.real(x)
    if version < 13 and prod(x.shape[axis + 1 :]) > 1:
        flat = builder.reshaped(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
        found = builder.reshaped(along(builder, "softmax", flat, 1), x.shape)
    else:
        found = along(builder, "softmax", x, axis)
    return quantized(builder, found, q, dtype)


def qlinear_concat(site: Site) -> Value:
    q, dtype = _target(site, 0)
    parts = [_real(site, position) for position in range(2, len(site.inputs), 3)]
    if not parts:
        raise Refusal("no inputs")
    same = [_requantized(site.builder, part, q) for part in parts]
    return joined(site.builder, same, site.axis(parts[0].rank, 1))._replace(dtype=dtype)


def _requantized(builder: Builder, x: Value, q: Quantization) -> Value:
    if builder.quantization(x) == q:
        return x
    if builder.is_constant(x):
        return quantized(builder, x, q, "float32")
    return x._replace(tensor=builder.step("quantize", (x.tensor,), x.stored_shape, "int8", {}, q))


def qlinear_pool(site: Site) -> Value:
    from stowplan_importer_onnx.lower.pooling import averaged

    x = _real(site, 0)
    q, dtype = _target(site, 3)
    if site.integer("channels_last", 0):
        raise Refusal("channels_last")
    windows = spans(site, x.shape[2:], site.integers("kernel_shape"), ceil=bool(site.integer("ceil_mode", 0)))
    return quantized(site.builder, averaged(site, site.builder.real(x), windows), q, dtype)


def qlinear_global_pool(site: Site) -> Value:
    from stowplan_importer_onnx.lower.windows import from_image, image

    x = _real(site, 0)
    q, dtype = _target(site, 3)
    if site.integer("channels_last", 0) or x.rank != 4:
        raise Refusal("channels_last, or another number of axes than four")
    tensor, shape = image(site.builder, x)
    out = site.builder.step("mean", (tensor,), (shape[0], 1, 1, shape[3]), "int8", {"axes": (1, 2)}, q)
    return from_image(site.builder, out, (*x.shape[:2], 1, 1), dtype)


# Raw integers.


def conv_integer(site: Site) -> Value:
    """Lower ConvInteger in float32, where every sum is exact."""
    builder, x = site.builder, _centred(site, 0, 2)
    weights = _centred_weights(site, 1, 3, 0)
    groups = checked_groups(x, weights.shape, site.integer("group", 1))
    _check_exact(weights.reshape(weights.shape[0], -1))
    found = convolved(builder, x, Filter(weights, None, groups), spans(site, x.shape[2:], weights.shape[2:]), "none")
    return cast(builder, found, "int32")


def matmul_integer(site: Site) -> Value:
    builder, a = site.builder, _centred(site, 0, 2)
    if builder.is_constant(site.value(1, BYTES)) and site.value(1, BYTES).rank == 2 and a.rank > 1:
        weights = _centred_weights(site, 1, 3, 1)
        if a.shape[-1] != weights.shape[0]:
            raise Refusal(f"{spelled(a.shape)} times {spelled(weights.shape)}")
        _check_exact(weights.T)
        return cast(builder, connected(builder, a, weights.T, None, "none"), "int32")
    b = _centred(site, 1, 3)
    if a.shape[-1] * 255 * 255 > EXACT:
        raise Refusal(f"sums of {a.shape[-1]} products; up to {EXACT // 255**2} would be exact")
    return cast(builder, product(builder, a, b), "int32")


def _check_exact(weights: Array) -> None:
    """Refuse weights, one row per output, with which a sum could leave the integers that float32 has."""
    most = float(np.abs(weights.astype(np.float64)).sum(axis=1).max(initial=0)) * 255
    if most > EXACT:
        raise Refusal("its sums of products are too large to be exact here; use QLinear or QDQ operators")


def _centred(site: Site, position: int, zero: int) -> Value:
    """Return integers minus their zero point, as floats."""
    builder, x = site.builder, site.value(position, BYTES)
    found = cast(builder, x, "float32")
    point = site.optional(zero)
    if point is None:
        return found
    wide = cast(builder, point, "float32")
    if wide.elements > 1:
        if position == 0 and wide.elements == x.shape[max(x.rank - 2, 0)] and wide.rank == 1:
            wide = builder.reshaped(wide, (wide.elements, 1))
        elif position == 0 and wide.rank == 1:
            raise Refusal(f"{wide.elements} zero points")
    else:
        wide = builder.reshaped(wide, ())
    return binary(builder, "sub", found, wide)


def _centred_weights(site: Site, position: int, zero: int, axis: int) -> Array:
    weights = site.array(position, "weights").astype(np.float32)
    if site.optional(zero) is None:
        return weights
    points = site.array(zero, "the zero point of the weights").astype(np.float32)
    if points.size == 1:
        return weights - points.reshape(())
    if points.size != weights.shape[axis]:
        raise Refusal(f"{points.size} zero points for weights of shape {spelled(weights.shape)}")
    return weights - points.reshape([-1 if i == axis else 1 for i in range(weights.ndim)])


def dynamic_quantize(site: Site) -> list[Value]:
    """Lower DynamicQuantizeLinear by its definition; scale and zero point are computed while the plan runs."""
    from stowplan_importer_onnx.lower.reduction import reduced

    builder = site.builder
    x = builder.real(site.value(0, FLOAT))
    axes, zero = tuple(range(x.rank)), scalar(builder, 0.0)
    high = binary(builder, "maximum", reduced(builder, x, "max", axes, keep=False), zero)
    low = binary(builder, "minimum", reduced(builder, x, "min", axes, keep=False), zero)
    scale = binary(builder, "div", binary(builder, "sub", high, low), scalar(builder, 255.0))
    # Of zeros alone the scale is 0, and every answer as good as any other: 1 keeps numbers finite.
    nothing = cast(builder, binary(builder, "equal", scale, zero), "float32")
    divisor = binary(builder, "add", scale, nothing)
    point = clipped(
        builder, unary(builder, "round", binary(builder, "sub", zero, binary(builder, "div", low, divisor))), 0, 255
    )
    steps = binary(builder, "add", unary(builder, "round", binary(builder, "div", x, divisor)), point)
    return [cast(builder, clipped(builder, steps, 0, 255), "uint8"), scale, cast(builder, point, "uint8")]
