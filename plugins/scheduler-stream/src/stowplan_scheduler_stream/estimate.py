"""About how many bytes a run of steps in strips needs, from few multiplications: what to search an order for first.

Rows are made as late as can be: that is near the best order where windows slide over rows, and takes no search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.flow.schedule import Range, Tile
from stowplan.nouns import dataclass
from stowplan_scheduler_stream.network import Network

WHOLE = 32
MOMENTS = (1, 8, 16, 24, 31)
"""How much of its output, in parts of the whole, a run has made when its live rows are counted."""


@dataclass(frozen=True)
class _Moment:
    """Rows made of each tensor of the run, and the first of them that is read again."""

    made: Mapping[int, int]
    kept_from: Mapping[int, int]

    def rows(self, tensor: int) -> int:
        return max(0, self.made[tensor] - self.kept_from[tensor])


class Estimate:
    """What the steps [first, last) of a network need in strips of any kind."""

    def __init__(self, network: Network, first: int, last: int) -> None:
        self.network, self.steps = network, range(first, last)
        self.leaving = network.leaving(self.steps)
        self.entering = network.entering(self.steps)
        self.moments = [self._moment(portion) for portion in MOMENTS]
        through = [t for t in network.alive(first) if t not in self.entering and network.last_use(t) >= last]
        self.beside = sum(network.stuff(t).size_bytes for t in through)

    def peak_bytes(self, strips: Sequence[Sequence[Tile]], parts: bool) -> int:
        """Return about the most bytes alive.

        With `parts` the inputs are there in columns, each of them free once it is read.
        """
        columns = [self._columns(strip) for strip in strips]
        return self.beside + max(self._strip(columns, number, parts) for number in range(len(strips)))

    def _columns(self, strip: Sequence[Tile]) -> dict[int, Range]:
        graph = self.network.graph
        made = ((graph.operators[tile.operator].outputs[0], tile.columns) for tile in strip)
        return {tensor: columns for tensor, columns in made if columns is not None}

    def _strip(self, strips: Sequence[Mapping[int, Range]], number: int, parts: bool) -> int:
        here, network = strips[number], self.network
        made = [network.steps[i].output for i in self.steps]
        row = {t: network.stuff(t).row_bytes * self._share(t, here.get(t)) for t in made}
        before = sum(
            network.stuff(t).size_bytes * self._share(t, strip.get(t, (0, 0))) for strip in strips[:number]
            for t in self.leaving
        )  # fmt: skip
        most = 0.0
        for moment in self.moments:
            inner = sum(moment.rows(t) * row[t] for t in made)
            most = max(most, inner + sum(self._input(t, moment, strips, number, parts) for t in self.entering))
        return int(before + most + max(row.values()))

    def _share(self, tensor: int, columns: Range | None) -> float:
        shape = self.network.graph.tensors[tensor].shape
        return 1.0 if columns is None or len(shape) != 4 else (columns[1] - columns[0]) / shape[2]

    def _input(
        self, tensor: int, moment: _Moment, strips: Sequence[Mapping[int, Range]], number: int, parts: bool
    ) -> float:
        stuff, last = self.network.stuff(tensor), number == len(strips) - 1
        if tensor in self.network.streamed:
            return moment.rows(tensor) * stuff.row_bytes
        if self.network.last_use(tensor) >= self.steps.stop:
            return stuff.size_bytes
        gone = moment.kept_from[tensor] * stuff.row_bytes
        if parts:
            done = number / len(strips)
            return stuff.size_bytes * (1 - done) - gone / len(strips)
        return stuff.size_bytes - (gone if last else 0)

    def _moment(self, portion: int) -> _Moment:
        """Follow what is read backwards from what leaves the run, of which so much is made."""
        network = self.network
        made: dict[int, int] = {}
        kept: dict[int, int] = {}
        for index in reversed(self.steps):
            step = network.steps[index]
            units, rows = made.get(step.output, 0), network.stuff(step.output).rows
            kept.setdefault(step.output, rows)
            if step.output in self.leaving:
                units, kept[step.output] = max(units, -(-step.units * portion // WHOLE)), 0
            elif step.by_input and units:
                units = step.units
            made[step.output] = (rows if units == step.units else 0) if step.by_input else units
            for read in step.reads:
                total = network.stuff(read.tensor).rows
                first = read.first[units] if units < step.units else total
                made[read.tensor] = max(made.get(read.tensor, 0), read.last[units - 1] if units else 0)
                kept[read.tensor] = min(kept.get(read.tensor, total), first)
        return _Moment(made, kept)
