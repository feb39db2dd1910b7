"""Evaluates canonical operators of which everything is known, on arrays: shapes, masks, weights in another form.

`stowplan.build.fold` does the same without numpy, which this format's library brings anyway: weights are large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stowplan.flow.graph import Attribute
from stowplan_importer_onnx.parse import Array

MAX_ELEMENTS = 1 << 26
Attributes = Mapping[str, Attribute]


def fold(
    kind: str, inputs: Sequence[Array], shape: tuple[int, ...], dtype: str, attributes: Attributes
) -> Array | None:
    """Return an operator's output, or None when there is no rule for it here. Shapes are those of the tensors."""
    rule = _RULES.get(kind)
    if (
        rule is None
        or math.prod(shape) > MAX_ELEMENTS
        or attributes.get("activation", "none") not in ("none", "unbounded")
    ):
        return None
    with np.errstate(all="ignore"):
        result = rule(inputs, shape, attributes)
        found = result if result.dtype == dtype else _converted(result, dtype)
    return np.asarray(found.reshape(shape), order="C")


def _converted(array: Array, dtype: str) -> Array:
    if array.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        cut = np.trunc(np.nan_to_num(array.astype(np.float64), nan=0.0))
        return np.where(
            cut >= limits.max, limits.max, np.where(cut <= limits.min, limits.min, cut).astype(dtype)
        ).astype(dtype)
    return array.astype(dtype)


def _same(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    return inputs[0].reshape(shape)


def _rearrange(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    places: Array = np.array(attributes["offset"], np.int64)
    sizes, strides = attributes["sizes"], attributes["strides"]
    assert isinstance(sizes, tuple) and isinstance(strides, tuple)
    for size, stride in zip(sizes, strides, strict=True):
        places = np.add.outer(places, np.arange(size, dtype=np.int64) * stride)
    return inputs[0].reshape(-1)[places]


def _sample(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    axes, indices = attributes["axes"], attributes["indices"]
    assert isinstance(axes, tuple) and isinstance(indices, tuple)
    result, taken = inputs[0], 0
    for axis in axes:
        result = np.take(result, np.array(indices[taken : taken + shape[axis]], np.int64), axis=axis)
        taken += shape[axis]
    return result


def _concatenation(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    axis = attributes["axis"]
    assert isinstance(axis, int)
    return np.concatenate(list(inputs), axis=axis)


def _pad(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    before, after = attributes["before"], attributes["after"]
    assert isinstance(before, tuple) and isinstance(after, tuple)
    value = attributes.get("value", 0)
    return np.pad(inputs[0], list(zip(before, after, strict=True)), constant_values=np.array(value, inputs[0].dtype))


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe)
    return np.asarray(np.where(b == 0, 0, quotient * np.sign(a) * np.sign(safe)))


_BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "floor_div": np.floor_divide,
    "floor_mod": np.mod,
    "squared_difference": lambda a, b: np.square(a - b),
    "prelu": lambda a, b: np.where(a >= 0, a, a * b),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}
_UNARY: Mapping[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "square": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "reciprocal": lambda x: 1 / x,
    "sign": np.sign,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "logical_not": np.logical_not,
    "copy": lambda x: x,
}
_REDUCTIONS: Mapping[str, Callable[[Array, tuple[int, ...]], Array]] = {
    "sum": lambda x, axes: np.sum(x, axis=axes, dtype=x.dtype),
    "mean": lambda x, axes: np.mean(x, axis=axes),
    "max": lambda x, axes: np.max(x, axis=axes),
    "min": lambda x, axes: np.min(x, axis=axes),
    "prod": lambda x, axes: np.prod(x, axis=axes, dtype=x.dtype),
}


def _reduce(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    axes, function = attributes["axes"], attributes.get("function", "mean")
    assert isinstance(axes, tuple) and isinstance(function, str)
    return np.asarray(_REDUCTIONS[function](inputs[0], axes))


def _clip(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    low, high = attributes["minimum"], attributes["maximum"]
    assert isinstance(low, (int, float)) and isinstance(high, (int, float))
    return np.asarray(np.minimum(np.maximum(inputs[0], np.float32(low)), np.float32(high)))


def _connected(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    x, w, *bias = inputs
    result = x.reshape(-1, w.shape[1]) @ w.T
    return np.asarray(result + bias[0] if bias else result)


def _matrices(inputs: Sequence[Array], shape: tuple[int, ...], attributes: Attributes) -> Array:
    a, b = inputs
    a = a.swapaxes(-1, -2) if attributes["adjoint_x"] else a
    return np.asarray(np.matmul(a, b.swapaxes(-1, -2) if attributes["adjoint_y"] else b))


_RULES: Mapping[str, Callable[[Sequence[Array], tuple[int, ...], Attributes], Array]] = {
    "reshape": _same,
    "copy": _same,
    "rearrange": _rearrange,
    "sample": _sample,
    "concatenation": _concatenation,
    "pad": _pad,
    "pad_with": _pad,
    "clip": _clip,
    "fully_connected": _connected,
    "batch_matmul": _matrices,
    "reduce": _reduce,
    "mean": _reduce,
    "cast": lambda inputs, shape, attributes: inputs[0],
    "select": lambda inputs, shape, attributes: np.where(inputs[0] != 0, inputs[1], inputs[2]),
    **{k: lambda inputs, shape, attributes, f=f: np.asarray(f(*inputs)) for k, f in _BINARY.items()},  # type: ignore[misc]
    **{k: lambda inputs, shape, attributes, f=f: np.asarray(f(inputs[0])) for k, f in _UNARY.items()},  # type: ignore[misc]
}
