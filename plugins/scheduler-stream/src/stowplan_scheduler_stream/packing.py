"""From the life of every row to an offset for every row, in one pool."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from stowplan.build.arena import Box, Placement, live_peak, place
from stowplan.nouns import dataclass
from stowplan_scheduler_stream.native import packer
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.region import RegionOrder, Span

INPUT_ALIGNMENTS = (16, 4)
"""A model input may lie anywhere in the pool, at a multiple of the first, or of the second where that saves bytes."""

MOST_INPUT_ROWS = 1024
"""Rows of a model input are all there from the start; of more than so many, neighbours are freed together."""

MOST_PAIRS = 2**27
"""The compiled packer writes down who is alive beside whom: half a gigabyte."""


@dataclass(frozen=True)
class Packed:
    """Offsets per span (in the order of the region's spans), the bytes needed, and the most alive at once."""

    offsets: tuple[tuple[int, ...], ...]
    height_bytes: int
    live_peak_bytes: int
    cut_short: bool = False


@dataclass(frozen=True)
class Patience:
    """How much work the compiled packer may do for a placement as low as the goal; a clock may end it before."""

    work: int = 0
    goal_bytes: int = 0
    seconds: float | None = None


NONE = Patience()
"""Greedy orders only."""


@dataclass(frozen=True)
class _Piece:
    """A box, the span it belongs to, and where in the box each of the rows it holds begins."""

    span: int
    box: Box
    starts: tuple[int, ...]


def pack_region(
    network: Network,
    order: RegionOrder,
    capacity_bytes: int | None,
    floor_bytes: int,
    patience: Patience = NONE,
) -> Packed:
    """Place the rows of a region above `floor_bytes`; as rings where they do as well as single rows.

    With patience the compiled packer goes on where greedy orders do not reach the capacity, or without one the goal.
    The result may be higher than the capacity: then nothing lower was found.
    """
    rows = _pieces(network, order, floor_bytes, rings=False)
    peak = live_peak([piece.box for piece in rows]) + floor_bytes
    aim = max(patience.goal_bytes, peak) if capacity_bytes is None else capacity_bytes
    best = _greedy(_pieces(network, order, floor_bytes, rings=True), order, capacity_bytes, floor_bytes)
    if order.tiled and peak <= aim and (best.height_bytes > aim or capacity_bytes is None):
        best = min(best, _greedy(rows, order, capacity_bytes, floor_bytes), key=lambda packed: packed.height_bytes)
    native = packer()
    cut_short = False
    if native is not None and patience.work > 0 and order.tiled and peak <= aim < best.height_bytes:
        rows = _few_pairs(network, order, floor_bytes, rows)
        boxes = [piece.box for piece in rows]
        packing = native.pack(
            boxes, aim, floor_bytes, patience.work, seconds=patience.seconds, block_alignments=INPUT_ALIGNMENTS
        )
        best = min(best, _spread(rows, order, packing.placement), key=lambda packed: packed.height_bytes)
        cut_short = packing.cut_short
    return Packed(best.offsets, best.height_bytes, peak, cut_short)


def _few_pairs(network: Network, order: RegionOrder, floor_bytes: int, rows: list[_Piece]) -> list[_Piece]:
    """Return the rows, neighbours in one box where too many would be alive beside each other."""
    together = 1
    while _pairs([piece.box for piece in rows]) > MOST_PAIRS:
        together *= 2
        rows = _pieces(network, order, floor_bytes, rings=False, together=together)
    return rows


def _pairs(boxes: Sequence[Box]) -> int:
    """Return how many pairs of boxes are alive at one time, each counted twice."""
    born, gone = sorted(box.first for box in boxes), sorted(box.last for box in boxes)
    return sum(bisect_left(born, box.last) - bisect_right(gone, box.first) - 1 for box in boxes)


def crowding(network: Network, order: RegionOrder, level_bytes: int | None = None) -> int:
    """Return the bytes by which live rows are above a level, summed over all steps: 15 sixteenths of their peak.

    Of two orders with one peak, the one that is near it more rarely is easier to pack.
    """
    changes = [0] * (len(order.firings) + 2)
    for piece in _pieces(network, order, 0, rings=False):
        changes[piece.box.first + 1] += piece.box.size_bytes  # a step earlier is where inputs are alive from
        changes[piece.box.last + 1] -= piece.box.size_bytes
    live = list(accumulate(changes))
    most = max(live) - max(live) // 16 if level_bytes is None else level_bytes
    return sum(max(0, alive - most) for alive in live)


def _greedy(pieces: list[_Piece], order: RegionOrder, capacity_bytes: int | None, floor_bytes: int) -> Packed:
    return _spread(pieces, order, place([piece.box for piece in pieces], capacity_bytes, floor_bytes))


def _spread(pieces: list[_Piece], order: RegionOrder, placement: Placement) -> Packed:
    """Turn an offset per box into an offset per row."""
    offsets: list[list[int]] = [[] for _ in order.spans]
    for piece, offset in zip(pieces, placement.offsets, strict=True):
        offsets[piece.span].extend(offset + start for start in piece.starts)
    return Packed(tuple(map(tuple, offsets)), placement.height_bytes, 0)


def _pieces(network: Network, order: RegionOrder, floor_bytes: int, rings: bool, together: int = 1) -> list[_Piece]:
    """Cut every span into boxes, of so many rows each.

    A model input lies at the bottom, whole, but each of its rows is free once read.
    """
    pieces: list[_Piece] = []
    base = -(-floor_bytes // 16) * 16
    for index, span in enumerate(order.spans):
        if span.accumulator_of >= 0:
            size = network.steps[span.accumulator_of].accumulator_bytes
            pieces.append(_Piece(index, Box(span.first[0], span.last[0], size, max(4, network.alignment_bytes)), (0,)))
        elif span.tensor in network.inputs and span.tensor not in order.brought:
            pieces += _input(network, index, span, base, network.turns.get(span.tensor))
            base += -(-network.stuff(span.tensor).size_bytes // 16) * 16
        elif span.tensor in network.outputs and span.tensor not in order.crossing:
            size, stride = network.stuff(span.tensor).size_bytes, network.stuff(span.tensor).row_bytes
            box = Box(min(span.first), max(span.last), size, 16)
            pieces.append(_Piece(index, box, tuple(range(0, size, stride))))
        elif rings:
            pieces.append(_ring(network, index, span))
        else:
            pieces += _rows(network, index, span, together)
    return pieces


def _rows(network: Network, index: int, span: Span, together: int) -> list[_Piece]:
    stuff = network.stuff(span.tensor)
    if together == 1:
        lives = zip(span.first, span.last, strict=True)
        return [_Piece(index, Box(a, b, stuff.row_bytes, stuff.alignment_bytes), (0,)) for a, b in lives]
    pieces, stride = [], -(-stuff.row_bytes // stuff.alignment_bytes) * stuff.alignment_bytes
    for start in range(0, stuff.rows, together):
        first, last = span.first[start : start + together], span.last[start : start + together]
        starts = tuple(range(0, len(first) * stride, stride))
        box = Box(min(first), max(last), starts[-1] + stuff.row_bytes, stuff.alignment_bytes)
        pieces.append(_Piece(index, box, starts))
    return pieces


def _input(network: Network, index: int, span: Span, base: int, turn: Sequence[int] | None) -> list[_Piece]:
    size = network.stuff(span.tensor).row_bytes
    rows = len(span.first)
    if turn is not None or rows <= MOST_INPUT_ROWS:
        lives = zip(turn or range(rows), span.first, span.last, strict=True)
        return [_Piece(index, Box(first, last, size, 1, base + row * size), (0,)) for row, first, last in lives]
    pieces, together = [], -(-rows // MOST_INPUT_ROWS)
    for start in range(0, rows, together):
        end = min(start + together, rows)
        box = Box(min(span.first[start:end]), max(span.last[start:end]), size * (end - start), 1, base + start * size)
        pieces.append(_Piece(index, box, tuple(range(0, box.size_bytes, size))))
    return pieces


def _ring(network: Network, index: int, span: Span) -> _Piece:
    """The least ring in which no row overwrites one that is still alive; a whole tensor needs no gaps between rows."""
    stuff = network.stuff(span.tensor)
    stride, height = stuff.row_bytes, 1
    last = list(accumulate(span.last, max))
    for row, born in enumerate(span.first):
        while row >= height and last[row - height] > born:
            height += 1
    if height < stuff.rows:
        stride = -(-stride // stuff.alignment_bytes) * stuff.alignment_bytes
    box = Box(min(span.first), max(span.last), stride * height, stuff.alignment_bytes)
    return _Piece(index, box, tuple((row % height) * stride for row in range(stuff.rows)))
