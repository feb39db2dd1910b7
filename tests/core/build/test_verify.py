"""The checker finds planted faults, each by its rule, and passes what schedulers make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from graphs import GraphBuilder, random_graph, small_cnn
from stowplan.build.prove import separate_schedule
from stowplan.build.reads import byte_ranges
from stowplan.build.rows import Layout
from stowplan.build.verify import ScheduleFault, verify
from stowplan.flow.schedule import NONE, Buffer, Node, Schedule
from stowplan.flow.target import Pool, Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_greedy import GreedyScheduler
from stowplan_scheduler_stream import StreamScheduler

GRAPH = small_cnn()


def target(*sizes: int | None) -> Target:
    return Target(pools=tuple(Pool(name=n, size_bytes=s) for n, s in zip(("fast", "slow"), sizes, strict=False)))


def streamed() -> Schedule:
    return StreamScheduler().schedule(GRAPH, target(620), ScheduleOptions())


def spilled() -> Schedule:
    return StreamScheduler().schedule(GRAPH, target(170, 4096), ScheduleOptions())


def with_buffer(schedule: Schedule, index: int, **changes: object) -> Schedule:
    buffers = list(schedule.buffers)
    buffers[index] = replace(buffers[index], **changes)  # type: ignore[arg-type]
    return replace(schedule, buffers=tuple(buffers))


def with_node(schedule: Schedule, index: int, **changes: object) -> Schedule:
    nodes = list(schedule.nodes)
    nodes[index] = replace(nodes[index], **changes)  # type: ignore[arg-type]
    return replace(schedule, nodes=tuple(nodes))


def moved(schedule: Schedule, index: int, row: int, offset: int) -> Schedule:
    offsets = list(schedule.buffers[index].offsets)
    offsets[row] = offset
    return with_buffer(schedule, index, offsets=tuple(offsets))


def swapped(schedule: Schedule, a: int, b: int) -> Schedule:
    firings = list(schedule.firings)
    firings[a], firings[b] = firings[b], firings[a]
    return replace(schedule, firings=tuple(firings))


def buffer_of(schedule: Schedule, tensor: int) -> int:
    return next(i for i, b in enumerate(schedule.buffers) if b.tensor == tensor and not b.accumulator)


def overlap_two_live_tensors(s: Schedule) -> Schedule:
    """The second operator's output goes where the first operator's output still is."""
    first, second = GRAPH.operators[0].outputs[0], GRAPH.operators[1].outputs[0]
    return moved(s, buffer_of(s, second), 0, s.buffers[buffer_of(s, first)].offsets[1])


def row_off_the_end(s: Schedule) -> Schedule:
    return moved(s, buffer_of(s, GRAPH.operators[1].outputs[0]), 1, s.pool_bytes[0] - 1)


def row_before_the_start(s: Schedule) -> Schedule:
    return moved(s, buffer_of(s, GRAPH.operators[1].outputs[0]), 1, -4)


def output_in_pieces(s: Schedule) -> Schedule:
    index = s.interface[0][1]
    offsets = list(s.buffers[index].offsets)
    offsets[2], offsets[3] = offsets[3], offsets[2]
    return with_buffer(s, index, offsets=tuple(offsets))


def read_before_it_is_written(s: Schedule) -> Schedule:
    """The first row of the second operator moves to the very front."""
    at = next(i for i, f in enumerate(s.firings) if s.nodes[f.node].operator == 1)
    firing = s.firings[at]
    rest = s.firings[:at] + s.firings[at + 1 :]
    return replace(s, firings=(firing, *rest))


def read_after_it_was_overwritten(s: Schedule) -> Schedule:
    """A row of the input is overwritten by the first operator's first row, long before it is read for the last time."""
    output, source = buffer_of(s, GRAPH.operators[0].outputs[0]), s.interface[0][1]
    return moved(s, output, 0, -(-s.buffers[source].offsets[4] // 4) * 4)


def writes_over_what_it_reads(s: Schedule) -> Schedule:
    output, source = buffer_of(s, GRAPH.operators[0].outputs[0]), s.interface[0][1]
    return moved(s, output, 0, s.buffers[source].offsets[0])


def accumulator_overwritten(s: Schedule) -> Schedule:
    accumulator = next(i for i, b in enumerate(s.buffers) if b.accumulator)
    last = buffer_of(s, GRAPH.operators[4].outputs[0])
    return moved(s, last, 2, s.buffers[accumulator].offsets[0])


def misaligned_accumulator(s: Schedule) -> Schedule:
    accumulator = next(i for i, b in enumerate(s.buffers) if b.accumulator)
    return moved(s, accumulator, 0, s.buffers[accumulator].offsets[0] + 1)


def accumulator_too_small(s: Schedule) -> Schedule:
    accumulator = next(i for i, b in enumerate(s.buffers) if b.accumulator)
    return with_buffer(s, accumulator, row_bytes=3)


def partial_sums_without_an_accumulator(s: Schedule) -> Schedule:
    node = next(i for i, n in enumerate(s.nodes) if n.accumulator != NONE)
    return with_node(s, node, accumulator=NONE)


def firing_missing(s: Schedule) -> Schedule:
    region = s.regions[-1]
    return replace(s, firings=s.firings[:-1], regions=(*s.regions[:-1], replace(region, last=region.last - 1)))


def firing_twice(s: Schedule) -> Schedule:
    region = s.regions[-1]
    firings = (*s.firings, s.firings[-1])
    return replace(s, firings=firings, regions=(*s.regions[:-1], replace(region, last=region.last + 1)))


def units_out_of_order(s: Schedule) -> Schedule:
    rows = [i for i, f in enumerate(s.firings) if f.node == 0]
    return swapped(s, rows[0], rows[1])


def operands_exchanged(s: Schedule) -> Schedule:
    node = next(i for i, n in enumerate(s.nodes) if n.operator == 1)
    return with_node(s, node, inputs=(s.interface[0][1], *s.nodes[node].inputs[1:]))


def wrong_tensor_size(s: Schedule) -> Schedule:
    return with_buffer(s, 1, row_bytes=s.buffers[1].row_bytes + 1)


def over_budget(s: Schedule) -> Schedule:
    pool = replace(s.target.fast, size_bytes=s.pool_bytes[0] - 1)
    return replace(s, target=replace(s.target, pools=(pool, *s.target.pools[1:])))


def stages_with_a_gap(s: Schedule) -> Schedule:
    return replace(s, regions=(replace(s.regions[0], first=1), *s.regions[1:]))


def another_graph(s: Schedule) -> Schedule:
    return replace(s, graph_digest="0" * 64)


def node_that_does_not_exist(s: Schedule) -> Schedule:
    return replace(s, firings=(replace(s.firings[0], node=99), *s.firings[1:]))


def output_overwritten_at_the_end(s: Schedule) -> Schedule:
    """A copy of a spare tensor lands on the finished output."""
    output = s.interface[-1][1]
    tensor = s.buffers[output].tensor
    source = Buffer(tensor=tensor, pool=0, rows=1, row_bytes=5, offsets=s.buffers[output].offsets)
    node = Node(operator=None, inputs=(output,), output=len(s.buffers), units=1)
    firing = replace(s.firings[0], node=len(s.nodes), first=0, last=1)
    region = replace(s.regions[-1], last=len(s.firings) + 1)
    return replace(
        s,
        buffers=(*s.buffers, source),
        nodes=(*s.nodes, node),
        firings=(*s.firings, firing),
        regions=(*s.regions[:-1], region),
    )


FAULTS: list[tuple[Callable[[Schedule], Schedule], str]] = [
    (overlap_two_live_tensors, "overlap|too-late"),
    (row_off_the_end, "outside"),
    (row_before_the_start, "outside"),
    (output_in_pieces, "ports"),
    (read_before_it_is_written, "too-early"),
    (read_after_it_was_overwritten, "too-late"),
    (writes_over_what_it_reads, "overlap"),
    (accumulator_overwritten, "too-late|overlap"),
    (misaligned_accumulator, "misaligned"),
    (accumulator_too_small, "shape"),
    (partial_sums_without_an_accumulator, "order"),
    (firing_missing, "incomplete"),
    (firing_twice, "order"),
    (units_out_of_order, "order"),
    (operands_exchanged, "operands"),
    (wrong_tensor_size, "shape"),
    (over_budget, "budget"),
    (stages_with_a_gap, "regions"),
    (another_graph, "graph"),
    (node_that_does_not_exist, "index"),
    (output_overwritten_at_the_end, "overlap"),
]


@pytest.mark.parametrize(("fault", "rule"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_a_planted_fault_is_refused_with_its_cause(fault: Callable[[Schedule], Schedule], rule: str) -> None:
    good = streamed()
    verify(GRAPH, good)
    with pytest.raises(ScheduleFault) as refusal:
        verify(GRAPH, fault(good))
    assert refusal.value.rule in rule.split("|"), str(refusal.value)
    assert refusal.value.exit_code == 3


def test_a_reload_before_its_spill_is_too_early() -> None:
    good = spilled()
    verify(GRAPH, good)
    copies = {i for i, n in enumerate(good.nodes) if n.operator is None and good.buffers[n.inputs[0]].pool == 0}
    spills = [f for f in good.firings if f.node in copies and f.first == 0]
    late = replace(good, firings=(*[f for f in good.firings if f is not spills[0]], spills[0]))
    with pytest.raises(ScheduleFault) as refusal:
        verify(GRAPH, late)
    assert refusal.value.rule in ("too-early", "order")


@pytest.mark.parametrize("seed", range(60))
def test_what_the_schedulers_make_passes(seed: int) -> None:
    graph = random_graph(seed)
    verify(graph, separate_schedule(graph))
    whole = GreedyScheduler().schedule(graph, target(None), ScheduleOptions())
    verify(graph, whole)
    verify(graph, StreamScheduler().schedule(graph, target(None), ScheduleOptions()))


@pytest.mark.parametrize("seed", range(60))
def test_the_two_derivations_of_what_is_read_agree(seed: int) -> None:
    """`rows.Layout.reads` in rows and `reads.byte_ranges` in bytes name the same rows of every input."""
    graph = random_graph(seed)
    layout = Layout(graph)
    for index, operator in enumerate(graph.operators):
        units = layout.units(index)
        if layout.is_view(operator) or units.by_input:
            continue
        width = layout.form(operator.outputs[0]).row_bytes
        for position, tensor in enumerate(operator.inputs):
            if not graph.is_activation(tensor):
                continue
            line = layout.form(tensor).row_bytes
            for unit in range(units.count):
                rows = {
                    row
                    for start, end in byte_ranges(graph, index, position, unit * width, (unit + 1) * width)
                    for row in range(start // line, -(-end // line))
                }
                said = set(layout.reads(index, position, unit))
                dilated = operator.kind in ("conv_2d", "depthwise_conv_2d") and operator.integer("dilation_h") > 1
                assert rows == said or (dilated and rows <= said), (operator.source, unit, rows, said)


def test_the_untiled_schedule_counts_no_firing_beyond_the_plan_format() -> None:
    b = GraphBuilder()
    schedule = separate_schedule(b.graph(b.unary(b.input(1, 140_000, 1, 1), "relu")))
    covered = [(firing.first, firing.last) for firing in schedule.firings]
    assert covered == [(0, 65535), (65535, 131070), (131070, 140_000)]
    assert schedule.regions[-1].last == len(schedule.firings)
