"""What convolutions and fully connected operators share: weights, folded biases, multipliers, the output's range."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from stowplan.build.lower.fixed_point import factor, words, wrap
from stowplan.build.lower.nodes import ParamValue
from stowplan.build.lower.ranges import range_f32, range_s8
from stowplan.build.lower.site import Site


def filter_s8(site: Site, channel_axis: int) -> dict[str, ParamValue]:
    """Return the parameters from `output_zero_point` on.

    `channel_axis` is the axis of the weights that counts output channels, the first or the last.
    """
    shape = site.input(1).shape
    channels = shape[channel_axis]
    weights = site.constant(1, "int8", "weights")
    source, result = site.quantization(site.input()), site.quantization(site.output)
    scales = site.weight_quantization(1, channels).scales
    factors = [factor(source.scale * scale / result.scale) for scale in scales]
    sums = _channel_sums(weights, channels, interleaved=channel_axis != 0) if source.zero_point else [0] * channels
    return {
        "output_zero_point": result.zero_point,
        **range_s8(site, result),
        "weights": weights,
        "bias": _folded(_bias(site, channels), sums, source.zero_point),
        "multiplier": words([f.multiplier for f in factors]),
        "shift": words([f.shift for f in factors]),
    }


def filter_f32(site: Site) -> dict[str, ParamValue]:
    """Return the parameters from `act_min` on."""
    channels = site.output.shape[-1]
    bias = site.constant(2, "float32", "biases") if site.has(2) else None
    if bias is not None and len(bias) != 4 * channels:
        raise site.refusal(f"{len(bias) // 4} biases for {channels} output channels")
    return {**range_f32(site), "weights": site.constant(1, "float32", "weights"), "bias": bias}


def _bias(site: Site, channels: int) -> Sequence[int]:
    if not site.has(2):
        return [0] * channels
    data = site.constant(2, "int32", "biases")
    if len(data) != 4 * channels:
        raise site.refusal(f"{len(data) // 4} biases for {channels} output channels")
    return struct.unpack(f"<{channels}i", data)


def _channel_sums(weights: bytes, channels: int, interleaved: bool) -> list[int]:
    values = memoryview(weights).cast("b")
    if interleaved:
        return [sum(values[channel::channels].tolist()) for channel in range(channels)]
    size = len(values) // channels
    return [sum(values[channel * size : (channel + 1) * size].tolist()) for channel in range(channels)]


def _folded(bias: Sequence[int], sums: Sequence[int], zero_point: int) -> bytes | None:
    """Move the input's zero point into the bias: the kernel then multiplies the bytes as they are."""
    folded = [wrap(value - zero_point * total) for value, total in zip(bias, sums, strict=True)]
    return words(folded) if any(folded) else None
