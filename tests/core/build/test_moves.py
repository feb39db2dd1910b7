"""Rows that moved elements come from: both derivations against the elements themselves, one by one."""

from __future__ import annotations

import hashlib
import random
from itertools import product
from math import prod

import pytest

from stowplan.build.moves import source_of
from stowplan.build.reads import byte_ranges
from stowplan.build.rows import Layout
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Attribute, Graph, Operator, Tensor


def one(
    kind: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], dtype: str = "int8", weights: bool = False,
    **attributes: Attribute,
) -> Graph:  # fmt: skip
    """A graph of one operator; with `weights` the second input is a constant."""
    tensors = [Tensor(name=f"x{i}", shape=shape, dtype=dtype) for i, shape in enumerate(shapes)]
    constants = {}
    if weights:
        data = bytes(prod(shapes[1]) * SIZE_BYTES[dtype])
        constants[hashlib.sha256(data).hexdigest()] = data
        tensors[1] = Tensor(name="w", shape=shapes[1], dtype=dtype, constant=hashlib.sha256(data).hexdigest())
    tensors.append(Tensor(name="y", shape=result, dtype=dtype))
    inputs = tuple(range(len(shapes)))
    operator = Operator(kind=kind, inputs=inputs, outputs=(len(shapes),), attributes=attributes, source=kind)
    entries = (0,) if weights else inputs
    return Graph(
        name="one", tensors=tuple(tensors), operators=(operator,), inputs=entries, outputs=(len(shapes),),
        constants=constants,
    )  # fmt: skip


def rearranged(rng: random.Random) -> Graph:
    """A block of a tensor, some axes turned around or repeated, all in another order."""
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    axes, offset, steps = [], 0, [prod(shape[i + 1 :]) for i in range(len(shape))]
    for n, step in zip(shape, steps, strict=True):
        begin = rng.randint(0, n - 1)
        count = rng.randint(1, n - begin)
        if rng.random() < 0.3:
            axes.append((count, -step))
            begin += count - 1
        else:
            axes.append((count, step))
        offset += begin * step
        if rng.random() < 0.3:
            axes.append((rng.randint(1, 3), 0))
    rng.shuffle(axes)
    result = tuple(size for size, _ in axes)
    result = result if len(result) <= 4 else (prod(result[:-3]), *result[-3:])
    strides = tuple(step for _, step in axes)
    sizes = tuple(size for size, _ in axes)
    return one(
        "rearrange", [shape], result, rng.choice(("int8", "float32")), sizes=sizes, strides=strides, offset=offset
    )


def sampled(rng: random.Random) -> Graph:
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    axes = tuple(axis for axis in range(len(shape)) if rng.random() < 0.5)
    counts = {axis: rng.randint(1, 6) for axis in axes}
    result = tuple(counts.get(axis, n) for axis, n in enumerate(shape))
    indices = tuple(rng.randrange(shape[axis]) for axis in axes for _ in range(counts[axis]))
    return one("sample", [shape], result, axes=axes, indices=indices)


def elements_of(graph: Graph) -> list[int]:
    """The input's element behind each output element, by the operator's definition."""
    operator = graph.operators[0]
    shape, result = graph.tensors[0].shape, graph.tensors[1].shape
    if operator.kind == "rearrange":
        sizes, strides = operator.integers("sizes"), operator.integers("strides")
        return [
            operator.integer("offset") + sum(i * s for i, s in zip(place, strides, strict=True))
            for place in product(*(range(n) for n in sizes))
        ]
    axes, indices = operator.integers("axes"), list(operator.integers("indices"))
    tables = {}
    for axis in axes:
        tables[axis], indices = indices[: result[axis]], indices[result[axis] :]
    found = []
    for place in product(*(range(n) for n in result)):
        element = 0
        for axis, index in enumerate(place):
            element = element * shape[axis] + (tables[axis][index] if axis in tables else index)
        found.append(element)
    return found


def rows_read(graph: Graph, layout: Layout, unit: int, position: int = 0) -> tuple[set[int], set[int]]:
    """The rows that the checker derives for one unit, and those that schedulers go by."""
    operator = graph.operators[0]
    width = layout.form(operator.outputs[0]).row_bytes
    line = layout.form(operator.inputs[position]).row_bytes
    checked = {
        row
        for start, end in byte_ranges(graph, 0, position, unit * width, (unit + 1) * width)
        for row in range(start // line, -(-end // line))
    }
    return checked, {row for rows in layout.touches(0, position, unit) for row in rows}


@pytest.mark.parametrize("make", [rearranged, sampled])
@pytest.mark.parametrize("seed", range(60))
def test_both_derivations_cover_every_element_that_moves(make, seed: int) -> None:  # type: ignore[no-untyped-def]
    graph = make(random.Random(seed))
    layout, elements = Layout(graph), elements_of(graph)
    source = source_of(graph.operators[0], graph.tensors[0].shape, graph.tensors[1].shape)
    assert source.elements == len(elements)
    size = SIZE_BYTES[graph.tensors[0].dtype]
    width, line = layout.form(1).row_bytes // size, layout.form(0).row_bytes // size
    for unit in range(layout.units(0).count):
        moved = elements[unit * width : (unit + 1) * width]
        exact = {element // line for element in moved}
        span = source.span(unit * width, (unit + 1) * width)
        assert (span.start, span.stop) == (min(moved), max(moved) + 1)
        checked, scheduled = rows_read(graph, layout, unit)
        assert exact <= checked <= set(layout.reads(0, 0, unit)), (graph.operators[0], unit)
        assert exact <= scheduled <= set(layout.reads(0, 0, unit)), (graph.operators[0], unit)


@pytest.mark.parametrize("shape", [(1, 3, 6, 5), (1, 2, 4, 4), (2, 3, 5, 4)])
def test_a_row_of_pixels_reads_one_line_of_every_plane(shape: tuple[int, ...]) -> None:
    n, c, h, w = shape
    graph = one(
        "rearrange", [shape], (n, h, w, c), sizes=(n, h, w, c), strides=(c * h * w, w, 1, h * w), offset=0
    )  # fmt: skip
    layout = Layout(graph)
    assert layout.form(0).rows == n * c * h
    for unit in range(n * h):
        image, row = divmod(unit, h)
        lines = {(image * c + plane) * h + row for plane in range(c)}
        assert rows_read(graph, layout, unit) == (lines, lines)


@pytest.mark.parametrize("seed", range(30))
def test_a_transposed_convolution_reads_the_rows_whose_kernel_reaches_the_output(seed: int) -> None:
    rng = random.Random(seed)
    height, kernel, stride, pad = rng.randint(1, 5), rng.randint(1, 4), rng.randint(1, 3), rng.randint(0, 2)
    out = max(1, (height - 1) * stride + kernel - pad)
    graph = one(
        "transpose_conv_2d", [(2, height, 2, 3), (4, kernel, 1, 3)], (2, out, 2, 4), weights=True,
        stride_h=stride, stride_w=1, pad_top=pad, pad_left=0, activation="none",
    )  # fmt: skip
    layout = Layout(graph)
    for unit in range(2 * out):
        image, row = divmod(unit, out)
        exact = {image * height + y for y in range(height) for p in range(kernel) if y * stride - pad + p == row}
        checked, scheduled = rows_read(graph, layout, unit)
        assert exact == checked == scheduled


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("seed", range(20))
def test_interpolation_reads_no_row_that_is_not_planned(seed: int, flags: tuple[bool, bool]) -> None:
    """Against the tables that the kernels are given, of floats and of int8."""
    from stowplan.build.lower import lower

    rng = random.Random(seed)
    height, out = rng.randint(1, 40), rng.randint(1, 60)
    graph = one(
        "resize_bilinear", [(1, height, 1, 1)], (1, out, 1, 1), "float32",
        align_corners=flags[0], half_pixel_centers=flags[1],
    )  # fmt: skip
    layout = Layout(graph)
    table = lower(graph, layout, 0).params["rows"]
    assert isinstance(table, bytes)
    for unit in range(out):
        low, high = (int.from_bytes(table[12 * unit + i : 12 * unit + i + 4], "little") for i in (0, 4))
        checked, scheduled = rows_read(graph, layout, unit)
        assert {low, high} <= checked
        assert {low, high} <= scheduled
        assert checked <= scheduled


@pytest.mark.parametrize("seed", range(40))
def test_a_join_of_images_reads_what_it_takes(seed: int) -> None:
    rng = random.Random(seed)
    rest, axis, outer = (rng.randint(1, 3), rng.randint(1, 3)), 1, rng.randint(2, 3)
    heights = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
    graph = one("concatenation", [(outer, h, *rest) for h in heights], (outer, sum(heights), *rest), axis=axis)
    layout = Layout(graph)
    for unit in range(layout.units(0).count):
        image, row = divmod(unit, sum(heights))
        for position, height in enumerate(heights):
            first = sum(heights[:position])
            exact = {image * height + row - first} if first <= row < first + height else set()
            checked, scheduled = rows_read(graph, layout, unit, position)
            assert exact == checked == scheduled
