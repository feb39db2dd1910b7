"""Normalizations, made of means, products and sums."""

from __future__ import annotations

from math import prod

import numpy as np

from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.elementwise import unary
from stowplan_importer_onnx.lower.joining import binary, scalar
from stowplan_importer_onnx.lower.movement import margins, picked
from stowplan_importer_onnx.lower.pooling import powered, rooted
from stowplan_importer_onnx.lower.reduction import reduced
from stowplan_importer_onnx.parse import spelled
from stowplan_importer_onnx.site import FLOAT, Result, Site, Tailed
from stowplan_importer_onnx.tails import normalization


def batch(site: Site) -> Result:
    """Lower a BatchNormalization that stands alone as a product and a sum per channel."""
    x = site.value(0, FLOAT)
    if site.integer("training_mode", 0):
        raise Refusal("in training mode")
    factors = normalization(site.walk, site.node)
    if factors is None or x.rank < 2 or factors[0].size != x.shape[1]:
        return _computed_batch(site, x)
    builder, tail = site.builder, site.tail()
    shape = (x.shape[1], *(1,) * (x.rank - 2))
    scale, shift = (builder.constant(f.astype(np.float32).reshape(shape)) for f in factors)
    return Tailed(binary(builder, "add", binary(builder, "mul", x, scale), shift, activation=tail.activation), tail)


def _computed_batch(site: Site, x: Value) -> Value:
    builder = site.builder
    vectors = [site.value(position, FLOAT) for position in range(1, 5)]
    if x.rank < 2 or any(v.elements != x.shape[1] for v in vectors):
        raise Refusal(f"numbers per channel of shapes {' '.join(spelled(v.shape) for v in vectors)}")
    scale, bias, mean, variance = (builder.reshaped(v, (x.shape[1], *(1,) * (x.rank - 2))) for v in vectors)
    wide = binary(builder, "add", variance, scalar(builder, site.number("epsilon", 1e-5)))
    factor = binary(builder, "div", scale, unary(builder, "sqrt", wide))
    return binary(builder, "add", binary(builder, "mul", binary(builder, "sub", x, mean), factor), bias)


def standardized(builder: Builder, x: Value, axes: tuple[int, ...], epsilon: float) -> tuple[Value, Value, Value]:
    """Return a value minus its mean over some axes, over its deviation; the mean and 1 over the deviation as well."""
    x = builder.real(x)
    mean = reduced(builder, x, "mean", axes, keep=True)
    centred = binary(builder, "sub", x, mean)
    variance = reduced(builder, unary(builder, "square", centred), "mean", axes, keep=True)
    inverse = unary(builder, "rsqrt", binary(builder, "add", variance, scalar(builder, epsilon)))
    return binary(builder, "mul", centred, inverse), mean, inverse


def layer(site: Site) -> Result:
    x, builder = site.value(0, FLOAT), site.builder
    axis = site.axis(x.rank, -1)
    found, mean, inverse = standardized(builder, x, tuple(range(axis, x.rank)), site.number("epsilon", 1e-5))
    found = binary(builder, "mul", found, site.value(1, FLOAT))
    if site.optional(2) is not None:
        found = binary(builder, "add", found, site.value(2, FLOAT))
    return [found, mean, inverse][: max(len(site.node.outputs), 1)]


def skip_layer(site: Site) -> Value:
    """Lower com.microsoft's SkipLayerNormalization: the sum of two inputs, normalized along the last axis."""
    builder = site.builder
    total = binary(builder, "add", site.value(0, FLOAT), site.value(1, FLOAT))
    if site.optional(4) is not None:
        total = binary(builder, "add", total, site.value(4, FLOAT))
    found, _, _ = standardized(builder, total, (total.rank - 1,), site.number("epsilon", 1e-5))
    found = binary(builder, "mul", found, site.value(2, FLOAT))
    return found if site.optional(3) is None else binary(builder, "add", found, site.value(3, FLOAT))


def rms(site: Site) -> Value:
    x, builder = site.builder.real(site.value(0, FLOAT)), site.builder
    axes = tuple(range(site.axis(x.rank, -1), x.rank))
    mean = reduced(builder, unary(builder, "square", x), "mean", axes, keep=True)
    inverse = unary(builder, "rsqrt", binary(builder, "add", mean, scalar(builder, site.number("epsilon", 1e-5))))
    return binary(builder, "mul", binary(builder, "mul", x, inverse), site.value(1, FLOAT))


def instance(site: Site) -> Value:
    x, builder = site.value(0, FLOAT), site.builder
    if x.rank < 3:
        raise Refusal(f"an input of shape {spelled(x.shape)}")
    found, _, _ = standardized(builder, x, tuple(range(2, x.rank)), site.number("epsilon", 1e-5))
    return _per_channel(site, found)


def _per_channel(site: Site, x: Value) -> Value:
    builder, vectors = site.builder, [site.value(position, FLOAT) for position in (1, 2)]
    if any(v.elements != x.shape[1] for v in vectors):
        raise Refusal(f"numbers per channel of shapes {' '.join(spelled(v.shape) for v in vectors)}")
    scale, bias = (builder.reshaped(v, (x.shape[1], *(1,) * (x.rank - 2))) for v in vectors)
    return binary(builder, "add", binary(builder, "mul", x, scale), bias)


def group(site: Site) -> Value:
    x, builder, groups = site.value(0, FLOAT), site.builder, site.integer("num_groups", 0)
    if x.rank < 3 or groups < 1 or x.shape[1] % groups:
        raise Refusal(f"{groups} groups of an input of shape {spelled(x.shape)}")
    split = builder.reshaped(x, (x.shape[0], groups, prod(x.shape[1:]) // groups))
    found, _, _ = standardized(builder, split, (2,), site.number("epsilon", 1e-5))
    whole = builder.reshaped(found, x.shape)
    if site.version >= 21 or site.value(1, FLOAT).elements == x.shape[1]:
        return _per_channel(site, whole)
    wide = builder.reshaped(found, (x.shape[0], groups, *(x.shape[1] // groups, *x.shape[2:])))
    scale, bias = (builder.reshaped(site.value(i, FLOAT), (groups, *(1,) * (x.rank - 1))) for i in (1, 2))
    return builder.reshaped(binary(builder, "add", binary(builder, "mul", wide, scale), bias), x.shape)


def lp(site: Site) -> Value:
    x, builder, p = site.builder.real(site.value(0, FLOAT)), site.builder, site.integer("p", 2)
    if p not in (1, 2):
        raise Refusal(f"p {p}; 1 and 2 are defined")
    total = reduced(builder, powered(builder, x, p), "sum", (site.axis(x.rank, -1),), keep=True)
    # Where everything is 0 the answer is 0, not 0 / 0.
    smallest = scalar(builder, float(np.finfo(np.float32).tiny))
    return binary(builder, "div", x, binary(builder, "maximum", rooted(builder, total, p), smallest))


def mean_variance(site: Site) -> Value:
    x = site.value(0, FLOAT)
    from stowplan_importer_onnx.site import axes_of

    found, _, _ = standardized(site.builder, x, axes_of(site.integers("axes", (0, 2, 3)), x.rank), 1e-9)
    return found


def local_response(site: Site) -> Value:
    """Lower LRN: squares summed over neighbouring channels."""
    x, builder, size = site.builder.real(site.value(0, FLOAT)), site.builder, site.integer("size", 0)
    if x.rank < 3 or not 1 <= size <= 255:
        raise Refusal(f"size {size} on an input of shape {spelled(x.shape)}")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    sides = [[side if i == 1 else 0 for i in range(x.rank)] for side in (before, after)]
    squares = margins(builder, unary(builder, "square", x), sides[0], sides[1], "constant", 0.0)
    total: Value | None = None
    for tap in range(size):
        ranges = [range(tap, tap + n) if i == 1 else range(n) for i, n in enumerate(x.shape)]
        part = picked(builder, squares, ranges)
        total = part if total is None else binary(builder, "add", total, part)
    assert total is not None
    scaled = binary(builder, "mul", total, scalar(builder, site.number("alpha", 1e-4) / size))
    base = binary(builder, "add", scaled, scalar(builder, site.number("bias", 1.0)))
    return binary(builder, "div", x, binary(builder, "pow", base, scalar(builder, site.number("beta", 0.75))))
