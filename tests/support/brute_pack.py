"""The least height of a few boxes by trying every order: the oracle for packers, and a checker of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from stowplan.build.arena import Box


def least_height(boxes: Sequence[Box], floor_bytes: int = 0) -> int:
    """Return the least height of any placement; for up to seven boxes of free choice.

    Some order of the boxes gives it when each falls onto what lies below: take a least placement by rising offset.
    """
    pinned = [(box, box.offset_bytes) for box in boxes if box.offset_bytes is not None]
    free = [box for box in boxes if box.offset_bytes is None]
    return min(_drop(order, pinned, floor_bytes) for order in permutations(free))


def _drop(order: Sequence[Box], pinned: Sequence[tuple[Box, int]], floor_bytes: int) -> int:
    placed = list(pinned)
    for box in order:
        offset = -(-floor_bytes // box.alignment_bytes) * box.alignment_bytes
        while (hit := _highest_hit(box, offset, placed)) is not None:
            offset = -(-hit // box.alignment_bytes) * box.alignment_bytes
        placed.append((box, offset))
    return max([floor_bytes, *(offset + box.size_bytes for box, offset in placed)])


def _highest_hit(box: Box, offset: int, placed: Sequence[tuple[Box, int]]) -> int | None:
    ends = [at + other.size_bytes for other, at in placed if collide(box, offset, other, at)]
    return min(ends) if ends else None


def collide(a: Box, a_offset: int, b: Box, b_offset: int) -> bool:
    """Say whether two placed boxes share a byte at some step."""
    in_time = max(a.first, b.first) < min(a.last, b.last)
    return in_time and max(a_offset, b_offset) < min(a_offset + a.size_bytes, b_offset + b.size_bytes)


def faults(boxes: Sequence[Box], offsets: Sequence[int], height_bytes: int, floor_bytes: int = 0) -> list[str]:
    """Return what is wrong with a placement, in words; nothing when it is right. Pins are the caller's to check."""
    found = []
    for index, (box, offset) in enumerate(zip(boxes, offsets, strict=True)):
        if offset < floor_bytes or offset + box.size_bytes > height_bytes:
            found.append(f"box {index} at {offset} leaves [{floor_bytes}, {height_bytes})")
        if offset % box.alignment_bytes:
            found.append(f"box {index} at {offset} is not aligned to {box.alignment_bytes}")
        for other in range(index):
            if collide(box, offset, boxes[other], offsets[other]):
                found.append(f"boxes {other} and {index} collide")
    return found
