"""When each operator runs for which rows, and where each row lives.

A *buffer* is one place a tensor's rows are kept: `rows` segments of `row_bytes` each, every one with its own offset in
one pool. A tensor has a buffer for each stay in a memory: one in slow memory if it is spilled, one in fast memory
for each region that reads it. A *node* fills one buffer: an operator, or a copy between pools (spill, reload). A
*firing* runs a node for the units [first, last): rows of its output, or rows of its input where it accumulates.
Everything else (rings, in place, stages, spills) is an order of firings plus an offset per segment.
"""

from __future__ import annotations

from stowplan.flow.target import Target
from stowplan.nouns import dataclass

NONE = -1
"""No buffer: an input that is a constant or absent, or a node without an accumulator."""


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """`offsets[r]` is where row r lies in its pool, in bytes.

    `tensor` is the graph's tensor index, `accumulator` marks the 32-bit partial sums of a node that runs by input rows.
    """

    tensor: int
    pool: int
    rows: int
    row_bytes: int
    offsets: tuple[int, ...]
    accumulator: bool = False

    @property
    def size_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, kw_only=True)
class Node:
    """Fills `output` from `inputs` (buffer indices in the order of the operator's inputs, NONE for constants).

    `operator` is the graph's operator index, or None for a copy from another buffer of the same tensor, or, without
    inputs, for the arrival of a streamed model input's rows from outside.
    `units` is how many units make it complete: rows of the output, or rows of the input when `by_input`; such a node
    keeps partial sums in the buffer `accumulator` between firings, or has NONE and runs all its units in one firing.
    """

    operator: int | None
    inputs: tuple[int, ...]
    output: int
    units: int
    by_input: bool = False
    accumulator: int = NONE

    @property
    def is_arrival(self) -> bool:
        return self.operator is None and not self.inputs


@dataclass(frozen=True, kw_only=True)
class Firing:
    """One execution of a node for its units [first, last)."""

    node: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Region:
    """The firings [first, last): a stage of the report. `tiled` says that operators in it run row by row."""

    first: int
    last: int
    tiled: bool


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A complete decision about order and memory, as a scheduler returns it.

    `pool_bytes` is what each pool of the target needs, `live_peak_bytes` the most bytes of segments alive at once in
    each: a lower bound for any offsets with this order. `weights_reserved_bytes` at the start of the fast pool are left
    free for decompressed weights. `interface` maps each model input and output tensor to its buffer; a streamed input's
    is the one that its arrivals fill, in fast memory and wherever its rows are.
    `lower_bound_bytes` is what no schedule of the scheduler's class can do with less of in the fast pool, where it
    looked for that (None otherwise), and `certificate` says in words which class that is and what was proven.
    `cut_short` says that a time limit ended the search: asked again, the scheduler might find another schedule.
    """

    graph_digest: str
    target: Target
    scheduler: str
    buffers: tuple[Buffer, ...]
    nodes: tuple[Node, ...]
    firings: tuple[Firing, ...]
    regions: tuple[Region, ...]
    interface: tuple[tuple[int, int], ...]
    pool_bytes: tuple[int, ...]
    live_peak_bytes: tuple[int, ...]
    weights_reserved_bytes: int = 0
    lower_bound_bytes: int | None = None
    certificate: str = ""
    cut_short: bool = False

    @property
    def streamed(self) -> tuple[int, ...]:
        """The tensors whose rows arrive while the plan runs, in the order of the nodes."""
        return tuple(self.buffers[node.output].tensor for node in self.nodes if node.is_arrival)
