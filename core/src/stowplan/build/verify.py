"""The independent checker: follows a schedule firing by firing and refuses what would give a wrong answer.

It shares no code with schedulers: which bytes an operator reads is derived here from shapes alone, memory is a map of
who wrote which bytes last. A schedule passes if every firing finds each row it reads written and not overwritten,
writes inside its pool and nowhere it reads, and if at the end the outputs are whole. Model inputs are there from the
start, but for streamed ones: their rows are there from their arrival on. What a run leaves to the next may take the
place of what it found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from stowplan.build.reads import byte_ranges
from stowplan.build.tiling import TiledGraph, tiled_graph
from stowplan.build.verify_tiles import check_tiles
from stowplan.errors import InternalFault
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph
from stowplan.flow.operators import IN_PLACE
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Schedule, Tile
from stowplan.flow.target import FAST


class ScheduleFault(InternalFault):
    """A schedule breaks a rule; `rule` is a stable word (outside, misaligned, overlap, too-early, too-late, ...)."""

    code = "bad-schedule"

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"the schedule is wrong ({rule}): {message}")
        self.rule = rule


class Memory:
    """One pool: which segment wrote each byte last. Segments are (buffer, row)."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._entries: list[tuple[int, int, tuple[int, int]]] = []
        self._intact: set[tuple[int, int]] = set()
        self._written: set[tuple[int, int]] = set()

    def write(self, start: int, end: int, owner: tuple[int, int]) -> None:
        """Record that `owner` now has [start, end); whoever had a byte of it has lost its data."""
        low = bisect_left(self._starts, start)
        if low > 0 and self._entries[low - 1][1] > start:
            low -= 1
        high = bisect_left(self._starts, end)
        kept = []
        for old_start, old_end, old in self._entries[low:high]:
            self._intact.discard(old)
            if old_start < start:
                kept.append((old_start, start, old))
            if old_end > end:
                kept.append((end, old_end, old))
        fresh = sorted([*kept, (start, end, owner)])
        self._entries[low:high] = fresh
        self._starts[low:high] = [entry[0] for entry in fresh]
        self._intact.add(owner)
        self._written.add(owner)

    def holds(self, owner: tuple[int, int]) -> bool:
        return owner in self._intact

    def was_written(self, owner: tuple[int, int]) -> bool:
        return owner in self._written


class Checker:
    """Checks one schedule; `check()` returns or raises `ScheduleFault`."""

    def __init__(self, graph: Graph, schedule: Schedule, turns: Sequence[tuple[int, int]] = ()) -> None:
        self.graph, self.schedule = graph, schedule
        self.turns = dict(turns)  # from a tensor to the model input whose rows arrive in it once more
        self.memories = [Memory() for _ in schedule.pool_bytes]
        self.done = [0] * len(schedule.nodes)
        self.streamed: set[int] = set()  # model inputs that arrive; filled while nodes are checked

    def check(self) -> None:
        self._pools()
        for index, buffer in enumerate(self.schedule.buffers):
            self._buffer(index, buffer)
        for index, node in enumerate(self.schedule.nodes):
            self._node(index, node)
        self._regions()
        self._ports()
        self._write_inputs()
        for step, firing in enumerate(self.schedule.firings):
            self._fire(step, firing)
        self._finished()

    # Static rules.

    def _pools(self) -> None:
        pools, needs = self.schedule.target.pools, self.schedule.pool_bytes
        if len(needs) != len(pools):
            raise ScheduleFault("pools", f"{len(needs)} sizes for {len(pools)} pools")
        for pool, needed in zip(pools, needs, strict=True):
            if pool.size_bytes is not None and needed > pool.size_bytes:
                raise ScheduleFault("budget", f"{needed} bytes of {pool.name} memory, the budget is {pool.size_bytes}")
        if self.schedule.weights_reserved_bytes > needs[FAST]:
            raise ScheduleFault("budget", "the fast pool is smaller than what is reserved for weights")

    def _buffer(self, index: int, buffer: Buffer) -> None:
        if not 0 <= buffer.tensor < len(self.graph.tensors) or not 0 <= buffer.pool < len(self.schedule.pool_bytes):
            raise ScheduleFault("index", f"buffer {index} names a tensor or a pool that does not exist")
        tensor = self.graph.tensors[buffer.tensor]
        if buffer.rows < 1 or buffer.row_bytes < 0 or len(buffer.offsets) != buffer.rows:
            raise ScheduleFault(
                "shape", f"buffer {index} ({tensor.name}) has {len(buffer.offsets)} offsets for {buffer.rows} rows"
            )
        if not buffer.accumulator and buffer.size_bytes != tensor.size_bytes:
            raise ScheduleFault(
                "shape", f"buffer {index} has {buffer.size_bytes} bytes, {tensor.name} {tensor.size_bytes}"
            )
        floor = self.schedule.weights_reserved_bytes if buffer.pool == FAST else 0
        alignment = 4 if buffer.accumulator else SIZE_BYTES[tensor.dtype]
        for row, offset in enumerate(buffer.offsets):
            if offset < floor or offset + buffer.row_bytes > self.schedule.pool_bytes[buffer.pool]:
                raise ScheduleFault("outside", f"row {row} of {tensor.name} lies outside its pool, at {offset}")
            if offset % alignment:
                raise ScheduleFault(
                    "misaligned", f"row {row} of {tensor.name} at {offset} is not aligned to {alignment}"
                )

    def _node(self, index: int, node: Node) -> None:
        if not self._is_buffer(node.output) or any(b != NONE and not self._is_buffer(b) for b in node.inputs):
            raise ScheduleFault("index", f"node {index} names a buffer that does not exist")
        output = self.schedule.buffers[node.output]
        if node.is_arrival:
            self._arrival(index, node, output)
            return
        if node.operator is None:
            source = self.schedule.buffers[node.inputs[0]] if len(node.inputs) == 1 else None
            if source is None or source.tensor != output.tensor or node.units != output.rows or node.by_input:
                raise ScheduleFault("operands", f"node {index} is no copy of a tensor from one buffer to another")
            return
        if not 0 <= node.operator < len(self.graph.operators):
            raise ScheduleFault("index", f"node {index} names operator {node.operator}, which does not exist")
        operator = self.graph.operators[node.operator]
        if output.tensor not in operator.outputs or len(node.inputs) != len(operator.inputs):
            raise ScheduleFault("operands", f"node {index} does not fill the output of {operator.source}")
        for position, tensor in enumerate(operator.inputs):
            self._operand(index, node, position, tensor)
        first = node.inputs[0]
        units = self.schedule.buffers[first].rows if node.by_input and first != NONE else output.rows
        if node.units != units:
            raise ScheduleFault("units", f"node {index} ({operator.source}) has {node.units} units instead of {units}")
        if node.by_input and operator.kind not in ("average_pool_2d", "mean", "depthwise_conv_2d"):
            raise ScheduleFault("units", f"node {index}: {operator.source} cannot run by input rows")
        self._accumulator(index, node)

    def _arrival(self, index: int, node: Node, output: Buffer) -> None:
        """Rows come from outside only for a model input, once, into the buffer that the interface names."""
        name = self.graph.tensors[output.tensor].name
        if output.tensor in self.turns:
            self._once_more(index, node, output)
            return
        if self.graph.entries.count(output.tensor) != 1:
            raise ScheduleFault("arrival", f"rows of {name} arrive at node {index}, which is no input or two of them")
        if (output.tensor, node.output) not in self.schedule.interface[: len(self.graph.inputs)]:
            raise ScheduleFault("arrival", f"rows of {name} arrive where the interface does not say")
        if output.pool != FAST or output.accumulator:
            raise ScheduleFault("arrival", f"rows of {name} arrive in slow memory or among partial sums")
        if output.tensor in self.streamed:
            raise ScheduleFault("arrival", f"rows of {name} arrive at two nodes")
        if node.units != output.rows or node.by_input or node.accumulator != NONE:
            raise ScheduleFault("units", f"node {index} has {node.units} units, {name} has {output.rows} rows")
        self.streamed.add(output.tensor)

    def _once_more(self, index: int, node: Node, output: Buffer) -> None:
        """Rows of a streamed input arrive again, as they did, when all have arrived before."""
        first = dict(self.schedule.interface).get(self.turns[output.tensor], NONE)
        name = self.graph.tensors[output.tensor].name
        if self.turns[output.tensor] not in self.streamed or output.tensor in self.streamed:
            raise ScheduleFault("arrival", f"rows of {name} arrive at node {index} without a first turn, or twice")
        port = self.schedule.buffers[first]
        if (output.rows, output.row_bytes) != (port.rows, port.row_bytes) or output.pool != FAST or output.accumulator:
            raise ScheduleFault("arrival", f"rows of {name} arrive otherwise than in the first turn")
        if node.units != output.rows or node.by_input or node.accumulator != NONE:
            raise ScheduleFault("units", f"node {index} has {node.units} units, {name} has {output.rows} rows")
        self.streamed.add(output.tensor)

    def _in_turn(self, step: int, firing: Firing) -> None:
        """Each turn begins when the one before it is complete: the application pushes the rows from the first on."""
        tensor = self.schedule.buffers[self.schedule.nodes[firing.node].output].tensor
        original = self.turns.get(tensor, tensor)
        order = [original, *(again for again, of in self.turns.items() if of == original)]
        for index, node in enumerate(self.schedule.nodes):
            if not node.is_arrival:
                continue
            other = self.schedule.buffers[node.output].tensor
            earlier = other in order and order.index(other) < order.index(tensor)
            if earlier and self.done[index] != node.units:
                raise ScheduleFault("arrival", f"firing {step} takes rows again before all have arrived before")

    def _operand(self, index: int, node: Node, position: int, tensor: int) -> None:
        """An activation comes from a buffer of itself, or of a tensor that reshapes turn into it."""
        buffer = node.inputs[position]
        if not self.graph.is_activation(tensor):
            if buffer != NONE:
                raise ScheduleFault("operands", f"node {index} reads a buffer for a constant")
            return
        if buffer == NONE or self.schedule.buffers[buffer].tensor not in self._same_bytes(tensor):
            raise ScheduleFault("operands", f"node {index} reads something else for {self.graph.tensors[tensor].name}")

    def _accumulator(self, index: int, node: Node) -> None:
        if node.accumulator == NONE:
            return
        output = self.graph.tensors[self.schedule.buffers[node.output].tensor]
        if not self._is_buffer(node.accumulator) or not node.by_input:
            raise ScheduleFault("index", f"node {index} has no use for an accumulator")
        buffer = self.schedule.buffers[node.accumulator]
        if not buffer.accumulator or buffer.rows != 1 or buffer.row_bytes < 4 * output.elements or buffer.pool != FAST:
            raise ScheduleFault("shape", f"node {index}: its accumulator is too small for {output.name}")

    def _same_bytes(self, tensor: int) -> Iterator[int]:
        yield tensor
        while tensor in self.graph.producers:
            operator = self.graph.operators[self.graph.producers[tensor]]
            if operator.kind != "reshape" or not self.graph.is_activation(operator.inputs[0]):
                return
            tensor = operator.inputs[0]
            yield tensor

    def _is_buffer(self, index: int) -> bool:
        return 0 <= index < len(self.schedule.buffers)

    def _regions(self) -> None:
        end = 0
        for region in self.schedule.regions:
            if region.first != end or region.last < region.first:
                raise ScheduleFault("regions", f"a stage begins at firing {region.first} instead of {end}")
            end = region.last
        if end != len(self.schedule.firings):
            raise ScheduleFault("regions", f"stages cover {end} of {len(self.schedule.firings)} firings")

    def _ports(self) -> None:
        wanted = (*self.graph.inputs, *self.graph.outputs)
        if tuple(t for t, _ in self.schedule.interface) != wanted:
            raise ScheduleFault("ports", "the interface does not list the model's inputs and outputs")
        for position, (tensor, index) in enumerate(self.schedule.interface):
            if not self._is_buffer(index) or self.schedule.buffers[index].tensor not in self._same_bytes(tensor):
                raise ScheduleFault(
                    "ports", f"{self.graph.tensors[tensor].name} is read or written in another tensor's place"
                )
            buffer = self.schedule.buffers[index]
            if position < len(self.graph.inputs) and tensor in self.streamed:
                continue
            if any(o != buffer.offsets[0] + r * buffer.row_bytes for r, o in enumerate(buffer.offsets)):
                raise ScheduleFault("ports", f"{self.graph.tensors[tensor].name} is not in one piece")

    # The run.

    def _write_inputs(self) -> None:
        ports = self.schedule.interface[: len(self.graph.inputs)]
        resident = [index for tensor, index in ports if tensor not in self.streamed]
        for index in resident:
            for row in range(self.schedule.buffers[index].rows):
                self._write(index, row)
        for index in resident:
            for row in range(self.schedule.buffers[index].rows):
                if not self._memory(index).holds((index, row)):
                    raise ScheduleFault("overlap", f"two model inputs share memory with {self._name(index)}")

    def _fire(self, step: int, firing: Firing) -> None:
        if not 0 <= firing.node < len(self.schedule.nodes):
            raise ScheduleFault("index", f"firing {step} names node {firing.node}, which does not exist")
        node = self.schedule.nodes[firing.node]
        if firing.first != self.done[firing.node] or not firing.first < firing.last <= node.units:
            raise ScheduleFault("order", f"firing {step} runs units {firing.first} to {firing.last} out of order")
        if node.by_input and node.accumulator == NONE and (firing.first, firing.last) != (0, node.units):
            raise ScheduleFault("order", f"firing {step} runs part of a node that keeps no partial sums")
        if node.is_arrival and self.turns:
            self._in_turn(step, firing)
        reads = sorted(set(self._reads(node, firing)))
        for index, row in reads:
            self._readable(step, index, row)
        writes = self._writes(node, firing)
        self._apart(step, node, reads, writes)
        for index, row in writes:
            self._write(index, row)
        for index, row in writes:
            if not self._memory(index).holds((index, row)):
                raise ScheduleFault(
                    "overlap", f"firing {step} overwrites its own output, row {row} of {self._name(index)}"
                )
        self.done[firing.node] = firing.last

    def _reads(self, node: Node, firing: Firing) -> Iterator[tuple[int, int]]:
        """Yield the segments a firing reads. A node with partial sums reads them from its second firing on."""
        if node.accumulator != NONE and firing.first > 0:
            yield node.accumulator, 0
        for position, index in enumerate(node.inputs):
            if index == NONE:
                continue
            buffer = self.schedule.buffers[index]
            if node.by_input:
                yield from ((index, row) for row in range(firing.first, firing.last))
                continue
            output = self.schedule.buffers[node.output]
            for unit in range(firing.first, firing.last):
                wanted = (unit * output.row_bytes, (unit + 1) * output.row_bytes)
                for start, end in byte_ranges(self.graph, node.operator, position, *wanted):
                    for row in range(start // buffer.row_bytes, -(-end // buffer.row_bytes)):
                        yield index, row

    def _writes(self, node: Node, firing: Firing) -> list[tuple[int, int]]:
        if not node.by_input:
            return [(node.output, row) for row in range(firing.first, firing.last)]
        found = [(node.accumulator, 0)] if node.accumulator != NONE else []
        if firing.last == node.units:
            found += [(node.output, row) for row in range(self.schedule.buffers[node.output].rows)]
        return found

    def _readable(self, step: int, index: int, row: int) -> None:
        memory = self._memory(index)
        if memory.holds((index, row)):
            return
        if memory.was_written((index, row)):
            raise ScheduleFault(
                "too-late", f"firing {step} reads row {row} of {self._name(index)} after it was overwritten"
            )
        raise ScheduleFault("too-early", f"firing {step} reads row {row} of {self._name(index)} before it was written")

    def _apart(self, step: int, node: Node, reads: list[tuple[int, int]], writes: list[tuple[int, int]]) -> None:
        """A kernel may write its first byte before it reads its last: reads and writes must be disjoint."""
        reads = [segment for segment in reads if not self._in_place(node, segment)]
        for pool in range(len(self.memories)):
            taken = sorted(
                self._extent(*segment) for segment in reads if self.schedule.buffers[segment[0]].pool == pool
            )
            starts, ends = [start for start, _ in taken], list(accumulate((end for _, end in taken), max))
            for segment in writes:
                if self.schedule.buffers[segment[0]].pool != pool or segment[0] == node.accumulator:
                    continue
                start, end = self._extent(*segment)
                at = bisect_right(starts, end - 1)
                if at > 0 and ends[at - 1] > start:
                    name = self._name(segment[0])
                    raise ScheduleFault(
                        "overlap", f"firing {step} writes row {segment[1]} of {name} over what it reads"
                    )

    def _in_place(self, node: Node, segment: tuple[int, int]) -> bool:
        """Say whether a node reads this row through one operand alone, and may write its own row exactly over it."""
        index, row = segment
        position = NONE if node.operator is None else IN_PLACE.get(self.graph.operators[node.operator].kind, NONE)
        if position == NONE or node.inputs[position] != index or node.inputs.count(index) != 1:
            return False
        source, output = self.schedule.buffers[index], self.schedule.buffers[node.output]
        if (source.pool, source.rows, source.row_bytes) != (output.pool, output.rows, output.row_bytes):
            return False
        return source.offsets[row] == output.offsets[row]

    def _finished(self) -> None:
        for index, (node, done) in enumerate(zip(self.schedule.nodes, self.done, strict=True)):
            if done != node.units:
                raise ScheduleFault("incomplete", f"node {index} ran {done} of {node.units} units")
        replaced = self._replaced()
        for tensor, index in self.schedule.interface[len(self.graph.inputs) :]:
            if tensor in replaced:
                continue
            for row in range(self.schedule.buffers[index].rows):
                if not self._memory(index).holds((index, row)):
                    name = self.graph.tensors[tensor].name
                    raise ScheduleFault("too-late", f"row {row} of the output {name} is not there at the end")

    def _replaced(self) -> set[int]:
        """Return the states in whose very place their next values were made: these are there at the end instead."""
        homes = dict(self.schedule.interface[len(self.graph.inputs) :])
        found = set()
        for state in self.graph.states:
            before, after = (self.schedule.buffers[homes[tensor]] for tensor in (state.before, state.after))
            if (before.pool, before.offsets[0], before.size_bytes) == (after.pool, after.offsets[0], after.size_bytes):
                found.add(state.before)
        return found

    def _write(self, index: int, row: int) -> None:
        start, end = self._extent(index, row)
        self._memory(index).write(start, end, (index, row))

    def _extent(self, index: int, row: int) -> tuple[int, int]:
        buffer = self.schedule.buffers[index]
        return buffer.offsets[row], buffer.offsets[row] + buffer.row_bytes

    def _memory(self, index: int) -> Memory:
        return self.memories[self.schedule.buffers[index].pool]

    def _name(self, index: int) -> str:
        return self.graph.tensors[self.schedule.buffers[index].tensor].name


def verify(graph: Graph, schedule: Schedule, tiled: TiledGraph | None = None) -> None:
    """Return if the schedule computes the graph within its pools. Raises `ScheduleFault` naming the first fault.

    `tiled` is what `checked_tiling` returned for the schedule's tiles, where that has been done.
    """
    if schedule.graph_digest != graph.digest:
        raise ScheduleFault("graph", "it was made for another graph")
    if schedule.tiles and tiled is None:
        tiled = checked_tiling(graph, schedule.tiles)
    checker = Checker(graph, schedule) if tiled is None else Checker(tiled.graph, schedule, tiled.turns)
    checker.check()


def checked_tiling(graph: Graph, tiles: tuple[Tile, ...]) -> TiledGraph:
    """Return the tiled graph. Raises `ScheduleFault` for tiles that cannot be, `TilingFault` for a wrong one."""
    if not all(0 <= tile.operator < len(graph.operators) for tile in tiles):
        raise ScheduleFault("tiles", "a tile names an operator that does not exist")
    try:
        made = tiled_graph(graph, tiles)
    except ValueError as err:
        raise ScheduleFault("tiles", str(err)) from err
    check_tiles(graph, tiles, made.graph, made.origins, made.turns)
    return made
