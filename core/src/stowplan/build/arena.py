"""Offsets: boxes in time and address, packed low so that no two alive together overlap."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

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


def _by_time(boxes: Sequence[Box], floor_bytes: int, best_fit: bool) -> Placement:
    """Take boxes as they are born; alive ones are kept sorted by address, so only real neighbours are looked at."""
    offsets = [0] * len(boxes)
    alive: list[tuple[int, int, int]] = []  # (offset, end, last step)
    # Fixed boxes first, whenever they are born: nothing may be put where they will be.
    fixed = [i for i, box in enumerate(boxes) if box.offset_bytes is not None]
    order = sorted(
        (i for i, box in enumerate(boxes) if box.offset_bytes is None),
        key=lambda i: (boxes[i].first, -boxes[i].size_bytes),
    )
    height = floor_bytes
    for index in fixed:
        offset = boxes[index].offset_bytes
        assert offset is not None
        offsets[index] = offset
        height = max(height, offset + boxes[index].size_bytes)
        insort(alive, (offset, offset + boxes[index].size_bytes, index))
    pinned = {i: boxes[i] for i in fixed}
    now = -1
    for index in order:
        box = boxes[index]
        if box.first != now:
            now = box.first
            alive = [entry for entry in alive if boxes[entry[2]].last > now]
        offset = _gap(box, alive, boxes, floor_bytes, best_fit, bool(pinned))
        offsets[index] = offset
        height = max(height, offset + box.size_bytes)
        insort(alive, (offset, offset + box.size_bytes, index))
    return Placement(tuple(offsets), height)


def _gap(
    box: Box, alive: list[tuple[int, int, int]], boxes: Sequence[Box], floor: int, best_fit: bool, pinned: bool
) -> int:
    """Return the lowest (or tightest) free offset for a box among those alive, which are sorted by address."""
    cursor, chosen, slack = floor, -1, -1
    align, size = box.alignment_bytes, box.size_bytes
    for start, end, other in alive:
        if pinned and boxes[other].first >= box.last:
            continue
        offset = -(-cursor // align) * align
        room = start - offset
        if room >= size and (chosen < 0 or (best_fit and room < slack)):
            chosen, slack = offset, room
            if not best_fit:
                return chosen
        if end > cursor:
            cursor = end
    return chosen if chosen >= 0 else -(-cursor // align) * align


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
