"""Filters on integers in their general form: int16 activations, weights with a zero point, groups, transposed."""

from __future__ import annotations

import struct

from stowplan.build.lower.filters import filter_f32
from stowplan.build.lower.fixed_point import factor, words
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.ranges import range_integer
from stowplan.build.lower.site import Site
from stowplan.build.lower.windows import window
from stowplan.planfile.layout import DTYPE_CODES


def general(site: Site) -> bool:
    """Say whether the kernels of symmetric int8 weights and int8 activations do not fit, nor those of floats."""
    x, w = site.input(0), site.input(1)
    if x.dtype == "int16":
        return True
    asymmetric = w.quantization is not None and any(w.quantization.zero_points)
    grouped = site.operator.kind == "conv_2d" and len(w.shape) == 4 and w.shape[3] != x.shape[-1]
    return x.dtype == "int8" and (asymmetric or grouped)


def conv_2d_int(site: Site, groups: int, interleaved: bool = False) -> Lowered:
    """Lower a convolution in groups. `interleaved` weights are [1,KH,KW,O], as depthwise convolutions have them."""
    weights = site.constant(1, "int8", "weights")
    shape = site.input(1).shape
    channels = shape[3] if interleaved else shape[0]
    if interleaved:
        weights = b"".join(weights[channel::channels] for channel in range(channels))
    params: dict[str, ParamValue] = window(site, shape[1:3])
    params |= {name: site.operator.integer(name) for name in ("dilation_h", "dilation_w")}
    params["groups"] = groups
    params |= integer_filter(site, weights, channels)
    return Lowered(kind="conv_2d_int", params=params, operands=(site.operand(),))


def fully_connected_int(site: Site) -> Lowered:
    shape = site.input(1).shape
    if len(shape) != 2 or min(shape) < 1:
        raise site.refusal(f"weights of shape {list(shape)} are not a matrix")
    outputs, features = shape
    if site.input().elements % features or site.input().elements // features * outputs != site.output.elements:
        raise site.refusal(f"weights of shape {list(shape)} do not make {list(site.output.shape)}")
    params: dict[str, ParamValue] = {"features": features, "outputs": outputs}
    params |= integer_filter(site, site.constant(1, "int8", "weights"), outputs)
    return Lowered(kind="fully_connected_int", params=params, operands=(site.operand(),))


def transpose_conv_2d(site: Site) -> Lowered:
    x, w = site.input(0), site.input(1)
    if len(w.shape) != 4 or w.shape[3] != x.shape[-1] or w.shape[0] != site.output.shape[-1]:
        raise site.refusal(f"weights {list(w.shape)} do not map {x.shape[-1]} to {site.output.shape[-1]} channels")
    params: dict[str, ParamValue] = window(site, w.shape[1:3])
    if site.one_dtype("float32", "int8", "int16") == "float32":
        return Lowered(kind="transpose_conv_2d_f32", params=params | filter_f32(site), operands=(site.operand(),))
    params |= integer_filter(site, site.constant(1, "int8", "weights"), w.shape[0])
    return Lowered(kind="transpose_conv_2d_int", params=params, operands=(site.operand(),))


def integer_filter(site: Site, weights: bytes, channels: int) -> dict[str, ParamValue]:
    """Return the parameters from `dtype` on; biases of 64 bits make the sums as wide, as in the runtimes."""
    dtype = site.one_dtype("int8", "int16")
    source, result = site.quantization(site.input()), site.quantization(site.output)
    quantization = site.filter_quantization(1, channels)
    bias = _bias(site, channels)
    wide = dtype == "int16" and (bias is None or len(bias) == 8 * channels or site.operator.kind != "conv_2d")
    if wide and bias is not None and len(bias) == 4 * channels:
        bias = struct.pack(f"<{channels}q", *struct.unpack(f"<{channels}i", bias))
    factors = [factor(source.scale * scale / result.scale) for scale in quantization.scales]
    return {
        "dtype": DTYPE_CODES[dtype],
        "wide": int(wide),
        "input_zero_point": source.zero_point,
        "weights_zero_point": quantization.zero_point,
        "output_zero_point": result.zero_point,
        **range_integer(site, result),
        "weights": weights,
        "bias": bias,
        "multiplier": words([f.multiplier for f in factors]),
        "shift": words([f.shift for f in factors]),
    }


def _bias(site: Site, channels: int) -> bytes | None:
    if not site.has(2):
        return None
    dtype = site.input(2).dtype
    if dtype == "int64" and site.input().dtype == "int8":
        raise site.refusal("its biases have 64 bits; 32 are supported beside int8")
    data = site.constant(2, dtype if dtype in ("int32", "int64") else "int32", "biases")
    if site.input(2).elements != channels:
        raise site.refusal(f"{site.input(2).elements} biases for {channels} output channels")
    return data
