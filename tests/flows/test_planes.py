"""Models that take planes and transpose them at once: lines of the planes go as soon as they are read."""

from __future__ import annotations

import pytest

from fitting import fit, fit_and_prove, prove_plan
from graphs import GraphBuilder
from stowplan.flow.graph import Graph
from stowplan.flow.target import Pool, Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler


def planes(seed: int, dtype: str = "int8", height: int = 12) -> Graph:
    """3xHx8 -> Hx8x3 -> conv stride 2 -> conv stride 2 -> pool to 4 channels."""
    b = GraphBuilder(dtype, seed)
    y = b.conv(b.pixels(b.input(1, 3, height, 8)), 4, stride=(2, 2))
    return b.graph(b.mean(b.conv(y, 4, stride=(2, 2))))


def pixels(seed: int, height: int = 12) -> Graph:
    b = GraphBuilder(seed=seed)
    y = b.conv(b.input(1, height, 8, 3), 4, stride=(2, 2))
    return b.graph(b.mean(b.conv(y, 4, stride=(2, 2))))


def test_planes_need_as_few_live_bytes_as_pixels() -> None:
    target, options = Target(pools=(Pool(name="fast", size_bytes=None),)), ScheduleOptions(thorough=True)
    one, other = (StreamScheduler().schedule(graph, target, options) for graph in (planes(1), pixels(1)))
    copied = 8 * 3  # the row of pixels that the convolution reads is beside the planes
    assert one.lower_bound_bytes is not None
    assert other.lower_bound_bytes is not None
    assert other.lower_bound_bytes <= one.lower_bound_bytes <= other.lower_bound_bytes + 3 * copied


@pytest.mark.parametrize("seed", range(6))
def test_plans_of_planes_are_right_at_every_budget(seed: int) -> None:
    proven, _ = fit_and_prove(planes(seed, "float32" if seed == 5 else "int8", height=9 + seed), budgets=6)
    assert proven > 1


def test_two_readers_of_planes_are_right() -> None:
    b = GraphBuilder(seed=3)
    x = b.input(1, 3, 8, 8)
    y = b.add(b.conv(b.pixels(x), 4), b.conv(b.pixels(x), 4))
    graph = b.graph(b.mean(y))
    for size in (None, 700):
        prove_plan(fit(graph, size, None))
