"""One region in one memory whose stretches run one after another, some in strips that overlap (`again.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from stowplan.build.tiling import TiledGraph, tiled_graph
from stowplan.flow.schedule import Tile
from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.again import Stretches, piece_at
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.packer import SECOND
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.region import RECEIVE, region_works
from stowplan_scheduler_stream.search import Effort, Found
from stowplan_scheduler_stream.sections import tiles_of
from stowplan_scheduler_stream.spilling import Regions
from stowplan_scheduler_stream.ways import Way, Ways

SEARCHES = 3_000
"""So many strips are searched for what they need."""
MOST_ROWS, MOST_WAYS = 10_000, 9
"""Ways beyond the best that are placed as well: of small networks many, of large ones few."""
MOST_WORK = 40 * SECOND
"""Of the packer, for all ways together."""
EFFORT = Effort(states=20_000, steps=5_000_000)
LEVEL = 15 / 16
"""Of the least peak: bytes above it make an order hard to place."""


@dataclass(frozen=True)
class _Ordered:
    """A way in the network that its tiles make, with an order of all works."""

    tiles: tuple[Tile, ...]
    planner: Planner
    found: Found

    def crowding(self, level_bytes: int) -> int:
        steps = range(len(self.planner.network.steps))
        return self.planner.crowding(steps, False, self.found, level_bytes)


def repeating(
    network: Network, budget: Budget, factor: float, useless_bytes: int, work_per_row: int, clock: Clock
) -> Regions | None:
    """Return the region with the least peak at up to `factor` times the arithmetic.

    The packer may do so much work for each row, up to a bound for all ways. None when none needs less than
    `useless_bytes`; it may still pack higher than the budget.
    """
    ways = Ways(Stretches(network, factor), useless_bytes, SEARCHES, clock)
    way = ways.best()
    if way is None:
        return None
    first = _ordered(network, ways.stretches, way, budget, clock)
    if first is None:
        return None
    rows = sum(first.planner.network.stuff(t).rows for t in first.planner.network.tensors)
    others = ways.others(way, min(MOST_WAYS, MOST_ROWS // rows))
    more = [_ordered(network, ways.stretches, other, budget, clock) for other in others if not clock.is_over()]
    best: Regions | None = None
    orders = [first, *(other for other in more if other is not None)]
    work = min(work_per_row * rows, MOST_WORK // len(orders))
    for ordered in _promising(orders):
        if best is not None and (clock.is_over() or _is_enough(best, budget, way.peak_bytes)):
            break
        steps = range(len(ordered.planner.network.steps))
        placed = ordered.planner.searched(steps, False, ordered.found, work, goal_bytes=way.peak_bytes, share=0.5)
        tried = Regions(network.graph, ordered.planner.network, [placed], ordered.tiles)
        best = tried if best is None or tried.height_bytes < best.height_bytes else best
    return best


def _promising(orders: Sequence[_Ordered]) -> list[_Ordered]:
    """Return those orders first that are likely to be placed low."""
    level = int(min(ordered.found.peak_bytes for ordered in orders) * LEVEL)
    return sorted(orders, key=lambda ordered: ordered.crowding(level))


def _is_enough(regions: Regions, budget: Budget, least_bytes: int) -> bool:
    if budget.capacity_bytes is not None:
        return budget.holds(regions.placed[0])
    return regions.height_bytes <= least_bytes + budget.floor_bytes


def _ordered(network: Network, stretches: Stretches, way: Way, budget: Budget, clock: Clock) -> _Ordered | None:
    """Return an order of a way in which each piece is complete before the next one begins."""
    tiles, counts = tiles_of(network, [stretches.section(stretch) for stretch in way.stretches])
    tiled = tiled_graph(network.graph, tiles)
    arriving = [t for t in network.graph.inputs if t in network.streamed]
    whole = Network(tiled.graph, network.alignment_bytes, arriving, tiled.carriers, [again for again, _ in tiled.turns])
    found = _in_pieces(whole, tiled, counts, clock)
    return None if found is None else _Ordered(tuple(tiles), Planner(whole, budget, Effort(), clock), found)


def _in_pieces(network: Network, tiled: TiledGraph, counts: Sequence[int], clock: Clock) -> Found | None:
    steps = range(len(network.steps))
    works = region_works(network, steps, network.crossing(steps, slow=False))
    numbers = {(work.step == RECEIVE, work.tensor): index for index, work in enumerate(works)}
    order: list[int] = []
    peak = 0
    for here in _places(counts):
        effort = replace(EFFORT, seconds=clock.left())
        found = piece_at(tiled, here, tiled.graph.outputs, network.alignment_bytes, network.streamed, effort)
        if found is None:
            return None
        clock.note(found[0].found.cut_short)
        order += [numbers[key] for key in found[0].order()]
        peak = max(peak, found[1])
    return Found(order=tuple(order), peak_bytes=peak, lower_bound_bytes=0, proven=False)


def _places(counts: Sequence[int]) -> Iterator[range]:
    """Yield the tiles of each piece."""
    for first, last in pairwise([0, *accumulate(counts)]):
        yield range(first, last)
