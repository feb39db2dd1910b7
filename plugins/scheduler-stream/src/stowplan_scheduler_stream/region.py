"""One region: a run of steps fired row by row, or each at once, and how long every row must stay in memory.

Inside a region each tensor has one fast buffer. Tensors that enter are reloaded from slow memory row by row, tensors
that leave are spilled row by row, unless they are *resident*: then they are in fast memory for the whole region.
What a run leaves to the next is made where it can in the place of what it found: it has no life of its own there, but
lengthens the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.keeping import Kept
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.steps import Crossing, Read

RELOAD, SPILL, RECEIVE = -1, -2, -3
"""In place of a step's index: a node that copies a tensor's rows from or to slow memory, or takes them from outside."""
NOWHERE = -1
"""Over no other tensor: a place of its own."""


@dataclass(frozen=True)
class Work:
    """A node of the region: a step, a reload or a spill of `tensor`.

    What a run leaves to the next may be made `over` what it found: in the place of this tensor.
    """

    step: int
    tensor: int
    units: int
    by_input: bool
    accumulator_bytes: int
    reads: tuple[Read, ...]
    over: int = NOWHERE


@dataclass(frozen=True)
class Span:
    """The rows of one tensor over time: row r is written at step first[r] and last read before last[r]."""

    tensor: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    accumulator_of: int = -1


@dataclass(frozen=True)
class RegionOrder:
    """Firings (work index, first unit, last unit) in order, and the life of every row in fast memory."""

    works: tuple[Work, ...]
    firings: tuple[tuple[int, int, int], ...]
    spans: tuple[Span, ...]
    tiled: bool

    @cached_property
    def brought(self) -> frozenset[int]:
        """Tensors whose rows come into fast memory one by one: reloaded or received."""
        return frozenset(work.tensor for work in self.works if work.step in (RELOAD, RECEIVE))

    @cached_property
    def crossing(self) -> frozenset[int]:
        """Tensors that are in slow memory as well, before or after the region."""
        return frozenset(work.tensor for work in self.works if work.step in (RELOAD, SPILL))


def order_region(
    network: Network, steps: range, crossing: Crossing, tiled: bool, order: Sequence[int] | None = None
) -> RegionOrder:
    """Order the steps of a region.

    `order` says which work runs each time, one entry per unit; without it, the deepest that can.
    """
    works = region_works(network, steps, crossing)
    if order is not None:
        firings = _counted(works, order)
    else:
        firings = _row_by_row(network, works) if tiled else [(i, 0, work.units) for i, work in enumerate(works)]
    spans = _spans(network, works, firings, entering_region(network, steps, crossing), steps)
    return RegionOrder(tuple(works), tuple(firings), tuple(spans), tiled)


def entering_region(network: Network, steps: range, crossing: Crossing) -> list[int]:
    """Return the tensors that lie in fast memory when the region starts."""
    elsewhere = {*crossing.reload, *crossing.receive, *crossing.direct}
    entering = [t for t in network.entering(steps) if t not in elsewhere]
    # Where nothing is in slow memory, inputs that no step reads are in fast memory as well.
    return entering if crossing.slow else [*entering, *network.unread]


def _counted(works: Sequence[Work], order: Sequence[int]) -> list[tuple[int, int, int]]:
    done = [0] * len(works)
    firings = []
    for index in order:
        firings.append((index, done[index], done[index] + 1))
        done[index] += 1
    return firings


def region_works(network: Network, steps: range, crossing: Crossing) -> list[Work]:
    """Return the nodes of a region in an order in which each finds its inputs."""
    works: list[Work] = []
    for kind, tensors in ((RELOAD, crossing.reload), (RECEIVE, crossing.receive)):
        for tensor in tensors:
            works.append(Work(kind, tensor, network.stuff(tensor).rows, False, 0, ()))
            works += _spill(network, tensor) if kind == RECEIVE and tensor in crossing.spill else []
    for index in steps:
        step = network.steps[index]
        # Rows that are copied into fast memory come one after another; those that lie there go in any turn.
        reads = step.reads if {*crossing.reload, *crossing.receive} & network.turns.keys() else step.turned
        reads = tuple(read for read in reads if read.tensor not in crossing.direct)
        works.append(Work(index, step.output, step.units, step.by_input, step.accumulator_bytes, reads))
        works += _spill(network, step.output) if step.output in crossing.spill else []
    for kept in network.kept.values():
        works = _over(works, kept) if network.maker[kept.after] in steps and kept.fits(crossing) else works
    return works


def _over(works: Sequence[Work], kept: Kept) -> list[Work]:
    """Let a state's next value be made over its last; where that was reloaded, who reads the one needs the other."""
    made = {work.tensor for work in works}
    waits = tuple(read for read in kept.waits if read.tensor in made)
    changed = []
    for work in works:
        also = tuple(replace(r, tensor=kept.before, position=-1) for r in work.reads if r.tensor == kept.after)
        if work.step >= 0 and work.tensor == kept.after:
            work = replace(work, over=kept.before, reads=work.reads + waits)
        changed.append(replace(work, reads=work.reads + also) if kept.before in made else work)
    return changed


def _spill(network: Network, tensor: int) -> list[Work]:
    rows = network.stuff(tensor).rows
    read = Read(tensor, 0, tuple(range(rows)), tuple(range(1, rows + 1)))
    return [Work(SPILL, tensor, rows, False, 0, (read,))]


def _row_by_row(network: Network, works: Sequence[Work]) -> list[tuple[int, int, int]]:
    """Always fire the deepest node that has what it needs and whose rows are wanted: they are used up at once.

    Progress: follow what is wanted from a last node upwards; it ends at a node whose inputs are complete.
    """
    return _Greedy(network, works).run()


def _running_maximum(values: Sequence[int]) -> list[int]:
    found, top = [], 0
    for value in values:
        top = max(top, value)
        found.append(top)
    return found


class _Greedy:
    """A search for the deepest node that goes on where it was after each firing, instead of from the end again."""

    def __init__(self, network: Network, works: Sequence[Work]) -> None:
        self.network, self.works = network, works
        self.makers = {work.tensor: i for i, work in enumerate(works) if work.step != SPILL}
        self.done = [0] * len(works)
        self.rows_of = dict.fromkeys(self.makers, 0)
        self.needs = [
            [(read.tensor, _running_maximum(read.last)) for read in work.reads if read.tensor in self.makers]
            for work in works
        ]
        fed = {tensor for needs in self.needs for tensor, _ in needs}
        self.wanted = [int(work.step == SPILL or work.tensor not in fed) for work in works]
        self.waiting: list[tuple[int, list[int]]] = []  # nodes that miss something, deepest first, and who makes it

    def run(self) -> list[tuple[int, int, int]]:
        firings, at = [], len(self.works) - 1
        for _ in range(sum(work.units for work in self.works)):
            index = self._deepest(at)
            firings.append((index, self.done[index], self.done[index] + 1))
            self._fire(index)
            at = self._back(index)
        return firings

    def _deepest(self, at: int) -> int:
        """Return the deepest node from `at` on that is wanted and has what it needs."""
        for index in range(at, -1, -1):
            unit = self.done[index]
            if not self.wanted[index] or unit == self.works[index].units:
                continue
            missing = [self.makers[t] for t, rows in self.needs[index] if self.rows_of[t] < rows[unit]]
            if not missing:
                return index
            self.waiting.append((index, missing))
            for maker in missing:
                self.wanted[maker] += 1
        # Only rows that nobody reads are left (below a stride, say): finish them from the front, inputs come first.
        return next(index for index, work in enumerate(self.works) if self.done[index] < work.units)

    def _fire(self, index: int) -> None:
        work = self.works[index]
        self.done[index] += 1
        if work.step != SPILL:
            complete = self.done[index] == work.units
            whole = self.network.stuff(work.tensor).rows if complete else 0
            self.rows_of[work.tensor] = whole if work.by_input else self.done[index]

    def _back(self, index: int) -> int:
        """Return where to look next: at the deepest node that missed what was just made. Those after it ask again."""
        deepest = next((node for node, missing in self.waiting if index in missing), index)
        while self.waiting and self.waiting[-1][0] <= deepest:
            for maker in self.waiting.pop()[1]:
                self.wanted[maker] -= 1
        return deepest


def _spans(
    network: Network,
    works: Sequence[Work],
    firings: Sequence[tuple[int, int, int]],
    entering: Sequence[int],
    steps: range,
) -> list[Span]:
    """Return the life of every row, in steps that count the region's firings from 0."""
    first: dict[int, list[int]] = {}
    last: dict[int, list[int]] = {}
    for tensor in [*entering, *(w.tensor for w in works)]:
        first.setdefault(tensor, [-1] * network.stuff(tensor).rows)
        last.setdefault(tensor, [0] * network.stuff(tensor).rows)
    for step, (index, begin, end) in enumerate(firings):
        work = works[index]
        if work.step != SPILL:
            _mark_written(work, begin, end, step, first[work.tensor], last[work.tensor])
        for read in work.reads:
            ends = last[read.tensor]
            for low, high in zip(read.first[begin:end], read.last[begin:end], strict=True):
                for row in range(low, high):
                    ends[row] = step + 1
    accumulators = [_accumulator(i, works, firings) for i, work in enumerate(works) if work.accumulator_bytes]
    spilled = {w.tensor for w in works if w.step == SPILL}
    received = [work.tensor for work in works if work.step == RECEIVE and work.tensor in network.outputs]
    for tensor in (*network.leaving(steps), *received):
        if tensor not in spilled:
            last[tensor] = [len(firings)] * len(last[tensor])
    written = {w.tensor for w in works if w.step != SPILL}
    for tensor in entering:
        if tensor not in written:
            first[tensor] = [0] * len(first[tensor])
            if tensor in network.outputs:
                last[tensor] = [len(firings)] * len(last[tensor])
    own = first.keys() - {work.tensor for work in works if work.over != NOWHERE}
    return [Span(t, tuple(first[t]), tuple(last[t])) for t in first if t in own] + [
        a for a in accumulators if a is not None
    ]


def _mark_written(work: Work, begin: int, end: int, step: int, first: list[int], last: list[int]) -> None:
    rows = range(begin, end)
    if work.by_input:
        rows = range(len(first)) if end == work.units else range(0)
    for row in rows:
        first[row] = step
        last[row] = max(last[row], step + 1)  # a row nobody reads still needs its place while it is written


def _accumulator(index: int, works: Sequence[Work], firings: Sequence[tuple[int, int, int]]) -> Span | None:
    """Partial sums live from the node's first firing to its last; a node that runs at once has none."""
    when = [step for step, firing in enumerate(firings) if firing[0] == index]
    if len(when) == 1:
        return None
    return Span(works[index].tensor, (when[0],), (when[-1] + 1,), accumulator_of=works[index].step)
