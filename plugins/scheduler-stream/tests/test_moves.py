"""Operators that only move elements read slow memory where these lie: no budget has to hold what they gather from."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fitting import NO_FILE, fit
from graphs import GraphBuilder, random_graph
from stowplan.build.pareto import traffic_of
from stowplan.build.passes.pads import fold_pads
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.build.prove import prove, separate_schedule
from stowplan.build.verify import verify
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Plan
from stowplan.flow.target import FAST, SLOW, Pool, Target
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler
from stowplan_scheduler_stream.network import Network

MODELS = Path(os.environ.get("STOWPLAN_MODELS", Path(__file__).parents[4] / "shared" / "models"))
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not here")


def run(graph: Graph, plan: Plan) -> int:
    """Prove a plan; return what the run moved from and to slow memory, which must be what the schedule says."""
    truth = make_plan(NO_FILE, Lowering(graph), separate_schedule(graph), PlanOptions())
    metrics = prove(host().backends()["c"], write_plan(plan), write_plan(truth), seed=graph.digest, samples=1)[0]
    moved = (metrics.slow_read_bytes or 0) + (metrics.slow_written_bytes or 0)
    assert moved == traffic_of(plan.schedule)
    return moved


def least_fast(graph: Graph) -> int:
    pools = (Pool(name="fast", size_bytes=None), Pool(name="slow", size_bytes=None))
    schedule = StreamScheduler().schedule(graph, Target(pools=pools), ScheduleOptions(thorough=True))
    verify(graph, schedule)
    assert schedule.lower_bound_bytes is not None
    assert schedule.lower_bound_bytes <= schedule.pool_bytes[FAST]
    return schedule.pool_bytes[FAST]


def test_planes_are_read_where_they_lie() -> None:
    """3x24x16 (1,152 B) -> 24x16x3 (48 B a row) -> conv to 8 channels, stride 2 -> mean: two planes are 768 bytes."""
    b = GraphBuilder(seed=5)
    graph = b.graph(b.mean(b.conv(b.pixels(b.input(1, 3, 24, 16)), 8, stride=(2, 2))))
    plan = fit(graph, 400, None)
    assert len(plan.schedule.regions) == 1
    assert run(graph, plan) == 1152 + 8, "the input is read once, the output written once"
    assert "slow traffic is proven least" in plan.schedule.certificate
    assert least_fast(graph) < 300


def test_a_transposition_in_the_middle_costs_a_spill_and_no_memory() -> None:
    """8x4x8 -> relu -> planes taken for pixels (its rows come from all over) -> conv: 256 B each, four rows 256."""
    b = GraphBuilder(seed=6)
    turned = b.pixels(b.unary(b.input(1, 8, 4, 8), "relu"))
    graph = b.graph(b.mean(b.conv(turned, 4)))
    plan = fit(graph, 260, None)
    assert run(graph, plan) == 3 * 256 + 4


def test_what_is_moved_twice_is_copied_once_where_that_fits() -> None:
    """Two transpositions of one tensor of 192 B: read in place it would be moved twice."""
    b = GraphBuilder(seed=7)
    x = b.input(1, 4, 8, 6)
    graph = b.graph(b.mean(b.add(b.pixels(x), b.pixels(x))), b.mean(x))
    network = Network(graph, 4)
    crossing = network.crossing(range(len(network.steps)), slow=True)
    assert crossing.direct == ()
    assert network.crossing(range(1), slow=True).direct == (graph.inputs[0],)
    whole = fit(graph, None).schedule.pool_bytes[FAST]
    assert run(graph, fit(graph, whole - 8, None)) <= run(graph, fit(graph, least_fast(graph), None))


@pytest.mark.parametrize("seed", [3, 9, 14])
def test_what_fits_at_least_fits_with_more(seed: int) -> None:
    """A joined tensor is read part by part, unless tiles made it: then it has to be put together in fast memory."""
    graph = random_graph(seed)
    least = least_fast(graph)
    moved = [traffic_of(fit(graph, budget, None).schedule) for budget in range(least, least + 24)]
    assert moved == sorted(moved, reverse=True)


def moving_graph(seed: int) -> Graph:
    """A chain of windows, with planes taken for pixels between them, upside down, in halves and joined again."""
    rng = random.Random(seed)
    b = GraphBuilder(seed=seed)
    x = b.input(1, rng.randint(2, 4), rng.randint(4, 9), rng.randint(3, 6))
    x = b.pixels(x) if rng.random() < 0.7 else x
    for _ in range(rng.randint(2, 5)):
        kind = rng.choice(("conv", "conv", "depthwise", "turned", "joined", "relu"))
        if kind == "turned":
            x = b.pixels(x)
        elif kind == "joined":
            x = b.concatenation((x, b.conv(x, b.tensors[x].shape[3], (3, 1))), rng.choice((1, 2, 3)))
        elif kind == "relu":
            x = b.unary(x, "relu")
        else:
            x = b.conv(x, rng.randint(2, 8), (3, 3)) if kind == "conv" else b.depthwise(x, (3, 3))
    return b.graph(b.pixels(x) if rng.random() < 0.5 else b.mean(x), name=f"moving{seed}")


@pytest.mark.parametrize("seed", range(16))
def test_networks_that_move_elements_run_at_any_budget(seed: int) -> None:
    graph = moving_graph(seed)
    whole, least = fit(graph, None).schedule.pool_bytes[FAST], least_fast(graph)
    with pytest.raises(DoesNotFit):
        fit(graph, max(network_bound(graph) - 1, 1), None)
    moved = []
    for budget in range(least, whole + 1, max(1, (whole - least) // 6)):
        plan = fit(graph, budget, None)
        assert plan.schedule.pool_bytes[FAST] <= budget
        moved.append(run(graph, plan))
    assert moved == sorted(moved, reverse=True)


def network_bound(graph: Graph) -> int:
    from stowplan_scheduler_stream.sections import least_tiles_bytes

    return least_tiles_bytes(Network(graph, 4))


@needs_models
@pytest.mark.parametrize(("budget", "sum_bytes"), [(65_536, 387_776), (32_768, 387_776), (16_384, 387_776)])
def test_an_image_of_planes_fits_far_below_itself(budget: int, sum_bytes: int) -> None:
    """MobileNetV2 takes 150,528 bytes of planes; fast and slow memory together stay below the best that is known."""
    model = Model.read(MODELS / "image-cls/xtensa_mobilenet_v2_nchw_int8.tflite")
    graph = fold_pads(host().importer_for(model).load(model, {}))
    plan = fit(graph, budget, None)
    assert plan.schedule.pool_bytes[FAST] <= budget
    assert plan.schedule.pool_bytes[FAST] + plan.schedule.pool_bytes[SLOW] < sum_bytes
