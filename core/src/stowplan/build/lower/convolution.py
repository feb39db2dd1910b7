"""Convolutions: geometry, folded biases and one multiplier per output channel."""

from __future__ import annotations

from stowplan.build.lower.filters import filter_f32, filter_s8
from stowplan.build.lower.integer_filter import conv_2d_int, general
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.build.lower.windows import window


def conv_2d(site: Site) -> Lowered:
    weights = site.input(1)
    channels = site.input(0).shape[-1] if site.input(0).shape else 0
    if len(weights.shape) != 4 or weights.shape[0] != site.output.shape[-1] or not weights.shape[3]:
        raise site.refusal(f"weights {list(weights.shape)} do not map {channels} to {site.output.shape[-1]} channels")
    groups, rest = divmod(channels, weights.shape[3])
    if rest or groups < 1 or weights.shape[0] % groups:
        raise site.refusal(f"weights {list(weights.shape)} do not map {channels} to {site.output.shape[-1]} channels")
    if general(site):
        return conv_2d_int(site, groups)
    if groups > 1:
        return _in_groups(site, groups)
    return _lowered(site, "conv_2d", channel_axis=0)


def _in_groups(site: Site, groups: int) -> Lowered:
    if site.dtype(0, 1) != "float32":
        raise site.refusal(f"{groups} groups of {site.input().dtype} are not supported")
    params: dict[str, ParamValue] = window(site, site.input(1).shape[1:3])
    params |= {name: site.operator.integer(name) for name in ("dilation_h", "dilation_w")}
    params["groups"] = groups
    return Lowered(kind="conv_2d_groups_f32", params=params | filter_f32(site), operands=(site.operand(),))


def depthwise_conv_2d(site: Site) -> Lowered:
    weights = site.input(1)
    channels = site.input(0).shape[-1] if site.input(0).shape else 0
    if len(weights.shape) != 4 or weights.shape[0] != 1 or weights.shape[3] != site.output.shape[-1]:
        raise site.refusal(f"weights {list(weights.shape)} do not fit {site.output.shape[-1]} output channels")
    if channels < 1 or weights.shape[3] % channels:
        raise site.refusal(f"{weights.shape[3]} output channels are no multiple of {channels} input channels")
    if general(site):
        return conv_2d_int(site, channels, interleaved=True)
    return _lowered(site, "depthwise_conv_2d", channel_axis=3)


def _lowered(site: Site, kind: str, channel_axis: int) -> Lowered:
    dtype = site.dtype(0, 1)
    kernel = site.input(1).shape[1:3]
    params: dict[str, ParamValue] = window(site, kernel)
    params |= {name: site.operator.integer(name) for name in ("dilation_h", "dilation_w")}
    if dtype == "float32":
        return Lowered(kind=f"{kind}_f32", params=params | filter_f32(site), operands=(site.operand(),))
    params["input_zero_point"] = site.quantization(site.input()).zero_point
    params |= filter_s8(site, channel_axis)
    return Lowered(kind=f"{kind}_s8", params=params, operands=(site.operand(),))
