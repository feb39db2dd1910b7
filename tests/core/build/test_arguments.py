"""The index of the largest element: made row by row from the rows that hold its runs, not of everything at once."""

from __future__ import annotations

import pytest

from fitting import fit, prove_plan
from graphs import GraphBuilder
from stowplan.build.rows import Form, Layout
from stowplan.build.verify import ScheduleFault, verify
from stowplan.flow.graph import Graph, Operator
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import FAST
from stowplan.nouns import replace


def classes_of_pixels(kind: str = "arg_max") -> Graph:
    """16x6x4 -> conv -> 16x6x10 classes of each pixel (960 B) -> 16x6 indices as int32 (24 B a row)."""
    b = GraphBuilder(seed=8)
    scores = b.conv(b.input(1, 16, 6, 4), 10)
    graph = b.graph(scores)
    tensors = list(graph.tensors)
    tensors.append(replace(tensors[scores], name="index", shape=(1, 16, 6), dtype="int32", quantization=None))
    chosen = Operator(kind=kind, inputs=(scores,), outputs=(len(tensors) - 1,), attributes={}, source=kind)
    return replace(graph, tensors=tuple(tensors), operators=(*graph.operators, chosen), outputs=(len(tensors) - 1,))


@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
def test_indices_are_made_row_by_row(kind: str) -> None:
    graph = classes_of_pixels(kind)
    layout = Layout(graph)
    assert layout.form(graph.outputs[0]) == Form(16, 24)
    assert [layout.reads(1, 0, unit) for unit in (0, 15)] == [range(1), range(15, 16)]
    plan = fit(graph, 16 * 24 * 3, None)
    assert plan.schedule.pool_bytes[FAST] < 16 * 6 * 10
    prove_plan(plan)


def test_an_index_that_is_made_too_early_is_found() -> None:
    """The checker knows which elements an index is made of."""
    graph = classes_of_pixels()
    plan = fit(graph, 16 * 24 * 3, None)
    with pytest.raises(ScheduleFault) as fault:
        verify(graph, too_early(graph, plan.schedule))
    assert fault.value.rule == "too-early"


def too_early(graph: Graph, schedule: Schedule) -> Schedule:
    """The first firing of the last operator a row sooner than its scores are there."""
    nodes = [index for index, node in enumerate(schedule.nodes) if node.operator == len(graph.operators) - 1]
    firings = list(schedule.firings)
    at = next(i for i, firing in enumerate(firings) if firing.node == nodes[0])
    made = next(i for i, firing in enumerate(firings) if schedule.nodes[firing.node].operator == 0)
    firings.insert(made, firings.pop(at))
    return replace(schedule, firings=tuple(firings))
