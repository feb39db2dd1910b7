"""What a network is made of: steps, what each reads, the rows of a tensor, and what crosses a region's borders."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.nouns import dataclass


@dataclass(frozen=True)
class Read:
    """What a step reads of one tensor: unit u reads rows [first[u], last[u])."""

    tensor: int
    position: int
    first: tuple[int, ...]
    last: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One operator that does work (views have vanished). Tensors are named by their roots."""

    operator: int
    name: str
    output: int
    units: int
    by_input: bool
    accumulator_bytes: int
    reads: tuple[Read, ...]
    weight_bytes: int
    carries: bool = False
    """It only moves elements, and may read them where they lie in slow memory."""
    turned: tuple[Read, ...] = ()
    """As `reads`, with the rows of turned inputs by their turn."""


@dataclass(frozen=True)
class Stuff:
    """A root tensor: its rows, and the alignment of each."""

    tensor: int
    rows: int
    row_bytes: int
    alignment_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Crossing:
    """Tensors at a region's borders: reloaded from slow memory, spilled to it, or received from outside.

    `direct` are read in slow memory by steps that carry, and are nowhere in fast memory.
    """

    reload: tuple[int, ...] = ()
    spill: tuple[int, ...] = ()
    receive: tuple[int, ...] = ()
    direct: tuple[int, ...] = ()

    @property
    def slow(self) -> tuple[int, ...]:
        """All tensors that are in slow memory before the region, or after it."""
        return (*self.reload, *self.spill, *self.direct)


def constants_in(steps: Sequence[Step]) -> int:
    """Return the bytes of constants that steps use together."""
    return sum(step.weight_bytes for step in steps)
