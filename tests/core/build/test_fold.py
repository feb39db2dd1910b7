"""What is known at compile time is computed then: against numpy, on random shapes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from stowplan.build.fold import MAX_ELEMENTS, Folding, Known, fold
from stowplan.flow.graph import Attribute, Quantization


def known(array: Any, quantization: Quantization | None = None) -> Known:
    return Known(array.shape, str(array.dtype), array.tobytes(), quantization)


def folded(kind: str, inputs: list[Known], shape: tuple[int, ...], dtype: str, **attributes: Attribute) -> Any:
    data = fold(Folding(kind, attributes, inputs, Known(shape, dtype)))
    assert data is not None, kind
    return np.frombuffer(data, dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "float16"])
@pytest.mark.parametrize("seed", range(10))
def test_a_transposed_block_is_what_numpy_cuts(seed: int, dtype: str) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 5) for _ in range(3))
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    order = rng.sample(range(3), 3)
    steps = [int(np.prod(shape[i + 1 :])) for i in range(3)]
    want = np.ascontiguousarray(x.transpose(order)[:, ::-1])
    sizes, strides = [shape[i] for i in order], [steps[i] for i in order]
    offset = (sizes[1] - 1) * strides[1]
    strides[1] = -strides[1]
    got = folded("rearrange", [known(x)], want.shape, dtype, sizes=tuple(sizes), strides=tuple(strides), offset=offset)
    assert (got == want).all()


def test_shapes_are_computed_with_python_numbers_that_wrap_like_the_runtimes() -> None:
    a, b = np.array([7, -7, 2**31 - 1], np.int32), np.array([2, 2, 2], np.int32)
    for kind, want in {
        "add": a + b, "mul": a * b, "sub": a - b, "div": np.trunc(a / b).astype(np.int32),
        "floor_div": a // b, "floor_mod": a % b, "maximum": np.maximum(a, b),
    }.items():  # fmt: skip
        assert (folded(kind, [known(a), known(b)], (3,), "int32", activation="none") == want).all(), kind


def test_a_division_by_zero_is_left_to_whoever_asked() -> None:
    zero = known(np.zeros(1, np.int32))
    assert fold(Folding("div", {"activation": "none"}, [zero, zero], Known((1,), "int32"))) is None


def test_broadcast_reductions_and_choices_agree_with_numpy() -> None:
    x = np.arange(12, dtype=np.int64).reshape(3, 4)
    row = np.array([[1, 0, 2, 0]], np.int64)
    assert (folded("mul", [known(x), known(row)], (3, 4), "int64", activation="none") == x * row).all()
    assert (folded("reduce", [known(x)], (4,), "int64", function="prod", axes=(0,)) == x.prod(0)).all()
    assert (folded("reduce", [known(x)], (3,), "int64", function="max", axes=(1,)) == x.max(1)).all()
    less = folded("less", [known(x), known(row)], (3, 4), "bool")
    assert (less == (x < row)).all()
    chosen = folded("select", [known(less), known(x), known(row)], (3, 4), "int64")
    assert (chosen == np.where(less, x, row)).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_weights_are_widened_channel_by_channel_as_float32_computes(dtype: str, axis: int) -> None:
    rng = np.random.default_rng(axis)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (3, 4, 5), dtype=dtype, endpoint=True)
    count = x.shape[axis]
    scales = rng.uniform(0.001, 0.3, count).astype(np.float32)
    points = rng.integers(info.min, info.max, count)
    q = Quantization(scales=tuple(map(float, scales)), zero_points=tuple(map(int, points)), axis=axis)
    along = [1, 1, 1]
    along[axis] = count
    want = (x.astype(np.int32) - points.reshape(along)).astype(np.float32) * scales.reshape(along)
    assert (folded("dequantize", [known(x, q)], x.shape, "float32") == want).all()


def test_half_floats_are_widened_exactly() -> None:
    x = np.array([1.0, 2.0**-24, 65504.0, -0.0, np.inf], np.float16)
    got = folded("dequantize", [known(x)], (5,), "float32")
    assert got.tobytes() == x.astype(np.float32).tobytes()


def test_padding_and_concatenation_agree_with_numpy() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    want = np.pad(x, ((1, 0), (0, 2)), constant_values=9)
    got = folded("pad_with", [known(x)], want.shape, "int32", before=(1, 0), after=(0, 2), value=9)
    assert (got == want).all()
    both = np.concatenate([x, x], 1)
    assert (folded("concatenation", [known(x), known(x)], both.shape, "int32", axis=1) == both).all()


def test_a_declared_terabyte_is_not_unfolded() -> None:
    huge = Known((MAX_ELEMENTS + 1,), "int8")
    assert fold(Folding("rearrange", {"sizes": (MAX_ELEMENTS + 1,), "strides": (0,), "offset": 0},
                        [known(np.zeros(1, np.int8))], huge)) is None  # fmt: skip
