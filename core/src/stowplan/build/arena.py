"""Offsets: boxes in time and address, packed low so that no two alive together overlap."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from stowplan.nouns import dataclass


@dataclass(frozen=True)
class Box:
    """`size_bytes` needed during the steps [first, last); at `offset_bytes` when that is not ours to choose."""

    first: int
    last: int
    size_bytes: int
    alignment_bytes: int = 4
    offset_bytes: int | None = None


@dataclass(frozen=True)
class Placement:
    """An offset per box, and the height: the end of the highest box."""

    offsets: tuple[int, ...]
    height_bytes: int


def live_peak(boxes: Sequence[Box]) -> int:
    """Return the most bytes alive at one step: no placement can be lower."""
    changes: dict[int, int] = {}
    for box in boxes:
        changes[box.first] = changes.get(box.first, 0) + box.size_bytes
        changes[box.last] = changes.get(box.last, 0) - box.size_bytes
    peak = alive = 0
    for step in sorted(changes):
        alive += changes[step]
        peak = max(peak, alive)
    return peak


_CHEAP, _QUADRATIC = 100, 1500
"""Up to how many boxes every order is tried for the lowest result, and the quadratic orders at all."""


def place(boxes: Sequence[Box], capacity_bytes: int | None, floor_bytes: int = 0) -> Placement:
    """Return the lowest placement that a few greedy orders find; for many boxes the first within the capacity, or the
    very first where none can be.

    Offsets are multiples of each box's alignment and not below `floor_bytes`.
    """
    best: Placement | None = None
    hopeless = len(boxes) > _CHEAP and capacity_bytes is not None and live_peak(boxes) + floor_bytes > capacity_bytes
    for packer in [*_TIME_ORDERS, *(_SIZE_ORDERS if len(boxes) <= _QUADRATIC else ())]:
        found = packer(boxes, floor_bytes)
        if best is None or found.height_bytes < best.height_bytes:
            best = found
        if hopeless or (len(boxes) > _CHEAP and capacity_bytes is not None and best.height_bytes <= capacity_bytes):
            break
    assert best is not None
    return best


class _Gaps:
    """What is free beside the boxes alive: gaps sorted by address, the last of which has no end."""

    def __init__(self, floor_bytes: int) -> None:
        self.starts, self.ends = [floor_bytes], [_NO_END]

    def find(self, box: Box, best_fit: bool) -> int:
        """Return the lowest (or tightest) free offset for a box; above all others only where there is no other."""
        align, size, slack, chosen = box.alignment_bytes, box.size_bytes, _NO_END, -1
        for start, end in zip(self.starts, self.ends, strict=True):
            offset = -(-start // align) * align
            room = end - offset
            if room >= size and (chosen < 0 or room < slack):
                if not best_fit:
                    return offset
                chosen, slack = offset, room
        return chosen

    def take(self, start: int, end: int) -> None:
        at = bisect_right(self.starts, start) - 1
        pieces = [(a, b) for a, b in ((self.starts[at], start), (end, self.ends[at])) if a < b]
        self.starts[at : at + 1] = [a for a, _ in pieces]
        self.ends[at : at + 1] = [b for _, b in pieces]

    def give(self, start: int, end: int) -> None:
        at = bisect_right(self.starts, start)
        low, high = at, at
        if at > 0 and self.ends[at - 1] == start:
            low, start = at - 1, self.starts[at - 1]
        if at < len(self.starts) and self.starts[at] == end:
            high, end = at + 1, self.ends[at]
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]


_NO_END = 2**62


def _by_time(boxes: Sequence[Box], floor_bytes: int, best_fit: bool) -> Placement:
    """Take boxes as they are born; what is free is kept sorted by address, so only gaps are looked at.

    Where a box with a place of its own will be, nothing is put before.
    """
    offsets = [0] * len(boxes)
    gaps = _Gaps(floor_bytes)
    alive: list[tuple[int, int, int]] = []  # a heap of (last step, offset, end)
    height, now = floor_bytes, -1
    fixed = [box.offset_bytes is not None for box in boxes]
    for index in sorted(range(len(boxes)), key=lambda i: (not fixed[i], boxes[i].first, -boxes[i].size_bytes)):
        box = boxes[index]
        if not fixed[index] and box.first != now:
            now = box.first
            while alive and alive[0][0] <= now:
                _, start, end = heappop(alive)
                gaps.give(start, end)
        offset = gaps.find(box, best_fit) if box.offset_bytes is None else box.offset_bytes
        offsets[index] = offset
        height = max(height, offset + box.size_bytes)
        if box.size_bytes > 0:
            gaps.take(offset, offset + box.size_bytes)
            heappush(alive, (box.last, offset, offset + box.size_bytes))
    return Placement(tuple(offsets), height)


def _by_priority(boxes: Sequence[Box], floor_bytes: int, priority: Callable[[Box], tuple[int, ...]]) -> Placement:
    """Take boxes in order of priority, each at the lowest offset free during its whole life."""
    offsets = [0] * len(boxes)
    order = sorted(range(len(boxes)), key=lambda i: (boxes[i].offset_bytes is None, *priority(boxes[i])))
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), sorted by offset
    height = floor_bytes
    for index in order:
        box = boxes[index]
        offset = box.offset_bytes
        if offset is None:
            offset = _lowest(box, placed, floor_bytes)
        offsets[index] = offset
        height = max(height, offset + box.size_bytes)
        insort(placed, (offset, offset + box.size_bytes, box.first, box.last))
    return Placement(tuple(offsets), height)


def _lowest(box: Box, placed: list[tuple[int, int, int, int]], floor: int) -> int:
    offset, size, align = floor, box.size_bytes, box.alignment_bytes
    offset = -(-offset // align) * align
    first, last = box.first, box.last
    for start, end, other_first, other_last in placed:
        if other_first < last and other_last > first:
            if start - offset >= size:
                return offset
            if end > offset:
                offset = -(-end // align) * align
    return offset


_Packer = Callable[[Sequence[Box], int], Placement]
_TIME_ORDERS: tuple[_Packer, ...] = (
    lambda boxes, floor: _by_time(boxes, floor, best_fit=False),
    lambda boxes, floor: _by_time(boxes, floor, best_fit=True),
)
_SIZE_ORDERS: tuple[_Packer, ...] = (
    lambda boxes, floor: _by_priority(boxes, floor, lambda b: (-b.size_bytes, b.first)),
    lambda boxes, floor: _by_priority(boxes, floor, lambda b: (-b.size_bytes * (b.last - b.first), b.first)),
    lambda boxes, floor: _by_priority(boxes, floor, lambda b: (b.first - b.last, -b.size_bytes)),
)
