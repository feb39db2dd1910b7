"""When each operator runs for which rows, and where each row lives.

A *buffer* is one place a tensor's rows are kept: `rows` segments of `row_bytes` each, every one with its own offset in
one pool. A tensor has a buffer for each stay in a memory: one in slow memory if it is spilled, one in fast memory
for each region that reads it. A *node* fills one buffer: an operator, or a copy between pools (spill, reload). A
*firing* runs a node for the units [first, last): rows of its output, or rows of its input where it accumulates.
Everything else (rings, in place, stages, spills) is an order of firings plus an offset per segment.

A schedule may cut operators into *tiles* first: then its buffers and nodes name the tensors and operators of the tiled
graph, which `build/tiling.py` makes of the model's graph and the tiles.
"""

from __future__ import annotations

from stowplan.flow.target import FAST, SLOW, Target
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


Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A part of one operator's output: the columns and the channels [first, last), None for all of them.

    `operator` is the graph's operator index. Tiles of one operator cover its output; where they overlap it is computed
    more than once. Tiles of one `section` belong together: what one leaves to another is cut out as soon as it is made.
    Of streamed inputs a tile reads the rows that arrive in this `turn`; in each turn after 0 all of them arrive again.
    """

    operator: int
    columns: Range | None = None
    channels: Range | None = None
    section: int = 0
    turn: int = 0

    @property
    def is_whole(self) -> bool:
        return self.columns is None and self.channels is None


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
    `tiles`, where there are any, hold every operator of the model's graph in the order in which the tiled graph has
    them; `graph_digest` is that of the model's graph always.
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
    tiles: tuple[Tile, ...] = ()

    @property
    def streamed(self) -> tuple[int, ...]:
        """The model inputs whose rows arrive while the plan runs, in the order of the nodes."""
        ports = {tensor for tensor, _ in self.interface}
        arriving = (self.buffers[node.output].tensor for node in self.nodes if node.is_arrival)
        return tuple(tensor for tensor in arriving if tensor in ports)


def slow_traffic(schedule: Schedule, node: Node) -> tuple[int, int]:
    """Return the bytes that all units of a node read from slow memory and write to it.

    Operators that move elements may read slow memory directly: of a single tensor as much as they fill, be that a part
    of it or more than once; several are joined, each as a whole.
    """
    output = schedule.buffers[node.output]
    sources = [schedule.buffers[index] for index in node.inputs if index != NONE]
    if output.pool == SLOW:
        return 0, output.size_bytes if any(source.pool == FAST for source in sources) else 0
    return sum((output if len(node.inputs) == 1 else s).size_bytes for s in sources if s.pool == SLOW), 0
