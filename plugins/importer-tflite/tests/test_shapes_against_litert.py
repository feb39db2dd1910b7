"""Shapes computed here are those that LiteRT computes, for random windows, paddings and batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import open_litert_reference
from stowplan.errors import UnsupportedError
from tflite_builder import ModelBuilder
from tflite_import import import_bytes

sizes = st.integers(1, 12)
small = st.integers(1, 4)


def agree(data: bytes, shape: tuple[int, ...]) -> None:
    """The file states a shape of rank 0 for its output, so both sides must compute it."""
    try:
        graph = import_bytes(data)
    except UnsupportedError:
        assert _litert_gets_nowhere(data, shape)
        return
    (result,) = open_litert_reference(data)([np.ones(shape, np.float32)])
    assert graph.tensors[graph.outputs[0]].shape == result.shape


def _litert_gets_nowhere(data: bytes, shape: tuple[int, ...]) -> bool:
    """LiteRT refuses an output of negative size, but goes on with one of no elements, which we refuse as well."""
    try:
        (result,) = open_litert_reference(data)([np.ones(shape, np.float32)])
    except RuntimeError:
        return True
    return bool(result.size == 0)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(small, sizes, sizes, small), small, small, small, small, small, small, st.sampled_from(["SAME", "VALID"])
)
def test_a_convolutions_output_has_the_shape_litert_gives_it(
    shape: tuple[int, int, int, int], kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, dilation_h: int,
    dilation_w: int, padding: str,
) -> None:  # fmt: skip
    model = ModelBuilder()
    x = model.input("x", shape, "float32")
    w = model.constant("w", np.ones((2, kernel_h, kernel_w, shape[3]), np.float32))
    b = model.constant("b", np.ones(2, np.float32))
    y = model.tensor("y", (), "float32")
    model.operator("CONV_2D", [x, w, b], [y], padding=padding, stride_h=stride_h, stride_w=stride_w,
                   dilation_h_factor=dilation_h, dilation_w_factor=dilation_w)  # fmt: skip
    agree(model.outputs(y).build(), shape)


@settings(max_examples=60, deadline=None)
@given(st.tuples(small, sizes, sizes, small), small, small, small, small, st.sampled_from(["SAME", "VALID"]))
def test_a_pools_output_has_the_shape_litert_gives_it(
    shape: tuple[int, int, int, int], kernel_h: int, kernel_w: int, stride_h: int, stride_w: int, padding: str
) -> None:
    model = ModelBuilder()
    x = model.input("x", shape, "float32")
    y = model.tensor("y", (), "float32")
    model.operator("AVERAGE_POOL_2D", [x], [y], padding=padding, stride_h=stride_h, stride_w=stride_w,
                   filter_height=kernel_h, filter_width=kernel_w)  # fmt: skip
    agree(model.outputs(y).build(), shape)


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=4), st.data())
def test_a_means_output_has_the_shape_litert_gives_it(shape: list[int], data: st.DataObject) -> None:
    axis = st.integers(-len(shape), len(shape) - 1)
    axes = data.draw(st.lists(axis, min_size=1, max_size=4))
    model = ModelBuilder()
    x = model.input("x", shape, "float32")
    y = model.tensor("y", (), "float32")
    keep = data.draw(st.booleans())
    model.operator("MEAN", [x, model.constant("axes", np.array(axes, np.int32))], [y], keep_dims=keep)
    agree(model.outputs(y).build(), tuple(shape))


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=4), st.data())
def test_a_sums_output_has_the_shape_litert_gives_it(shape: list[int], data: st.DataObject) -> None:
    kept = [data.draw(st.sampled_from([size, 1])) for size in shape]
    other = kept[data.draw(st.integers(0, len(shape) - 1)) :]
    model = ModelBuilder()
    x = model.input("x", shape, "float32")
    c = model.constant("c", np.ones(other, np.float32))
    y = model.tensor("y", (), "float32")
    model.operator("ADD", [x, c], [y])
    agree(model.outputs(y).build(), tuple(shape))
