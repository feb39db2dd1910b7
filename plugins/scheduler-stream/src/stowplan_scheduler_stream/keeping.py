"""What one run leaves to the next, made where the last one's lies: which states can be, and what has to wait for that.

A state's `before` is read by some steps, its `after` is written by one, the writer. The writer may fill the place of
`before` row by row where nobody reads a row any more: other steps that read it come first, each as far as it has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.flow.operators import IN_PLACE
from stowplan.nouns import dataclass
from stowplan_scheduler_stream.steps import Crossing, Read, Step

if TYPE_CHECKING:
    from stowplan_scheduler_stream.network import Network


@dataclass(frozen=True)
class Kept:
    """A state as root tensors. Before the writer's unit u, `waits` tell how many rows other steps must have made.

    `by_rows` says that both are cut into the same rows.
    """

    before: int
    after: int
    waits: tuple[Read, ...]
    by_rows: bool

    def fits(self, crossing: Crossing) -> bool:
        """Say whether the last value is in fast memory as long as it is read: all of it, or row by row."""
        return not crossing.slow or (self.by_rows and self.before in crossing.reload)


def kept_in_place(network: Network) -> dict[int, Kept]:
    """Return the states whose next value can take the place of the last one, by the writer's output."""
    layout, found = network.layout, {}
    exits = {layout.root(tensor) for tensor in network.graph.exits}
    for state in network.graph.states:
        before, after = layout.root(state.before), layout.root(state.after)
        alone = before == state.before and before not in exits and after in network.maker and after not in found
        waits = _waits(network, before, network.maker[after]) if alone else None
        if waits is not None and _alike(network, before, after):
            by_rows = network.stuff(before).rows == network.stuff(after).rows
            found[after] = Kept(before, after, waits, by_rows)
    return found


def _alike(network: Network, before: int, after: int) -> bool:
    old, new = network.stuff(before), network.stuff(after)
    return (old.size_bytes, old.alignment_bytes) == (new.size_bytes, new.alignment_bytes)


def _waits(network: Network, before: int, writer: int) -> tuple[Read, ...] | None:
    """Return what the writer waits for; None where somebody reads a row when it is overwritten, or after that."""
    step, rows = network.steps[writer], network.stuff(before).rows
    there = tuple(_until(network, step, before, range(1, rows + 1)))
    found = [Read(before, -1, there, there)]  # a row that comes from slow memory must not come over its successor
    for index in range(network.last_reader.get(before, -1) + 1):
        reader = network.steps[index]
        for read in reader.reads:
            if read.tensor != before:
                continue
            until = _until(network, step, before, _last_units(read, rows))
            if index > writer:
                return None
            if index < writer:
                made = tuple(_rows_made(network, reader, count) for count in until)
                found.append(Read(reader.output, -1, made, made))
            elif any(count > unit + _writes_over(network, step, read) for unit, count in enumerate(until)):
                return None
    return tuple(found)


def _last_units(read: Read, rows: int) -> list[int]:
    """Return for each row how many units of its reader have run when the last one that reads it has."""
    last = [0] * rows
    spans = list(zip(read.first, read.last, strict=True))
    for unit, span in enumerate(spans):
        if unit + 1 == len(spans) or spans[unit + 1] != span:
            last[slice(*span)] = [unit + 1] * (span[1] - span[0])
    return last


def _until(network: Network, writer: Step, before: int, last: Sequence[int]) -> list[int]:
    """Return for each unit of the writer the units of a reader that come before what it overwrites is free."""
    if writer.by_input:
        return [0] * (writer.units - 1) + [max(last)]
    old, new = network.stuff(before).row_bytes, network.stuff(writer.output).row_bytes
    return [max(last[unit * new // old : -(-(unit + 1) * new // old)]) for unit in range(writer.units)]


def _rows_made(network: Network, reader: Step, units: int) -> int:
    """Return the rows of a step's output that exist after so many units, at least."""
    if reader.by_input:
        return network.stuff(reader.output).rows if units else 0
    return units


def _writes_over(network: Network, step: Step, read: Read) -> int:
    """Return 1 where a step may write a row over the one that it reads for it, else 0."""
    operator = network.graph.operators[step.operator]
    return int(IN_PLACE.get(operator.kind) == read.position and network.stuff(read.tensor).rows == step.units)
