"""Where to cut the steps into regions so that least goes through slow memory, and then so that regions are few.

What enters a region is reloaded once, what leaves it is spilled once. Cut points are joined by regions that fit; the
cheapest way from the first step to the last is a shortest path. Which regions fit only grows with the budget, so
traffic never rises with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.planner import Planner

_PATIENCE = 3
"""How many regions in a row may not fit before longer ones from the same start are given up."""


@dataclass(frozen=True)
class _Way:
    traffic_bytes: int
    regions: int
    tiled: int
    failures: int
    previous: int
    placed: Placed | None

    @property
    def cost(self) -> tuple[int, int, int, int]:
        return self.failures, self.traffic_bytes, self.regions, self.tiled


def cut(planner: Planner) -> list[Placed]:
    """Return regions in order. A single step that does not fit is a region too, and left to the caller to refuse."""
    count = len(planner.network.steps)
    everything = planner.streamed(range(count), slow=True)
    if planner.budget.holds(everything) and planner.budget.may_join(planner.network, range(count)):
        return [everything]  # inputs are read once, outputs written once: no way moves less
    ways: list[_Way | None] = [None] * (count + 1)
    ways[0] = _Way(0, 0, 0, 0, 0, None)
    for first in range(count):
        start = ways[first]
        if start is not None:
            _extend(planner, first, start, ways)
    found, at = [], count
    while at > 0:
        way = ways[at]
        assert way is not None
        assert way.placed is not None
        found.append(way.placed)
        at = way.previous
    return found[::-1]


def _extend(planner: Planner, first: int, start: _Way, ways: list[_Way | None]) -> None:
    missed = 0
    for last in range(first + 1, len(ways)):
        steps = range(first, last)
        if not planner.budget.may_join(planner.network, steps):
            return
        placed = planner.whole(steps, slow=True)
        if not planner.budget.holds(placed):
            placed = planner.streamed(steps, slow=True)
        fits = planner.budget.holds(placed)
        missed = 0 if fits else missed + 1
        if not fits and last > first + 1:
            if missed >= _PATIENCE:
                return
            continue
        moved = sum(planner.network.stuff(t).size_bytes for t in (*placed.crossing.reload, *placed.crossing.spill))
        way = _Way(
            start.traffic_bytes + moved,
            start.regions + 1,
            start.tiled + placed.order.tiled,
            start.failures + (not fits),
            first,
            placed,
        )
        known = ways[last]
        if known is None or way.cost < known.cost:
            ways[last] = way
