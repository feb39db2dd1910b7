"""What convolutions and fully connected operators share: weights, folded biases, multipliers, the output's range."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from stowplan.build.lower.fixed_point import Factor, factor, saturate, words, wrap
from stowplan.build.lower.nodes import ParamValue
from stowplan.build.lower.ranges import range_f32, range_s8
from stowplan.build.lower.site import Site

BOUND = 2**30
WORD_BYTES = 4
"""Kernels of small processors load as many weights at once."""


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
    rows = _by_channel(weights, channels, interleaved=channel_axis != 0)
    folded, factors = _tamed(_folded(_bias(site, channels), rows, source.zero_point), factors, rows, result.zero_point)
    step = channels if channel_axis else -(-len(rows[0]) // WORD_BYTES) * WORD_BYTES
    return {
        "output_zero_point": result.zero_point,
        **range_s8(site, result),
        "weights": weights if channel_axis else _padded(rows, step),
        "bias": words(folded) if any(folded) else None,
        "multiplier": words([f.multiplier for f in factors]),
        "shift": words([f.shift for f in factors]),
        "weights_step": step,
        "bounded": int(_is_bounded(rows, folded, factors)),
    }


def _padded(rows: Sequence[memoryview], step: int) -> bytes:
    """Return the weights of each output at a multiple of `step`, zeros between."""
    return b"".join(row.tobytes() + bytes(step - len(row)) for row in rows)


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


def _by_channel(weights: bytes, channels: int, interleaved: bool) -> list[memoryview]:
    """Return the weights of each output channel."""
    values = memoryview(weights).cast("b")
    if interleaved:
        return [values[channel::channels] for channel in range(channels)]
    size = len(values) // channels
    return [values[channel * size : (channel + 1) * size] for channel in range(channels)]


def _folded(bias: Sequence[int], rows: Sequence[memoryview], zero_point: int) -> list[int]:
    """Move the input's zero point into the bias: the kernel then multiplies the bytes as they are."""
    if not zero_point:
        return list(bias)
    return [wrap(value - zero_point * sum(row.tolist())) for value, row in zip(bias, rows, strict=True)]


def _tamed(
    sums: list[int], factors: list[Factor], rows: Sequence[memoryview], zero_point: int
) -> tuple[list[int], list[Factor]]:
    """Give channels that are constant a small sum and a factor of 1/4, with which they come out the same.

    Pruned channels keep biases of any size: left alone, one of them keeps all others from being bounded.
    """
    constant = [not any(row) for row in rows]
    if not any(constant):
        return sums, factors
    each = factors if len(factors) == len(sums) else factors * len(sums)
    values = [saturate(f(s) + zero_point) - zero_point for s, f in zip(sums, each, strict=True)]
    return (
        [4 * v if c else s for s, v, c in zip(sums, values, constant, strict=True)],
        [Factor(2**30, -1) if c else f for f, c in zip(each, constant, strict=True)],
    )


def _is_bounded(rows: Sequence[memoryview], folded: Sequence[int], factors: Sequence[Factor]) -> bool:
    """Say whether no input makes a sum as large as 2**30, on the way to it neither, and all factors are below 1/2."""
    if any(f.shift >= 0 for f in factors):
        return False
    if max(map(abs, folded), default=0) + 128 * 128 * max(map(len, rows), default=0) < BOUND:
        return True  # whatever the weights are
    return all(abs(bias) + 128 * sum(map(abs, row.tolist())) < BOUND for row, bias in zip(rows, folded, strict=True))
