"""Turns a schedule whose inputs are in memory as a whole into one whose rows arrive just before they are needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from stowplan.build.reads import byte_ranges
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Buffer, Firing, Node, Region, Schedule

Step = tuple[int, int]
"""A firing's number, and a row of the input."""


def with_arrivals(graph: Graph, schedule: Schedule, streamed: Sequence[int], seed: int | None = None) -> Schedule:
    """Return the schedule with these inputs streamed, each row in memory from its arrival to its last reading only.

    Their rows get memory of their own past the end of the fast pool, each the lowest place that is free by then. With
    a seed rows arrive in portions, some earlier than need be, and lie in any order.
    """
    chooser = None if seed is None else random.Random(seed)
    for tensor in dict.fromkeys(streamed):
        schedule = _streamed(graph, schedule, tensor, chooser)
    return schedule


def _streamed(graph: Graph, schedule: Schedule, tensor: int, chooser: random.Random | None) -> Schedule:
    port = dict(schedule.interface[: len(graph.inputs)])[tensor]
    buffer = schedule.buffers[port]
    first, last = _lives(graph, schedule, port)
    arrivals = _arrivals(first, len(schedule.firings), chooser)
    offsets, end = _places(arrivals, last, buffer, schedule.pool_bytes[0], chooser)
    buffers = list(schedule.buffers)
    buffers[port] = replace(buffer, pool=0, offsets=offsets)
    node = Node(operator=None, inputs=(), output=port, units=buffer.rows)
    merged = replace(
        schedule,
        buffers=tuple(buffers),
        nodes=(*schedule.nodes, node),
        target=replace(schedule.target, pools=tuple(replace(p, size_bytes=None) for p in schedule.target.pools)),
        pool_bytes=(end, *schedule.pool_bytes[1:]),
    )
    return _inserted(merged, len(schedule.nodes), arrivals)


def _lives(graph: Graph, schedule: Schedule, port: int) -> tuple[list[int], list[int]]:
    """Return the first and the last firing that reads each row of the port; the end for a row that nobody reads."""
    rows, end = schedule.buffers[port].rows, len(schedule.firings)
    first, last = [end] * rows, [end] * rows
    for step, firing in enumerate(schedule.firings):
        for row in _rows_read(graph, schedule, firing, port):
            first[row] = min(first[row], step)
            last[row] = step
    if port in dict(schedule.interface[len(graph.inputs) :]).values():
        last = [end] * rows
    return first, last


def _rows_read(graph: Graph, schedule: Schedule, firing: Firing, port: int) -> set[int]:
    node = schedule.nodes[firing.node]
    if port not in node.inputs:
        return set()
    if node.by_input:
        return set(range(firing.first, firing.last))
    width, line = schedule.buffers[node.output].row_bytes, schedule.buffers[port].row_bytes
    found = set()
    for position in (i for i, index in enumerate(node.inputs) if index == port):
        for start, end in byte_ranges(graph, node.operator, position, firing.first * width, firing.last * width):
            found |= set(range(start // line, -(-end // line)))
    return found


def _arrivals(first: list[int], end: int, chooser: random.Random | None) -> list[int]:
    """Return in front of which firing each row arrives: rows come in order, so none after a later one's need."""
    steps, soonest = [], end
    for step in reversed(first):
        soonest = min(soonest, step)
        steps.append(soonest)
    steps.reverse()
    if chooser is not None:
        for row, step in enumerate(steps):
            steps[row] = chooser.randint(steps[row - 1] if row else 0, step)
    return steps


def _places(
    arrivals: list[int], last: list[int], buffer: Buffer, floor: int, chooser: random.Random | None
) -> tuple[tuple[int, ...], int]:
    """Give each row the lowest slot whose row was read for the last time; return the offsets and the pool's new end."""
    width = -(-buffer.row_bytes // 16) * 16
    floor = -(-floor // 16) * 16
    free_from: list[int] = []
    slots = []
    for arrival, until in zip(arrivals, last, strict=True):
        slot = next((i for i, free in enumerate(free_from) if free <= arrival), len(free_from))
        free_from[slot : slot + 1] = [max(until, arrival) + 1]
        slots.append(slot)
    order = list(range(len(free_from)))
    if chooser is not None:
        chooser.shuffle(order)
    return tuple(floor + order[slot] * width for slot in slots), floor + len(free_from) * width


def _inserted(schedule: Schedule, node: int, arrivals: list[int]) -> Schedule:
    """Put the arrivals in front of their firings; those at the very end join the last stage."""
    firings: list[Firing] = []
    starts = []
    row = 0
    for step in range(len(schedule.firings) + 1):
        starts.append(len(firings))
        while row < len(arrivals) and arrivals[row] == step:
            last = row + 1
            while last < len(arrivals) and arrivals[last] == step:
                last += 1
            firings.append(Firing(node=node, first=row, last=last))
            row = last
        firings += schedule.firings[step : step + 1]
    regions = [Region(first=starts[r.first], last=starts[r.last], tiled=r.tiled) for r in schedule.regions]
    regions[-1] = replace(regions[-1], last=len(firings))
    return replace(schedule, firings=tuple(firings), regions=tuple(regions))


def most_rows_held(schedule: Schedule, tensor: int) -> int:
    """Return how many places the rows of a streamed input take."""
    return len(set(schedule.buffers[dict(schedule.interface)[tensor]].offsets))
