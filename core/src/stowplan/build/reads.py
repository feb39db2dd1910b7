"""For the checker: which bytes of an input an operator needs for some bytes of its output, from shapes alone.

Deliberately a second derivation beside `build/rows.py`, in bytes of the row-major tensors rather than rows of forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph, Operator
from stowplan.flow.operators import BINARY

Range = tuple[int, int]

EVERYTHING = frozenset(
    {
        "reduce", "gather", "batch_matmul", "select", "l2_normalization",
        "svdf_state", "svdf_output", "lstm", "bitcast", "detection_postprocess",
    }
)  # fmt: skip
"""Operators whose every output element may depend on every input element."""


def byte_ranges(graph: Graph, operator: int | None, position: int, start: int, end: int) -> Iterator[Range]:
    """Yield the half-open byte ranges of the input at `position` that the output's bytes [start, end) depend on.

    `operator` None is a copy. A range may hold more than what is read, never less.
    """
    if operator is None:
        yield start, end
        return
    op = graph.operators[operator]
    source, output = graph.tensors[op.inputs[position]], graph.tensors[op.outputs[0]]
    in_size, out_size = SIZE_BYTES[source.dtype], SIZE_BYTES[output.dtype]
    first, last = start // out_size, -(-end // out_size)
    for a, b in _elements(graph, op, position, first, last):
        if a < b:
            yield a * in_size, b * in_size


def _elements(graph: Graph, op: Operator, position: int, first: int, last: int) -> Iterator[Range]:
    source, output = graph.tensors[op.inputs[position]], graph.tensors[op.outputs[0]]
    if op.kind in ("conv_2d", "depthwise_conv_2d"):
        kernel = graph.tensors[op.inputs[1]].shape[1]
        yield from _taps(op, source.shape, output.shape, kernel, op.integer("dilation_h"), first, last)
    elif op.kind in ("average_pool_2d", "max_pool_2d"):
        yield from _taps(op, source.shape, output.shape, op.integer("kernel_h"), 1, first, last)
    elif op.kind == "fully_connected":
        outputs, features = graph.tensors[op.inputs[1]].shape
        yield first // outputs * features, -(-last // outputs) * features
    elif op.kind in ("softmax", "log_softmax"):
        group = output.shape[-1] if output.shape else 1
        yield first // group * group, -(-last // group) * group
    elif op.kind in ("arg_max", "arg_min"):
        yield first * source.shape[-1], last * source.shape[-1]
    elif op.kind in BINARY:
        yield from _broadcast(source.shape, output.shape, first, last)
    elif op.kind == "mean":
        # Axes outside the first averaged one are untouched; within, an output may need elements from end to end.
        outer = prod(source.shape[: min(op.integers("axes"))])
        one, reads = output.elements // outer, source.elements // outer
        yield first // one * reads, -(-last // one) * reads
    elif op.kind in ("pad", "pad_with"):
        yield from _unpadded(op, source.shape, output.shape, first, last)
    elif op.kind == "concatenation":
        yield from _slices(graph, op, position, first, last)
    elif op.kind == "rearrange":
        steps = [tuple(stride * i for i in range(n)) for n, stride in _pairs(op)]
        yield from _lines(op.integer("offset"), steps, first, last)
    elif op.kind == "sample":
        yield from _lines(0, _sampled(op, source.shape, output.shape), first, last)
    elif op.kind == "resize_bilinear":
        yield from _stretched(op, source.shape, output.shape, first, last)
    elif op.kind == "transpose_conv_2d":
        yield from _spread(op, graph.tensors[op.inputs[1]].shape[1], source.shape, output.shape, first, last)
    elif op.kind == "svdf_state" and position == 2:
        memories = output.shape[-1]
        yield first // memories * memories, -(-last // memories) * memories
    elif op.kind in EVERYTHING:
        yield 0, source.elements
    else:  # one element for one: reshape, copy, relu, quantize and their like
        yield first, last


def _taps(
    op: Operator, source: tuple[int, ...], output: tuple[int, ...], kernel: int, dilation: int, first: int, last: int
) -> Iterator[Range]:
    _, height, width, channels = source
    _, out_height, out_width, out_channels = output
    line, out_line = width * channels, out_width * out_channels
    for out_row in range(first // out_line, -(-last // out_line)):
        image, y = divmod(out_row, out_height)
        for tap in range(kernel):
            row = y * op.integer("stride_h") + tap * dilation - op.integer("pad_top")
            if 0 <= row < height:
                yield (image * height + row) * line, (image * height + row + 1) * line


def _broadcast(source: tuple[int, ...], output: tuple[int, ...], first: int, last: int) -> Iterator[Range]:
    """Map each line of the output (all its axes but the innermost) to the input's line that is stretched over it."""
    if source == output:
        yield first, last
        return
    padded = (1,) * (len(output) - len(source)) + source
    lead = len(output) - (1 if len(output) == 2 else 2)
    line, out_line = prod(padded[max(lead, 0) :]), prod(output[max(lead, 0) :])
    for out_row in range(first // out_line, -(-last // out_line)):
        row, scale, rest = 0, 1, out_row
        for axis in range(lead - 1, -1, -1):
            rest, coordinate = divmod(rest, output[axis])
            row += scale * (coordinate if padded[axis] > 1 else 0)
            scale *= padded[axis]
        yield row * line, (row + 1) * line


def _unpadded(op: Operator, source: tuple[int, ...], output: tuple[int, ...], first: int, last: int) -> Iterator[Range]:
    before = op.integers("before")
    line, out_line = prod(source[-2:]), prod(output[-2:])
    lead_in, lead_out, lead_before = source[:-2], output[:-2], before[:-2]
    for out_row in range(first // out_line, -(-last // out_line)):
        row, rest, inside = 0, out_row, True
        coordinates = []
        for size in reversed(lead_out):
            rest, coordinate = divmod(rest, size)
            coordinates.append(coordinate)
        for coordinate, size, pad in zip(reversed(coordinates), lead_in, lead_before, strict=True):
            inside = inside and 0 <= coordinate - pad < size
            row = row * size + coordinate - pad
        if inside:
            yield row * line, (row + 1) * line


def _slices(graph: Graph, op: Operator, position: int, first: int, last: int) -> Iterator[Range]:
    axis = op.integer("axis")
    chunks = [prod(graph.tensors[t].shape[axis:]) for t in op.inputs]
    begin, total, mine = sum(chunks[:position]), sum(chunks), chunks[position]
    for outer in range(first // total, -(-last // total)):
        low = max(first - outer * total - begin, 0)
        high = min(last - outer * total - begin, mine)
        if low < high:
            yield outer * mine + low, outer * mine + high


def _pairs(op: Operator) -> Iterator[tuple[int, int]]:
    yield from zip(op.integers("sizes"), op.integers("strides"), strict=True)


def _sampled(op: Operator, source: tuple[int, ...], output: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return what each index along each axis of the output adds to the input's element."""
    indices = iter(op.integers("indices"))
    steps, step = [], prod(source)
    for axis, (n, m) in enumerate(zip(source, output, strict=True)):
        step //= n
        places = [next(indices) for _ in range(m)] if axis in op.integers("axes") else list(range(m))
        steps.append(tuple(place * step for place in places))
    return steps


def _lines(offset: int, steps: list[tuple[int, ...]], first: int, last: int) -> Iterator[Range]:
    """Yield, for each run of the output along its last axis, the range its elements come from; where they lie apart,
    the ranges of all that lie side by side.
    """
    *outer, inner = steps or [(0,)]
    if max(inner) - min(inner) >= 2 * len(inner):
        yield from _merged(sorted(_places(offset, steps, first, last)))
        return
    line = len(inner)
    for number in range(first // line, -(-last // line)):
        start, rest = offset, number
        for axis in reversed(outer):
            rest, index = divmod(rest, len(axis))
            start += axis[index]
        part = inner[max(first - number * line, 0) : min(last - number * line, line)]
        yield start + min(part), start + max(part) + 1


def _places(offset: int, steps: list[tuple[int, ...]], first: int, last: int) -> Iterator[int]:
    """Yield the element that each of the output's elements [first, last) comes from."""
    sizes = [prod(map(len, steps[axis + 1 :])) for axis in range(len(steps))]
    for number in range(first, last):
        yield offset + sum(axis[number // size % len(axis)] for axis, size in zip(steps, sizes, strict=True))


def _merged(places: list[int]) -> Iterator[Range]:
    start = end = places[0]
    for place in places:
        if place > end:
            yield start, end
            start = place
        end = place + 1
    yield start, end


def _stretched(
    op: Operator, source: tuple[int, ...], output: tuple[int, ...], first: int, last: int
) -> Iterator[Range]:
    """Yield the lines around the point of the input that an output line lies at, with one to spare on either side."""
    _, height, width, channels = source
    _, out_height, out_width, _ = output
    line, out_line = width * channels, out_width * channels
    aligned = op.attributes["align_corners"] and out_height > 1
    scale = (height - 1) / (out_height - 1) if aligned else height / out_height
    for out_row in range(first // out_line, -(-last // out_line)):
        image, y = divmod(out_row, out_height)
        point = (y + 0.5) * scale - 0.5 if op.attributes["half_pixel_centers"] else y * scale
        # Exact ratios of small integers: a float64 is off by far less than the smallest fraction that is not 0.
        below = int((point + 1e-9) // 1)
        low, high = (max(min(n, height - 1), 0) for n in (below - 1, below + 2))
        yield (image * height + low) * line, (image * height + high + 1) * line


def _spread(
    op: Operator, kernel: int, source: tuple[int, ...], output: tuple[int, ...], first: int, last: int
) -> Iterator[Range]:
    """Yield the input lines whose kernel, laid at multiples of the stride, covers an output line."""
    _, height, width, channels = source
    _, out_height, out_width, out_channels = output
    line, out_line = width * channels, out_width * out_channels
    for out_row in range(first // out_line, -(-last // out_line)):
        image, y = divmod(out_row, out_height)
        for row in range(height):
            start = row * op.integer("stride_h") - op.integer("pad_top")
            if start <= y < start + kernel:
                yield (image * height + row) * line, (image * height + row + 1) * line
