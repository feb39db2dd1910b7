"""What a few boxes need, by trying every order: the oracle for packers, and a checker of their answers."""

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


def can_fill(boxes: Sequence[Box], height_bytes: int) -> bool:
    """Say whether boxes that need every byte of a height at every step can be placed within it: for a dozen of them.

    From step to step, what is born goes into the lowest gap; every one that fits is tried.
    """
    return _fill(boxes, {}, min((box.first for box in boxes), default=0), height_bytes)


def _fill(boxes: Sequence[Box], placed: dict[int, int], step: int, height_bytes: int) -> bool:
    alive = sorted((placed[i], boxes[i].size_bytes) for i in placed if boxes[i].first <= step < boxes[i].last)
    gap = 0
    for offset, size in alive:
        if offset > gap:
            break
        gap = offset + size
    if gap == height_bytes:
        return step >= max(box.last for box in boxes) - 1 or _fill(boxes, placed, step + 1, height_bytes)
    for i, box in enumerate(boxes):
        fits = i not in placed and box.first == step and gap + box.size_bytes <= height_bytes
        fits = fits and not any(collide(box, gap, boxes[k], placed[k]) for k in placed)
        if fits and _fill(boxes, {**placed, i: gap}, step, height_bytes):
            return True
    return False


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
