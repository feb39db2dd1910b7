"""The streaming scheduler: what it makes is right at every budget, and smaller than whole tensors."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right

import pytest

from graphs import GraphBuilder, random_graph, small_cnn
from stowplan.build.arena import Box
from stowplan.build.verify import verify
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import FAST, SLOW, Pool, Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.cuts import Cutter
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.packer import Packer, Packing
from stowplan_scheduler_stream.packing import MOST_PAIRS
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.scheduler import WHOLE


def fit(graph, *sizes: int | None, **options: int) -> Schedule:  # type: ignore[no-untyped-def]
    pools = tuple(Pool(name=n, size_bytes=s) for n, s in zip(("fast", "slow"), sizes, strict=False))
    return StreamScheduler().schedule(graph, Target(pools=pools), ScheduleOptions(**options))


@pytest.mark.parametrize("seed", range(80))
def test_every_budget_gives_a_right_schedule_or_a_reason(seed: int) -> None:
    graph = random_graph(seed)
    whole = fit(graph, None)
    verify(graph, whole)
    fits = 0
    for percent in (95, 80, 65, 50, 40, 30, 20, 10):
        budget = max(16, whole.pool_bytes[FAST] * percent // 100)
        for sizes in ((budget,), (budget, 10**6)):
            try:
                schedule = fit(graph, *sizes)
            except DoesNotFit as err:
                assert err.needed_bytes is not None
                assert err.needed_bytes > budget
                continue
            verify(graph, schedule)
            assert schedule.pool_bytes[FAST] <= budget
            fits += 1
    assert fits or whole.pool_bytes[FAST] < 200


def test_a_chain_streams_through_a_few_rows() -> None:
    """64x8x4 int8 through three 3x3 convolutions: whole tensors need two of 2,048 bytes, streaming a few rows each."""
    b = GraphBuilder()
    x = b.input(1, 64, 8, 4)
    graph = b.graph(b.conv(b.conv(b.conv(x, 4), 4), 1, stride=(64, 8)))
    whole, streamed = fit(graph, None), fit(graph, 2400)
    assert whole.pool_bytes[FAST] >= 4096
    assert streamed.regions[0].tiled
    assert len(streamed.regions) == 1


def test_with_slow_memory_the_input_is_reloaded_row_by_row() -> None:
    b = GraphBuilder()
    x = b.input(1, 64, 8, 4)
    graph = b.graph(b.mean(b.conv(b.conv(x, 4), 4)))
    schedule = fit(graph, 400, 10_000)
    verify(graph, schedule)
    assert schedule.pool_bytes[FAST] <= 400
    assert schedule.pool_bytes[SLOW] >= 2048
    assert len(schedule.regions) == 1


def test_a_budget_below_one_tile_names_the_operator_and_the_bytes() -> None:
    with pytest.raises(DoesNotFit) as refusal:
        fit(small_cnn(), 12, 10**6)
    assert "stage" in str(refusal.value)
    assert "CONV_2D" in str(refusal.value)
    assert refusal.value.budget_bytes == 12


def test_too_little_slow_memory_is_said_with_both_numbers() -> None:
    with pytest.raises(DoesNotFit) as refusal:
        fit(small_cnn(), 200, 16)
    assert "slow memory" in str(refusal.value)
    assert "16 B given" in str(refusal.value)


def test_a_limit_on_weights_cuts_stages_without_moving_tensors() -> None:
    graph = small_cnn()
    free, limited = fit(graph, None), fit(graph, None, stage_weight_bytes=200)
    assert len(free.regions) == 1
    assert len(limited.regions) > 1
    assert limited.pool_bytes == free.pool_bytes
    verify(graph, limited)


def test_reserved_bytes_stay_free() -> None:
    graph = small_cnn()
    schedule = fit(graph, None, weights_reserved_bytes=100)
    verify(graph, schedule)
    assert min(o for b in schedule.buffers for o in b.offsets) >= 100


def test_the_same_graph_gives_the_same_schedule() -> None:
    assert fit(random_graph(5), 300, 10**6) == fit(random_graph(5), 300, 10**6)


def test_an_input_that_nobody_reads_has_a_place_all_the_same() -> None:
    b = GraphBuilder()
    x, _ = b.input(1, 8, 8, 2), b.input(1, 4, 4, 4)
    graph = b.graph(b.conv(b.conv(x, 2), 2))
    verify(graph, fit(graph, None))
    verify(graph, fit(graph, 120, 10_000))


def seconds_of_a_chain(length: int) -> float:
    """Pairs of relu and 3x3 convolution on 4x4x4, with room for two operators at a time: processor time."""
    b = GraphBuilder(seed=1)
    x = b.input(1, 4, 4, 4)
    for _ in range(length // 2):
        x = b.conv(b.unary(x, "relu"), 4)
    pools = (Pool(name="fast", size_bytes=76), Pool(name="slow", size_bytes=None))
    graph, start = b.graph(x), time.process_time()
    found = StreamScheduler().schedule(graph, Target(pools=pools), ScheduleOptions())
    assert len(found.regions) > length // 4
    return time.process_time() - start


@pytest.mark.slow
def test_a_chain_four_times_as_long_takes_little_more_than_four_times_as_long() -> None:
    """At a tight budget beside slow memory, where regions are many; the better of two, for the machine is shared."""
    seconds_of_a_chain(60)
    short, long = (min(seconds_of_a_chain(length) for _ in range(2)) for length in (150, 600))
    assert long < 6.5 * short


@pytest.mark.parametrize("percent", [60, 45])
def test_the_ways_of_a_long_chain_are_weighed_a_few_times_whether_it_fits_or_not(
    percent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 operators on 4x4x4; at 45 % of the whole no convolution fits, and each has to be tried."""
    b = GraphBuilder()
    x = b.input(1, 4, 4, 4)
    for _ in range(100):
        x = b.conv(b.unary(x, "relu"), 4)
    graph = b.graph(x)
    weighed = []
    cheapest = Cutter._cheapest
    monkeypatch.setattr(Cutter, "_cheapest", lambda self: weighed.append(self) or cheapest(self))
    budget = fit(graph, None).pool_bytes[FAST] * percent // 100
    if percent == 45:
        with pytest.raises(DoesNotFit):
            fit(graph, budget, None)
    else:
        verify(graph, fit(graph, budget, None))
    assert 1 <= len(weighed) <= 5


def test_seventy_thousand_rows_are_planned_in_seconds() -> None:
    """Rows of a resident input are freed together where there are very many; checker and packer stay linear."""
    b = GraphBuilder()
    x = b.input(1, 70_000, 2, 4)
    graph = b.graph(b.unary(x, "relu"))
    start = time.process_time()
    for sizes in ((None,), (300_000, None)):
        verify(graph, fit(graph, *sizes))
    with pytest.raises(DoesNotFit):
        fit(graph, 600_000)
    assert time.process_time() - start < 60  # it was minutes, and quadratic


def waiting_rows(height: int) -> Graph:
    """Rows that wait for a mean of all: each of 10 tensors is alive as a whole until it is joined again."""
    b = GraphBuilder(seed=2)
    x, kept = b.input(1, height, 2, 4), []
    for channels in (4, 6, 8, 4, 6) * 2:
        x = b.conv(x, channels, (3, 1))
        kept.append(x)
    x = b.add(x, b.pool(x, "average_pool_2d", (height, 2), (1, 1), same=False), "mul")
    for each in reversed(kept):
        x = b.conv(b.concatenation((x, each), 3), 4, (1, 1))
    return b.graph(x)


def test_a_budget_below_the_quick_way_costs_seconds_and_little_memory_with_sixty_thousand_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of rows are alive beside each: the packer gets them some together, not all pairs of them."""
    graph = waiting_rows(1900)
    placed: list[list[Box]] = []
    pack = Packer.pack

    def noted(self: Packer, boxes: list[Box], *rest: int, **named: object) -> Packing:
        placed.append(boxes)
        return pack(self, boxes, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Packer, "pack", noted)
    network = Network(graph, 4)
    greedy = Planner(network, Budget(None), WHOLE, Clock(None)).greedy(range(len(network.steps)), slow=False)
    quick = greedy.packed.height_bytes
    start = time.process_time()
    schedule = fit(graph, quick - 16)
    assert time.process_time() - start < 60
    verify(graph, schedule)
    assert schedule.pool_bytes[FAST] <= quick - 16
    assert placed, "the quick way did"
    for boxes in placed:
        born, gone = sorted(box.first for box in boxes), sorted(box.last for box in boxes)
        pairs = sum(bisect_left(born, box.last) - bisect_right(gone, box.first) - 1 for box in boxes)
        assert pairs <= MOST_PAIRS
