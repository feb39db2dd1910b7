"""Where the windows of convolutions and pools lie, along any number of axes, and images with their channels last."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.parse import spelled
from stowplan_importer_onnx.site import Site

MAX_EXTENT = 2**20
"""Larger strides, kernels and dilations appear in no network, and would leave the range of a kernel's 32-bit sums."""


class Span(NamedTuple):
    """One direction of a window. `after` is as much as windows reach beyond the end, also in a last, partial one."""

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


def spans(site: Site, sizes: Sequence[int], kernel: Sequence[int], *, ceil: bool = False) -> list[Span]:
    """Return the window along each spatial axis, from the attributes that all such operators share."""
    count = len(sizes)
    strides = _listed(site, "strides", count, 1)
    dilations = _listed(site, "dilations", count, 1)
    if len(kernel) != count:
        raise Refusal(f"a kernel of shape {spelled(tuple(kernel))} on {count} axes")
    for number, what in (
        (n, w) for ns, w in ((kernel, "kernel size"), (strides, "stride"), (dilations, "dilation")) for n in ns
    ):
        if not 1 <= number <= MAX_EXTENT:
            raise Refusal(f"{what} {number}; 1 to {MAX_EXTENT} would be supported")
    auto = site.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Refusal(f"auto_pad {auto}; NOTSET, VALID, SAME_UPPER and SAME_LOWER are defined")
    pads = _listed(site, "pads", 2 * count, 0) if auto == "NOTSET" else (0,) * (2 * count)
    if any(not 0 <= pad <= MAX_EXTENT for pad in pads):
        raise Refusal(f"pads {list(pads[:8])}; 0 to {MAX_EXTENT} would be supported")
    return [
        _span(sizes[i], kernel[i], strides[i], dilations[i], (pads[i], pads[count + i]), auto, ceil)
        for i in range(count)
    ]


def _listed(site: Site, name: str, count: int, default: int) -> tuple[int, ...]:
    found = site.integers(name) or (default,) * count
    if len(found) != count:
        raise Refusal(f"{name} {list(found[:8])}; {count} numbers are defined")
    return found


def _span(size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], auto: str, ceil: bool) -> Span:
    reach = (kernel - 1) * dilation + 1
    if reach > MAX_EXTENT:
        raise Refusal(f"a window over {reach} elements; up to {MAX_EXTENT} would be supported")
    before, after = pads
    if auto.startswith("SAME"):
        outputs = -(-size // stride)
        total = max((outputs - 1) * stride + reach - size, 0)
        before = total // 2 if auto == "SAME_UPPER" else total - total // 2
    else:
        room = size + before + after - reach
        outputs = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (outputs - 1) * stride >= size + before:
            outputs -= 1  # a window that begins behind everything is none
    if outputs < 1:
        raise Refusal(f"a window over {reach} elements is larger than the {size} of the input")
    return Span(size, outputs, kernel, stride, dilation, before, max((outputs - 1) * stride + reach - size - before, 0))


def last(rank: int) -> tuple[int, ...]:
    """Return the order of axes with the channels last: N, then the spatial axes, then C."""
    return (0, *range(2, rank), 1)


def image(builder: Builder, value: Value) -> tuple[int, tuple[int, int, int, int]]:
    """Return a tensor [N,H,W,C] that holds a value of one or two spatial axes, and its shape."""
    tensor = builder.stored(value, last(value.rank))
    n, c, *sizes = value.shape
    shape = (n, sizes[0] if len(sizes) == 2 else 1, sizes[-1], c)
    found = builder.tensors[tensor]
    return builder.step(
        "reshape", (tensor,), shape, found.dtype, {}, found.quantization
    ) if found.shape != shape else tensor, shape


def from_image(builder: Builder, tensor: int, shape: tuple[int, ...], dtype: str) -> Value:
    """Return a tensor [N,H,W,C] as a value of the model with one or two spatial axes."""
    order = last(len(shape))
    stored = tuple(shape[axis] for axis in order)
    found = builder.tensors[tensor]
    if found.shape != stored:
        tensor = builder.step("reshape", (tensor,), stored, found.dtype, {}, found.quantization)
    return Value(tensor, shape, dtype, order)


def two(spans: Sequence[Span]) -> tuple[Span, Span]:
    """Return rows and columns; a single spatial axis lies along the columns."""
    return (spans[0], spans[1]) if len(spans) == 2 else (Span(1, 1, 1, 1, 1, 0, 0), spans[0])


def attributes_of(rows: Span, columns: Span) -> dict[str, int]:
    return {
        "stride_h": rows.stride, "stride_w": columns.stride, "pad_top": rows.before, "pad_left": columns.before,
        "pad_bottom": rows.after, "pad_right": columns.after,
    }  # fmt: skip


def padded(builder: Builder, tensor: int, spans: Sequence[Span], value: float | None = None) -> tuple[int, list[Span]]:
    """Return an image with its padding as elements, and the windows without any; real zeros unless `value` is given."""
    found = builder.tensors[tensor]
    if not any(span.before or span.after for span in spans):
        return tensor, list(spans)
    before, after = (0, *(span.before for span in spans), 0), (0, *(span.after for span in spans), 0)
    shape = tuple(b + n + a for b, n, a in zip(before, found.shape, after, strict=True))
    kind = "pad" if value is None else "pad_with"
    extra = {} if value is None else {"value": value}
    result = builder.step(
        kind, (tensor,), shape, found.dtype, {"before": before, "after": after, **extra}, found.quantization
    )
    return result, [s._replace(size=s.size + s.before + s.after, before=0, after=0) for s in spans]
