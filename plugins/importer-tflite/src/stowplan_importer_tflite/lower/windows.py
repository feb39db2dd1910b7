"""Where a window of a convolution or pool lies: output size and explicit padding from SAME and VALID."""

from __future__ import annotations

from stowplan.nouns import NamedTuple
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.site import Mismatch, Refusal, Value

MAX_EXTENT = 2**20
"""Larger strides, kernels and dilations appear in no network, and would leave the range of a kernel's 32-bit sums."""


class Span(NamedTuple):
    """One direction of a window: how many outputs there are, and the padding on either side."""

    outputs: int
    before: int
    after: int


def span(size: int, kernel: int, stride: int, dilation: int, padding: int) -> Span:
    """Return the window along one direction. Refuses numbers below 1, absurd ones, and an empty output."""
    for number, what in ((kernel, "kernel size"), (stride, "stride"), (dilation, "dilation")):
        if not 1 <= number <= MAX_EXTENT:
            raise Refusal(f"{what} {number}; 1 to {MAX_EXTENT} would be supported")
    reach = (kernel - 1) * dilation + 1
    if reach > MAX_EXTENT:
        raise Refusal(f"a window over {reach} elements; up to {MAX_EXTENT} would be supported")
    if padding == schema.VALID:
        outputs = (size - reach) // stride + 1
        if outputs < 1:
            raise Mismatch(f"a window over {reach} elements is larger than the {size} of the input")
        return Span(outputs, 0, 0)
    if padding != schema.SAME:
        raise Refusal(f"padding {padding}; SAME (0) and VALID (1) are defined")
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + reach - size, 0)
    return Span(outputs, total // 2, total - total // 2)


def image(value: Value) -> tuple[int, int, int, int]:
    """Return the shape of an image batch (NHWC)."""
    if len(value.shape) != 4:
        raise Mismatch(f"input of shape {spelled(value.shape)}; four dimensions (NHWC) are defined")
    n, h, w, c = value.shape
    return n, h, w, c
