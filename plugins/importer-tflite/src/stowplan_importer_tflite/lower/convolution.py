"""CONV_2D, FULLY_CONNECTED, TRANSPOSE_CONV and their like: operators with weights and a bias."""

from __future__ import annotations

import struct

from stowplan.build.fold import Folding, Known, fold
from stowplan.flow.graph import ABSENT, Attribute
from stowplan_importer_tflite.lower.windows import MAX_EXTENT, image, span
from stowplan_importer_tflite.parse import shown, spelled
from stowplan_importer_tflite.schema import ConvField, DepthwiseField, FullyConnectedField, TransposeConvField
from stowplan_importer_tflite.site import COMPUTED, Conversion, Mismatch, Refusal, Site, Value, check_rescale, scale_of

SPREAD_SAME, SPREAD_VALID = 1, 2
"""How MediaPipe's transposed convolution numbers paddings."""
BIAS_TOLERANCE = 0.02
"""How far a bias may be off, in steps of the output for a bias of 1, before its scale counts as wrong; as in LiteRT."""


def conv_2d(site: Site) -> Conversion:
    x, w, y = _operands(site, channel_axis=0)
    n, in_h, in_w, in_c = image(x)
    out_c, kernel_h, kernel_w, depth = _rank_4(w)
    if not depth or in_c % depth or out_c % (in_c // depth):
        raise Mismatch(f"weights for {depth} channels, the input has {in_c}")
    (out_h, out_w), attributes = _window(site, ConvField, (in_h, in_w), (kernel_h, kernel_w))
    return Conversion(
        kind="conv_2d",
        inputs=(x.tensor, w.tensor, _bias(site, x, w, y, out_c)),
        shape=(n, out_h, out_w, out_c),
        attributes=attributes,
    )


def depthwise_conv_2d(site: Site) -> Conversion:
    x, w, y = _operands(site, channel_axis=3)
    n, in_h, in_w, in_c = image(x)
    first, kernel_h, kernel_w, out_c = _rank_4(w)
    if first != 1 or out_c % in_c:
        raise Mismatch(f"weights of shape {spelled(w.shape)} do not fit an input with {in_c} channels")
    multiplier = out_c // in_c
    stated = site.integer(DepthwiseField.MULTIPLIER)
    # Old converters wrote 0 there; the shapes say the same thing and are what kernels go by.
    if stated not in (0, multiplier):
        raise Mismatch(f"depth multiplier {stated}, but the weights of shape {spelled(w.shape)} say {multiplier}")
    (out_h, out_w), attributes = _window(site, DepthwiseField, (in_h, in_w), (kernel_h, kernel_w))
    return Conversion(
        kind="depthwise_conv_2d",
        inputs=(x.tensor, w.tensor, _bias(site, x, w, y, out_c)),
        shape=(n, out_h, out_w, out_c),
        attributes={"multiplier": multiplier, **attributes},
    )


def _window(
    site: Site, fields: type[ConvField] | type[DepthwiseField], image: tuple[int, int], kernel: tuple[int, int]
) -> tuple[tuple[int, int], dict[str, Attribute]]:
    """Return the output's height and width, and the attributes that both kinds of convolution have."""
    padding = site.options().integer(fields.PADDING, "b")
    stride_h, stride_w = site.integer(fields.STRIDE_H), site.integer(fields.STRIDE_W)
    dilation_h, dilation_w = site.integer(fields.DILATION_H, 1), site.integer(fields.DILATION_W, 1)
    rows = span(image[0], kernel[0], stride_h, dilation_h, padding)
    columns = span(image[1], kernel[1], stride_w, dilation_w, padding)
    attributes: dict[str, Attribute] = {
        "dilation_h": dilation_h, "dilation_w": dilation_w, "stride_h": stride_h, "stride_w": stride_w,
        "pad_top": rows.before, "pad_left": columns.before, "pad_bottom": rows.after, "pad_right": columns.after,
        "activation": site.activation_function(fields.ACTIVATION),
    }  # fmt: skip
    return (rows.outputs, columns.outputs), attributes


def fully_connected(site: Site) -> Conversion | list[Conversion]:
    weights = site.value(1)
    if weights.data is None and weights.dtype in ("float32", "int8") and not weights.broken:
        return _product(site)
    x, w, y = _operands(site, channel_axis=0)
    if len(w.shape) != 2:
        raise Refusal(f"weights of shape {spelled(w.shape)}; two dimensions are defined")
    if site.options().integer(FullyConnectedField.WEIGHTS_FORMAT, "b"):
        raise Refusal("shuffled weights; the default format would be supported")
    out_features, features = w.shape
    if not x.shape or x.elements % features:
        raise Mismatch(f"input of shape {spelled(x.shape)} does not divide into rows of {features} features")
    leading: tuple[int, ...] = (x.elements // features,)
    if site.options().flag(FullyConnectedField.KEEP_NUM_DIMS):
        if x.shape[-1] != features:
            raise Mismatch(f"input of shape {spelled(x.shape)} does not end in the {features} features of the weights")
        leading = x.shape[:-1]
    return Conversion(
        kind="fully_connected",
        inputs=(x.tensor, w.tensor, _bias(site, x, w, y, out_features)),
        shape=(*leading, out_features),
        attributes={"activation": site.activation_function(FullyConnectedField.ACTIVATION)},
    )


def _product(site: Site) -> list[Conversion]:
    """With weights that the model computes it is a product of two matrices, then a sum."""
    site.arity(2, 3)
    x, w = site.activation(0), site.activation(1)
    y = site.result(x.dtype)
    if x.dtype != w.dtype:
        raise Refusal(_mixed(x.dtype, w.dtype))
    if x.dtype == "int8":
        check_rescale(scale_of(x) * scale_of(w) / scale_of(y))
    if len(w.shape) != 2 or not x.shape or x.elements % w.shape[1]:
        raise Mismatch(f"input of shape {spelled(x.shape)} with weights of shape {spelled(w.shape)}")
    outputs, features = w.shape
    rows = x.elements // features
    keep = site.table is not None and site.table.flag(FullyConnectedField.KEEP_NUM_DIMS)
    shape = (*x.shape[:-1], outputs) if keep else (rows, outputs)
    flat = site.new((rows, features), x.dtype, x.quantization, None)
    result = site.new((rows, outputs), x.dtype, y.quantization, None)
    last = result if site.optional(2) is None else site.new((rows, outputs), x.dtype, y.quantization, None)
    steps = [
        Conversion("reshape", (x.tensor,), flat.shape, output=flat.tensor),
        Conversion(
            "batch_matmul",
            (flat.tensor, w.tensor),
            result.shape,
            {"adjoint_x": False, "adjoint_y": True},
            result.tensor,
        ),
    ]
    activation = site.activation_function(FullyConnectedField.ACTIVATION)
    if site.optional(2) is None and activation != "none":
        raise Refusal("computed weights with a fused activation and no bias")
    if site.optional(2) is not None and x.dtype == "int8":
        raise Refusal("computed weights of int8 with biases; without them, or of float32, they would be supported")
    if site.optional(2) is not None:
        bias = _bias(site, x, w, y, outputs)
        steps.append(Conversion("add", (result.tensor, bias), last.shape, {"activation": activation}, last.tensor))
    return [*steps, Conversion("reshape", (last.tensor,), shape)]


def transpose_conv(site: Site) -> Conversion:
    """Its inputs are the output's shape, weights, the image, and biases or none."""
    site.arity(3, 4)
    order = (site.inputs[2], site.inputs[1], *site.inputs[3:])
    x, w, y = _operands(site._replace(inputs=order), channel_axis=0)
    n, in_h, in_w, in_c = image(x)
    out_c, kernel_h, kernel_w, depth = _rank_4(w)
    asked = site.constant_integers(0, "the output's shape")
    if depth != in_c or len(asked) != 4 or (asked[0], asked[3]) != (n, out_c):
        raise Mismatch(f"weights of shape {spelled(w.shape)} do not make {asked[:4]} of shape {spelled(x.shape)}")
    padding = site.options().integer(TransposeConvField.PADDING, "b")
    strides = [site.integer(f) for f in (TransposeConvField.STRIDE_H, TransposeConvField.STRIDE_W)]
    rows = span(asked[1], kernel_h, strides[0], 1, padding)
    columns = span(asked[2], kernel_w, strides[1], 1, padding)
    if (rows.outputs, columns.outputs) != (in_h, in_w):
        raise Mismatch(f"an output of {asked[1]}x{asked[2]} does not come from an input of shape {spelled(x.shape)}")
    activation = "none" if site.table is None else site.activation_function(TransposeConvField.ACTIVATION)
    return Conversion(
        kind="transpose_conv_2d",
        inputs=(x.tensor, w.tensor, _bias(site._replace(inputs=order), x, w, y, out_c)),
        shape=asked,
        attributes={
            "stride_h": strides[0], "stride_w": strides[1], "pad_top": rows.before, "pad_left": columns.before,
            "activation": activation,
        },
    )  # fmt: skip


def transpose_conv_bias(site: Site) -> Conversion:
    """MediaPipe's Convolution2DTransposeBias: TRANSPOSE_CONV of floats with biases, whose size follows from its input.

    Its options are three integers as C has them: padding, stride along the width, and along the height.
    """
    site.arity(3, 3)
    x, w, y = _operands(site, channel_axis=0)
    if x.dtype != "float32":
        raise Refusal(f"{x.dtype} activations; float32 is defined")
    n, in_h, in_w, in_c = image(x)
    out_c, kernel_h, kernel_w, depth = _rank_4(w)
    if depth != in_c:
        raise Mismatch(f"weights of shape {spelled(w.shape)} for an input of shape {spelled(x.shape)}")
    if len(site.custom) != 12:
        raise Refusal(f"options of {len(site.custom)} bytes; 12 are defined")
    padding, stride_w, stride_h = struct.unpack("<3i", site.custom)
    if padding not in (SPREAD_SAME, SPREAD_VALID):
        raise Refusal(f"padding {padding}; SAME ({SPREAD_SAME}) and VALID ({SPREAD_VALID}) are defined")
    rows, columns = (
        _spread(size, kernel, stride, padding)
        for size, kernel, stride in ((in_h, kernel_h, stride_h), (in_w, kernel_w, stride_w))
    )
    return Conversion(
        kind="transpose_conv_2d",
        inputs=(x.tensor, w.tensor, _bias(site, x, w, y, out_c)),
        shape=(n, rows[0], columns[0], out_c),
        attributes={
            "stride_h": stride_h, "stride_w": stride_w, "pad_top": rows[1], "pad_left": columns[1],
            "activation": "unbounded",
        },
    )  # fmt: skip


def _spread(size: int, kernel: int, stride: int, padding: int) -> tuple[int, int]:
    """Return how long an axis becomes, and what is cut off before it."""
    if not 1 <= stride <= MAX_EXTENT:
        raise Refusal(f"stride {stride}; 1 to {MAX_EXTENT} would be supported")
    cut = max(0, kernel - (size - 1) % stride - 1) if padding == SPREAD_SAME else 0
    return stride * (size - 1) + kernel - cut, cut // 2


def _operands(site: Site, channel_axis: int) -> tuple[Value, Value, Value]:
    """Return input, weights and output, their dtypes and quantization checked."""
    site.arity(2, 3)
    x = site.activation(0, COMPUTED)
    y = site.result(x.dtype)
    w = site.value(1)
    if w.data is None:
        raise Refusal("" if w.broken else f"weights {shown(w.name)} must be constant")
    if 0 in w.shape:
        raise Refusal(f"weights of shape {spelled(w.shape)} are empty")
    if (x.dtype, w.dtype) in (("float32", "int8"), ("float32", "float16")):
        return x, widened(site, w), y
    if w.dtype != ("float32" if x.dtype == "float32" else "int8"):
        raise Refusal(_mixed(x.dtype, w.dtype))
    if w.dtype == "int8":
        _check_weights(w, channel_axis)
        assert w.quantization is not None
        check_rescale(scale_of(x) * max(w.quantization.scales) / scale_of(y))
    return x, w, y


def widened(site: Site, w: Value) -> Value:
    """Return weights as float32: the exact value of each, which models with float activations compute with."""
    if w.dtype == "int8" and w.quantization is None:
        raise Refusal(f"int8 weights {shown(w.name)} have no scale")
    known = Known(w.shape, w.dtype, w.data or b"", w.quantization)
    data = fold(Folding("dequantize", {}, (known,), Known(w.shape, "float32")))
    if data is None:
        raise Refusal(f"{w.dtype} weights {shown(w.name)} cannot be widened")
    return site.new(w.shape, "float32", None, data)


def _mixed(activations: str, weights: str) -> str:
    return (
        f"{activations} activations with {weights} weights; int8 with int8 and float32 with float32 would be supported"
    )


def _check_weights(w: Value, channel_axis: int) -> None:
    if w.quantization is None:
        raise Refusal(f"int8 weights {shown(w.name)} have no scale")
    if any(w.quantization.zero_points) and w.quantization.per_channel:
        raise Refusal(f"weights {shown(w.name)} are asymmetric per channel; zero point 0 would be supported")
    if w.quantization.per_channel and w.quantization.axis != channel_axis:
        raise Refusal(f"weights {shown(w.name)} have scales along axis {w.quantization.axis} instead of {channel_axis}")


def _rank_4(w: Value) -> tuple[int, int, int, int]:
    if len(w.shape) != 4:
        raise Refusal(f"weights of shape {spelled(w.shape)}; four dimensions are defined")
    a, b, c, d = w.shape
    return a, b, c, d


def _bias(site: Site, x: Value, w: Value, y: Value, channels: int) -> int:
    """Return the bias' index, or that there is none."""
    if site.optional(2) is None:
        return ABSENT
    bias = site.constant(2, "bias")
    if x.dtype == "float32" and bias.dtype == "float16":
        bias = widened(site, bias)
    expected = {"int8": ("int32",), "int16": ("int32", "int64"), "float32": ("float32",)}[x.dtype]
    if bias.dtype not in expected:
        raise Refusal(f"{bias.dtype} bias; {expected[-1]} would be supported")
    if bias.elements != channels or len(bias.shape) != 1:
        raise Refusal(f"bias of shape {spelled(bias.shape)} for {channels} output channels")
    if x.dtype != "float32":
        _check_bias_scale(bias, x, w, y)
    return bias.tensor


def _check_bias_scale(bias: Value, x: Value, w: Value, y: Value) -> None:
    """A bias is added to sums in steps of input scale times weight scale; another scale contradicts that."""
    if bias.quantization is None:
        return
    if any(bias.quantization.zero_points):
        raise Refusal(f"bias {shown(bias.name)} has a zero point; 0 is defined")
    assert w.quantization is not None
    scales, stated = w.quantization.scales, bias.quantization.scales
    count, of_input, least = max(len(scales), len(stated)), scale_of(x), BIAS_TOLERANCE * scale_of(y)
    for scale, found in zip(scales * (count // len(scales)), stated * (count // len(stated)), strict=False):
        step = of_input * scale
        if abs(step - found) > max(least, 0.01 * step):
            raise Refusal(f"bias {shown(bias.name)} has scale {found:.6g}, input and weights make it {step:.6g}")
