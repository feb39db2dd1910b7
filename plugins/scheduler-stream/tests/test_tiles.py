"""With slow memory, steps that do not fit by whole rows run in column strips or channel groups; all plans are run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fitting import NO_FILE, target_of
from graphs import GraphBuilder, random_graph
from stowplan.build.pareto import traffic_of
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.build.prove import prove, separate_schedule
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Plan
from stowplan.flow.target import FAST
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget
from stowplan_scheduler_stream.scheduler import PART
from stowplan_scheduler_stream.spilling import spilling

MODELS = Path(os.environ.get("STOWPLAN_MODELS", Path(__file__).parents[4] / "shared" / "models"))
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not here")


def planned(graph: Graph, *sizes: int | None) -> Plan:
    schedule = StreamScheduler().schedule(graph, target_of(*sizes), ScheduleOptions())
    return make_plan(NO_FILE, Lowering(graph), schedule, PlanOptions())


def run(graph: Graph, plan: Plan) -> int:
    """Prove a plan against the graph as it was; return what the run moved from and to slow memory."""
    truth = make_plan(NO_FILE, Lowering(graph), separate_schedule(graph), PlanOptions())
    metrics = prove(host().backends()["c"], write_plan(plan), write_plan(truth), seed=graph.digest, samples=1)[0]
    return (metrics.slow_read_bytes or 0) + (metrics.slow_written_bytes or 0)


def smallest_by_rows(graph: Graph) -> int:
    """The fast memory that the hungriest step needs without tiles."""
    return spilling(Network(graph, 4), Budget(None), PART, Clock(None), tiles=False).height_bytes


def hungriest_step(graph: Graph) -> int:
    network = Network(graph, 4)
    low, high = 1, smallest_by_rows(graph)
    while low < high:
        middle = (low + high) // 2
        fits = spilling(network, Budget(middle), PART, Clock(None), tiles=False).height_bytes <= middle
        low, high = (low, middle) if fits else (middle + 1, high)
    return low


@pytest.mark.parametrize("seed", range(30))
def test_what_does_not_fit_by_rows_fits_in_tiles_or_is_refused(seed: int) -> None:
    graph = random_graph(seed)
    least = hungriest_step(graph)
    for budget in (least - 1, least * 3 // 4, least // 2):
        try:
            plan = planned(graph, budget, None)
        except DoesNotFit as err:
            assert err.needed_bytes is not None
            assert err.needed_bytes > budget
            continue
        assert plan.schedule.tiles
        assert plan.schedule.pool_bytes[FAST] <= budget
        assert run(graph, plan) == traffic_of(plan.schedule)


def test_a_row_of_many_channels_is_cut_into_groups() -> None:
    """3x3x64 through a depthwise convolution: three rows in and one out are 768 bytes, of 8 channels an eighth."""
    b = GraphBuilder()
    pooled = b.pool(b.depthwise(b.unary(b.input(1, 3, 3, 64), "relu")), "max_pool_2d", (3, 3), (1, 1), same=False)
    graph = b.graph(b.fully_connected(pooled, 4))
    plan = planned(graph, 330, None)
    assert any(tile.channels for tile in plan.schedule.tiles)
    run(graph, plan)


def test_a_fully_connected_operator_is_cut_into_groups_of_outputs() -> None:
    b = GraphBuilder()
    hidden = b.fully_connected(b.input(1, 64), 256)
    graph = b.graph(b.softmax(b.fully_connected(hidden, 4)))
    plan = planned(graph, 64 + 256 - 20, None)
    assert any(tile.channels for tile in plan.schedule.tiles)
    run(graph, plan)


def test_without_slow_memory_nothing_is_cut() -> None:
    graph = random_graph(3)
    with pytest.raises(DoesNotFit):
        planned(graph, hungriest_step(graph) - 1)


@needs_models
@pytest.mark.parametrize(
    ("file", "budget", "tigris"),
    [
        ("vww-person/mlperf_vww_int8.tflite", 4096, 441_794),
        ("vww-person/tflm_person_detect_int8.tflite", 4096, 405_698),
        ("image-cls/mlperf_resnet8_int8.tflite", 4096, 302_858),
        ("vww-person/mlperf_vww_int8.tflite", 8192, 354_146),
        ("vww-person/tflm_person_detect_int8.tflite", 8192, 235_778),
    ],
)
def test_slow_traffic_is_at_most_a_quarter_of_that_of_tigris(file: str, budget: int, tigris: int) -> None:
    model = Model.read(MODELS / file)
    graph = host().importer_for(model).load(model, {})
    plan = planned(graph, budget, None)
    assert run(graph, plan) == traffic_of(plan.schedule) <= tigris // 4


@needs_models
def test_a_budget_below_one_row_is_enough() -> None:
    """Rows of this network have 768 bytes; one operator needs four of them at least."""
    model = Model.read(MODELS / "vww-person/mlperf_vww_int8.tflite")
    graph = host().importer_for(model).load(model, {})
    run(graph, planned(graph, 700, None))
