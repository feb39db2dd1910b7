"""Where every row of a plan lies and for how long: boxes in time (firings) and address, one set per pool.

Lives are derived as the checker derives them: a segment is alive from the firing that writes it to the last one that
reads it, model inputs from the start unless they are streamed, model outputs to the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.build.reads import byte_ranges
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Schedule
from stowplan.flow.target import FAST
from stowplan.nouns import dataclass


@dataclass(frozen=True, kw_only=True)
class MapBox:
    """Rows [first_row, last_row) of a buffer, which lie side by side and live during the firings [first, last).

    `tensor` is the graph's index, `name` its name; `writer` is the operator (or copy) that fills it.
    """

    tensor: int
    name: str
    writer: str
    first_row: int
    last_row: int
    offset_bytes: int
    size_bytes: int
    first: int
    last: int
    accumulator: bool = False

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The first firing at which most bytes are alive, and how many."""

    step: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class PoolMap:
    """One pool over time: what the plan needs of it, its budget, what is kept free at its start for weights."""

    name: str
    size_bytes: int
    budget_bytes: int | None
    reserved_bytes: int
    boxes: tuple[MapBox, ...]

    def peak(self, first: int, last: int) -> Peak:
        """Return the peak among the firings [first, last)."""
        return self.peaks([(first, last)])[0]

    def peaks(self, ranges: Sequence[tuple[int, int]]) -> list[Peak]:
        """Return the peak within each of some ranges of firings, which are in order and do not overlap."""
        changes: dict[int, int] = {first: 0 for first, _ in ranges}
        for box in self.boxes:
            changes[box.first] = changes.get(box.first, 0) + box.size_bytes
            changes[box.last] = changes.get(box.last, 0) - box.size_bytes
        steps = sorted(changes)
        found, alive, at = [], 0, 0
        for first, last in ranges:
            best = Peak(step=first, size_bytes=0)
            while at < len(steps) and steps[at] < last:
                alive += changes[steps[at]]
                if steps[at] >= first and alive > best.size_bytes:
                    best = Peak(step=steps[at], size_bytes=alive)
                at += 1
            found.append(best)
        return found

    def alive(self, steps: Sequence[int]) -> list[dict[int, int]]:
        """For each of some firings in order, map every tensor with rows alive to their bytes, most first."""
        by_birth = sorted(self.boxes, key=lambda box: box.first)
        found, now, at = [], list[MapBox](), 0
        for step in steps:
            while at < len(by_birth) and by_birth[at].first <= step:
                now.append(by_birth[at])
                at += 1
            now = [box for box in now if box.last > step]
            sizes: dict[int, int] = {}
            for box in now:
                sizes[box.tensor] = sizes.get(box.tensor, 0) + box.size_bytes
            found.append(dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0]))))
        return found


@dataclass(frozen=True, kw_only=True)
class MemoryMap:
    """All pools of a plan; `steps` is how many firings it has, `stages` their half-open ranges."""

    name: str
    steps: int
    stages: tuple[tuple[int, int], ...]
    pools: tuple[PoolMap, ...]

    @property
    def fast(self) -> PoolMap:
        return self.pools[FAST]


def memory_map(graph: Graph, schedule: Schedule) -> MemoryMap:
    """Return the map of a schedule that the checker has passed."""
    lives = _Lives(graph, schedule)
    writers = _writers(graph, schedule)
    boxes: list[list[MapBox]] = [[] for _ in schedule.pool_bytes]
    for index, buffer in enumerate(schedule.buffers):
        boxes[buffer.pool] += _boxes(graph, buffer, writers[index], lives.first[index], lives.last[index])
    pools = zip(schedule.target.pools, schedule.pool_bytes, boxes, strict=True)
    return MemoryMap(
        name=graph.name,
        steps=len(schedule.firings),
        stages=tuple((region.first, region.last) for region in schedule.regions),
        pools=tuple(
            PoolMap(
                name=pool.name,
                size_bytes=size,
                budget_bytes=pool.size_bytes,
                reserved_bytes=schedule.weights_reserved_bytes if number == FAST else 0,
                boxes=tuple(found),
            )
            for number, (pool, size, found) in enumerate(pools)
        ),
    )


class _Lives:
    """The first and last firing (half-open) of every row of every buffer; first is -1 for rows nobody writes."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self.graph, self.schedule = graph, schedule
        self.first = [[-1] * buffer.rows for buffer in schedule.buffers]
        self.last = [[0] * buffer.rows for buffer in schedule.buffers]
        self._given()
        for step, firing in enumerate(schedule.firings):
            self._fire(step, firing)
        for _, index in schedule.interface[len(graph.inputs) :]:
            self.last[index] = [len(schedule.firings)] * len(self.last[index])

    def _given(self) -> None:
        """Inputs are there before the first firing, but for those whose rows a node without inputs receives."""
        received = {node.output for node in self.schedule.nodes if node.operator is None and not node.inputs}
        for _, index in self.schedule.interface[: len(self.graph.inputs)]:
            if index not in received:
                self.first[index] = [0] * len(self.first[index])

    def _fire(self, step: int, firing: Firing) -> None:
        node = self.schedule.nodes[firing.node]
        for index, rows in self._reads(node, firing):
            last = self.last[index]
            for row in rows:
                last[row] = step + 1
        for index, rows in self._writes(node, firing):
            first, last = self.first[index], self.last[index]
            for row in rows:
                if first[row] < 0:
                    first[row] = step
                last[row] = max(last[row], step + 1)

    def _reads(self, node: Node, firing: Firing) -> Iterator[tuple[int, range]]:
        for position, index in enumerate(node.inputs):
            if index == NONE:
                continue
            if node.by_input:
                yield index, range(firing.first, firing.last)
                continue
            size, read = self.schedule.buffers[node.output].row_bytes, self.schedule.buffers[index].row_bytes
            wanted = (firing.first * size, firing.last * size)
            for start, end in byte_ranges(self.graph, node.operator, position, *wanted):
                yield index, range(start // read, -(-end // read))

    def _writes(self, node: Node, firing: Firing) -> Iterator[tuple[int, range]]:
        if not node.by_input:
            yield node.output, range(firing.first, firing.last)
            return
        if node.accumulator != NONE:
            yield node.accumulator, range(1)
        if firing.last == node.units:
            yield node.output, range(self.schedule.buffers[node.output].rows)


def _writers(graph: Graph, schedule: Schedule) -> list[str]:
    """Say for each buffer what fills it."""
    found = ["the application"] * len(schedule.buffers)
    for node in schedule.nodes:
        words = graph.operators[node.operator].source if node.operator is not None else _copy(schedule, node)
        for index in (node.output, node.accumulator):
            if index != NONE:
                found[index] = words
    return found


def _copy(schedule: Schedule, node: Node) -> str:
    if not node.inputs:
        return "the application, row by row"
    pools = schedule.target.pools
    source, destination = (schedule.buffers[i].pool for i in (node.inputs[0], node.output))
    return f"copy from {pools[source].name} to {pools[destination].name} memory"


def _boxes(graph: Graph, buffer: Buffer, writer: str, first: Sequence[int], last: Sequence[int]) -> Iterator[MapBox]:
    """Yield a buffer's rows, those with equal lives that lie side by side as one; rows nobody writes are left out."""
    row = 0
    while row < buffer.rows:
        end = row + 1
        while (
            end < buffer.rows
            and (first[end], last[end]) == (first[row], last[row])
            and buffer.offsets[end] == buffer.offsets[end - 1] + buffer.row_bytes
        ):
            end += 1
        if first[row] >= 0 and buffer.row_bytes > 0:
            yield MapBox(
                tensor=buffer.tensor,
                name=graph.tensors[buffer.tensor].name,
                writer=writer,
                first_row=row,
                last_row=end,
                offset_bytes=buffer.offsets[row],
                size_bytes=(end - row) * buffer.row_bytes,
                first=first[row],
                last=max(last[row], first[row] + 1),
                accumulator=buffer.accumulator,
            )
        row = end
