"""Where to cut the steps into regions so that least goes through slow memory, and then so that regions are few.

What enters a region is reloaded once, what leaves it is spilled once, so a way's cost depends on its cut points alone.
Whether a region fits is dear to find out: the cheapest way is looked for as if everything fitted, its regions are
tried, and what does not fit is not considered again, nor is anything that contains it; until a way stands. Steps that
do not fit together may fit in tiles, which move more: then they are a section (`sections.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.nouns import dataclass
from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.planner import Planner
from stowplan_scheduler_stream.sections import Section, Sections

Cost = tuple[int, int, int]
Steps = tuple[int, int]
Fits = Callable[[int, int], bool]
LONG = 120
"""Steps from which on every start is looked at once instead of the cheapest ways first: those are too many."""
_UNTRIED = object()


@dataclass(frozen=True)
class _Part:
    """A run of steps on a way: one region, or a section of tiles."""

    steps: Steps
    tiled: bool = False


class Cutter:
    """Finds the best way, and the next best once a section on it was refused."""

    def __init__(self, planner: Planner, sections: Sections | None = None) -> None:
        self.planner, self.sections = planner, sections
        self.count = len(planner.network.steps)
        self.placed: dict[Steps, Placed] = {}
        self.tiled: dict[Steps, Section | None] = {}
        self.bounds: dict[Steps, int | None] = {}
        self.costs: dict[Steps, Cost] = {}
        # From step i, regions that reach beyond step `limit[i]` do not fit, nor do sections beyond `tiled_limit[i]`.
        self.limit = [self.count] * self.count
        self.tiled_limit = [sections.reach(i) if sections else i for i in range(self.count)]

    def impossible(self) -> list[Placed]:
        """Return the steps that do not fit by themselves, in tiles or not: then no way does."""
        found = []
        for first in range(self.count):
            if self._fits(first, first + 1):
                continue
            if self.tiled_limit[first] > first:
                self.tiled[first, first + 1] = self.sections.best(first, first + 1) if self.sections else None
            if self.tiled.get((first, first + 1)) is None:
                found.append(self.placed[first, first + 1])
        return found

    def refuse(self, section: Section) -> None:
        assert self.sections is not None
        self.sections.refuse(section)
        del self.tiled[section.steps]

    def keep_whole(self, step: int) -> None:
        """Have no section run a step: a region that reads what it makes needs that in one piece."""
        for start in range(step + 1):
            self.tiled_limit[start] = min(self.tiled_limit[start], step)

    def run(self) -> list[Placed | Section]:
        """Return regions and sections in order."""
        everything = range(self.count)
        joined = self.planner.budget.may_join(self.planner.network, everything)
        if joined and self._fits(0, self.count):
            return [self.placed[0, self.count]]  # inputs are read once, outputs written once: no way moves less
        if self.count > LONG:
            self._reach()
        while True:
            way = self._cheapest()
            untried = [part for part in way if part.steps not in (self.tiled if part.tiled else self.placed)]
            if not untried:
                return [self._chosen(part) for part in way]
            # The longest first: it is the likeliest to fail, and then the others need not be tried.
            for part in sorted(untried, key=lambda part: part.steps[0] - part.steps[1]):
                if self._changes_ways(part):
                    break

    def _changes_ways(self, part: _Part) -> bool:
        """Try a part; say whether the cheapest way may now be another. A step that does not fit by itself stays."""
        if part.tiled:
            self._try_tiled(*part.steps)
            return True
        if self._fits(*part.steps):
            return False
        self._learn(*part.steps)
        return part.steps[1] - part.steps[0] > 1 or self.sections is not None

    def _chosen(self, part: _Part) -> Placed | Section:
        found = self.tiled[part.steps] if part.tiled else self.placed[part.steps]
        assert found is not None
        return found

    def _reach(self) -> None:
        """Find how far regions reach from every step: a part of what fits fits too, so both ends only move on."""
        last = 1
        for first in range(self.count):
            last = _furthest(first, max(last, first + 1), self.count + 1, self._fits)
            self.limit[first] = last

    def _learn(self, first: int, last: int) -> None:
        """Find the shortest region from `first` that fails; none that contains it is tried again."""
        good = _furthest(first, first + 1, last, self._fits)
        for start in range(first, -1, -1):
            if self.limit[start] <= max(good, start + 1):
                break  # those before reach no further
            self.limit[start] = max(good, start + 1)

    def _try_tiled(self, first: int, last: int) -> None:
        """Find out what a section moves at least, and next time whether it fits; if not, none that contains it does."""
        assert self.sections is not None
        if (first, last) not in self.bounds:
            self.bounds[first, last] = self.sections.least_bytes(first, last)
            if self.bounds[first, last] is not None:
                return
        if self.bounds[first, last] is not None:
            self.tiled[first, last] = self.sections.best(first, last)
        if self.tiled.get((first, last)) is None:
            for start in range(first, -1, -1):
                self.tiled_limit[start] = min(self.tiled_limit[start], last - 1)

    def _fits(self, first: int, last: int) -> bool:
        if (first, last) not in self.placed:
            self.placed[first, last] = self.planner.tried(range(first, last))
        return self.planner.budget.holds(self.placed[first, last])

    def _cheapest(self) -> list[_Part]:
        """Return the cheapest way over regions and sections that are not known to fail."""
        best: list[tuple[Cost, _Part | None] | None] = [None] * (self.count + 1)
        best[0] = ((0, 0, 0), None)
        for first in range(self.count):
            start = best[first]
            assert start is not None
            for part in self._from(first):
                step = self._cost(part)
                cost = (start[0][0] + step[0], start[0][1] + step[1], start[0][2] + step[2])
                known = best[part.steps[1]]
                if known is None or cost < known[0]:
                    best[part.steps[1]] = (cost, part)
        return _traced(best)

    def _from(self, first: int) -> Iterator[_Part]:
        for last in range(first + 1, self.limit[first] + 1):
            if last > first + 1 and not self.planner.budget.may_join(self.planner.network, range(first, last)):
                break
            yield _Part((first, last))
        for last in range(first + 1, self.tiled_limit[first] + 1):
            # What fits uncut moves least. Where that is not known yet, it is tried first.
            placed = self.placed.get((first, last))
            failed = placed is not None and not self.planner.budget.holds(placed)
            if (failed or last > self.limit[first]) and self.tiled.get((first, last), _UNTRIED) is not None:
                yield _Part((first, last), tiled=True)

    def _cost(self, part: _Part) -> Cost:
        """Failures, bytes through slow memory, regions; of a section that was not tried yet, the least they may be."""
        if part.steps not in self.costs:
            steps = range(*part.steps)
            crossing = self.planner.network.crossing(steps, slow=True)
            self.costs[part.steps] = (0, self.planner.network.slow_bytes(steps, crossing), 1)
        failures, moved, one = self.costs[part.steps]
        if part.tiled:
            section = self.tiled.get(part.steps)
            return (
                (0, section.moved_bytes, len(section.regions))
                if section
                else (0, self.bounds.get(part.steps) or moved, 2)
            )
        placed = self.placed.get(part.steps)
        if placed is not None and not self.planner.budget.holds(placed):
            failures = 1
        return failures, moved, one


def _furthest(first: int, good: int, bad: int, fits: Fits) -> int:
    """Return the end of the longest run from `first` between one that fits and one that does not."""
    stride = 1
    while bad > good + 1:
        trial = min(good + stride, bad - 1)
        if fits(first, trial):
            good, stride = trial, stride * 2
        else:
            bad, stride = trial, max(1, (trial - good) // 2)
    return good


def _traced(best: list[tuple[Cost, _Part | None] | None]) -> list[_Part]:
    way, last = [], len(best) - 1
    while last > 0:
        entry = best[last]
        assert entry is not None and entry[1] is not None
        way.append(entry[1])
        last = entry[1].steps[0]
    return way[::-1]
