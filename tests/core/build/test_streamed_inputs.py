"""Streamed inputs from schedule to proof: what the checker refuses, what a plan file says, and that the bytes agree."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from arriving import most_rows_held, with_arrivals
from fitting import NO_FILE, fit, prove_plan, target_of
from graphs import GraphBuilder, random_graph, small_cnn
from stowplan.build.planning import Lowering, PlanOptions, make_plan, plan_compressed, plan_uncompressed
from stowplan.build.prove import ProofFailed, prove, separate_schedule
from stowplan.build.verify import ScheduleFault, verify
from stowplan.errors import DoesNotFit, PlanError, PluginError, UsageError
from stowplan.flow.graph import Graph
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Firing, Schedule
from stowplan.flow.target import Target
from stowplan.planfile import layout
from stowplan.planfile.reader import read_plan
from stowplan.planfile.text import plan_lines
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_backend_c import CBackend

GRAPH = small_cnn()
TIGHT_BYTES = 620
"""What makes the scheduler fire the small network row by row."""


def streamed() -> Schedule:
    return with_arrivals(GRAPH, fit(GRAPH, TIGHT_BYTES).schedule, GRAPH.inputs)


def plan_of(graph: Graph, schedule: Schedule, asked: tuple[int, ...] | None = None) -> Plan:
    wanted = schedule.streamed if asked is None else asked
    options = PlanOptions(schedule=ScheduleOptions(streamed_inputs=wanted))
    return make_plan(NO_FILE, Lowering(graph), schedule, options)


def arrival_of(schedule: Schedule) -> int:
    return next(i for i, node in enumerate(schedule.nodes) if node.is_arrival)


def with_node(schedule: Schedule, index: int, **changes: object) -> Schedule:
    nodes = list(schedule.nodes)
    nodes[index] = replace(nodes[index], **changes)  # type: ignore[arg-type]
    return replace(schedule, nodes=tuple(nodes))


def with_port(schedule: Schedule, **changes: object) -> Schedule:
    port = schedule.interface[0][1]
    buffers = list(schedule.buffers)
    buffers[port] = replace(buffers[port], **changes)  # type: ignore[arg-type]
    return replace(schedule, buffers=tuple(buffers))


def without_firing(schedule: Schedule, at: int) -> Schedule:
    firings = schedule.firings[:at] + schedule.firings[at + 1 :]
    regions = [replace(r, first=r.first - (r.first > at), last=r.last - (r.last > at)) for r in schedule.regions]
    return replace(schedule, firings=firings, regions=tuple(regions))


def arrivals(schedule: Schedule) -> list[int]:
    node = arrival_of(schedule)
    return [step for step, firing in enumerate(schedule.firings) if firing.node == node]


def rows_missing_at_the_end(s: Schedule) -> Schedule:
    """The last row arrives, but nobody says so: whoever reads it does so too early."""
    return without_firing(s, arrivals(s)[-1])


def a_row_that_arrives_after_it_is_read(s: Schedule) -> Schedule:
    at = arrivals(s)[0]
    firings = list(s.firings)
    firings[at], firings[at + 1] = firings[at + 1], firings[at]
    return replace(s, firings=tuple(firings))


def a_row_that_arrives_over_one_still_needed(s: Schedule) -> Schedule:
    """Row 2 takes the place of row 1 before the second row of the output is made."""
    offsets = s.buffers[s.interface[0][1]].offsets
    return with_port(s, offsets=(*offsets[:2], offsets[1], *offsets[3:]))


def rows_in_another_order(s: Schedule) -> Schedule:
    first, second = arrivals(s)[:2]
    firings = list(s.firings)
    firings[first], firings[second] = firings[second], firings[first]
    return replace(s, firings=tuple(firings))


def two_arrivals_for_one_input(s: Schedule) -> Schedule:
    """At one node after the other; none of their rows is missing."""
    node = s.nodes[arrival_of(s)]
    firing = Firing(node=len(s.nodes), first=0, last=node.units)
    regions = (*s.regions[:-1], replace(s.regions[-1], last=len(s.firings) + 1))
    return replace(s, nodes=(*s.nodes, node), firings=(*s.firings, firing), regions=regions)


def an_arrival_for_another_tensor(s: Schedule) -> Schedule:
    """The first operator's output is said to come from outside."""
    at = next(i for i, n in enumerate(s.nodes) if n.operator == 0)
    return with_node(s, at, operator=None, inputs=())


def an_arrival_that_the_interface_does_not_know(s: Schedule) -> Schedule:
    port = s.interface[0][1]
    buffers = (*s.buffers, s.buffers[port])
    return replace(with_node(s, arrival_of(s), output=len(s.buffers)), buffers=buffers)


def an_arrival_in_slow_memory(s: Schedule) -> Schedule:
    slow = replace(s.target.fast, name="slow")
    grown = replace(s, target=Target(pools=(s.target.fast, slow)), pool_bytes=(s.pool_bytes[0], s.pool_bytes[0]))
    return with_port(grown, pool=1)


def an_arrival_with_fewer_units_than_rows(s: Schedule) -> Schedule:
    return with_node(s, arrival_of(s), units=11)


def an_arrival_by_input_rows(s: Schedule) -> Schedule:
    return with_node(s, arrival_of(s), by_input=True)


def an_input_in_pieces_that_does_not_arrive(s: Schedule) -> Schedule:
    copied = with_node(s, arrival_of(s), inputs=(len(s.buffers),))
    port = s.buffers[s.interface[0][1]]
    start = -(-s.pool_bytes[0] // 16) * 16
    offsets = tuple(start + r * port.row_bytes for r in range(port.rows))
    whole = replace(port, offsets=offsets)
    return replace(copied, buffers=(*s.buffers, whole), pool_bytes=(start + port.size_bytes,))


FAULTS: list[tuple[Callable[[Schedule], Schedule], str]] = [
    (rows_missing_at_the_end, "too-early"),
    (a_row_that_arrives_after_it_is_read, "too-early"),
    (a_row_that_arrives_over_one_still_needed, "too-late"),
    (rows_in_another_order, "order"),
    (two_arrivals_for_one_input, "arrival"),
    (an_arrival_for_another_tensor, "arrival"),
    (an_arrival_that_the_interface_does_not_know, "arrival"),
    (an_arrival_in_slow_memory, "arrival"),
    (an_arrival_with_fewer_units_than_rows, "units"),
    (an_arrival_by_input_rows, "units"),
    (an_input_in_pieces_that_does_not_arrive, "ports"),
]


@pytest.mark.parametrize(("fault", "rule"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_a_planted_fault_is_refused_with_its_cause(fault: Callable[[Schedule], Schedule], rule: str) -> None:
    good = streamed()
    verify(GRAPH, good)
    with pytest.raises(ScheduleFault) as refusal:
        verify(GRAPH, fault(good))
    assert refusal.value.rule in rule.split("|"), str(refusal.value)


def test_rows_that_nobody_reads_must_arrive_all_the_same() -> None:
    """Of 5 input rows a pooling with stride 2 and without padding reads 4."""
    b = GraphBuilder()
    graph = b.graph(b.pool(b.input(1, 5, 4, 2)))
    good = with_arrivals(graph, separate_schedule(graph), graph.inputs)
    verify(graph, good)
    assert good.firings[-1] == Firing(node=arrival_of(good), first=4, last=5)
    with pytest.raises(ScheduleFault, match="ran 4 of 5 units") as refusal:
        verify(graph, without_firing(good, len(good.firings) - 1))
    assert refusal.value.rule == "incomplete"


def test_an_input_that_is_listed_twice_cannot_arrive() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 2)
    graph = replace(b.graph(b.unary(x, "relu")), inputs=(x, x))
    with pytest.raises(ScheduleFault, match="no input or two of them"):
        verify(graph, with_arrivals(graph, separate_schedule(graph), [x]))


def test_a_streamed_input_is_never_in_memory_as_a_whole() -> None:
    schedule = streamed()
    assert most_rows_held(schedule, GRAPH.inputs[0]) == 3, "a 3x3 kernel needs three rows of twelve at a time"
    prove_plan(plan_of(GRAPH, schedule))


def test_the_plan_file_says_what_is_streamed() -> None:
    data = write_plan(plan_of(GRAPH, streamed()))
    view = read_plan(data)
    assert view.flags & layout.FLAG_STREAMED
    (port,) = view.inputs
    assert (port.streamed, port.rows, port.row_bytes) == (True, 12, 24)
    assert not any(port.streamed for port in view.outputs)
    lines = list(plan_lines(view))
    assert "flags streamed" in lines
    assert "input int8[1,12,8,3] 't0' streamed" in lines
    (node,) = [line for line in lines if "receive" in line]
    assert node.endswith("receive() 12 units params 0")
    assert not read_plan(write_plan(fit(GRAPH, TIGHT_BYTES))).flags & layout.FLAG_STREAMED


@pytest.mark.parametrize("seed", range(40))
def test_plans_with_arrivals_compute_what_the_untiled_schedule_computes(seed: int) -> None:
    graph = random_graph(seed)
    whole = fit(graph, None).schedule
    schedules = [separate_schedule(graph), whole]
    for sizes in ((whole.pool_bytes[0] // 2,), (whole.pool_bytes[0] // 2, 1 << 20)):
        try:
            schedules.append(fit(graph, *sizes).schedule)
        except DoesNotFit:
            continue
    for schedule in schedules:
        prove_plan(plan_of(graph, with_arrivals(graph, schedule, graph.inputs)), samples=1)
        prove_plan(plan_of(graph, with_arrivals(graph, schedule, graph.inputs, seed)), samples=1)


class Arriving:
    """A scheduler that streams what it is asked to, by way of another."""

    name, summary, version = "arriving", "made for a test", "1"

    def schedule(self, graph: Graph, target: Target, options: ScheduleOptions) -> Schedule:
        without = replace(options, streamed_inputs=())
        found = host().schedulers()["stream"].schedule(graph, target, without)
        return with_arrivals(graph, found, options.streamed_inputs)


def test_arrivals_and_weights_that_are_unpacked_stage_by_stage_go_together() -> None:
    pytest.importorskip("lz4", reason="needs the lz4 package")
    options = PlanOptions(schedule=ScheduleOptions(streamed_inputs=GRAPH.inputs))
    packer = host().compressors()["lz4"]
    plan = plan_compressed(NO_FILE, Lowering(GRAPH), target_of(700, 1 << 20), Arriving(), options, packer)
    assert len(plan.blocks) > 1
    assert plan.schedule.streamed == GRAPH.inputs
    prove_plan(plan)


def two_inputs() -> tuple[Graph, int, int]:
    """Two images, one of them through a convolution, added."""
    b = GraphBuilder()
    x, y = b.input(1, 8, 6, 3), b.input(1, 8, 6, 3)
    return b.graph(b.conv(b.add(b.conv(x, 3), y), 2)), x, y


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_any_of_several_inputs_may_be_streamed(which: tuple[int, ...]) -> None:
    graph, *inputs = two_inputs()
    asked = tuple(inputs[i] for i in which)
    for base in (separate_schedule(graph), fit(graph, 560).schedule):
        for seed in (None, 1, 2, 3):
            plan = plan_of(graph, with_arrivals(graph, base, asked, seed))
            view = read_plan(prove_plan(plan))
            assert [port.streamed for port in view.inputs] == [i in which for i in range(2)]


def test_the_proof_notices_a_row_that_another_row_replaced() -> None:
    """The lowered plan is damaged behind the checker's back: row 2 of the input takes the place of row 1."""
    plan = plan_of(GRAPH, streamed())
    damaged = replace(plan, schedule=a_row_that_arrives_over_one_still_needed(plan.schedule))
    untiled = write_plan(plan_of(GRAPH, separate_schedule(GRAPH)))
    with pytest.raises(ProofFailed):
        prove(CBackend(), write_plan(damaged), untiled, seed="x")


def test_an_input_that_is_an_output_too_arrives_in_one_piece() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 2)
    graph = b.graph(b.unary(x, "relu"), x)
    arriving = with_arrivals(graph, separate_schedule(graph), [x])
    with closing(CBackend().compile(write_plan(plan_of(graph, spread(arriving, 32))))) as compiled:
        data = bytes(range(32))
        assert compiled.run([data])[1] == data
    with pytest.raises(ScheduleFault, match="not in one piece"):
        verify(graph, spread(arriving, 48))


def spread(schedule: Schedule, room_bytes: int) -> Schedule:
    """Lay the rows of the first input out evenly over some room past the end of the fast pool."""
    port = schedule.buffers[schedule.interface[0][1]]
    start, step = schedule.pool_bytes[0], room_bytes // port.rows
    offsets = tuple(start + row * step for row in range(port.rows))
    return replace(with_port(schedule, offsets=offsets), pool_bytes=(start + room_bytes,))


# What was asked for.


class Deaf(Arriving):
    """A scheduler that does not know of streamed inputs."""

    def schedule(self, graph: Graph, target: Target, options: ScheduleOptions) -> Schedule:
        return super().schedule(graph, target, replace(options, streamed_inputs=()))


def test_a_scheduler_that_cannot_stream_is_found_out() -> None:
    options = PlanOptions(schedule=ScheduleOptions(streamed_inputs=GRAPH.inputs))
    with pytest.raises(PluginError, match="cannot stream inputs: t0 would lie in memory as a whole"):
        plan_uncompressed(NO_FILE, Lowering(GRAPH), target_of(None), Deaf(), options)


def test_a_scheduler_that_streams_unasked_is_found_out() -> None:
    with pytest.raises(PluginError, match="streams t0 without being asked"):
        plan_of(GRAPH, streamed(), asked=())


def test_the_scheduler_of_whole_tensors_says_that_it_cannot_stream() -> None:
    with pytest.raises(UsageError, match="scheduler greedy keeps whole tensors"):
        host().schedulers()["greedy"].schedule(GRAPH, target_of(1), ScheduleOptions(streamed_inputs=GRAPH.inputs))


def test_only_the_first_inputs_of_a_plan_can_be_streamed() -> None:
    b = GraphBuilder()
    inputs = [b.input(1, 2, 2, 1) for _ in range(layout.MAX_STREAMED_INPUTS + 1)]
    total = inputs[0]
    for other in inputs[1:]:
        total = b.add(total, other)
    graph = b.graph(total)
    base = separate_schedule(graph)
    prove_plan(plan_of(graph, with_arrivals(graph, base, inputs[:-1])))
    with pytest.raises(PlanError, match=f"input t{inputs[-1]} cannot be streamed: it is not among the first 32"):
        write_plan(plan_of(graph, with_arrivals(graph, base, inputs[-1:])))


def test_a_damaged_plan_whose_arrivals_lead_nowhere_is_refused_by_the_reader() -> None:
    from tiny_plans import arriving_plan

    plan = arriving_plan()
    plan.nodes[0]["first_param"] = 9
    with pytest.raises(PlanError, match="rows arrive for no input or in no buffer"):
        _ = read_plan(plan.file()).inputs
