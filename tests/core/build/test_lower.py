"""What lowering hands to kernels, and what it refuses: by name, in one line, before anything is computed wrongly."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from stowplan.build.lower import Lowered, lower
from stowplan.build.rows import Form, Layout
from stowplan.errors import UnsupportedError
from stowplan.flow.graph import Attribute, Graph, Operator, Quantization, Tensor
from stowplan.planfile.kinds import NODE_KINDS

WINDOW: Mapping[str, Attribute] = dict(
    stride_h=1, stride_w=1, pad_top=0, pad_left=0, pad_bottom=0, pad_right=0, activation="none"
)
CONV = {**WINDOW, "dilation_h": 1, "dilation_w": 1}
UNIT = Quantization(scales=(1 / 256,), zero_points=(-128,))


def quantization(scale: float = 0.5, zero_point: int = 0) -> Quantization:
    return Quantization(scales=(scale,), zero_points=(zero_point,))


def activation(shape: tuple[int, ...], dtype: str = "int8", q: Quantization | None = None) -> Tensor:
    default = quantization() if dtype == "int8" else None
    return Tensor(name="t", shape=shape, dtype=dtype, quantization=q or default)


def graph_of(kind: str, tensors: list[Tensor | tuple[Tensor, bytes]], attributes: Mapping[str, Attribute]) -> Graph:
    """A graph of one operator: the last tensor is its output, a pair is a constant."""
    constants, found = {}, []
    for tensor in tensors:
        if isinstance(tensor, tuple):
            value, data = tensor
            digest = hashlib.sha256(data).hexdigest()
            constants[digest] = data
            found.append(Tensor(**{**value.__dict__, "constant": digest}))
        else:
            found.append(tensor)
    last = len(found) - 1
    inputs = tuple(range(last))
    operator = Operator(kind=kind, inputs=inputs, outputs=(last,), attributes=attributes, source=kind.upper())
    activations = tuple(i for i in inputs if found[i].constant is None)
    return Graph(
        name="one",
        tensors=tuple(found),
        operators=(operator,),
        inputs=activations,
        outputs=(last,),
        constants=constants,
    )


def lowered(kind: str, tensors: list[Any], **attributes: Attribute) -> Lowered:
    graph = graph_of(kind, tensors, attributes)
    result = lower(graph, Layout(graph), 0)
    assert set(result.params) == {p.name for p in NODE_KINDS[result.kind].params}, "parameters are those of the kind"
    return result


def refusal(kind: str, tensors: list[Any], **attributes: Attribute) -> str:
    graph = graph_of(kind, tensors, attributes)
    with pytest.raises(UnsupportedError) as caught:
        lower(graph, Layout(graph), 0)
    message = str(caught.value)
    assert message.startswith(f"operator 0 ({kind.upper()}): "), message
    assert caught.value.reasons == (message,)
    assert "\n" not in message
    return message


def words(data: object) -> list[int]:
    assert isinstance(data, bytes)
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def weights(shape: tuple[int, ...], values: bytes, q: Quantization | None = None) -> tuple[Tensor, bytes]:
    return Tensor(name="w", shape=shape, dtype="int8", quantization=q or quantization(0.25)), values


def test_the_zero_point_moves_into_the_bias() -> None:
    """Two outputs with weights 1 2 3 and 4 5 -6, input zero point 10, biases 100 and 200."""
    bias = (Tensor(name="b", shape=(2,), dtype="int32"), struct.pack("<2i", 100, 200))
    w = weights((2, 3), bytes([1, 2, 3, 4, 5, 250]))
    result = lowered(
        "fully_connected", [activation((1, 3), q=quantization(0.5, 10)), w, bias, activation((1, 2))], activation="relu"
    )
    assert result.kind == "fully_connected_s8"
    assert words(result.params["bias"]) == [100 - 10 * 6, 200 - 10 * 3]
    assert words(result.params["multiplier"]) == [2**30]
    assert words(result.params["shift"]) == [-1], "0.5 * 0.25 / 0.5 is 0.5 * 2**-1"
    assert (result.params["act_min"], result.params["act_max"]) == (0, 127)


def test_depthwise_biases_count_weights_by_their_last_axis() -> None:
    w = weights((1, 2, 1, 2), bytes([1, 10, 2, 20]))
    x, y = activation((1, 3, 3, 2), q=quantization(0.5, 3)), activation((1, 2, 3, 2))
    result = lowered("depthwise_conv_2d", [x, w, y], multiplier=1, **CONV)
    assert words(result.params["bias"]) == [-3 * 3, -3 * 30]


def test_a_bias_of_nothing_is_no_constant() -> None:
    result = lowered(
        "conv_2d", [activation((1, 2, 2, 1)), weights((1, 1, 1, 1), b"\1"), activation((1, 2, 2, 1))], **CONV
    )
    assert result.params["bias"] is None


@pytest.mark.parametrize(
    ("word", "low", "high"),
    [("none", -128, 127), ("relu", 5, 127), ("relu6", 5, 17), ("relu_n1_to_1", 3, 7)],
)
def test_activations_become_ranges_of_the_outputs_numbers(word: str, low: int, high: int) -> None:
    tensors = [activation((2, 2)), activation((2, 2)), activation((2, 2), q=quantization(0.5, 5))]
    result = lowered("add", tensors, activation=word)
    assert (result.params["act_min"], result.params["act_max"]) == (low, high)


def test_float_activations_are_limits_too() -> None:
    tensors = [activation((2, 2), "float32") for _ in range(3)]
    assert lowered("mul", tensors, activation="relu6").params["act_max"] == 6.0
    limits = lowered("mul", tensors, activation="none").params
    assert limits["act_max"] == pytest.approx(3.4028234663852886e38, rel=0)


def test_tables_hold_one_entry_for_each_byte() -> None:
    result = lowered("relu6", [activation((1, 4)), activation((1, 4))])
    table = result.params["table"]
    assert isinstance(table, bytes)
    assert list(struct.unpack("256b", table)) == [min(max(v, 0), 12) for v in range(-128, 128)]


def test_a_constant_that_is_broadcast_is_cut_into_the_rows_it_has() -> None:
    constant = (activation((3, 1, 2)), bytes(6))
    result = lowered("mul", [activation((1, 3, 4, 2)), constant, activation((1, 3, 4, 2))], activation="none")
    assert result.operands[0].form is None
    assert result.operands[1].form == Form(3, 2)
    strides = [result.params[f"b_{name}"] for name in ("image", "row", "column", "channel")]
    assert strides == [0, 1, 0, 1]


def test_a_mean_divides_by_the_elements_without_losing_bits() -> None:
    result = lowered("mean", [activation((1, 5, 7, 2)), activation((1, 2))], axes=(1, 2))
    multiplier, shift = result.params["multiplier"], result.params["shift"]
    assert isinstance(multiplier, int)
    assert isinstance(shift, int)
    assert multiplier * 2.0 ** (shift - 31) == pytest.approx(1 / 35, rel=2**-29)
    assert 2**29 <= multiplier <= 2**31 - 1


def test_padding_repeats_the_zero_point() -> None:
    q = quantization(0.5, -3)
    result = lowered("pad", [activation((2, 2), q=q), activation((3, 4), q=q)], before=(1, 0), after=(0, 2))
    assert result.params["value"] == int.from_bytes(b"\xfd" * 4, "little", signed=True)
    assert (result.params["before_h"], result.params["before_c"], result.params["out_h"]) == (1, 0, 3)


MATRIX = activation((2, 4))
IMAGE = activation((1, 4, 4, 2))


@pytest.mark.parametrize(
    ("kind", "tensors", "attributes", "why"),
    [
        ("einsum", [MATRIX, MATRIX], {}, "no kernel for einsum"),
        ("add", [MATRIX, activation((2, 4), "float32"), MATRIX], {"activation": "none"}, "float32, int8"),
        ("add", [activation((2, 4), "uint16")] * 3, {"activation": "none"}, "supported are int8 and float32"),
        ("add", [MATRIX, activation((3, 4)), MATRIX], {"activation": "none"}, "cannot be broadcast"),
        ("add", [MATRIX, MATRIX, MATRIX], {"activation": "tanh"}, "fused activation tanh"),
        ("add", [MATRIX, MATRIX, activation((2, 4), q=quantization(1e-9))], {"activation": "none"}, "too small"),
        ("relu", [Tensor(name="q", shape=(2,), dtype="int8"), MATRIX], {}, "differ in shape"),
        ("relu", [Tensor(name="q", shape=(2, 4), dtype="int8"), MATRIX], {}, '"q" is int8 without a quantization'),
        ("relu6", [MATRIX, activation((2, 4), q=quantization(0.25))], {}, "quantized differently"),
        ("relu", [MATRIX, activation((2, 4), q=quantization(math.nan))], {}, "not a positive number"),
        ("relu", [MATRIX, activation((2, 4), q=quantization(0.5, 128))], {}, "does not fit int8"),
        ("softmax", [MATRIX, MATRIX], {"beta": 1.0}, "scale 1/256"),
        ("softmax", [activation((1, 5000)), activation((1, 5000), q=UNIT)], {"beta": 1.0}, "at most 4095"),
        ("softmax", [activation((2, 4), "float32")] * 2, {"beta": math.inf}, "beta"),
        ("logistic", [activation((2, 4), q=quantization(1e-12)), activation((2, 4), q=UNIT)], {}, "too small"),
        ("quantize", [activation((2, 4), "int64"), MATRIX], {}, "from int64 to int8"),
        ("dequantize", [MATRIX, MATRIX], {}, "from int8 to int8"),
        ("conv_2d", [IMAGE, activation((2, 1, 1, 2)), IMAGE], CONV, "have to be constants"),
        ("conv_2d", [IMAGE, weights((3, 1, 1, 1), b"123"), activation((1, 4, 4, 3))], CONV, "do not map 2 to 3"),
        ("conv_2d", [MATRIX, weights((4, 1, 1, 4), bytes(16)), MATRIX], CONV, "not images"),
        ("conv_2d", [IMAGE, weights((2, 1, 1, 2), b"123"), IMAGE], CONV, "3 bytes"),
        (
            "conv_2d",
            [IMAGE, weights((2, 1, 1, 2), b"1234", Quantization(scales=(1.0, 2.0), zero_points=(0, 3), axis=0)), IMAGE],
            CONV,
            "zero points per channel",
        ),
        (
            "conv_2d",
            [IMAGE, weights((2, 1, 1, 2), b"1234", Quantization(scales=(1.0,) * 3, zero_points=(0,) * 3)), IMAGE],
            CONV,
            "3 scales for 2 output channels",
        ),
        ("depthwise_conv_2d", [IMAGE, weights((1, 1, 1, 3), b"123"), activation((1, 4, 4, 3))], CONV, "no multiple"),
        (
            "fully_connected",
            [MATRIX, weights((3, 5), bytes(15)), activation((2, 3))],
            {"activation": "none"},
            "does not fit",
        ),
        ("max_pool_2d", [IMAGE, IMAGE], {**WINDOW, "kernel_h": 1, "kernel_w": 1, "pad_top": 1}, "outside the input"),
        ("mean", [activation((2, 4, 4, 2)), activation((1, 4, 4, 2))], {"axes": (0,)}, "mean over the batch"),
        ("mean", [IMAGE, activation((1, 4, 4))], {"axes": (2,)}, "has not shape"),
        ("pad", [MATRIX, activation((4, 4))], {"before": (0, 0), "after": (1, 0)}, "do not make"),
        ("pad", [MATRIX, activation((2, 4), q=quantization(0.1))], {"before": (0, 0), "after": (0, 0)}, "differently"),
        ("concatenation", [MATRIX, activation((2, 3)), MATRIX], {"axis": 1}, "do not fill"),
        ("concatenation", [MATRIX, activation((1, 4), "float32"), activation((3, 4))], {"axis": 0}, "input 1"),
    ],
)
def test_what_has_no_kernel_is_refused_with_the_reason(
    kind: str, tensors: list[Any], attributes: dict[str, Attribute], why: str
) -> None:
    assert why in refusal(kind, tensors, **attributes)


FLOATS = activation((2, 4), "float32")
COUNTS = activation((2, 4), "int32")
BOOLS = activation((2, 4), "bool")
WIDE = activation((2, 4), "int16", quantization())
UNIT_16 = activation((2, 4), "int16", quantization(1 / 32768))
BOXES, SCORES, FOUND = activation((1, 2, 4)), activation((1, 2, 2)), activation((11,), "float32")
DETECTIONS: dict[str, Attribute] = {
    "classes": 1, "max_detections": 1, "classes_per_detection": 1, "detections_per_class": 1, "per_class": False,
    "score_threshold": 0.5, "overlap_threshold": 0.5, "y_scale": 1.0, "x_scale": 1.0, "h_scale": 1.0, "w_scale": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "tensors", "attributes", "why"),
    [
        ("rearrange", [MATRIX, MATRIX], {"sizes": (2, 4), "strides": (4, 1), "offset": 1}, "does not make [2, 4]"),
        ("rearrange", [MATRIX, FLOATS], {"sizes": (2, 4), "strides": (4, 1), "offset": 0}, "differ in type"),
        ("gather", [FLOATS, FLOATS, FLOATS], {"axis": 0}, "by float32 indices"),
        ("gather", [FLOATS, COUNTS, FLOATS], {"axis": 0}, "instead of [2, 4, 4]"),
        ("select", [FLOATS, FLOATS, FLOATS, FLOATS], {}, "a choice by a bool tensor"),
        ("select", [BOOLS, activation((3, 4), "float32"), FLOATS, FLOATS], {}, "cannot be broadcast"),
        ("pad_with", [activation((4,), "int64"), activation((5,), "int64")],
         {"before": (1,), "after": (0,), "value": 3}, "padding int64 with 3"),
        ("cast", [activation((2, 4), "float16"), FLOATS], {}, "from float16 to float32"),
        ("logical_not", [MATRIX, MATRIX], {}, "of bool only"),
        ("hard_swish", [MATRIX, activation((2, 4), q=quantization(1e-9))], {}, "too small beside"),
        ("sign", [MATRIX, MATRIX], {}, "sign of int8"),
        ("div", [MATRIX, MATRIX, MATRIX], {"activation": "none"}, "div of int8"),
        ("less", [MATRIX, FLOATS, BOOLS], {}, "int8 with float32 to bool"),
        ("less", [MATRIX, activation((2, 4), q=quantization(0.1)), BOOLS], {}, "quantized differently"),
        ("reduce", [MATRIX, activation((2,))], {"function": "prod", "axes": (1,)}, "prod of int8"),
        ("reduce", [COUNTS, activation((2,), "int32")], {"function": "mean", "axes": (1,)}, "mean of int32"),
        ("reduce", [FLOATS, FLOATS], {"function": "sum", "axes": (1,)}, "its output has shape [2, 4]"),
        ("reduce", [FLOATS, FLOATS], {"function": "median", "axes": (1,)}, "median of [2, 4]"),
        ("arg_max", [FLOATS, activation((2,))], {}, "from float32 to int8"),
        ("arg_max", [FLOATS, COUNTS], {}, "does not make [2, 4]"),
        ("log_softmax", [MATRIX, MATRIX], {}, "supported are float32"),
        ("l2_normalization", [MATRIX, MATRIX], {}, "scale 1/128 and zero point 0"),
        ("l2_normalization", [MATRIX, activation((8,))], {}, "of one shape"),
        ("rsqrt", [WIDE, activation((2, 4), "int16", quantization(0.5, 3))], {}, "zero points 0"),
        ("rsqrt", [activation((2, 4), "int16", quantization(1e6)), activation((2, 4), "int16", quantization(1e6))], {},
         "too large"),
        ("resize_bilinear", [IMAGE, activation((1, 8, 8, 3))],
         {"align_corners": False, "half_pixel_centers": False}, "does not make [1, 8, 8, 3]"),
        ("batch_matmul", [MATRIX, FLOATS, MATRIX], {"adjoint_x": False, "adjoint_y": True}, "float32, int8 and int16"),
        ("tanh", [WIDE, MATRIX], {}, "int16 to int8 is not supported"),
        ("tanh", [WIDE, WIDE], {}, "its output scale 1/32768"),
        ("logistic", [activation((2, 4), "int16", quantization(3.0)), UNIT_16], {}, "at most 2.67 is supported"),
        ("hard_swish", [WIDE, WIDE], {}, "hard_swish of int16"),
        ("batch_matmul", [FLOATS, FLOATS, FLOATS], {"adjoint_x": False, "adjoint_y": False}, "does not make"),
        ("bitcast", [MATRIX, FLOATS], {}, "differ in size"),
        ("softmax", [activation((2, 4), "int16", quantization()), activation((2, 4), "int16", quantization())],
         {"beta": 1.0}, "scale 1/32768"),
        ("svdf_state", [MATRIX, weights((3, 5), bytes(15)), MATRIX, MATRIX], {"memory": 2}, "for an input of shape"),
        ("svdf_output", [MATRIX, weights((4, 2), bytes(8)), MATRIX], {"rank": 3}, "of rank 3"),
        ("lstm", [MATRIX] * 16, {"clip": 0.0}, "with states of shape"),
        ("detection_postprocess", [IMAGE, MATRIX, MATRIX, FLOATS], DETECTIONS, "of shape [1, 4, 4, 2] with scores"),
        ("detection_postprocess", [BOXES, BOXES, MATRIX, FLOATS], DETECTIONS, "with 4 scores each"),
        ("detection_postprocess", [BOXES, SCORES, MATRIX, FLOATS], DETECTIONS, "not one row of 11 float32"),
        ("detection_postprocess", [BOXES, SCORES, MATRIX, FOUND], DETECTIONS, "they have to be constants"),
        ("detection_postprocess", [BOXES, SCORES, FLOATS, FOUND], DETECTIONS, "they have to be constants"),
        ("detection_postprocess", [BOXES, SCORES, weights((2, 2), bytes(4)), FOUND], DETECTIONS, "[2, 2] for 2 boxes"),
        ("detection_postprocess", [BOXES, SCORES, weights((2, 4), bytes(8)), FOUND], {**DETECTIONS, "h_scale": 0.0},
         "scales that are not positive"),
        ("detection_postprocess", [activation((1, 2, 4), "int16"), SCORES, weights((2, 4), bytes(8)), FOUND],
         DETECTIONS, "box tensors of int16"),
    ],
)  # fmt: skip
def test_wider_operators_are_refused_with_the_reason(
    kind: str, tensors: list[Any], attributes: dict[str, Attribute], why: str
) -> None:
    assert why in refusal(kind, tensors, **attributes)
