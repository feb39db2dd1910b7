"""Random models of one operator each, for the operators beyond those that a plain CNN needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from operator_models import Sampler, out_size
from tflite_builder import ModelBuilder

Make = Callable[[Sampler], bytes]


def _shape(s: Sampler, rank: int | None = None, most: int = 5) -> tuple[int, ...]:
    return tuple(s.number(1, most) for _ in range(rank or s.number(1, 4)))


def _ints(s: Sampler, name: str, values: Any) -> int:
    return s.model.constant(name, np.array(values, np.int32))


def _moved(s: Sampler, kind: str, shape: tuple[int, ...], results: list[tuple[int, ...]], *more: int,
           first: bool = True, **options: Any) -> bytes:  # fmt: skip
    """An operator whose outputs have the quantization of its input; `first` says that the input comes first."""
    one = s.quantization()
    x = s.input(shape, **one)
    outputs = [s.model.tensor(f"y{i}", result, s.dtype, **one) for i, result in enumerate(results)]
    s.model.operator(kind, [x, *more] if first else [*more, x], outputs, **options)
    return s.model.outputs(*outputs).build()


def transpose(s: Sampler) -> bytes:
    shape = _shape(s)
    order = s.random.permutation(len(shape))
    return _moved(s, "TRANSPOSE", shape, [tuple(shape[i] for i in order)], _ints(s, "order", order))


def slice_(s: Sampler) -> bytes:
    shape = _shape(s)
    begin = [s.number(0, n - 1) for n in shape]
    sizes = [s.number(1, n - b) for n, b in zip(shape, begin, strict=True)]
    stated = [-1 if b + k == n and s.number(0, 1) else k for b, k, n in zip(begin, sizes, shape, strict=True)]
    return _moved(s, "SLICE", shape, [tuple(sizes)], _ints(s, "begin", begin), _ints(s, "size", stated))


def strided_slice(s: Sampler) -> bytes:
    """Forwards and backwards, with open ends and axes that vanish."""
    shape = _shape(s)
    begin, end, stride, result, masks = [], [], [], [], [0, 0, 0]
    for axis, n in enumerate(shape):
        step = (-2, -1, 1, 1, 2)[s.number(0, 4)]
        places = list(range(n))[:: int(np.sign(step))]
        low = s.number(0, n - 1)
        high = s.number(low + 1, n)
        if s.number(0, 4) == 0:
            begin.append(places[low])
            end.append(places[low] + 1)
            stride.append(1)
            masks[2] |= 1 << axis
            continue
        taken = places[low:high]
        begin.append(taken[0])
        end.append(taken[-1] + (1 if step > 0 else -1))
        if end[-1] < 0 or s.number(0, 3) == 0:
            masks[1] |= 1 << axis
            taken = places[low:]
        if s.number(0, 3) == 0:
            masks[0] |= 1 << axis
            taken = places[: places.index(taken[-1]) + 1]
        stride.append(step)
        result.append(len(taken[:: abs(step)]))
    constants = [_ints(s, name, values) for name, values in (("begin", begin), ("end", end), ("stride", stride))]
    options = dict(begin_mask=masks[0], end_mask=masks[1], shrink_axis_mask=masks[2])
    return _moved(s, "STRIDED_SLICE", shape, [tuple(result)], *constants, **options)


def split(s: Sampler) -> bytes:
    shape = list(_shape(s))
    axis, parts = s.number(0, len(shape) - 1), s.number(1, 3)
    part = tuple(shape)
    shape[axis] *= parts
    axis_tensor = s.model.constant("axis", np.array(axis, np.int32))
    return _moved(s, "SPLIT", tuple(shape), [part] * parts, axis_tensor, first=False, num_splits=parts)


def split_v(s: Sampler) -> bytes:
    shape = list(_shape(s))
    axis, sizes = s.number(0, len(shape) - 1), [s.number(1, 4) for _ in range(s.number(1, 3))]
    shape[axis] = sum(sizes)
    results = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    more = [_ints(s, "sizes", sizes), s.model.constant("axis", np.array(axis, np.int32))]
    return _moved(s, "SPLIT_V", tuple(shape), results, *more, options="SplitVOptions", num_splits=len(sizes))


def unpack(s: Sampler) -> bytes:
    shape = _shape(s, s.number(2, 4), 4)
    axis = s.number(0, len(shape) - 1)
    rest = (*shape[:axis], *shape[axis + 1 :])
    return _moved(s, "UNPACK", shape, [rest] * shape[axis], options="UnpackOptions", num=shape[axis], axis=axis)


def pack(s: Sampler) -> bytes:
    shape, count = _shape(s, s.number(1, 3)), s.number(1, 3)
    axis, one = s.number(0, len(shape)), s.quantization()
    inputs = [s.model.input(f"x{i}", shape, s.dtype, **one) for i in range(count)]
    y = s.model.tensor("y", (*shape[:axis], count, *shape[axis:]), s.dtype, **one)
    s.model.operator("PACK", inputs, [y], values_count=count, axis=axis)
    return s.model.outputs(y).build()


def tile(s: Sampler) -> bytes:
    shape = _shape(s)
    times = [s.number(1, 3) for _ in shape]
    result = tuple(n * t for n, t in zip(shape, times, strict=True))
    return _moved(s, "TILE", shape, [result], _ints(s, "times", times))


def depth_to_space(s: Sampler) -> bytes:
    n, h, w, c = _shape(s, 4, 4)
    block = s.number(1, 3)
    result = (n, h * block, w * block, c)
    options = dict(options="DepthToSpaceOptions", block_size=block)
    return _moved(s, "DEPTH_TO_SPACE", (n, h, w, c * block * block), [result], **options)


def space_to_depth(s: Sampler) -> bytes:
    n, h, w, c = _shape(s, 4, 4)
    block = s.number(1, 3)
    options = dict(options="SpaceToDepthOptions", block_size=block)
    result = (n, h, w, c * block * block)
    return _moved(s, "SPACE_TO_DEPTH", (n, h * block, w * block, c), [result], **options)


def space_to_batch_nd(s: Sampler) -> bytes:
    n, h, w, c = _shape(s, 4, 3)
    block = [s.number(1, 2), s.number(1, 3)]
    wide = [h * block[0], w * block[1]]
    pads = [[s.number(0, min(1, wide[i] - 1)), 0] for i in (0, 1)]
    shape = (n, wide[0] - sum(pads[0]), wide[1] - sum(pads[1]), c)
    more = [_ints(s, "block", block), _ints(s, "pads", pads)]
    result = (n * block[0] * block[1], h, w, c)
    return _moved(s, "SPACE_TO_BATCH_ND", shape, [result], *more, options="SpaceToBatchNDOptions")


def batch_to_space_nd(s: Sampler) -> bytes:
    n, h, w, c = _shape(s, 4, 3)
    block = [s.number(1, 2), s.number(1, 3)]
    wide = [h * block[0], w * block[1]]
    crops = [[s.number(0, min(1, wide[i] - 1)), 0] for i in (0, 1)]
    more = [_ints(s, "block", block), _ints(s, "crops", crops)]
    result = (n, wide[0] - sum(crops[0]), wide[1] - sum(crops[1]), c)
    shape = (n * block[0] * block[1], h, w, c)
    return _moved(s, "BATCH_TO_SPACE_ND", shape, [result], *more, options="BatchToSpaceNDOptions")


def mirror_pad(s: Sampler) -> bytes:
    shape, mode = _shape(s), s.number(0, 1)
    pads = [[s.number(0, n - 1 + mode), s.number(0, n - 1 + mode)] for n in shape]
    result = tuple(n + a + b for n, (a, b) in zip(shape, pads, strict=True))
    return _moved(s, "MIRROR_PAD", shape, [result], _ints(s, "pads", pads), options="MirrorPadOptions", mode=mode)


def pad_v2(s: Sampler) -> bytes:
    shape, one = _shape(s), s.quantization()
    pads = [[s.number(0, 2), s.number(0, 2)] for _ in shape]
    x = s.input(shape, **one)
    value = s.number(-100, 100)
    filler = s.model.constant("value", np.array([value], s.dtype), **one)
    y = s.model.tensor("y", tuple(n + a + b for n, (a, b) in zip(shape, pads, strict=True)), s.dtype, **one)
    s.model.operator("PADV2", [x, _ints(s, "pads", pads), filler], [y])
    return s.model.outputs(y).build()


def gather(s: Sampler) -> bytes:
    shape = _shape(s, s.number(1, 4))
    axis = s.number(0, len(shape) - 1)
    places = s.random.integers(0, shape[axis], _shape(s, s.number(1, 2), 4))
    result = (*shape[:axis], *places.shape, *shape[axis + 1 :])
    return _moved(s, "GATHER", shape, [result], _ints(s, "places", places), axis=axis)


def resize_nearest_neighbor(s: Sampler) -> bytes:
    return _resize(s, "RESIZE_NEAREST_NEIGHBOR")


def resize_bilinear(s: Sampler) -> bytes:
    return _resize(s, "RESIZE_BILINEAR")


def _resize(s: Sampler, kind: str) -> bytes:
    n, h, w, c = s.number(1, 2), s.number(1, 7), s.number(1, 7), s.number(1, 6)
    size = (s.number(1, 15), s.number(1, 15))
    flags = ((False, False), (True, False), (False, True))[s.number(0, 2)]
    options = dict(align_corners=flags[0], half_pixel_centers=flags[1])
    return _moved(s, kind, (n, h, w, c), [(n, *size, c)], _ints(s, "size", size), **options)


def grouped_conv(s: Sampler) -> bytes:
    """A convolution in groups; one output or several in each."""
    groups, depth, outputs = s.number(2, 4), s.number(1, 4), s.number(1, 3)
    stride, size, kernel = s.number(1, 2), (s.number(3, 7), s.number(3, 7)), (s.number(1, 3), s.number(1, 3))
    source = s.quantization()
    x = s.input((1, *size, groups * depth), **source)
    w, b, typical = s.weights((groups * outputs, *kernel, depth), 0, source.get("scale", 1.0))
    result = (1, -(-size[0] // stride), -(-size[1] // stride), groups * outputs)
    options = dict(padding="SAME", stride_h=stride, stride_w=stride, fused_activation_function="RELU")
    return s.finish("CONV_2D", [x, w, b], result, typical, **options)


def transpose_conv(s: Sampler) -> bytes:
    padding, kernel = s.choice(("SAME", "VALID")), (s.number(1, 4), s.number(1, 4))
    stride, size = (s.number(1, 3), s.number(1, 3)), (s.number(1, 5), s.number(1, 5))
    out = [n * t if padding == "SAME" else (n - 1) * t + k for n, t, k in zip(size, stride, kernel, strict=True)]
    assert [out_size(o, k, t, 1, padding) for o, k, t in zip(out, kernel, stride, strict=True)] == list(size)
    channels, outputs = s.number(1, 6), s.number(1, 6)
    source = s.quantization()
    shape = _ints(s, "shape", [1, *out, outputs])
    w, b, typical = s.weights((outputs, *kernel, channels), 0, source.get("scale", 1.0))
    x = s.input((1, *size, channels), **source)
    inputs = [shape, w, x] if b < 0 else [shape, w, x, b]
    options = dict(padding=padding, stride_h=stride[0], stride_w=stride[1])
    return s.finish("TRANSPOSE_CONV", inputs, (1, *out, outputs), typical, version=3, **options)


def _pair(s: Sampler, kind: str, same: bool = False, positive: bool = False, **options: Any) -> bytes:
    shape = _shape(s, most=6)
    other = tuple(1 if s.number(0, 3) == 0 else n for n in shape) if s.number(0, 1) else shape
    a = s.quantization()
    b = a if same else s.quantization()
    x, known = s.model.input("x", shape, s.dtype, **a), s.number(0, 1)
    values = s.random.integers(-128, 128, other) if s.quantized else s.random.standard_normal(other)
    if positive:
        values, known = np.abs(values) + 0.5, 1
    constant = values.astype(s.dtype)
    y = s.model.constant("b", constant, **b) if known else s.model.input("b", other, s.dtype, **b)
    inputs = [x, y] if positive or s.number(0, 1) else [y, x]
    if not same:
        scale = 150 * max(a.get("scale", 1.0), b.get("scale", 1.0))
        return s.finish(kind, inputs, shape, scale**2 if kind == "SQUARED_DIFFERENCE" else scale, **options)
    z = s.model.tensor("z", shape, s.dtype, **a)
    s.model.operator(kind, inputs, [z], **options)
    return s.model.outputs(z).build()


def sub(s: Sampler) -> bytes:
    return _pair(s, "SUB", fused_activation_function=s.choice(("NONE", "RELU", "RELU6")))


def maximum(s: Sampler) -> bytes:
    return _pair(s, "MAXIMUM", same=True, options="MaximumMinimumOptions")


def minimum(s: Sampler) -> bytes:
    return _pair(s, "MINIMUM", same=True, options="MaximumMinimumOptions")


def div(s: Sampler) -> bytes:
    return _pair(s, "DIV", positive=True)


def squared_difference(s: Sampler) -> bytes:
    return _pair(s, "SQUARED_DIFFERENCE")


def floor_div(s: Sampler) -> bytes:
    return _pair(s, "FLOOR_DIV", positive=True)


def floor_mod(s: Sampler) -> bytes:
    return _pair(s, "FLOOR_MOD", positive=True)


def prelu(s: Sampler) -> bytes:
    shape, source = _shape(s, 4, 4), s.quantization()
    x, wide = s.input(shape, **source), (1, 1, shape[3])
    if s.dtype == "float32":
        alpha = s.model.constant("alpha", s.random.standard_normal(wide).astype(np.float32))
        return s.finish("PRELU", [x, alpha], shape, 1.0)
    alpha = s.model.constant("alpha", s.random.integers(-128, 128, wide).astype(np.int8),
                             **s.quantization(s.scale(-3, -1.5)))  # fmt: skip
    return s.finish("PRELU", [x, alpha], shape, 100 * source.get("scale", 1.0))


def _comparison(kind: str) -> Make:
    def make(s: Sampler) -> bytes:
        shape, one = _shape(s), s.quantization()
        x, y = (s.model.input(name, shape, s.dtype, **one) for name in "xy")
        z = s.model.tensor("z", shape, "bool")
        s.model.operator(kind, [x, y], [z])
        return s.model.outputs(z).build()

    return make


def select_v2(s: Sampler) -> bytes:
    shape, one = _shape(s), s.quantization()
    c = s.model.input("c", tuple(1 if s.number(0, 2) == 0 else n for n in shape), "bool")
    a, b = (s.model.input(name, shape, s.dtype, **one) for name in "ab")
    y = s.model.tensor("y", shape, s.dtype, **one)
    s.model.operator("SELECT_V2", [c, a, b], [y])
    return s.model.outputs(y).build()


def _unary(kind: str, positive: bool = False) -> Make:
    """A function of one tensor; where it is only defined for positive numbers, it is given squares."""

    def make(s: Sampler) -> bytes:
        shape, source = (1, s.number(1, 9), s.number(1, 40)), s.quantization(s.scale(-2, -0.7))
        x = s.input(shape, **source)
        if positive:
            square = s.model.tensor("square", shape, s.dtype)
            s.model.operator("MUL", [x, x], [square])
            x = square
        if kind == "TANH" and s.quantized:
            y = s.model.tensor("y", shape, s.dtype, scale=1 / 128, zero_point=0)
            s.model.operator(kind, [x], [y])
            return s.model.outputs(y).build()
        options = {"alpha": float(np.float32(s.random.uniform(0.01, 1.5)))} if kind == "LEAKY_RELU" else {}
        if kind == "GELU":
            options = {"options": "GeluOptions", "approximate": bool(s.number(0, 1))}
        return s.finish(kind, [x], shape, 128 * source.get("scale", 1.0), **options)

    return make


def _reduction(kind: str) -> Make:
    def make(s: Sampler) -> bytes:
        shape, one = _shape(s, s.number(1, 4)), s.quantization()
        axes = [axis for axis in range(len(shape)) if s.number(0, 1)] or [0]
        keep = bool(s.number(0, 1))
        result = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
        x, summed = s.input(shape, **one), kind == "SUM" and s.quantized
        wide = s.quantization(one["scale"] * math.sqrt(math.prod(shape) / math.prod(result))) if summed else one
        y = s.model.tensor("y", result, s.dtype, **wide)
        s.model.operator(kind, [x, _ints(s, "axes", axes)], [y], options="ReducerOptions", keep_dims=keep)
        return s.model.outputs(y).build()

    return make


def arg_max(s: Sampler) -> bytes:
    shape = _shape(s, s.number(2, 4), 6)
    axis = s.number(0, len(shape) - 1)
    x = s.input(shape)
    y = s.model.tensor("y", (*shape[:axis], *shape[axis + 1 :]), "int32")
    s.model.operator("ARG_MAX", [x, s.model.constant("axis", np.array(axis, np.int32))], [y], options="ArgMaxOptions",
                     output_type=2)  # fmt: skip
    return s.model.outputs(y).build()


def log_softmax(s: Sampler) -> bytes:
    shape = (s.number(1, 4), s.number(1, 40))
    return s.finish("LOG_SOFTMAX", [s.input(shape)], shape, 1.0)


def l2_normalization(s: Sampler) -> bytes:
    shape = (s.number(1, 4), s.number(1, 40))
    x, unit = s.input(shape), {"scale": 1 / 128, "zero_point": 0} if s.quantized else {}
    y = s.model.tensor("y", shape, s.dtype, **unit)
    s.model.operator("L2_NORMALIZATION", [x], [y], options="L2NormOptions")
    return s.model.outputs(y).build()


def computed_weights(s: Sampler) -> bytes:
    """A FULLY_CONNECTED whose weights are an input as well."""
    rows, features, outputs = _shape(s, 3, 7)
    ones = s.quantization(), s.quantization()
    x = s.model.input("x", (rows, features), s.dtype, **ones[0])
    w = s.model.input("w", (outputs, features), s.dtype, **ones[1])
    typical = 5000 * math.sqrt(features) * math.prod(one.get("scale", 1.0) for one in ones)
    return s.finish("FULLY_CONNECTED", [x, w, -1], (rows, outputs), typical)


def add_n(s: Sampler) -> bytes:
    shape, count = _shape(s), s.number(2, 5)
    inputs = [s.model.input(f"x{i}", shape, s.dtype) for i in range(count)]
    return s.finish("ADD_N", inputs, shape, 1.0)


def batch_matmul(s: Sampler) -> bytes:
    batch = _shape(s, s.number(1, 2), 3)
    m, k, n = _shape(s, 3, 6)
    exchanged = bool(s.number(0, 1)), bool(s.number(0, 1))
    a = (*batch, k, m) if exchanged[0] else (*batch, m, k)
    b = (*batch, n, k) if exchanged[1] else (*batch, k, n)
    scales = [s.quantization(), s.quantization()]
    inputs = [s.model.input("a", a, s.dtype, **scales[0])]
    if s.number(0, 1):
        inputs.append(s.model.input("b", b, s.dtype, **scales[1]))
    else:  # one matrix for all, or one for each
        b = b if s.number(0, 1) else b[-2:]
        values = s.random.integers(-128, 128, b) if s.quantized else s.random.standard_normal(b)
        inputs.append(s.model.constant("b", values.astype(s.dtype), **scales[1]))
    options = dict(options="BatchMatMulOptions", adj_x=exchanged[0], adj_y=exchanged[1])
    typical = 5000 * math.sqrt(k) * math.prod(one.get("scale", 1.0) for one in scales)
    return s.finish("BATCH_MATMUL", inputs, (*batch, m, n), typical, **options)


def wide_matmul(seed: int) -> bytes:
    """Return a product of int8 matrices as attention has them: beyond registers and patches, any zero points."""
    random = np.random.default_rng(seed)
    batch, m, k, n = (int(random.integers(1, most)) for most in (4, 20, 150 if seed % 4 == 0 else 100, 20))
    k -= k % 4 if seed % 2 == 0 else 0
    exchanged = seed % 5 == 0, bool(random.integers(0, 2))
    shapes = (batch, k, m) if exchanged[0] else (batch, m, k), (batch, n, k) if exchanged[1] else (batch, k, n)
    model = ModelBuilder()
    zero_points = [0 if random.integers(0, 3) == 0 else int(random.integers(-128, 128)) for _ in range(3)]
    inputs = [
        model.input(name, shape, "int8", scale=0.02, zero_point=zero_point)
        for name, shape, zero_point in zip("ab", shapes, zero_points, strict=False)
    ]
    y = model.tensor("y", (batch, m, n), "int8", scale=0.02 * 0.02 * 80 * math.sqrt(k), zero_point=zero_points[2])
    model.operator("BATCH_MATMUL", inputs, [y], options="BatchMatMulOptions", adj_x=exchanged[0], adj_y=exchanged[1])
    return model.outputs(y).build()


def mean_over_the_batch(s: Sampler) -> bytes:
    shape, source = _shape(s, 4, 4), s.quantization()
    x = s.input(shape, **source)
    result = (1, shape[1], 1, shape[3])
    return s.finish("MEAN", [x, _ints(s, "axes", [0, 2])], result, 100 * source.get("scale", 1.0), keep_dims=True)


MOVES: Mapping[str, Make] = {
    make.__name__: make
    for make in (
        transpose, slice_, strided_slice, split, split_v, unpack, pack, tile, depth_to_space, space_to_depth,
        space_to_batch_nd, batch_to_space_nd, mirror_pad, pad_v2, gather, resize_nearest_neighbor, select_v2,
    )
}  # fmt: skip
"""Operators that only move elements: any dtype, equal bytes."""

COMPUTED: Mapping[str, Make] = {
    **{
        make.__name__: make
        for make in (
            resize_bilinear,
            transpose_conv,
            grouped_conv,
            computed_weights,
            l2_normalization,
            sub,
            maximum,
            minimum,
            arg_max,
            mean_over_the_batch,
            squared_difference,
            prelu,
            batch_matmul,
        )
    },
    "tanh": _unary("TANH"),
    "hard_swish": _unary("HARD_SWISH"),
    "leaky_relu": _unary("LEAKY_RELU"),
    "abs": _unary("ABS"),
    "reduce_max": _reduction("REDUCE_MAX"),
    "reduce_min": _reduction("REDUCE_MIN"),
    "sum": _reduction("SUM"),
    "less": _comparison("LESS"),
    "greater_equal": _comparison("GREATER_EQUAL"),
    "equal": _comparison("EQUAL"),
    "not_equal": _comparison("NOT_EQUAL"),
}
"""Operators that compute, in int8 as well as in float32."""

FLOATS: Mapping[str, Make] = {
    **{
        make.__name__: make
        for make in (
            div, floor_div, floor_mod, log_softmax, add_n,
        )
    },
    **{kind.lower(): _unary(kind) for kind in ("EXP", "NEG", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "ELU")},
    **{kind.lower(): _unary(kind) for kind in ("GELU", "RELU_N1_TO_1", "SIGN")},
    **{kind.lower(): _unary(kind, positive=True) for kind in ("LOG", "SQRT", "RSQRT")},
    "reduce_prod": _reduction("REDUCE_PROD"),
}  # fmt: skip
"""Operators that compute in float32 only."""


def wide_weights(s: Sampler, shape: tuple[int, ...], axis: int, scale: float, bits: str = "int64") -> tuple[int, int]:
    """Add int8 weights and biases of 32 or 64 bits, as int16 activations have them."""
    channels = shape[axis]
    scales = [s.scale(-3.5, -2) for _ in range(channels)]
    w = s.model.constant("w", s.random.integers(-127, 128, shape).astype(np.int8), scale=scales, axis=axis)
    bias = s.random.integers(-30000, 30000, channels).astype(bits)
    return w, s.model.constant("b", bias, scale=[float(np.float32(scale * x)) for x in scales], axis=0)


GATES = ("LOGISTIC", "TANH")


def int16_model(kind: str, seed: int) -> bytes:
    """Return a model of one operator in int16."""
    s = Sampler("int16", seed)
    return INT16[kind](s)


def _int16(s: Sampler, low: float = -5, high: float = -3) -> dict[str, Any]:
    return {"scale": s.scale(low, high), "zero_point": 0}


def _int16_filter(kind: str) -> Make:
    def make(s: Sampler) -> bytes:
        one, channels, outputs = _int16(s), s.number(1, 5), s.number(1, 6)
        h, w_, k = s.number(3, 7), s.number(3, 7), s.number(1, 3)
        x = s.model.input("x", (1, h, w_, channels), "int16", **one)
        shapes = {"CONV_2D": (outputs, k, k, channels), "DEPTHWISE_CONV_2D": (1, k, k, channels)}
        shape = shapes.get(kind, (outputs, channels))
        axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
        bits = "int32" if kind == "CONV_2D" and s.number(0, 1) else "int64"
        w, b = wide_weights(s, shape, axis, one["scale"], bits)
        out = channels if kind == "DEPTHWISE_CONV_2D" else outputs
        result = (h * w_, out) if kind == "FULLY_CONNECTED" else (1, h, w_, out)
        taps = math.prod(shape) / (out if axis == 0 else channels)
        y = s.model.tensor("y", result, "int16", scale=one["scale"] * 0.4 * math.sqrt(taps), zero_point=0)
        options = {} if kind == "FULLY_CONNECTED" else {"padding": "SAME"}
        s.model.operator(kind, [x, w, b], [y], fused_activation_function=s.choice(("NONE", "RELU")), **options)
        return s.model.outputs(y).build()

    return make


def _int16_pair(kind: str) -> Make:
    def make(s: Sampler) -> bytes:
        shape = _shape(s)
        a, b = _int16(s), _int16(s)
        x, y = s.model.input("x", shape, "int16", **a), s.model.input("b", shape, "int16", **b)
        scale = a["scale"] * b["scale"] * 2e4 if kind == "MUL" else 1.7 * max(a["scale"], b["scale"])
        z = s.model.tensor("z", shape, "int16", scale=scale, zero_point=0)
        s.model.operator(kind, [x, y], [z])
        return s.model.outputs(z).build()

    return make


def _int16_pool(kind: str) -> Make:
    def make(s: Sampler) -> bytes:
        one, (h, w, c) = _int16(s), _shape(s, 3, 6)
        k = (s.number(1, h), s.number(1, w))
        x = s.model.input("x", (1, h, w, c), "int16", **one)
        y = s.model.tensor("y", (1, h - k[0] + 1, w - k[1] + 1, c), "int16", **one)
        options = dict(filter_height=k[0], filter_width=k[1], padding="VALID")
        s.model.operator(kind, [x], [y], **options)
        return s.model.outputs(y).build()

    return make


def _int16_softmax(s: Sampler) -> bytes:
    shape = (s.number(1, 3), s.number(1, 30))
    x = s.model.input("x", shape, "int16", **_int16(s, -4.5, -3))
    y = s.model.tensor("y", shape, "int16", scale=1 / 32768, zero_point=0)
    s.model.operator("SOFTMAX", [x], [y], beta=1.0)
    return s.model.outputs(y).build()


def _int16_quantize(source: str, target: str) -> Make:
    def make(s: Sampler) -> bytes:
        shape = _shape(s)
        ends = {
            "float32": {},
            "int8": {"scale": s.scale(-2, -1), "zero_point": s.number(-20, 20)},
            "int16": _int16(s, -4, -3),
        }
        x = s.model.input("x", shape, source, **ends[source])
        y = s.model.tensor("y", shape, target, **ends[target])
        s.model.operator("DEQUANTIZE" if target == "float32" else "QUANTIZE", [x], [y])
        return s.model.outputs(y).build()

    return make


def _int16_function(kind: str, source: dict[str, Any] | None = None) -> Make:
    """A function of one tensor; `source` is a quantization that matters, where there is one."""

    def make(s: Sampler) -> bytes:
        shape = _shape(s, 3, 12)
        one = source or _int16(s, -4.5, -2)
        ends = {"LOGISTIC": 1 / 32768, "TANH": 1 / 32768, "RELU6": one["scale"]}
        x = s.model.input("x", shape, "int16", **one)
        y = s.model.tensor("y", shape, "int16", scale=ends.get(kind, one["scale"] * (1.3, 0.4, 1.0)[s.number(0, 2)]),
                           zero_point=0)  # fmt: skip
        alpha = {"alpha": float(np.float32(s.random.uniform(-0.2, 1.5)))} if kind == "LEAKY_RELU" else {}
        s.model.operator(kind, [x], [y], **alpha)
        return s.model.outputs(y).build()

    return make


RATIOS = (0.4, 0.8, 1.0, 2.0, 0.16, 1.6)
"""Of an output's scale to the input's: they put many products halfway between two numbers, where rounding shows."""
POSITIVE = frozenset({"RSQRT"})


def of_every_number(kind: str, dtype: str, seed: int) -> tuple[bytes, Any]:
    """Return a model of a function of one tensor, and an input that has every number of its type once."""
    random, model, limits = np.random.default_rng(seed), ModelBuilder(), np.iinfo(dtype)
    points = [0, 0] if dtype == "int16" else random.integers(-128, 128, 2).tolist()
    values = np.arange(limits.min, limits.max + 1).astype(dtype)
    if kind in POSITIVE:
        points[0] = 0 if dtype == "int16" else limits.min
        values = values[values >= points[0]]
    scale = float(np.float32(10 ** random.uniform(-3, -1)))
    units = {"int8": {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}, "int16": dict.fromkeys(GATES, (1 / 32768, 0))}
    out_scale, out_point = units[dtype].get(kind, (scale * RATIOS[seed % len(RATIOS)], points[1]))
    x = model.input("x", (1, values.size), dtype, scale=scale, zero_point=points[0])
    y = model.tensor("y", (1, values.size), dtype, scale=out_scale, zero_point=out_point)
    slope = {"alpha": (0.1, 0.3, -0.3, 0.5)[seed // len(RATIOS) % 4]} if kind == "LEAKY_RELU" else {}
    model.operator(kind, [x], [y], **slope)
    return model.outputs(y).build(), values.reshape(1, -1)


def _int16_same(kind: str) -> Make:
    """Two operands of one quantization, which the result has too, unless it is bool."""

    def make(s: Sampler) -> bytes:
        shape, one = _shape(s), _int16(s)
        x, y = (s.model.input(name, shape, "int16", **one) for name in "xy")
        compares = kind not in ("MAXIMUM", "MINIMUM")
        z = s.model.tensor("z", shape, "bool") if compares else s.model.tensor("z", shape, "int16", **one)
        s.model.operator(kind, [x, y], [z], **({} if compares else {"options": "MaximumMinimumOptions"}))
        return s.model.outputs(z).build()

    return make


def _int16_resize(s: Sampler) -> bytes:
    one, shape, size = _int16(s), (s.number(1, 2), *_shape(s, 3, 7)), [s.number(1, 12), s.number(1, 12)]
    x = s.model.input("x", shape, "int16", **one)
    y = s.model.tensor("y", (shape[0], *size, shape[3]), "int16", **one)
    flags = ((False, False), (True, False), (False, True))[s.number(0, 2)]
    s.model.operator("RESIZE_BILINEAR", [x, _ints(s, "size", size)], [y], align_corners=flags[0],
                     half_pixel_centers=flags[1])  # fmt: skip
    return s.model.outputs(y).build()


def _int16_matmul(s: Sampler) -> bytes:
    batch, (m, k, n) = s.number(1, 3), _shape(s, 3, 6)
    exchanged = bool(s.number(0, 1)), bool(s.number(0, 1))
    shapes = ((batch, k, m) if exchanged[0] else (batch, m, k)), ((batch, n, k) if exchanged[1] else (batch, k, n))
    ones = _int16(s), _int16(s)
    inputs = [s.model.input(name, shape, "int16", **one) for name, shape, one in zip("ab", shapes, ones, strict=True)]
    scale = ones[0]["scale"] * ones[1]["scale"] * 2e4 * math.sqrt(k)
    y = s.model.tensor("y", (batch, m, n), "int16", scale=scale, zero_point=0)
    s.model.operator("BATCH_MATMUL", inputs, [y], options="BatchMatMulOptions", adj_x=exchanged[0], adj_y=exchanged[1])
    return s.model.outputs(y).build()


INT16: Mapping[str, Make] = {
    **{kind.lower(): _int16_function(kind) for kind in ("LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU")},
    **{
        f"{kind.lower()}_{power}": _int16_function(kind, {"scale": 2.0**power, "zero_point": 0})
        for kind in ("LOGISTIC", "TANH")
        for power in (-13, -12, -11, -10)
    },
    **{kind.lower(): _int16_same(kind) for kind in ("MAXIMUM", "MINIMUM", "LESS", "GREATER_EQUAL", "EQUAL")},
    "batch_matmul": _int16_matmul,
    "resize_bilinear": _int16_resize,
    **{kind.lower(): _int16_filter(kind) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")},
    **{kind.lower(): _int16_pair(kind) for kind in ("ADD", "SUB", "MUL")},
    **{kind.lower(): _int16_pool(kind) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    "softmax": _int16_softmax,
    "quantize_float": _int16_quantize("float32", "int16"),
    "quantize_up": _int16_quantize("int8", "int16"),
    "quantize_down": _int16_quantize("int16", "int8"),
    "dequantize": _int16_quantize("int16", "float32"),
}
