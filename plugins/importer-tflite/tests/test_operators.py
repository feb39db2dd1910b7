"""Each operator becomes its canonical kind with the attributes that kernels need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from stowplan.flow.graph import ABSENT, Graph
from tflite_builder import ModelBuilder
from tflite_import import import_bytes


def unary(
    kind: str, shape: Sequence[int], result: Sequence[int], *, dtype: str = "float32", scale: float | None = None,
    **options: Any,
) -> Graph:  # fmt: skip
    model = ModelBuilder()
    x = model.input("x", shape, dtype, scale=scale)
    y = model.tensor("y", result, dtype, scale=scale)
    model.operator(kind, [x], [y], **options)
    return import_bytes(model.outputs(y).build())


def weighted(kind: str, shape: Sequence[int], weights: Sequence[int], result: Sequence[int], **options: Any) -> Graph:
    model = ModelBuilder()
    x = model.input("x", shape, "float32")
    w = model.constant("w", np.ones(weights, np.float32))
    y = model.tensor("y", result, "float32")
    model.operator(kind, [x, w, -1], [y], **options)
    return import_bytes(model.outputs(y).build())


def test_a_convolution_gets_explicit_padding_from_same() -> None:
    graph = weighted("CONV_2D", (1, 10, 9, 3), (4, 3, 2, 3), (1, 5, 5, 4), padding="SAME", stride_h=2, stride_w=2,
                     fused_activation_function="RELU6")  # fmt: skip
    (operator,) = graph.operators
    assert operator.kind == "conv_2d"
    assert operator.inputs == (0, 1, ABSENT)
    assert dict(operator.attributes) == {
        "dilation_h": 1, "dilation_w": 1, "stride_h": 2, "stride_w": 2,
        "pad_top": 0, "pad_bottom": 1, "pad_left": 0, "pad_right": 1, "activation": "relu6",
    }  # fmt: skip


def test_a_dilated_valid_convolution_has_no_padding() -> None:
    graph = weighted("CONV_2D", (1, 10, 9, 3), (4, 3, 2, 3), (1, 6, 7, 4), padding="VALID", dilation_h_factor=2,
                     dilation_w_factor=2)  # fmt: skip
    assert graph.tensors[graph.outputs[0]].shape == (1, 6, 7, 4)
    assert [graph.operators[0].integer(f"pad_{side}") for side in ("top", "left", "bottom", "right")] == [0, 0, 0, 0]


def test_a_depthwise_convolution_knows_its_multiplier_even_where_the_file_says_zero() -> None:
    for stated in (0, 3):
        graph = weighted("DEPTHWISE_CONV_2D", (1, 4, 4, 2), (1, 1, 3, 6), (1, 4, 4, 6), depth_multiplier=stated)
        assert graph.operators[0].integer("multiplier") == 3


@pytest.mark.parametrize(
    ("keep", "shape", "result"),
    [(False, (2, 3, 4), (6, 5)), (True, (2, 3, 4), (2, 3, 5)), (False, (1, 2, 2, 8), (8, 5)), (False, (4,), (1, 5))],
)
def test_fully_connected_keeps_its_dimensions_only_when_asked(
    keep: bool, shape: tuple[int, ...], result: tuple[int, ...]
) -> None:
    graph = weighted("FULLY_CONNECTED", shape, (5, 4), result, keep_num_dims=keep)
    assert graph.operators[0].kind == "fully_connected"
    assert graph.tensors[graph.outputs[0]].shape == result


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_a_pool_has_its_kernel_in_its_attributes(kind: str) -> None:
    graph = unary(kind, (1, 5, 5, 2), (1, 3, 2, 2), dtype="int8", scale=0.5, padding="SAME", filter_height=3,
                  filter_width=4, stride_h=2, stride_w=3)  # fmt: skip
    attributes = graph.operators[0].attributes
    assert (attributes["kernel_h"], attributes["kernel_w"]) == (3, 4)
    assert (attributes["pad_top"], attributes["pad_bottom"]) == (1, 1)
    assert (attributes["pad_left"], attributes["pad_right"]) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "canonical"), [("RELU", "relu"), ("RELU6", "relu6"), ("LOGISTIC", "logistic"), ("SOFTMAX", "softmax")]
)
def test_an_elementwise_operator_keeps_its_shape(kind: str, canonical: str) -> None:
    graph = unary(kind, (2, 3, 4), (2, 3, 4))
    assert graph.operators[0].kind == canonical
    assert graph.tensors[graph.outputs[0]].shape == (2, 3, 4)


@pytest.mark.parametrize("kind", ["ADD", "MUL"])
def test_arithmetic_broadcasts_and_takes_a_constant(kind: str) -> None:
    model = ModelBuilder()
    x = model.input("x", (2, 1, 3), "float32")
    c = model.constant("c", np.ones((4, 1), np.float32))
    y = model.tensor("y", (2, 4, 3), "float32")
    model.operator(kind, [x, c], [y], fused_activation_function="RELU")
    graph = import_bytes(model.outputs(y).build())
    assert graph.operators[0].kind == kind.lower()
    assert graph.operators[0].attributes == {"activation": "relu"}
    assert graph.constant_bytes(1) == np.ones(4, np.float32).tobytes()


@pytest.mark.parametrize(
    ("axes", "keep", "result", "expected"),
    [([1, 2], False, (2, 5), (1, 2)), ([-2, 1, 1], True, (2, 1, 1, 5), (1, 2)), (3, False, (2, 3, 4), (3,))],
)
def test_a_mean_has_sorted_axes_counted_from_the_front(
    axes: Any, keep: bool, result: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    model = ModelBuilder()
    x = model.input("x", (2, 3, 4, 5), "float32")
    y = model.tensor("y", result, "float32")
    model.operator("MEAN", [x, model.constant("axes", np.array(axes, np.int32))], [y], keep_dims=keep)
    graph = import_bytes(model.outputs(y).build())
    assert graph.operators[0].attributes == {"axes": expected}


def reshape(result: tuple[int, ...], operand: list[int] | None, options: list[int] | None) -> Graph:
    model = ModelBuilder()
    x = model.input("x", (2, 3, 4), "float32")
    y = model.tensor("y", result, "float32")
    inputs = [x] if operand is None else [x, model.constant("shape", np.array(operand, np.int32))]
    fields = {"options": "NONE"} if options is None else {"new_shape": options}
    model.operator("RESHAPE", inputs, [y], **fields)
    return import_bytes(model.outputs(y).build())


@pytest.mark.parametrize(
    ("operand", "options"), [([6, -1], None), (None, [6, 4]), (None, [-1, 4]), (None, None), ([6, 4], [1, 24])]
)
def test_a_reshape_takes_its_shape_from_the_operand_the_options_or_its_output(
    operand: list[int] | None, options: list[int] | None
) -> None:
    graph = reshape((6, 4), operand, options)
    assert graph.operators[0].kind == "reshape"
    assert len(graph.operators[0].inputs) == 1
    assert graph.tensors[graph.outputs[0]].shape == (6, 4)


def test_a_pad_has_one_number_per_axis_on_either_side() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 2, 3, 4), "int8", scale=0.5)
    y = model.tensor("y", (1, 5, 4, 4), "int8", scale=0.5)
    paddings = model.constant("paddings", np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int64))
    model.operator("PAD", [x, paddings], [y])
    graph = import_bytes(model.outputs(y).build())
    assert graph.operators[0].attributes == {"before": (0, 1, 0, 0), "after": (0, 2, 1, 0)}


def test_a_concatenation_counts_its_axis_from_the_front() -> None:
    model = ModelBuilder()
    inputs = [model.input(f"x{i}", (1, 2, i + 1), "int8", scale=0.5, zero_point=3) for i in range(3)]
    y = model.tensor("y", (1, 2, 6), "int8", scale=0.5, zero_point=3)
    model.operator("CONCATENATION", inputs, [y], axis=-1)
    graph = import_bytes(model.outputs(y).build())
    assert graph.operators[0].attributes == {"axis": 2}
    assert graph.operators[0].inputs == (0, 1, 2)


def test_float_enters_through_quantize_and_leaves_through_dequantize() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    a = model.tensor("a", (1, 4), "int8", scale=0.5)
    b = model.tensor("b", (1, 4), "int8", scale=0.25, zero_point=1)
    y = model.tensor("y", (1, 4), "float32")
    model.operator("QUANTIZE", [x], [a])
    model.operator("QUANTIZE", [a], [b])
    model.operator("DEQUANTIZE", [b], [y])
    graph = import_bytes(model.outputs(y).build())
    assert [operator.kind for operator in graph.operators] == ["quantize", "quantize", "dequantize"]
    assert graph.tensors[0].quantization is None


def test_weights_keep_a_scale_per_channel_and_a_lone_scale_forgets_its_axis() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4, 4, 1), "int8", scale=0.5, axis=3)
    w = model.constant("w", np.ones((2, 3, 3, 1), np.int8), scale=[0.1, 0.2], axis=0)
    b = model.constant("b", np.ones(2, np.int32), scale=[0.05, 0.1], axis=3)
    y = model.tensor("y", (1, 4, 4, 2), "int8", scale=0.5)
    model.operator("CONV_2D", [x, w, b], [y])
    graph = import_bytes(model.outputs(y).build())
    image, weights, bias = (graph.tensors[i].quantization for i in graph.operators[0].inputs)
    assert image is not None
    assert image.axis is None
    assert weights is not None
    assert weights.per_channel
    assert weights.axis == 0
    assert bias is not None
    assert bias.axis == 0  # the file's axis 3 means nothing on a vector
