"""One memory, and some arithmetic done more than once: sections in column strips that overlap.

Between sections tensors are whole; within one, a strip's line buffers are as much shorter as the strip is narrower.
Which sections, in how many strips: all ways over cut points are looked at, with the least peak for each amount of
arithmetic that no way beats in both (a label per way worth keeping).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import accumulate, product

from stowplan.build.tiling import can_cut_columns, tiled_graph
from stowplan.build.work import multiplications, operator_multiplications
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Tile
from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.pieces import Piece, search_piece
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.sections import Section
from stowplan_scheduler_stream.strips import column_strips, whole_tiles

COUNTS = (2, 3, 4, 5, 6, 7, 8)
TAPERS = (1.0, 0.8, 0.6, 0.4, 1.25, 1.6, 2.5)
QUICK = Effort(states=500, steps=500_000)


@dataclass(frozen=True)
class Stretch:
    """Steps [first, last) in so many strips (1: uncut), the bytes they need, and the multiplications."""

    first: int
    last: int
    count: int
    taper: float
    peak_bytes: int
    work: int


@dataclass(frozen=True)
class Way:
    """Stretches from the first step on, the peak and the work of all of them."""

    peak_bytes: int
    work: int
    stretches: tuple[Stretch, ...]


class Stretches:
    """All ways through a network that need less than `useless_bytes` and at most `factor` times its arithmetic."""

    def __init__(self, network: Network, factor: float, useless_bytes: int) -> None:
        self.network, self.useless = network, useless_bytes
        self.graph: Graph = network.graph
        self.limit = int(multiplications(network.graph) * factor)
        self.count = len(network.steps)
        self.weights = [operator_multiplications(self.graph, self.graph.operators[s.operator]) for s in network.steps]
        self.before = [0, *accumulate(self.weights)]

    def best(self) -> Way | None:
        """Return the way with the least peak; None when none is better than useless."""
        labels: list[list[Way]] = [[] for _ in range(self.count + 1)]
        labels[0] = [Way(0, 0, ())]
        spare = self.limit - self.before[-1]
        for first in range(self.count):
            if not labels[first]:
                continue
            for last in range(first + 1, self.count + 1):
                if self._waiting(last) >= self.useless or self._divides(last):
                    continue
                for stretch in self._between(first, last, spare):
                    for way in labels[first]:
                        self._add(labels[last], way, stretch)
        return min(labels[self.count], key=lambda way: (way.peak_bytes, way.work), default=None)

    def _add(self, labels: list[Way], way: Way, stretch: Stretch) -> None:
        made = Way(max(way.peak_bytes, stretch.peak_bytes), way.work + stretch.work, (*way.stretches, stretch))
        rest = self.before[-1] - self.before[stretch.last]
        if made.work + rest > self.limit or made.peak_bytes >= self.useless:
            return
        if any(old.peak_bytes <= made.peak_bytes and old.work <= made.work for old in labels):
            return
        labels[:] = [old for old in labels if old.peak_bytes < made.peak_bytes or old.work < made.work]
        labels.append(made)

    def _divides(self, point: int) -> bool:
        """Say whether steps on both sides read a streamed input, which then would have to wait as a whole."""
        network = self.network
        return any(network.first_reader.get(t, point) < point <= network.last_use(t) for t in network.streamed)

    def _waiting(self, point: int) -> int:
        """Return the bytes of tensors that are whole between two stretches."""
        return sum(self.network.stuff(t).size_bytes for t in self._alive(point))

    def _alive(self, point: int) -> list[int]:
        made = [*(t for t in self.network.inputs if t not in self.network.streamed)]
        made += [step.output for step in self.network.steps[:point]]
        return [t for t in made if self.network.last_use(t) >= point]

    def _between(self, first: int, last: int, spare: int) -> Iterator[Stretch]:
        once = self.before[last] - self.before[first]
        peak = self._peak(first, last, [whole_tiles(self._operators(first, last))])
        if peak is not None and peak < self.useless:
            yield Stretch(first, last, 1, 1.0, peak, once)
        for count, taper in product(COUNTS, TAPERS) if self._can_cut(first, last) else ():
            strips = self._strips(first, last, count, taper)
            if strips is None:
                continue
            work = self._work(strips)
            if work - once > spare:
                continue
            peak = self._peak(first, last, strips)
            if peak is not None and peak < self.useless:
                yield Stretch(first, last, count, taper, peak, work)

    def section(self, stretch: Stretch) -> range | Section:
        """Return a stretch as it is laid out: its steps, or the tiles of its strips; inputs arrive for each anew."""
        if stretch.count == 1:
            return range(stretch.first, stretch.last)
        strips = self._strips(stretch.first, stretch.last, stretch.count, stretch.taper)
        assert strips is not None
        if self._arriving(stretch.first, stretch.last):
            strips = [[replace(tile, turn=turn) for tile in strip] for turn, strip in enumerate(strips)]
        return Section((stretch.first, stretch.last), tuple(map(tuple, strips)), 0)

    def _arriving(self, first: int, last: int) -> set[int]:
        """Return the streamed inputs that some steps read."""
        read = {read.tensor for step in self.network.steps[first:last] for read in step.reads}
        return read & self.network.streamed

    def _operators(self, first: int, last: int) -> range:
        """The operators of some steps, with those before each that cost nothing."""
        start = self.network.steps[first - 1].operator + 1 if first else 0
        end = len(self.graph.operators) if last == self.count else self.network.steps[last - 1].operator + 1
        return range(start, end)

    def _can_cut(self, first: int, last: int) -> bool:
        layout = self.network.layout
        steps = self.network.steps[first:last]
        if len(self._operators(first, last)) != len(steps) or last == self.count:
            return False
        operators = [self.graph.operators[step.operator] for step in steps]
        tensors = [t for o in operators for t in (*o.inputs, *o.outputs) if self.graph.is_activation(t)]
        plain = all(layout.form(t) == layout.default(t) and layout.root(t) == t for t in tensors)
        return (
            plain
            and self._may_arrive_again(first, last)
            and all(can_cut_columns(self.graph, operator) for operator in operators)
        )

    def _may_arrive_again(self, first: int, last: int) -> bool:
        """Strips that read what arrives for each of them anew cannot read inputs that do not."""
        arriving = self._arriving(first, last)
        read = {read.tensor for step in self.network.steps[first:last] for read in step.reads}
        return not arriving or not (read & set(self.network.inputs)) - arriving

    def _strips(self, first: int, last: int, count: int, taper: float) -> list[list[Tile]] | None:
        return column_strips(self.graph, self._operators(first, last), count, True, taper)

    def _work(self, strips: list[list[Tile]]) -> int:
        total = 0
        for tile in (tile for strip in strips for tile in strip):
            operator = self.graph.operators[tile.operator]
            width = self.graph.tensors[operator.outputs[0]].shape[2]
            columns = tile.columns or (0, width)
            total += operator_multiplications(self.graph, operator) * (columns[1] - columns[0]) // width
        return total

    def _peak(self, first: int, last: int, strips: list[list[Tile]]) -> int | None:
        """Return what a stretch needs, with the tensors that wait beside it; None when it cannot be."""
        tiles = [tile for strip in strips for tile in strip]
        before = whole_tiles(range(self._operators(first, last).start))
        after = whole_tiles(range(self._operators(first, last).stop, len(self.graph.operators)))
        try:
            tiled = tiled_graph(self.graph, [*before, *tiles, *after])
        except ValueError:
            return None
        start, peak = len(before), 0
        for strip in strips:
            places = range(start, start + len(strip))
            start = places.stop
            found = piece_peak(tiled.graph, tiled.places, places, self.network.alignment_bytes, self.network.streamed)
            if found is None or found >= self.useless:
                return None
            peak = max(peak, found)
        return peak


def piece_peak(
    graph: Graph, places: tuple[int, ...], here: range, alignment_bytes: int, streamed: Collection[int]
) -> int | None:
    """Return the bytes alive at the peak of the operators at some places, waiting tensors included."""
    found = piece_at(graph, places, here, alignment_bytes, streamed, QUICK)
    return None if found is None else found[1]


def piece_at(
    graph: Graph,
    places: tuple[int, ...],
    here: range,
    alignment_bytes: int,
    streamed: Collection[int],
    effort: Effort,
) -> tuple[Piece, int] | None:
    """Return the piece of the operators at some places, and its peak with all that waits beside it."""
    operators = [i for i, place in enumerate(places) if place in here]
    later = _needed_after(graph, operators[-1] + 1) - set(streamed)
    piece = search_piece(graph, operators, later, alignment_bytes, streamed, effort)
    if piece is None:
        return None
    return piece, piece.found.peak_bytes + _waiting_bytes(graph, operators, later, streamed)


def _needed_after(graph: Graph, end: int) -> set[int]:
    """Return the tensors that operators from `end` on read, or that are outputs."""
    read = {t for operator in graph.operators[end:] for t in operator.inputs if graph.is_activation(t)}
    return read | set(graph.outputs)


def _waiting_bytes(graph: Graph, operators: list[int], later: set[int], streamed: Collection[int]) -> int:
    """Return the bytes of tensors that exist before some operators, are needed after them and not touched by them."""
    touched = {t for i in operators for t in (*graph.operators[i].inputs, *graph.operators[i].outputs)}
    there = [t for t in graph.inputs if t not in streamed]
    there += [graph.operators[i].outputs[0] for i in range(operators[0])]
    return sum(graph.tensors[t].size_bytes for t in there if t in later and t not in touched)
