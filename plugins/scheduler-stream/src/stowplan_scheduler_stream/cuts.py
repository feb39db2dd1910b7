"""Where to cut the steps into regions so that least goes through slow memory, and then so that regions are few.

What enters a region is reloaded once, what leaves it is spilled once, so a way's cost depends on its cut points alone.
Whether a region fits is dear to find out: the cheapest way is looked for as if everything fitted, its regions are
tried, and what does not fit is not considered again, nor is anything that contains it; until a way stands.
"""

from __future__ import annotations

from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.network import Crossing
from stowplan_scheduler_stream.planner import Planner

Cost = tuple[int, int, int]
LONG = 120
"""Steps from which on every start is looked at once instead of the cheapest ways first: those are too many."""


def cut(planner: Planner) -> list[Placed]:
    """Return regions in order. A single step that does not fit is a region too, and left to the caller to refuse."""
    return _Cutter(planner).run()


class _Cutter:
    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.count = len(planner.network.steps)
        self.placed: dict[tuple[int, int], Placed] = {}
        self.costs: dict[tuple[int, int], Cost] = {}
        # From step i, regions that reach beyond step `limit[i]` do not fit.
        self.limit = [self.count] * self.count

    def run(self) -> list[Placed]:
        everything = range(self.count)
        joined = self.planner.budget.may_join(self.planner.network, everything)
        if joined and self._fits(0, self.count):
            return [self.placed[0, self.count]]  # inputs are read once, outputs written once: no way moves less
        if self.count > LONG:
            self._reach()
        while True:
            way = self._cheapest()
            untried = [region for region in way if region not in self.placed]
            if not untried:
                return [self.placed[region] for region in way]
            # The longest first: it is the likeliest to fail, and then the others need not be tried.
            untried.sort(key=lambda region: region[0] - region[1])
            failed = next((region for region in untried if not self._fits(*region)), None)
            if failed is None:
                return [self.placed[region] for region in way]  # what fits costs what it was thought to cost
            self._learn(*failed)

    def _reach(self) -> None:
        """Find how far regions reach from every step: a part of what fits fits too, so both ends only move on."""
        last = 1
        for first in range(self.count):
            last = self._furthest(first, max(last, first + 1), self.count + 1)
            self.limit[first] = last

    def _learn(self, first: int, last: int) -> None:
        """Find the shortest region from `first` that fails; none that contains it is tried again."""
        good = self._furthest(first, first + 1, last)
        for start in range(first, -1, -1):
            if self.limit[start] <= max(good, start + 1):
                break  # those before reach no further
            self.limit[start] = max(good, start + 1)

    def _furthest(self, first: int, good: int, bad: int) -> int:
        """Return the end of the longest region from `first` between one that fits and one that does not."""
        stride = 1
        while bad > good + 1:
            trial = min(good + stride, bad - 1)
            if self._fits(first, trial):
                good, stride = trial, stride * 2
            else:
                bad, stride = trial, max(1, (trial - good) // 2)
        return good

    def _fits(self, first: int, last: int) -> bool:
        if (first, last) not in self.placed:
            placed = self.planner.whole(range(first, last), slow=True)
            if not self.planner.budget.holds(placed):
                placed = self.planner.streamed(range(first, last), slow=True)
            self.placed[first, last] = placed
        return self.planner.budget.holds(self.placed[first, last])

    def _cheapest(self) -> list[tuple[int, int]]:
        """Return the cheapest way over regions that are not known to fail."""
        best: list[tuple[Cost, int] | None] = [None] * (self.count + 1)
        best[0] = ((0, 0, 0), 0)
        for first in range(self.count):
            start = best[first]
            assert start is not None
            for last in range(first + 1, self.limit[first] + 1):
                if last > first + 1 and not self.planner.budget.may_join(self.planner.network, range(first, last)):
                    break
                step = self._cost(first, last)
                cost = (start[0][0] + step[0], start[0][1] + step[1], start[0][2] + step[2])
                known = best[last]
                if known is None or cost < known[0]:
                    best[last] = (cost, first)
        return _traced(best)

    def _cost(self, first: int, last: int) -> Cost:
        """Failures, bytes through slow memory, and one region."""
        if (first, last) not in self.costs:
            crossing = self.planner.network.crossing(range(first, last), slow=True)
            self.costs[first, last] = (0, self._bytes(crossing), 1)
        failures, moved, one = self.costs[first, last]
        placed = self.placed.get((first, last))
        if placed is not None and not self.planner.budget.holds(placed):
            failures = 1
        return failures, moved, one

    def _bytes(self, crossing: Crossing) -> int:
        return sum(self.planner.network.stuff(t).size_bytes for t in (*crossing.reload, *crossing.spill))


def _traced(best: list[tuple[Cost, int] | None]) -> list[tuple[int, int]]:
    way, last = [], len(best) - 1
    while last > 0:
        entry = best[last]
        assert entry is not None
        way.append((entry[1], last))
        last = entry[1]
    return way[::-1]
