"""One memory, and some arithmetic done more than once: stretches of steps in column strips that overlap.

Between stretches tensors are whole, or lie in the columns that the strips before have made; within one, a strip's line
buffers are as much shorter as the strip is narrower. `ways.py` chooses among the stretches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from stowplan.build.tiling import CARRIER, TiledGraph, can_cut_columns, tiled_graph
from stowplan.build.work import multiplications, operator_multiplications
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Tile
from stowplan.nouns import NamedTuple, dataclass, replace
from stowplan_scheduler_stream.estimate import Estimate
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.pieces import Piece, search_piece
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.sections import Section
from stowplan_scheduler_stream.strips import column_strips, whole_tiles

COUNTS = (2, 3, 4, 5, 6, 7, 8)
TAPERS = (1.0, 0.8, 0.6, 0.4, 1.25, 1.6, 2.5)
QUICK = Effort(states=500, steps=500_000)
NEVER = 2**62

Strips = Sequence[Sequence[Tile]]


class Cut(NamedTuple):
    """Into how many strips, each so many times as wide as the one before."""

    number: int = 1
    taper: float = 1.0


UNCUT = Cut()


@dataclass(frozen=True)
class Stretch:
    """Steps [first, last) in strips, and the multiplications. `parts`: what it reads lies in the same strips."""

    first: int
    last: int
    cut: Cut
    parts: bool
    work: int


class Stretches:
    """The stretches of a network that do at most `factor` times its arithmetic, and what each of them needs."""

    def __init__(self, network: Network, factor: float) -> None:
        self.network = network
        self.graph: Graph = network.graph
        self.limit = int(multiplications(network.graph) * factor)
        self.count = len(network.steps)
        weights = [operator_multiplications(self.graph, self.graph.operators[s.operator]) for s in network.steps]
        self.before = [0, *accumulate(weights)]
        self._waiting = [self._waiting_bytes(point) for point in range(self.count + 1)]
        self._strips: dict[tuple[int, int, Cut], Strips | None] = {}

    def may_end(self, point: int, limit_bytes: int) -> bool:
        """Say whether what waits between two stretches leaves room for anything else."""
        return self._waiting[point] < limit_bytes

    def _divides(self, point: int) -> bool:
        """Say whether steps on both sides read a streamed input, which then would have to wait as a whole."""
        network = self.network
        return any(network.first_reader.get(t, point) < point <= network.last_use(t) for t in network.streamed)

    def _waiting_bytes(self, point: int) -> int:
        if self._divides(point):
            return NEVER
        return sum(self.network.stuff(t).size_bytes for t in self.network.alive(point))

    def between(self, first: int, last: int) -> Iterator[tuple[Stretch, int]]:
        """Yield the stretches of some steps, and about how many bytes each needs."""
        once = self.before[last] - self.before[first]
        estimate = Estimate(self.network, first, last)
        yield Stretch(first, last, UNCUT, False, once), estimate.peak_bytes([whole_tiles(())], False)
        if not self._can_cut(first, last):
            return
        reads_parts = self._reads_parts(first, last)
        for taper in TAPERS:
            for count in COUNTS:
                strips = self.strips(first, last, cut := Cut(count, taper))
                work = NEVER if strips is None else self._work(strips)
                if strips is None or work - once > self.limit - self.before[-1]:
                    break  # more strips overlap more
                for parts in (False, True) if reads_parts else (False,):
                    yield Stretch(first, last, cut, parts, work), estimate.peak_bytes(strips, parts)

    def strips(self, first: int, last: int, cut: Cut) -> Strips | None:
        """Return the tiles of each strip; None where the steps cannot be cut so."""
        key = (first, last, cut)
        if key not in self._strips:
            operators = self._operators(first, last)
            uncut = [whole_tiles(operators)] if cut == UNCUT else None
            self._strips[key] = uncut or column_strips(self.graph, operators, cut.number, True, cut.taper)
        return self._strips[key]

    def section(self, stretch: Stretch) -> range | Section:
        """Return a stretch as it is laid out: its steps, or the tiles of its strips; inputs arrive for each anew."""
        if stretch.cut == UNCUT:
            return range(stretch.first, stretch.last)
        strips = self.strips(stretch.first, stretch.last, stretch.cut)
        assert strips is not None
        if self._arriving(stretch.first, stretch.last):
            strips = [[replace(tile, turn=turn) for tile in strip] for turn, strip in enumerate(strips)]
        return Section((stretch.first, stretch.last), tuple(map(tuple, strips)), 0)

    def peak_bytes(self, stretch: Stretch, useless_bytes: int) -> tuple[int, bool]:
        """Return what a stretch needs, with the tensors that wait beside it.

        False: it needs at least so much, and that is not less than what is useless; or it cannot be.
        """
        strips = self.strips(stretch.first, stretch.last, stretch.cut)
        assert strips is not None
        before = self._source_tiles(stretch)
        tiles = [*before, *(tile for strip in strips for tile in strip)]
        try:
            tiled = tiled_graph(self._part(stretch), tiles)
        except ValueError:
            return NEVER, False
        later, beside = self._later(stretch, tiled, tiles), self._beside(stretch)
        start, peak = len(before), 0
        for strip in strips:
            here = range(start, start + len(strip))
            start = here.stop
            found = piece_at(tiled, here, later, self.network.alignment_bytes, self.network.streamed, QUICK)
            peak = max(peak, NEVER if found is None else found[1] + beside)
            if peak >= useless_bytes:
                return peak, False
        return peak, True

    def _part(self, stretch: Stretch) -> Graph:
        """Return the graph with what a stretch reads as its inputs; operators keep their numbers."""
        operators = self._operators(stretch.first, stretch.last)
        if stretch.parts:
            operators = range(operators.start - 1, operators.stop)
        made = {self.graph.operators[i].outputs[0] for i in operators}
        read = (t for i in operators for t in self.graph.operators[i].inputs if self.graph.is_activation(t))
        inputs = tuple(dict.fromkeys(t for t in read if t not in made))
        return replace(self.graph, inputs=inputs, outputs=(), states=(), signatures=())

    def _later(self, stretch: Stretch, tiled: TiledGraph, tiles: Sequence[Tile]) -> set[int]:
        """Return the tensors of a stretch's graph that are read after it, or are results."""
        wanted = needed_after(self.graph, self._operators(stretch.first, stretch.last).stop)
        later = wanted & set(tiled.graph.inputs)
        for operator, origin in zip(tiled.graph.operators, tiled.origins, strict=True):
            if origin != CARRIER and self.graph.operators[tiles[origin].operator].outputs[0] in wanted:
                later.add(operator.outputs[0])
        return later

    def _beside(self, stretch: Stretch) -> int:
        """Return the bytes of tensors that are there before a stretch and after it, and that it does not touch."""
        network = self.network
        touched = network.entering(range(stretch.first, stretch.last))
        through = [t for t in network.alive(stretch.first) if network.last_use(t) >= stretch.last]
        return sum(network.stuff(t).size_bytes for t in through if t not in touched)

    def _source_tiles(self, stretch: Stretch) -> list[Tile]:
        """Return the columns in which what a stretch reads was made."""
        if not stretch.parts:
            return []
        source = self.network.steps[stretch.first - 1].operator
        found = column_strips(self.graph, [source], stretch.cut.number, True, stretch.cut.taper)
        return [tile for strip in found or () for tile in strip]

    def _reads_parts(self, first: int, last: int) -> bool:
        """Say whether some steps read what the step before them makes, and nobody reads it later."""
        network = self.network
        if network.entering(range(first, last)) != [network.steps[first - 1].output] or first == 0:
            return False
        source = network.steps[first - 1]
        plain = source.operator + 1 == network.steps[first].operator
        return plain and network.last_use(source.output) < last and self._can_cut(first - 1, first)

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

    def _work(self, strips: Strips) -> int:
        total = 0
        for tile in (tile for strip in strips for tile in strip):
            operator = self.graph.operators[tile.operator]
            width = self.graph.tensors[operator.outputs[0]].shape[2]
            columns = tile.columns or (0, width)
            total += operator_multiplications(self.graph, operator) * (columns[1] - columns[0]) // width
        return total


def piece_at(
    tiled: TiledGraph,
    here: range,
    later: Collection[int],
    alignment_bytes: int,
    streamed: Collection[int],
    effort: Effort,
) -> tuple[Piece, int] | None:
    """Return the piece of the operators at some places, and its peak with all that waits beside it.

    `later` are the tensors that are needed after it, whether they are made by then or not.
    """
    graph = tiled.graph
    operators = [i for i, place in enumerate(tiled.places) if place in here]
    read = {t for operator in graph.operators[operators[-1] + 1 :] for t in operator.inputs if graph.is_activation(t)}
    wanted = (read | set(later)) - set(streamed)
    piece = search_piece(graph, operators, wanted, alignment_bytes, streamed, effort)
    if piece is None:
        return None
    return piece, piece.found.peak_bytes + _waiting_bytes(graph, operators, wanted, streamed)


def needed_after(graph: Graph, end: int) -> set[int]:
    """Return the tensors that operators from `end` on read, or that are outputs."""
    read = {t for operator in graph.operators[end:] for t in operator.inputs if graph.is_activation(t)}
    return read | set(graph.outputs)


def _waiting_bytes(graph: Graph, operators: list[int], later: set[int], streamed: Collection[int]) -> int:
    """Return the bytes of tensors that exist before some operators, are needed after them and not touched by them."""
    touched = {t for i in operators for t in (*graph.operators[i].inputs, *graph.operators[i].outputs)}
    there = [t for t in graph.inputs if t not in streamed]
    there += [graph.operators[i].outputs[0] for i in range(operators[0])]
    return sum(graph.tensors[t].size_bytes for t in there if t in later and t not in touched)
