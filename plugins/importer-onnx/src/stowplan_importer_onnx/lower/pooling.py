"""Pools over windows of any number of axes, and over whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stowplan.flow.graph import Attribute
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.elementwise import unary
from stowplan_importer_onnx.lower.joining import binary, scalar
from stowplan_importer_onnx.lower.windows import Span, attributes_of, from_image, image, last, padded, spans, two
from stowplan_importer_onnx.parse import spelled
from stowplan_importer_onnx.site import FLOAT, Result, Site, Tailed
from stowplan_importer_onnx.tails import finished

LOWEST = -float(np.finfo(np.float32).max)
MAX_TAPS = 1024


def max_pool(site: Site) -> Value:
    x = site.value(0, ("float32", "int8", "uint8"))
    windows = _windows(site, x)
    builder = site.builder
    if len(windows) == 3 or any(span.dilation > 1 for span in windows):
        return _by_taps(builder, builder.real(x), windows, "maximum")
    if builder.is_quantized(x) or builder.tensors[x.tensor].dtype == "int8":
        return _pooled(builder, _as_int8(builder, x), windows, "max_pool_2d", "int8")
    if x.dtype != "float32":
        raise Refusal(f"{x.dtype} without a scale; float32 would be supported")
    return _pooled(builder, x, windows, "max_pool_2d", x.dtype)


def _as_int8(builder: Builder, x: Value) -> Value:
    if builder.quantization(x) is None:
        raise Refusal("int8 without a scale; float32 would be supported")
    return x


def average_pool(site: Site) -> Result:
    x = site.value(0, FLOAT)
    windows = _windows(site, x)
    if builder_int8(site, x) and len(windows) < 3 and not _counts_padding(site, windows):
        tail = site.tail(quantize=True)
        same = tail.quantization is not None and tail.quantization == site.builder.quantization(x)
        if same and tail.activation == "none":
            return Tailed(finished(_pooled(site.builder, x, windows, "average_pool_2d", "int8"), tail), tail)
    return averaged(site, site.builder.real(x), windows)


def builder_int8(site: Site, x: Value) -> bool:
    return site.builder.is_quantized(x) and all(span.dilation == 1 for span in _windows(site, x))


def averaged(site: Site, x: Value, windows: list[Span]) -> Value:
    """Return the mean of each window; of all of it where padding counts, of what lies inside the input elsewhere."""
    builder = site.builder
    counts = _counts_padding(site, windows)
    if len(windows) < 3 and all(span.dilation == 1 for span in windows):
        if not counts:
            return _pooled(builder, x, windows, "average_pool_2d", "float32")
        return _with_margins(site, x, windows)
    sums = _by_taps(builder, x, windows, "add")
    shape = [1, 1, *(span.outputs for span in windows)]
    sizes: np.ndarray = np.ones(shape, np.float32)
    for axis, span in enumerate(windows):
        stated = _stated(site, len(windows), axis, span) if counts else (0, span.size)
        along = [_inside(span, index, *stated) for index in range(span.outputs)]
        sizes = sizes * np.array(along, np.float32).reshape([-1 if i == axis + 2 else 1 for i in range(len(shape))])
    return binary(builder, "div", sums, builder.constant(sizes.astype(np.float32)))


def _inside(span: Span, index: int, low: int, high: int) -> int:
    first = index * span.stride - span.before
    return sum(low <= first + tap * span.dilation < high for tap in range(span.kernel))


def _stated(site: Site, count: int, axis: int, span: Span) -> tuple[int, int]:
    """Return where the input with its stated padding begins and ends; a rounded-up last window reaches beyond."""
    pads = site.integers("pads") or (0,) * (2 * count)
    if site.text("auto_pad", "NOTSET") != "NOTSET":
        return -span.before, span.size + span.after
    return -pads[axis], span.size + pads[count + axis]


def _with_margins(site: Site, x: Value, windows: list[Span]) -> Value:
    """Return means in which padding counts: zeros as elements; what a last window has beyond them does not count."""
    builder = site.builder
    tensor, shape = image(builder, x)
    pair = list(two(windows))
    for axis, span in enumerate(windows):
        place = axis if len(windows) == 2 else 1
        low, high = _stated(site, len(windows), axis, span)
        pair[place] = span._replace(before=-low, after=high - span.size)
    tensor, wide = padded(builder, tensor, pair)
    for place, span in enumerate(wide):
        rest = max((span.outputs - 1) * span.stride + span.kernel - span.size, 0)
        wide[place] = span._replace(after=rest)
    result = (shape[0], wide[0].outputs, wide[1].outputs, shape[3])
    out = builder.step("average_pool_2d", (tensor,), result, "float32", _attributes(wide[0], wide[1]))
    return from_image(builder, out, (*x.shape[:2], *(span.outputs for span in windows)), "float32")


def _counts_padding(site: Site, windows: Sequence[Span]) -> bool:
    return bool(site.integer("count_include_pad", 0)) and any(span.before or span.after for span in windows)


def _windows(site: Site, x: Value) -> list[Span]:
    if not 3 <= x.rank <= 5:
        raise Refusal(f"an input of shape {spelled(x.shape)}; one to three spatial axes are supported")
    return spans(site, x.shape[2:], site.integers("kernel_shape"), ceil=bool(site.integer("ceil_mode", 0)))


def _attributes(rows: Span, columns: Span) -> dict[str, Attribute]:
    return {**attributes_of(rows, columns), "kernel_h": rows.kernel, "kernel_w": columns.kernel, "activation": "none"}


def _pooled(builder: Builder, x: Value, windows: Sequence[Span], kind: str, dtype: str) -> Value:
    tensor, shape = image(builder, x)
    rows, columns = two(windows)
    if any(span.before >= span.kernel or span.after >= span.kernel for span in (rows, columns)):
        raise Refusal("some of its windows lie in the padding only")
    result = (shape[0], rows.outputs, columns.outputs, shape[3])
    held = builder.tensors[tensor]
    out = builder.step(kind, (tensor,), result, held.dtype, _attributes(rows, columns), held.quantization)
    return from_image(builder, out, (*x.shape[:2], *(span.outputs for span in windows)), x.dtype)


def _by_taps(builder: Builder, x: Value, windows: Sequence[Span], kind: str) -> Value:
    """Return the largest or the sum of each window, one axis after another: as many tensors as a window has places."""
    if sum(span.kernel for span in windows) > MAX_TAPS:
        raise Refusal(f"windows of {'x'.join(str(span.kernel) for span in windows)}")
    order = last(x.rank)
    tensor, shape = builder.stored(x, order), [x.shape[axis] for axis in order]
    filler = -math.inf if kind == "maximum" else 0.0
    for axis, span in enumerate(windows, start=1):
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        size = span.before + span.size + span.after
        flat = builder.step("reshape", (tensor,), (outer, span.size, inner), x.dtype)
        if span.before or span.after:
            margins: dict[str, Attribute] = {
                "before": (0, span.before, 0),
                "after": (0, span.after, 0),
                "value": filler,
            }
            flat = builder.step("pad_with", (flat,), (outer, size, inner), x.dtype, margins)
        total: int | None = None
        for tap in range(span.kernel):
            sizes = (outer, span.outputs, inner)
            steps: dict[str, Attribute] = {
                "sizes": sizes, "strides": (size * inner, span.stride * inner, 1),
                "offset": tap * span.dilation * inner,
            }  # fmt: skip
            part = builder.step("rearrange", (flat,), sizes, x.dtype, steps)
            total = part if total is None else builder.step(kind, (total, part), sizes, x.dtype, {"activation": "none"})
        assert total is not None
        shape[axis] = span.outputs
        tensor = builder.step("reshape", (total,), tuple(shape), x.dtype)
    return Value(tensor, (*x.shape[:2], *(span.outputs for span in windows)), x.dtype, order)


def lp_pool(site: Site) -> Value:
    x, builder = site.value(0, FLOAT), site.builder
    p = site.integer("p", 2)
    sums = _by_taps(builder, powered(builder, builder.real(x), p), _windows(site, x), "add")
    return rooted(builder, sums, p)


def powered(builder: Builder, x: Value, p: int) -> Value:
    if p == 2:
        return unary(builder, "square", x)
    size = unary(builder, "abs", x)
    return size if p == 1 else binary(builder, "pow", size, scalar(builder, float(p)))


def rooted(builder: Builder, x: Value, p: int) -> Value:
    if p == 2:
        return unary(builder, "sqrt", x)
    return x if p == 1 else binary(builder, "pow", x, scalar(builder, 1.0 / p))


def global_average(site: Site) -> Result:
    x = site.value(0, FLOAT)
    if x.rank < 3:
        raise Refusal(f"an input of shape {spelled(x.shape)}")
    builder = site.builder
    if builder.is_quantized(x) and x.rank == 4:
        tail = site.tail(quantize=True, activation=False)
        if tail.quantization is not None:
            tensor, shape = image(builder, x)
            out = builder.step(
                "mean", (tensor,), (shape[0], 1, 1, shape[3]), "int8", {"axes": (1, 2)}, tail.quantization
            )
            return Tailed(finished(from_image(builder, out, (*x.shape[:2], 1, 1), "float32"), tail), tail)
    return over_images(builder, builder.real(x), "mean")


def global_max(site: Site) -> Value:
    x = site.value(0, FLOAT)
    if x.rank < 3:
        raise Refusal(f"an input of shape {spelled(x.shape)}")
    return over_images(site.builder, site.builder.real(x), "max")


def over_images(builder: Builder, x: Value, function: str) -> Value:
    """Return one number for each channel of each image."""
    order = last(x.rank)
    tensor, shape = builder.stored(x, order), (*x.shape[:2], *(1,) * (x.rank - 2))
    stored = tuple(shape[axis] for axis in order)
    axes = tuple(range(1, x.rank - 1))
    if function == "mean" and x.rank == 4:
        return Value(builder.step("mean", (tensor,), stored, "float32", {"axes": axes}), shape, "float32", order)
    attributes: dict[str, Attribute] = {"function": function, "axes": axes}
    return Value(builder.step("reduce", (tensor,), stored, "float32", attributes), shape, "float32", order)
