"""What does not convert is refused, all of it at once, with the reason and a way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowplan.errors import ModelError, UnsupportedError
from tflite_builder import ModelBuilder
from tflite_import import import_bytes

Build = Callable[[ModelBuilder], int]


def reason(build: Build) -> str:
    """Return the one reason why a model of one operator is refused."""
    model = ModelBuilder()
    output = build(model)
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(model.outputs(output).build())
    assert "\n" not in str(caught.value)
    (line,) = caught.value.reasons
    return re.sub(r"^operator \d+ \(.*?\): ", "", line)


def conv(
    *, x: tuple[int, ...] = (1, 4, 4, 2), w: Any = None, w_scale: Any = 0.1, w_zero: Any = 0, axis: int = 0,
    bias: Any = None, bias_scale: Any = 0.05, x_dtype: str = "int8", x_scale: Any = 0.5, x_zero: int = 0,
    y: tuple[int, ...] = (1, 4, 4, 3), kind: str = "CONV_2D", **options: Any,
) -> Build:  # fmt: skip
    def build(model: ModelBuilder) -> int:
        weights = np.ones((3, 3, 3, 2), np.int8) if w is None else w
        image = model.input("x", x, x_dtype, scale=x_scale, zero_point=x_zero)
        inputs = [image, model.constant("w", weights, scale=w_scale, zero_point=w_zero, axis=axis)]
        if bias is not None:
            inputs.append(model.constant("b", bias, scale=bias_scale))
        output = model.tensor("y", y, x_dtype, scale=x_scale)
        model.operator(kind, inputs, [output], **options)
        return output

    return build


def unary(kind: str, *, dtypes: tuple[str, str] = ("int8", "int8"), scales: tuple[Any, Any] = (0.5, 0.5),
          zeros: tuple[int, int] = (0, 0), shapes: Any = ((1, 4, 4, 2), (1, 4, 4, 2)), extra: Any = None,
          **options: Any) -> Build:  # fmt: skip
    def build(model: ModelBuilder) -> int:
        x = model.input("x", shapes[0], dtypes[0], scale=scales[0], zero_point=zeros[0])
        y = model.tensor("y", shapes[1], dtypes[1], scale=scales[1], zero_point=zeros[1])
        inputs = [x] if extra is None else [x, model.constant("extra", extra)]
        model.operator(kind, inputs, [y], **options)
        return y

    return build


def operands(kind: str, *extra: Any, **options: Any) -> Build:
    """An operator on an image with further inputs that are constants."""

    def build(model: ModelBuilder) -> int:
        x = model.input("x", (1, 4, 4, 2), "int8", scale=0.5)
        y = model.tensor("y", (1, 4, 4, 2), "int8", scale=0.5)
        constants = [model.constant(f"c{i}", values) for i, values in enumerate(extra)]
        model.operator(kind, [x, *constants], [y], **options)
        return y

    return build


def parts(model: ModelBuilder) -> int:
    x = model.input("x", (1, 4, 4, 3), "int8", scale=0.5)
    outputs = [model.tensor(f"y{i}", (1, 4, 4, 1), "int8", scale=0.5) for i in range(2)]
    model.operator("SPLIT", [model.constant("axis", np.array([3], np.int32)), x], outputs, num_splits=2)
    return outputs[0]


def all_known(model: ModelBuilder) -> int:
    y = model.tensor("y", (1, 4), "float32")
    model.operator("SOFTMAX", [model.constant("c", np.ones((1, 4), np.float32))], [y], beta=1.0)
    return y


def output_that_is_kept(model: ModelBuilder) -> int:
    x = model.input("x", (1, 4), "float32")
    kept, y = model.tensor("kept", (1, 4), "float32", is_variable=True), model.tensor("y", (1, 4), "float32")
    model.operator("RELU", [x], [kept])
    model.operator("RELU", [x], [y])
    return y


def two_outputs(model: ModelBuilder) -> int:
    x = model.input("x", (1, 4), "float32")
    outputs = [model.tensor(name, (1, 4), "float32") for name in "yz"]
    model.operator("RELU", [x], outputs)
    return outputs[0]


def computed(dtypes: tuple[str, str] = ("int8", "int8"), bias: Any = None, **options: Any) -> Build:
    """A FULLY_CONNECTED whose weights are an input as well."""

    def build(model: ModelBuilder) -> int:
        x, w = model.input("x", (4, 2), dtypes[0], scale=0.5), model.input("w", (3, 2), dtypes[1], scale=0.5)
        y = model.tensor("y", (4, 3), dtypes[0], scale=0.5)
        inputs = [x, w] if bias is None else [x, w, model.constant("b", bias, scale=0.25)]
        model.operator("FULLY_CONNECTED", inputs, [y], **options)
        return y

    return build


def scales_of_another_axis(model: ModelBuilder) -> int:
    x, y = model.input("x", (4, 2), "int8", scale=0.5), model.tensor("y", (4, 3), "int8", scale=0.5)
    w = model.constant("w", np.ones((2, 3), np.int8), scale=[0.1, 0.2], axis=0)
    model.operator("BATCH_MATMUL", [x, w], [y], options="BatchMatMulOptions")
    return y


FLOATS = np.ones((3, 3, 3, 2), np.float32)

CASES: list[tuple[str, Build]] = [
    ("stride 0; 1 to 1048576 would be supported", conv(stride_h=0)),
    ("stride -2; 1 to 1048576 would be supported", conv(stride_w=-2)),
    ("dilation 0; 1 to 1048576 would be supported", conv(dilation_h_factor=0)),
    ("padding 2; SAME (0) and VALID (1) are defined", conv(padding=2)),
    ("its options are missing", conv(options="NONE")),
    ("its options are those of another operator (type 5)", conv(options="Pool2DOptions")),
    ("fused activation TANH; NONE, RELU, RELU6 and RELU_N1_TO_1 would be supported",
     conv(fused_activation_function="TANH")),
    ("a window over 9 elements is larger than the 4 of the input",
     conv(padding="VALID", dilation_h_factor=4)),
    ("weights for 2 channels, the input has 5", conv(x=(1, 4, 4, 5))),
    ('output "y" has shape 1x4x4x9 in the file, the inputs make it 1x4x4x3', conv(y=(1, 4, 4, 9))),
    ('weights "w" are asymmetric per channel; zero point 0 would be supported',
     conv(w_scale=[0.1] * 3, w_zero=[3, 0, 1])),
    ('weights "w" have scales along axis 3 instead of 0', conv(w_scale=[0.1, 0.2], axis=3)),
    ('tensor "w" has 2 scales along axis 0 of shape 3x3x3x2', conv(w_scale=[0.1, 0.2])),
    ('tensor "w" has 3 scales but 2 zero points', conv(w_scale=[0.1] * 3, w_zero=[0, 0])),
    ('int8 weights "w" have no scale', conv(w_scale=None)),
    ("int16 bias; int32 would be supported", conv(bias=np.ones(3, np.int16))),
    ("bias of shape 4 for 3 output channels", conv(bias=np.ones(4, np.int32))),
    ('bias "b" has scale 0.5, input and weights make it 0.05', conv(bias=np.ones(3, np.int32), bias_scale=0.5)),
    ('int8 tensor "x" has no scale; convert the model again with full quantization', conv(x_scale=None)),
    ('tensor "x" has scale 0.0, which is no positive number', conv(x_scale=0.0)),
    ('tensor "x" has scale nan, which is no positive number', conv(x_scale=float("nan"))),
    ('tensor "x": zero point 130 does not fit int8 (-128..127)', conv(x_zero=130)),
    ("float32 activations with int16 weights; int8 with int8 and float32 with float32 would be supported",
     conv(x_dtype="float32", x_scale=None, w=np.ones((3, 3, 3, 2), np.int16))),
    ("int8 activations with float32 weights; int8 with int8 and float32 with float32 would be supported",
     conv(w=FLOATS, w_scale=None)),
    ("uint8 without a scale; convert the model again with int8", conv(x_dtype="uint8", x_scale=None)),
    ("int16 activations; convert the model again with int8 activations",
     unary("HARD_SWISH", dtypes=("int16", "int16"))),
    ("depth multiplier 2, but the weights of shape 1x3x3x2 say 1",
     conv(kind="DEPTHWISE_CONV_2D", w=np.ones((1, 3, 3, 2), np.int8), depth_multiplier=2, y=(1, 4, 4, 2))),
    ("shuffled weights; the default format would be supported",
     conv(kind="FULLY_CONNECTED", w=np.ones((3, 2), np.int8), weights_format=1, y=(16, 3))),
    ("input of shape 1x4x4x2 does not divide into rows of 5 features",
     conv(kind="FULLY_CONNECTED", w=np.ones((3, 5), np.int8), y=(16, 3))),
    ('"x" and "y" differ in scale or zero point, which must be equal here; insert a QUANTIZE',
     unary("MAX_POOL_2D", scales=(0.5, 0.25))),
    ('"x" and "y" differ in scale or zero point, which must be equal here; insert a QUANTIZE',
     unary("RELU6", zeros=(0, 1))),
    ('output "y" has scale 0.5 and zero point 0; 1/256 and -128 would be supported', unary("SOFTMAX")),
    ('output "y" has scale 0.00390625 and zero point 0; 1/256 and -128 would be supported',
     unary("LOGISTIC", scales=(0.5, 1 / 256))),
    ("beta 0, which is no positive number", unary("SOFTMAX", dtypes=("float32", "float32"), beta=0.0)),
    ("int8 input but int16 output", unary("MAX_POOL_2D", dtypes=("int8", "int16"))),
    ('output "y" has scale 0.5 and zero point 0; 1/32768 and 0 would be supported',
     unary("SOFTMAX", dtypes=("int16", "int16"))),
    ("32 elements of shape 1x4x4x2 do not fill 5x?; a shape fixed in the model allows no other batch",
     unary("RESHAPE", extra=np.array([5, -1], np.int32))),
    ("a new shape of (-1, -1)", unary("RESHAPE", extra=np.array([-1, -1], np.int32))),
    ("axis 4 of an input of shape 1x4x4x2", unary("MEAN", extra=np.array([4], np.int32))),
    ("a mean along no axis", unary("MEAN", extra=np.array([], np.int32))),
    ("paddings (0, 0, 1, 1) for an input of shape 1x4x4x2", unary("PAD", extra=np.array([[0, 0], [1, 1]], np.int32))),
    ("paddings (0, 0, -1, 0, 0, 0, 0, 0) for an input of shape 1x4x4x2",
     unary("PAD", extra=np.array([[0, 0], [-1, 0], [0, 0], [0, 0]], np.int32))),
    ("uint8 without a scale; convert the model again with int8",
     unary("QUANTIZE", dtypes=("float32", "uint8"), scales=(None, None))),
    ("2 inputs where 1 are defined", unary("RELU", extra=np.ones(1, np.int8))),
    ('tensor "y" of shape 65536x65536 takes 2 GiB or more',
     unary("RESHAPE", shapes=((1, 4), (65536, 65536)), extra=np.array([4], np.int32))),
    ("not a supported operator", unary("CUMSUM")),
    ('output "y" is not quantized with scale 1/128 and zero point 0', unary("TANH")),
    ("order of axes (0, 1, 1, 2) for an input of shape 1x4x4x2",
     unary("TRANSPOSE", extra=np.array([0, 1, 1, 2], np.int32))),
    ("blocks of 3 of an input of shape 1x4x4x2", unary("SPACE_TO_DEPTH", block_size=3, options="SpaceToDepthOptions")),
    ("2 outputs where 1 is defined", two_outputs),
    ('its output "kept" keeps state between runs', output_that_is_kept),
    ("axes (4,) of an input of shape 1x4x4x2", unary("REVERSE_V2", extra=np.array([4], np.int32))),
    ("a new size of (0, 4) for an input of shape 1x4x4x2",
     unary("RESIZE_BILINEAR", extra=np.array([0, 4], np.int32))),
    ("repetitions (2, 2) of an input of shape 1x4x4x2", unary("TILE", extra=np.array([2, 2], np.int32))),
    ("an index outside the 1 elements of axis 0", unary("GATHER", extra=np.array([7], np.int32))),
    ("a slice from (0, 0) of an input of shape 1x4x4x2",
     operands("SLICE", np.array([0, 0], np.int32), np.array([1, 1], np.int32))),
    ("a slice from (0, 3, 0, 0) of (1, 2, 4, 2) elements of an input of shape 1x4x4x2",
     operands("SLICE", np.array([0, 3, 0, 0], np.int32), np.array([1, 2, 4, 2], np.int32))),
    ("an ellipsis or a new axis in a slice",
     operands("STRIDED_SLICE", *[np.array([0], np.int32)] * 2, np.array([1], np.int32), ellipsis_mask=1)),
    ("an empty slice", operands("STRIDED_SLICE", *[np.array([2], np.int32)] * 2, np.array([1], np.int32))),
    ("index 9 along axis 0 of 1 elements",
     operands("STRIDED_SLICE", np.array([9], np.int32), np.array([10], np.int32), np.array([1], np.int32),
              shrink_axis_mask=1)),
    ("shape 1x4x4x2 cannot be broadcast to 1x4x4x3",
     unary("BROADCAST_TO", extra=np.array([1, 4, 4, 3], np.int32))),
    ("blocks of 2 of an input of shape 1x4x4x2",
     unary("DEPTH_TO_SPACE", block_size=2, options="DepthToSpaceOptions")),
    ("paddings 5 and 0 along an axis of 4 elements",
     unary("MIRROR_PAD", extra=np.array([[0, 0], [5, 0], [0, 0], [0, 0]], np.int32), options="MirrorPadOptions")),
    ("batch dimensions; gathering from one tensor would be supported",
     unary("GATHER", extra=np.array([0], np.int32), batch_dims=1)),
    ("axes (1,) of an input of shape 1x4x4x2", unary("SQUEEZE", squeeze_dims=[1])),
    ("axis (7,) of an input of shape 1x4x4x2", unary("EXPAND_DIMS", extra=np.array([7], np.int32))),
    ("2 equal parts along axis (3,) of an input of shape 1x4x4x3", parts),
    ("all inputs are constants, which is not supported here; fold them before the export", all_known),
    ("crops (0, 9, 0, 0) leave nothing of 1x4x4",
     operands("BATCH_TO_SPACE_ND", np.array([1, 1], np.int32), np.array([[0, 9], [0, 0]], np.int32),
              options="BatchToSpaceNDOptions")),
    ("blocks of (3, 3) of an input of shape 1x4x4x2",
     operands("SPACE_TO_BATCH_ND", np.array([3, 3], np.int32), np.array([[0, 0], [0, 0]], np.int32),
              options="SpaceToBatchNDOptions")),
    ("int8 activations; float32 would be supported", unary("LOG_SOFTMAX")),
    ('int8 tensor "extra" has no scale; convert the model again with full quantization',
     unary("PRELU", extra=np.ones((1, 4, 4, 2), np.int8))),
    ('int8 weights "extra" have no scale',
     unary("BATCH_MATMUL", shapes=((4, 2), (4, 3)), extra=np.ones((2, 3), np.int8), options="BatchMatMulOptions")),
    ("inputs of shapes 4x2 and 3x3 do not go together",
     unary("BATCH_MATMUL", shapes=((4, 2), (4, 3)), extra=np.ones((3, 3), np.int8), options="BatchMatMulOptions")),
    ("computed weights with a fused activation and no bias", computed(fused_activation_function="RELU")),
    ("computed weights of int8 with biases; without them, or of float32, they would be supported",
     computed(bias=np.ones(3, np.int32))),
    ("float32 activations with int8 weights; int8 with int8 and float32 with float32 would be supported",
     computed(("float32", "int8"))),
    ("2 inputs of shapes 1x4x4x2, 4", unary("ADD_N", dtypes=("float32", "float32"), extra=np.ones(4, np.float32))),
    ('weights "w" have scales along axis 0; 1 with zero points 0 would be supported', scales_of_another_axis),
    ("int8 with int32; two inputs of one type would be supported",
     unary("SQUARED_DIFFERENCE", extra=np.ones((1, 4, 4, 2), np.int32))),
    ("the scales of inputs and output are 1e+18 apart, which int8 arithmetic cannot bridge",
     unary("LEAKY_RELU", scales=(1e9, 1e-9), alpha=0.5)),
    ('int16 "x" to "y"; zero points 0 and an output scale of 1/32768 are defined',
     unary("TANH", dtypes=("int16", "int16"), scales=(0.001, 0.001))),
    ('int16 "x" to "y"; zero points 0 and an output scale of 1/32768 are defined',
     unary("LOGISTIC", dtypes=("int16", "int16"), scales=(0.001, 1 / 32768), zeros=(5, 0))),
    ('input "x" has scale 3; at most 2.67 is defined',
     unary("LOGISTIC", dtypes=("int16", "int16"), scales=(3.0, 1 / 32768))),
    ('output "y" is not quantized with scale 1/128 and zero point 0', unary("L2_NORMALIZATION")),
    ('int16 "y" has zero point 3; 0 is defined', unary("RSQRT", dtypes=("int16", "int16"), zeros=(0, 3))),
    ('"x" and "y" have too large scales for int16 arithmetic',
     unary("RSQRT", dtypes=("int16", "int16"), scales=(1e6, 1e6))),
    ('int8 "x" has zero point 4; 0 would be supported', unary("NEG", zeros=(4, 4))),
    ('"x" and "y" differ in scale or zero point, which must be equal here; insert a QUANTIZE',
     unary("NEG", scales=(0.5, 0.25))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "build"), CASES, ids=[f"{i}-{text[:40]}" for i, (text, _) in enumerate(CASES)])
def test_each_refusal_says_what_is_wrong(text: str, build: Build) -> None:
    assert reason(build) == text


def test_a_pad_past_two_gibibytes_is_refused_before_anything_is_computed() -> None:
    paddings = np.array([[0, 2**31 - 1], [0, 2**31 - 1], [0, 0], [0, 0]], np.int32)
    assert reason(unary("PAD", extra=paddings)) == ('tensor "y" of shape 2147483648x2147483651x4x2 takes 2 GiB or more')


MAGIC = (
    'operator 3 (CUSTOM:Magic "out"): not a supported operator: a custom one, which only its author\'s runtime knows'
)


def test_all_refusals_come_in_one_message_with_equal_ones_together() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    for i in range(3):
        y = model.tensor(f"t{i}", (1, 4), "float32")
        model.operator("CUMSUM", [x], [y])
        x = y
    z = model.tensor("out", (1, 4), "float32")
    model.operator("CUSTOM", [x], [z], custom_code="Magic")
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(model.outputs(z).build())
    text = str(caught.value)
    assert text.startswith(f"model.tflite: operators 0, 1, 2 (CUMSUM): not a supported operator; {MAGIC}. ")
    assert re.search(r"\d+ operators are supported, in int8, int16x8 and float32; stowplan inspect shows", text)
    assert caught.value.reasons == (
        'operator 0 (CUMSUM "t0"): not a supported operator',
        'operator 1 (CUMSUM "t1"): not a supported operator',
        'operator 2 (CUMSUM "t2"): not a supported operator',
        MAGIC,
    )


def test_of_several_entries_the_first_is_taken_and_the_others_are_named() -> None:
    model = ModelBuilder()
    for name in ("main", "body"):
        if name == "body":
            model.subgraph(name)
        x = model.input("x", (1, 4), "float32")
        y = model.tensor("y", (1, 4), "float32")
        model.operator("RELU" if name == "main" else "RELU6", [x], [y])
        model.outputs(y)
    model.signature("second", {"x": x}, {"y": y}, subgraph=1)
    graph = import_bytes(model.build())
    assert [operator.kind for operator in graph.operators] == ["relu"]
    assert graph.notes == ('signature "second" left out: it enters another subgraph than the first',)


def test_a_concatenation_of_unlike_scales_is_refused() -> None:
    def build(model: ModelBuilder) -> int:
        inputs = [model.input(f"x{i}", (1, 2), "int8", scale=0.5 + i) for i in range(2)]
        y = model.tensor("y", (1, 4), "int8", scale=0.5)
        model.operator("CONCATENATION", inputs, [y], axis=1)
        return y

    assert reason(build) == '"x0" and "x1" differ in scale or zero point, which must be equal here; insert a QUANTIZE'


def damage(build: Build) -> str:
    model = ModelBuilder()
    output = build(model)
    with pytest.raises(ModelError) as caught:
        import_bytes(model.outputs(output).build())
    return str(caught.value)


def test_a_tensor_read_before_it_is_written_is_damage() -> None:
    def build(model: ModelBuilder) -> int:
        late, y = model.tensor("late", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
        x = model.input("x", (1, 4), "float32")
        model.operator("RELU", [late], [y])
        model.operator("RELU", [x], [late])
        return y

    assert 'damaged: operator 0 (RELU) reads tensor "late" before it is written' in damage(build)


def test_a_tensor_written_twice_is_damage() -> None:
    def build(model: ModelBuilder) -> int:
        x, y = model.input("x", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
        model.operator("RELU", [x], [y])
        model.operator("RELU6", [x], [y])
        return y

    assert 'damaged: operator 1 (RELU6) writes tensor "y", which has a value already' in damage(build)


def test_a_constant_whose_bytes_do_not_match_its_shape_is_refused() -> None:
    def build(model: ModelBuilder) -> int:
        x, y = model.input("x", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
        c = model.tensor("c", (1, 4), "float32", data=bytes(15))
        model.operator("ADD", [x, c], [y])
        return y

    assert reason(build) == 'constant "c" has 15 bytes, its shape 1x4 in float32 says otherwise'


def test_names_from_the_file_cannot_break_the_line() -> None:
    def build(model: ModelBuilder) -> int:
        x, y = model.input("x", (1, 4), "float32"), model.tensor("a\nb\x1b[31m" + "c" * 200, (1, 4), "float32")
        model.operator("CUMSUM", [x], [y])
        return y

    assert reason(build) == "not a supported operator"
