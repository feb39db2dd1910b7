"""A way through a network in stretches: the least peak for the arithmetic that may be done.

Below a limit of bytes, the way with the least arithmetic is a shortest path, over stretches that are estimated to need
less. Those on it are searched for what they really need; when all of them keep to the limit it stands, and the limit
comes down by bisection. So only few of the many thousand stretches of a large network are ever searched.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.nouns import dataclass
from stowplan_scheduler_stream.again import UNCUT, Cut, Stretch, Stretches
from stowplan_scheduler_stream.clock import Clock

TRUST = 0.85
"""Estimates are taken for so much of themselves: what needs less than it seems to is not lost."""
LITTLE_MORE = 32
"""Ways that need a part in so many more than the best may be placed lower all the same."""
FINE = 256
"""The search ends when the limit is known to a part in so many."""


@dataclass(frozen=True)
class Way:
    """Stretches from the first step to the last, and the peak of them."""

    peak_bytes: int
    stretches: tuple[Stretch, ...]


@dataclass
class _Edge:
    """A stretch and what it is known to need: at least so much, or exactly."""

    stretch: Stretch
    bytes: int
    exact: bool = False


@dataclass(frozen=True)
class _Step:
    """The least work of a way up to a point whose last stretch is cut in one manner."""

    work: int
    edge: _Edge | None
    before: _Step | None


class Ways:
    """The ways through a network that need less than `useless_bytes`; so many stretches are searched at most."""

    def __init__(self, stretches: Stretches, useless_bytes: int, searches: int, clock: Clock) -> None:
        self.stretches, self.useless, self.searches, self.clock = stretches, useless_bytes, searches, clock
        self.count = stretches.count
        self._left_out: frozenset[Stretch] = frozenset()
        self._edges: dict[tuple[int, int], list[_Edge]] = {}

    def best(self) -> Way | None:
        """Return the way with the least peak that was found; None when none is better than useless."""
        found, low, high = None, 0, self.useless
        while high - low > high // FINE and not self._is_over():
            middle = (low + high) // 2 + 1
            tried = self._below(middle)
            if tried is None:
                low = middle
            else:
                found, high = tried, tried.peak_bytes
        return found if found or self._is_over() else self._below(self.useless)

    def others(self, best: Way, count: int) -> list[Way]:
        """Return up to so many ways that need little more than the best, each without a stretch of one before."""
        limit = best.peak_bytes + best.peak_bytes // LITTLE_MORE
        found, without = [best], [frozenset[Stretch]()]
        for way, left_out in zip(found, without, strict=False):  # both grow
            for stretch in way.stretches:
                if len(found) > count or self._is_over():
                    return found[1:]
                self._left_out = left_out | {stretch}
                other = self._below(limit)
                if other is not None and other not in found:
                    found.append(other)
                    without.append(self._left_out)
        self._left_out = frozenset()
        return found[1:]

    def _is_over(self) -> bool:
        return self.searches <= 0 or self.clock.is_over()

    def _below(self, limit: int) -> Way | None:
        """Return a way that needs less than so many bytes; None when there is none, or no more may be searched."""
        while True:
            edges = self._least_work(limit)
            if edges is None:
                return None
            doubtful = [edge for edge in edges if not edge.exact]
            if not doubtful:
                return Way(max(edge.bytes for edge in edges), tuple(edge.stretch for edge in edges))
            if self._is_over():
                return None
            self._search(max(doubtful, key=lambda edge: edge.bytes), limit)

    def _search(self, edge: _Edge, limit: int) -> None:
        self.searches -= edge.stretch.cut.number
        found, edge.exact = self.stretches.peak_bytes(edge.stretch, limit)
        edge.bytes = found if edge.exact else max(found, limit, edge.bytes)

    def _least_work(self, limit: int) -> list[_Edge] | None:
        """Return the stretches of the way with the least work whose stretches may all need less than the limit."""
        points: list[dict[Cut, _Step]] = [{} for _ in range(self.count + 1)]
        points[0][UNCUT] = _Step(0, None, None)
        most = self.stretches.limit - self.stretches.before[-1]
        for first in range(self.count):
            if not points[first]:
                continue
            least = min(points[first].values(), key=lambda step: step.work)
            for last in range(first + 1, self.count + 1):
                if not self.stretches.may_end(last, limit):
                    continue
                done = self.stretches.before[last]
                for edge in self._between(first, last):
                    stretch = edge.stretch
                    before = points[first].get(stretch.cut) if stretch.parts else least
                    if edge.bytes >= limit or before is None or stretch in self._left_out:
                        continue
                    work, known = before.work + stretch.work, points[last].get(stretch.cut)
                    if work - done <= most and (known is None or work < known.work):
                        points[last][stretch.cut] = _Step(work, edge, before)
        ends = points[self.count].values()
        return list(_traced(min(ends, key=lambda step: step.work))) if ends else None

    def _between(self, first: int, last: int) -> list[_Edge]:
        if (first, last) not in self._edges:
            if self.clock.is_over():
                return []
            found = self.stretches.between(first, last)
            self._edges[first, last] = [_Edge(stretch, int(about * TRUST)) for stretch, about in found]
        return self._edges[first, last]


def _traced(step: _Step) -> Iterator[_Edge]:
    if step.before is not None and step.edge is not None:
        yield from _traced(step.before)
        yield step.edge
