"""Convolutions of one, two and three spatial axes: plain, depthwise, in groups, transposed; float32 and int8."""

from __future__ import annotations

from math import prod

import numpy as np

from stowplan.flow.graph import ABSENT, Attribute, Quantization
from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.windows import (
    Span,
    attributes_of,
    from_image,
    image,
    last,
    padded,
    spans,
    two,
)
from stowplan_importer_onnx.parse import Array, spelled
from stowplan_importer_onnx.site import FLOAT, Site, Tail, Tailed
from stowplan_importer_onnx.tails import finished

MAX_GROUPS = 256


class Filter(NamedTuple):
    """Weights as the model has them, [O, I/groups, ...], and biases; `quantization` is that of int8 weights."""

    weights: Array
    bias: Array | None
    groups: int
    quantization: Quantization | None = None

    def part(self, group: int) -> Filter:
        """Return the weights of one group."""
        size = self.weights.shape[0] // self.groups
        rows = slice(group * size, (group + 1) * size)
        q = self.quantization
        if q is not None and q.per_channel:
            q = Quantization(scales=q.scales[rows], zero_points=q.zero_points[rows], axis=0)
        return Filter(self.weights[rows], None if self.bias is None else self.bias[rows], 1, q)


def conv(site: Site) -> Tailed:
    """Lower Conv, with what follows it."""
    x, w = site.value(0, FLOAT), site.value(1, FLOAT)
    groups = checked_groups(x, w.shape, site.integer("group", 1))
    windows = spans(site, x.shape[2:], _kernel(site, w.shape))
    bias = None if site.optional(2) is None else site.builder.array(site.value(2, FLOAT))
    computed = site.optional(2) is not None and bias is None
    found = None if computed or len(windows) == 3 else int8_filter(site.builder, x, w, bias, groups)
    if found is not None:
        tail = site.tail(quantize=True)
        if tail.quantization is not None:
            value = convolved(site.builder, x, found, windows, tail.activation, tail.quantization)
            return Tailed(finished(value, tail), tail)
    tail = site.tail(batch=True)
    value = convolved(site.builder, site.builder.real(x), float_filter(site, w, groups, tail), windows, tail.activation)
    return Tailed(value, tail)


def _kernel(site: Site, weights: tuple[int, ...]) -> tuple[int, ...]:
    stated = site.integers("kernel_shape") or weights[2:]
    if stated != weights[2:]:
        raise Refusal(f"kernel_shape {list(stated[:8])}, but weights of shape {spelled(weights)}")
    return weights[2:]


def checked_groups(x: Value, weights: tuple[int, ...], groups: int) -> int:
    if x.rank != len(weights) or not 3 <= x.rank <= 5:
        raise Refusal(f"an input of shape {spelled(x.shape)} with weights of shape {spelled(weights)}")
    if groups < 1 or x.shape[1] != weights[1] * groups or not weights[0] or weights[0] % groups:
        raise Refusal(f"weights of shape {spelled(weights)} in {groups} groups on {x.shape[1]} channels")
    return groups


def float_filter(site: Site, w: Value, groups: int, tail: Tail) -> Filter:
    """Return float weights and biases, with a batch normalization behind them multiplied in."""
    weights = site.array(1, "weights")
    bias = None if site.optional(2) is None else site.array(2, "biases").reshape(-1)
    if bias is not None and bias.size != weights.shape[0]:
        raise Refusal(f"{bias.size} biases for {weights.shape[0]} channels")
    if tail.scale is None or tail.shift is None:
        return Filter(weights, bias, groups)
    if tail.scale.size != weights.shape[0]:
        raise Refusal(f"a BatchNormalization of {tail.scale.size} channels follows {weights.shape[0]}")
    wide = weights.astype(np.float64) * tail.scale.reshape(-1, *(1,) * (weights.ndim - 1))
    shift = tail.shift + (0 if bias is None else bias.astype(np.float64) * tail.scale)
    return Filter(wide.astype(np.float32), shift.astype(np.float32), groups)


def int8_filter(builder: Builder, x: Value, w: Value, bias: Array | None, groups: int) -> Filter | None:
    """Return int8 weights and int32 biases, or None where the model does not have them or kernels do not take them.

    `bias` is in real numbers.
    """
    held, q = builder.held(w.tensor), builder.quantization(w)
    source = builder.quantization(x)
    if not builder.is_quantized(x) or held is None or held.dtype != np.int8 or q is None or source is None:
        return None
    if q.per_channel and (any(q.zero_points) or q.axis != w.place(0)):
        return None
    weights = held.transpose([w.place(axis) for axis in range(w.rank)])
    turned = Quantization(scales=q.scales, zero_points=q.zero_points, axis=0 if q.per_channel else None)
    if bias is None:
        return Filter(weights, None, groups, turned)
    if bias.size != weights.shape[0]:
        raise Refusal(f"{bias.size} biases for {weights.shape[0]} channels")
    steps = np.rint(bias.reshape(-1).astype(np.float64) / (np.array(q.scales) * source.scale))
    return Filter(weights, steps.astype(np.int32), groups, turned) if (np.abs(steps) < 2**31).all() else None


def convolved(
    builder: Builder, x: Value, found: Filter, windows: list[Span], activation: str, q: Quantization | None = None
) -> Value:
    """Return the convolution of a value whose tensor has the type of the weights."""
    if len(windows) == 3:
        return _three(builder, x, found, windows, activation, q)
    rows, columns = two(windows)
    tensor, shape = image(builder, x)
    if (
        rows.before >= rows.reach
        or columns.before >= columns.reach
        or rows.after >= rows.reach
        or columns.after >= columns.reach
    ):
        tensor, (rows, columns) = padded(builder, tensor, (rows, columns))
    result = (shape[0], rows.outputs, columns.outputs, found.weights.shape[0])
    out = _image(builder, tensor, found, (rows, columns), activation, q, result)
    sizes = tuple(span.outputs for span in windows)
    return from_image(builder, out, (shape[0], found.weights.shape[0], *sizes), "float32")


def _image(
    builder: Builder, tensor: int, found: Filter, windows: tuple[Span, Span], activation: str,
    q: Quantization | None, shape: tuple[int, int, int, int],
) -> int:  # fmt: skip
    """Return the convolution of an image tensor."""
    rows, columns = windows
    depth, dtype = builder.tensors[tensor].shape[3], builder.tensors[tensor].dtype
    attributes: dict[str, Attribute] = {
        **attributes_of(rows, columns), "activation": activation,
        "dilation_h": rows.dilation, "dilation_w": columns.dilation,
    }  # fmt: skip
    weights = found.weights.reshape(*found.weights.shape[:2], rows.kernel, columns.kernel)
    if found.groups == depth and depth > 1:
        q_w = found.quantization
        if q_w is not None and q_w.per_channel:
            q_w = Quantization(scales=q_w.scales, zero_points=q_w.zero_points, axis=3)
        w = builder.constant(weights.transpose(1, 2, 3, 0), q_w).tensor
        attributes["multiplier"] = found.weights.shape[0] // depth
        inputs = (tensor, w, _bias(builder, found))
        return builder.step("depthwise_conv_2d", inputs, shape, dtype, attributes, q)
    w = builder.constant(weights.transpose(0, 2, 3, 1), found.quantization).tensor
    return builder.step("conv_2d", (tensor, w, _bias(builder, found)), shape, dtype, attributes, q)


def _bias(builder: Builder, found: Filter) -> int:
    return ABSENT if found.bias is None else builder.constant(found.bias).tensor


def _three(
    builder: Builder, x: Value, found: Filter, windows: list[Span], activation: str, q: Quantization | None
) -> Value:
    """Return a convolution over depth, height and width: the sum of those of images, one for each tap along depth."""
    if q is not None:
        raise Refusal("three spatial axes in int8; float32 would be supported")
    depth, rows, columns = windows
    tensor = builder.stored(x, last(5))
    n, c, d, h, w = x.shape
    if depth.before or depth.after:
        flat = builder.step("reshape", (tensor,), (n, d, h * w * c), "float32")
        wide = (n, depth.before + d + depth.after, h * w * c)
        margins: dict[str, Attribute] = {"before": (0, depth.before, 0), "after": (0, depth.after, 0)}
        tensor, d = builder.step("pad", (flat,), wide, "float32", margins), wide[1]
    images = (n * depth.outputs, h, w, c)
    out = (n * depth.outputs, rows.outputs, columns.outputs, found.weights.shape[0])
    total: int | None = None
    for tap in range(depth.kernel):
        layer = h * w * c
        sizes, strides = (n, depth.outputs, layer), (d * layer, depth.stride * layer, 1)
        attributes: dict[str, Attribute] = {"sizes": sizes, "strides": strides, "offset": tap * depth.dilation * layer}
        part = builder.step("rearrange", (tensor,), images, "float32", attributes)
        kernel = Filter(found.weights[:, :, tap], found.bias if tap == 0 else None, found.groups)
        done = depth.kernel == 1
        plane = from_image(builder, part, (images[0], c, h, w), "float32")
        value = convolved(builder, plane, kernel, [rows, columns], activation if done else "none")
        made = builder.stored(value, last(4))
        is_last = tap == depth.kernel - 1
        word: dict[str, Attribute] = {"activation": activation if is_last else "none"}
        total = made if total is None else builder.step("add", (total, made), out, "float32", word)
    assert total is not None
    shape = (n, found.weights.shape[0], depth.outputs, rows.outputs, columns.outputs)
    stored = tuple(shape[axis] for axis in last(5))
    return Value(builder.step("reshape", (total,), stored, "float32"), shape, "float32", last(5))


def conv_transpose(site: Site) -> Tailed:
    """Lower ConvTranspose on one or two spatial axes."""
    x, w = site.value(0, FLOAT), site.value(1, FLOAT)
    groups = site.integer("group", 1)
    if x.rank != w.rank or x.rank not in (3, 4) or w.shape[0] != x.shape[1] or groups < 1 or x.shape[1] % groups:
        raise Refusal(
            f"an input of shape {spelled(x.shape)} with weights of shape {spelled(w.shape)} in {groups} groups"
        )
    if groups > MAX_GROUPS or min(w.shape) < 1:
        raise Refusal(f"{groups} groups; up to {MAX_GROUPS} would be supported")
    places = [_place(site, i, x.shape[2 + i], w.shape[2 + i]) for i in range(x.rank - 2)]
    builder = site.builder
    tail = site.tail(batch=True)
    turned = np.concatenate(np.split(site.array(1, "weights"), groups, axis=0), axis=1).swapaxes(0, 1)
    found = float_filter(site._replace(inputs=(x, builder.constant(turned), *site.inputs[2:])), w, groups, tail)
    dilated = _dilated(found.weights, [place[2] for place in places])
    tensor, (n, h, width, c) = image(builder, builder.real(x))
    rows, columns = (places[0], places[1]) if len(places) == 2 else ((1, 1, 1, 0), places[0])
    shape = (n, rows[0], columns[0], found.weights.shape[0])
    kernel = dilated.reshape(*dilated.shape[:2], *((1,) if x.rank == 3 else ()), *dilated.shape[2:])
    parts = []
    depth, outputs = c // groups, shape[3] // groups
    for group in range(groups):
        part = tensor
        if groups > 1:
            part = builder.step("rearrange", (tensor,), (n, h, width, depth), "float32", {
                "sizes": (n, h, width, depth), "strides": (h * width * c, width * c, c, 1), "offset": group * depth,
            })  # fmt: skip
        own = Filter(kernel, found.bias, groups).part(group)
        inputs = (part, builder.constant(own.weights.transpose(0, 2, 3, 1)).tensor, _bias(builder, own))
        parts.append(builder.step("transpose_conv_2d", inputs, (*shape[:3], outputs), "float32", {
            "stride_h": rows[1], "stride_w": columns[1], "pad_top": rows[3], "pad_left": columns[3],
            "activation": tail.activation,
        }))  # fmt: skip
    out = parts[0] if groups == 1 else builder.step("concatenation", parts, shape, "float32", {"axis": 3})
    sizes = tuple(place[0] for place in places)
    return Tailed(from_image(builder, out, (n, shape[3], *sizes), "float32"), tail)


def _place(site: Site, axis: int, size: int, kernel: int) -> tuple[int, int, int, int]:
    """Return (outputs, stride, dilation, padding before) along one axis of a transposed convolution."""
    count = len(site.value(0).shape) - 2

    def number(name: str, default: int, index: int = axis, total: int = count) -> int:
        found = site.integers(name) or (default,) * total
        if len(found) != total or not 0 <= found[index] <= 1 << 20:
            raise Refusal(f"{name} {list(found[:8])}")
        return found[index]

    stride, dilation, extra = number("strides", 1), number("dilations", 1), number("output_padding", 0)
    reach = (kernel - 1) * dilation + 1
    auto, full = site.text("auto_pad", "NOTSET"), stride * (size - 1) + extra + reach
    if stride < 1 or dilation < 1 or reach > 1 << 20:
        raise Refusal(f"stride {stride}, dilation {dilation}")
    if site.has("output_shape") or auto.startswith("SAME"):
        outputs = number("output_shape", 0) if site.has("output_shape") else size * stride
        total = max(full - outputs, 0)
        before = total // 2 if auto == "SAME_UPPER" else total - total // 2
    else:
        before = number("pads", 0, axis, 2 * count) if auto == "NOTSET" else 0
        after = number("pads", 0, axis + count, 2 * count) if auto == "NOTSET" else 0
        outputs = full - before - after
    if outputs < 1 or outputs > 1 << 24:
        raise Refusal(f"an output of {outputs} elements along axis {axis}")
    return outputs, stride, dilation, before


def _dilated(weights: Array, dilations: list[int]) -> Array:
    """Return weights [O,I,...] with zeros between the taps."""
    sizes = [(n - 1) * d + 1 for n, d in zip(weights.shape[2:], dilations, strict=True)]
    if prod(sizes) * prod(weights.shape[:2]) > 1 << 26:
        raise Refusal("its dilated weights are too large")
    result = np.zeros((*weights.shape[:2], *sizes), np.float32)
    places = (slice(None), slice(None)) + tuple(slice(None, None, d) for d in dilations)
    result[places] = weights
    return result
