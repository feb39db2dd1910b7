"""Fills up weights that a file stores without their zeros.

Levels follow `traversal_order`: first the tensor's own dimensions, in blocks where `block_map` names them, then the
dimensions within a block. A dense level counts through; a sparse one lists its indices, cut into segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.nouns import NamedTuple
from stowplan_importer_tflite.flatbuffer import Damaged, Table
from stowplan_importer_tflite.schema import DimensionField, SparsityField

MAX_ELEMENTS = 1 << 26
VECTORS = {1: ("integers", "i"), 2: ("integers", "H"), 3: ("integers", "B")}
"""How the three kinds of index vectors are read."""


class Level(NamedTuple):
    """`segments` and `indices` of a sparse level; a dense one has neither and counts to `size`."""

    size: int
    segments: Sequence[int] = ()
    indices: Sequence[int] = ()


class Layout(NamedTuple):
    shape: tuple[int, ...]
    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]


def filled(data: bytes, shape: tuple[int, ...], dtype: str, sparsity: Table) -> bytes:
    """Return the tensor with its zeros. Raises `Damaged` when the description does not fit it."""
    size = SIZE_BYTES.get(dtype, 0)
    if not size or min(shape, default=1) < 1 or math.prod(shape) > MAX_ELEMENTS or len(data) % size:
        raise Damaged(f"sparse {dtype} weights of {len(data)} bytes")
    layout = _layout(shape, sparsity)
    result = bytearray(math.prod(shape) * size)
    taken = 0
    for place in _places(layout, 0, 0, [0] * len(layout.levels)):
        at = _element(layout, place) * size
        if taken + size > len(data):
            raise Damaged("sparse weights end early")
        result[at : at + size] = data[taken : taken + size]
        taken += size
    if taken != len(data):
        raise Damaged("sparse weights have values left over")
    return bytes(result)


def _layout(shape: tuple[int, ...], sparsity: Table) -> Layout:
    order = sparsity.integers(SparsityField.TRAVERSAL_ORDER)
    blocks = sparsity.integers(SparsityField.BLOCK_MAP)
    levels = tuple(_level(table) for table in sparsity.tables(SparsityField.DIMENSIONS))
    rank = len(shape)
    sound = (
        len(levels) == len(order) == rank + len(blocks)
        and sorted(order[:rank]) == list(range(rank))
        and sorted(order[rank:]) == list(range(rank, rank + len(blocks)))
        and all(0 <= block < rank for block in blocks)
        and all(level.size > 0 or level.segments for level in levels)
    )
    if not sound:
        raise Damaged("the order of sparse weights does not fit their shape")
    return Layout(shape, order, blocks, levels)


def _level(table: Table) -> Level:
    if table.integer(DimensionField.FORMAT, "b") == 0:
        return Level(size=table.integer(DimensionField.DENSE_SIZE))
    return Level(0, _vector(table, DimensionField.SEGMENTS_TYPE), _vector(table, DimensionField.INDICES_TYPE))


def _vector(table: Table, number: int) -> Sequence[int]:
    """Read a union of three types of vectors; the value follows its type."""
    kind, value = table.integer(number, "B"), table.table(number + 1)
    if value is None or kind not in VECTORS:
        raise Damaged("a sparse dimension has no indices")
    return value.integers(0, VECTORS[kind][1])


def _places(layout: Layout, depth: int, parent: int, place: list[int]) -> Iterator[list[int]]:
    """Yield the index on each level of every stored value, in the order in which they are stored."""
    if depth == len(layout.levels):
        yield place
        return
    level = layout.levels[depth]
    if level.size:
        for index in range(level.size):
            place[depth] = index
            yield from _places(layout, depth + 1, parent * level.size + index, place)
        return
    if parent + 1 >= len(level.segments):
        raise Damaged("a sparse dimension has too few segments")
    first, last = level.segments[parent], level.segments[parent + 1]
    if not 0 <= first <= last <= len(level.indices):
        raise Damaged("a sparse dimension has too few indices")
    for position in range(first, last):
        place[depth] = level.indices[position]
        yield from _places(layout, depth + 1, position, place)


def _element(layout: Layout, place: Sequence[int]) -> int:
    rank = len(layout.shape)
    index = [0] * rank
    for depth in range(rank):
        index[layout.order[depth]] = place[depth]
    for depth in range(rank, len(place)):
        dimension = layout.blocks[layout.order[depth] - rank]
        index[dimension] = index[dimension] * layout.levels[depth].size + place[depth]
    element = 0
    for at, size in zip(index, layout.shape, strict=True):
        if not 0 <= at < size:
            raise Damaged("a sparse value lies outside its tensor")
        element = element * size + at
    return element
