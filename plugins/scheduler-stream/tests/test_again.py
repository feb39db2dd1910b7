"""Arithmetic done twice: smaller peaks within the factor that was asked for, and the same bytes; all plans are run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fitting import NO_FILE, target_of
from graphs import GraphBuilder, random_graph
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.build.prove import prove, separate_schedule
from stowplan.build.verify import ScheduleFault, verify
from stowplan.build.work import multiplications, recompute_factor
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Firing
from stowplan.flow.target import FAST
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler


def least(graph: Graph, factor: float, streamed: bool) -> Plan:
    options = ScheduleOptions(thorough=True, recompute=factor, streamed_inputs=graph.entries if streamed else ())
    return planned(graph, options, None)


def planned(graph: Graph, options: ScheduleOptions, size: int | None) -> Plan:
    schedule = StreamScheduler().schedule(graph, target_of(size), options)
    return make_plan(NO_FILE, Lowering(graph), schedule, PlanOptions(schedule=options))


def run(graph: Graph, plan: Plan) -> bytes:
    truth = make_plan(NO_FILE, Lowering(graph), separate_schedule(graph), PlanOptions())
    data = write_plan(plan)
    prove(host().backends()["c"], data, write_plan(truth), seed=graph.digest, samples=1)
    return data


def tower() -> Graph:
    """32x32x2 through five 3x3 convolutions of 8 channels, the last two with stride: line buffers are what it needs."""
    b = GraphBuilder()
    x = b.input(1, 32, 32, 2)
    for stride in (1, 1, 1, 2, 2):
        x = b.conv(x, 8, stride=(stride, stride))
    return b.graph(b.fully_connected(b.mean(x), 3))


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "resident"])
@pytest.mark.parametrize("seed", range(5))
def test_more_arithmetic_needs_no_more_memory_and_stays_within_its_factor(seed: int, streamed: bool) -> None:
    graph = random_graph(seed)
    once = least(graph, 1.0, streamed)
    for factor in (1.5,):
        plan = least(graph, factor, streamed)
        assert plan.schedule.pool_bytes[FAST] <= once.schedule.pool_bytes[FAST]
        assert recompute_factor(graph, plan.graph) <= factor
        run(graph, plan)


def test_a_tower_needs_less_when_its_input_arrives_several_times() -> None:
    graph = tower()
    once, twice = least(graph, 1.0, True), least(graph, 1.5, True)
    assert twice.schedule.pool_bytes[FAST] < once.schedule.pool_bytes[FAST] * 0.85
    assert 1 < recompute_factor(graph, twice.graph) <= 1.5
    (port,) = read_plan(run(graph, twice)).inputs
    assert port.turns > 1
    (port,) = read_plan(run(graph, once)).inputs
    assert port.turns == 1


def test_a_budget_between_is_met_only_with_the_factor() -> None:
    graph = tower()
    low, high = (least(graph, f, True).schedule.pool_bytes[FAST] for f in (1.5, 1.0))
    options = ScheduleOptions(streamed_inputs=graph.entries)
    with pytest.raises(DoesNotFit):
        planned(graph, options, (low + high) // 2)
    plan = planned(graph, replace(options, recompute=1.5), (low + high) // 2)
    assert plan.schedule.tiles
    run(graph, plan)


def test_an_input_that_two_stretches_read_does_not_arrive_again() -> None:
    """The bypass reads the input at the end: what arrives for strips anew would be gone by then."""
    b = GraphBuilder()
    x = b.input(1, 16, 16, 4)
    y = b.conv(b.conv(x, 8), 4)
    graph = b.graph(b.mean(b.add(y, x)))
    for factor in (1.0, 2.0):
        run(graph, least(graph, factor, True))


def test_rows_that_arrive_again_too_early_or_elsewhere_are_found() -> None:
    graph = tower()
    schedule = least(graph, 1.5, True).schedule
    verify(graph, schedule)
    arrivals = [i for i, node in enumerate(schedule.nodes) if node.is_arrival]
    again = arrivals[1]
    firings = [f for f in schedule.firings if f.node != again]
    units = schedule.nodes[again].units
    early = replace(schedule, firings=(*(Firing(node=again, first=r, last=r + 1) for r in range(units)), *firings))
    with pytest.raises(ScheduleFault, match="before all have arrived"):
        verify(graph, early)
    slower = list(schedule.buffers)
    index = schedule.nodes[again].output
    slower[index] = replace(slower[index], accumulator=True)
    with pytest.raises(ScheduleFault):
        verify(graph, replace(schedule, buffers=tuple(slower)))
    first = replace(schedule.nodes[arrivals[0]], output=index)
    nodes = (*schedule.nodes[: arrivals[0]], first, *schedule.nodes[arrivals[0] + 1 :])
    with pytest.raises(ScheduleFault, match="without a first turn, or twice"):
        verify(graph, replace(schedule, nodes=nodes))


def test_arithmetic_is_counted_by_hand() -> None:
    b = GraphBuilder()
    x = b.depthwise(b.conv(b.input(1, 4, 4, 2), 3), multiplier=2)
    graph = b.graph(b.fully_connected(b.mean(x), 5))
    assert multiplications(graph) == 4 * 4 * 3 * 9 * 2 + 4 * 4 * 6 * 9 + 5 * 6
