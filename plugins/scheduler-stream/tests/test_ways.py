"""Ways of stretches: as low as when every stretch is searched, within the arithmetic, and the same bytes in the end."""

from __future__ import annotations

import pytest

from graphs import GraphBuilder, random_graph
from stowplan.flow.graph import Graph
from stowplan_scheduler_stream import again, ways
from stowplan_scheduler_stream.again import UNCUT, Cut, Stretches
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.ways import Way, Ways

ANY = 2**40


def blocks() -> Graph:
    """24x24x2 through two separable blocks, the second with stride, and a residual one."""
    b = GraphBuilder()
    x = b.conv(b.input(1, 24, 24, 2), 6)
    x = b.conv(b.depthwise(x), 8, kernel=(1, 1))
    x = b.conv(b.depthwise(x, stride=(2, 2)), 12, kernel=(1, 1))
    y = b.conv(b.depthwise(b.conv(x, 24, kernel=(1, 1))), 12, kernel=(1, 1))
    return b.graph(b.fully_connected(b.mean(b.add(x, y)), 3))


def stretches_of(graph: Graph, factor: float, streamed: bool) -> Stretches:
    return Stretches(Network(graph, 4, graph.entries if streamed else ()), factor)


def searched(stretches: Stretches, limit: int = ANY, searches: int = 100_000) -> Ways:
    return Ways(stretches, limit, searches, Clock(None))


def least_of_all(stretches: Stretches) -> int | None:
    """The least peak of any way, each stretch searched: labels of (work, peak), by the manner of the last cut."""
    count = stretches.count
    labels: list[dict[Cut, list[tuple[int, int]]]] = [{} for _ in range(count + 1)]
    labels[0][UNCUT] = [(0, 0)]
    for first in range(count):
        for last in range(first + 1, count + 1):
            if not stretches.may_end(last, ANY):
                continue
            for stretch, _ in stretches.between(first, last):
                found, exact = stretches.peak_bytes(stretch, ANY)
                cuts = [stretch.cut] if stretch.parts else list(labels[first])
                before = [label for cut in cuts for label in labels[first].get(cut, [])]
                made = {(work + stretch.work, max(peak, found)) for work, peak in before if exact}
                rest = stretches.before[-1] - stretches.before[last]
                kept = [label for label in made if label[0] + rest <= stretches.limit]
                labels[last].setdefault(stretch.cut, []).extend(kept)
        labels[first + 1] = {cut: _front(found) for cut, found in labels[first + 1].items()}
    return min((peak for found in labels[count].values() for _, peak in found), default=None)


def _front(labels: list[tuple[int, int]]) -> list[tuple[int, int]]:
    front: list[tuple[int, int]] = []
    for work, peak in sorted(labels):
        if not front or peak < front[-1][1]:
            front.append((work, peak))
    return front


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "resident"])
@pytest.mark.parametrize("factor", [1.1, 1.5])
def test_few_searches_find_what_searching_everything_finds(
    factor: float, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "COUNTS", (2, 3))
    monkeypatch.setattr(again, "TAPERS", (1.0, 0.8))
    stretches = stretches_of(blocks(), factor, streamed)
    least = least_of_all(stretches)
    assert least is not None
    monkeypatch.setattr(ways, "TRUST", 0.0)
    monkeypatch.setattr(ways, "FINE", ANY)
    exact = searched(stretches).best()
    assert exact is not None and exact.peak_bytes == least
    monkeypatch.setattr(ways, "TRUST", 0.85)
    monkeypatch.setattr(ways, "FINE", 256)
    quick = searched(stretches).best()
    assert quick is not None and least <= quick.peak_bytes <= least * 1.02


@pytest.mark.parametrize("seed", range(6))
def test_ways_keep_to_the_arithmetic_and_the_limit_and_reach_from_end_to_end(seed: int) -> None:
    stretches = stretches_of(random_graph(seed), 1.4, seed % 2 == 0)
    best = searched(stretches).best()
    assert best is not None
    found = searched(stretches, best.peak_bytes)
    assert found.best() is None, "nothing is lower"
    others = searched(stretches).others(best, 4)
    for way in [best, *others]:
        assert_sound(stretches, way)
    assert len({way.stretches for way in [best, *others]}) == 1 + len(others)


def assert_sound(stretches: Stretches, way: Way) -> None:
    ends = [0, *(stretch.last for stretch in way.stretches)]
    assert ends[:-1] == [stretch.first for stretch in way.stretches] and ends[-1] == stretches.count
    assert sum(stretch.work for stretch in way.stretches) <= stretches.limit
    before = UNCUT
    for stretch in way.stretches:
        assert not stretch.parts or stretch.cut == before
        before = stretch.cut
        assert stretches.peak_bytes(stretch, ANY) == (stretches.peak_bytes(stretch, way.peak_bytes + 1)[0], True)


def test_without_searches_or_time_nothing_is_found() -> None:
    stretches = stretches_of(blocks(), 1.2, True)
    assert searched(stretches, searches=0).best() is None
    assert Ways(stretches, ANY, 1000, Clock(0.0)).best() is None
