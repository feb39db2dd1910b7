"""Outputs written over their own inputs, row by row: the checker passes those that are safe and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fitting import NO_FILE, prove_plan
from graphs import GraphBuilder, row_bytes_of
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.build.prove import separate_schedule
from stowplan.build.verify import ScheduleFault, verify
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Firing, Region, Schedule

ROWS = 8


def elementwise() -> Graph:
    """8x4x4 input (16 bytes a row) -> relu -> 1x1 convolution, so that the relu's output is no port."""
    b = GraphBuilder()
    return b.graph(b.conv(b.unary(b.input(1, ROWS, 4, 4), "relu"), 2, kernel=(1, 1)))


def depthwise() -> Graph:
    """8x4x4 input (16 bytes a row) -> 3x3 depthwise, padded: row r reads rows r-1 to r+1 -> 1x1 convolution."""
    b = GraphBuilder()
    return b.graph(b.conv(b.depthwise(b.input(1, ROWS, 4, 4)), 2, kernel=(1, 1)))


def over_its_input(graph: Graph, shift_bytes: int) -> Schedule:
    """The first operator's output lies `shift_bytes` above its input, and it runs row by row, as does the second."""
    apart = separate_schedule(graph)
    base, row = 1024, row_bytes_of(graph, graph.inputs[0])
    source, output = apart.interface[0][1], apart.nodes[0].output
    buffers = list(apart.buffers)
    for index, start in ((source, base), (output, base + shift_bytes)):
        offsets = tuple(start + r * row for r in range(ROWS))
        buffers[index] = replace(buffers[index], offsets=offsets)
    firings = tuple(Firing(node=node, first=r, last=r + 1) for node in (0, 1) for r in range(ROWS))
    regions = (Region(first=0, last=len(firings), tiled=True),)
    return replace(apart, buffers=tuple(buffers), firings=firings, regions=regions, pool_bytes=(4096,))


@pytest.mark.parametrize("shift", [-128, -32, -16, 128])
def test_an_elementwise_output_may_take_rows_that_are_read(shift: int) -> None:
    graph = elementwise()
    verify(graph, over_its_input(graph, shift))


@pytest.mark.parametrize("shift", [-15, -12, -4, -1, 1, 4, 12])
def test_an_elementwise_output_a_few_bytes_beside_its_input_is_refused(shift: int) -> None:
    """A simulator that copies a row before it writes would not notice: the kernel reads what it has just written."""
    graph = elementwise()
    with pytest.raises(ScheduleFault, match="over what it reads") as refusal:
        verify(graph, over_its_input(graph, shift))
    assert refusal.value.rule == "overlap"


@pytest.mark.parametrize("shift", [16, 32, 64, 112])
def test_an_elementwise_output_over_rows_that_are_still_to_be_read_is_refused(shift: int) -> None:
    graph = elementwise()
    with pytest.raises(ScheduleFault) as refusal:
        verify(graph, over_its_input(graph, shift))
    assert refusal.value.rule == "too-late"


@pytest.mark.parametrize("rows", [2, 3, ROWS])
def test_a_depthwise_output_may_follow_its_input_two_rows_behind(rows: int) -> None:
    """Row r overwrites row r-2, which no later row reads."""
    graph = depthwise()
    verify(graph, over_its_input(graph, -16 * rows))


@pytest.mark.parametrize("shift", [-31, -28, -16, -4, 0, 4, 16, 28])
def test_a_depthwise_output_with_one_row_too_little_is_refused(shift: int) -> None:
    """Row r would overwrite a row among r-1 to r+1 while it reads it."""
    graph = depthwise()
    with pytest.raises(ScheduleFault, match="over what it reads") as refusal:
        verify(graph, over_its_input(graph, shift))
    assert refusal.value.rule == "overlap"


@pytest.mark.parametrize(("graph", "shift"), [(elementwise(), -16), (depthwise(), -32)], ids=["relu", "depthwise"])
def test_what_the_checker_passes_gives_the_same_numbers(graph: Graph, shift: int) -> None:
    prove_plan(make_plan(NO_FILE, Lowering(graph), over_its_input(graph, shift), PlanOptions()))
