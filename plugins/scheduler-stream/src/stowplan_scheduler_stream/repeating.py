"""One region in one memory whose stretches run one after another, some in strips that overlap (`again.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from stowplan.build.tiling import TiledGraph, tiled_graph
from stowplan_scheduler_stream.again import Stretches, piece_at
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.region import RECEIVE, region_works
from stowplan_scheduler_stream.search import Effort, Found
from stowplan_scheduler_stream.sections import tiles_of
from stowplan_scheduler_stream.spilling import Regions
from stowplan_scheduler_stream.ways import Ways

SEARCHES = 3_000
"""So many strips are searched for what they need."""
SEEDS = (0, 1, 2)
"""Orders of the pieces with the same peak pack differently; these are looked for."""
PLACED = 2
"""How many of them are placed, the least crowded first."""


def repeating(
    network: Network, budget: Budget, factor: float, useless_bytes: int, work_per_row: int, clock: Clock
) -> Regions | None:
    """Return the region with the least peak at up to `factor` times the arithmetic.

    The packer may do so much work for each row. None when none needs less than `useless_bytes`; it may still pack
    higher than the budget.
    """
    stretches = Stretches(network, factor)
    way = Ways(stretches, useless_bytes, SEARCHES, clock).best()
    if way is None:
        return None
    tiles, counts = tiles_of(network, [stretches.section(stretch) for stretch in way.stretches])
    tiled = tiled_graph(network.graph, tiles)
    arriving = [t for t in network.graph.inputs if t in network.streamed]
    turns = [again for again, _ in tiled.turns]
    whole = Network(tiled.graph, network.alignment_bytes, arriving, tiled.carriers, turns)
    planner = Planner(whole, budget, Effort(), clock)
    steps = range(len(whole.steps))
    work = work_per_row * sum(whole.stuff(t).rows for t in whole.tensors)
    best: Regions | None = None
    for found in _promising(planner, tiled, counts)[:PLACED]:
        placed = planner.searched(steps, False, found, work, goal_bytes=found.peak_bytes, share=0.5)
        tried = Regions(network.graph, whole, [placed], tuple(tiles))
        best = tried if best is None or tried.height_bytes < best.height_bytes else best
        if best.height_bytes == found.peak_bytes or (budget.capacity_bytes and budget.holds(placed)):
            break
    return best


def _promising(planner: Planner, tiled: TiledGraph, counts: Sequence[int]) -> list[Found]:
    """Return different orders of all works, those first that are likely to be placed low."""
    orders: dict[tuple[int, ...], Found] = {}
    for seed in SEEDS:
        found = _ordered(planner.network, tiled, counts, Effort(states=20_000, steps=5_000_000, seed=seed))
        if found is not None:
            orders.setdefault(found.order, found)
    steps = range(len(planner.network.steps))
    return sorted(orders.values(), key=lambda found: (found.peak_bytes, planner.crowding(steps, False, found)))


def _ordered(network: Network, tiled: TiledGraph, counts: Sequence[int], effort: Effort) -> Found | None:
    """Return an order of all works in which each piece is complete before the next one begins."""
    steps = range(len(network.steps))
    works = region_works(network, steps, network.crossing(steps, slow=False))
    numbers = {(work.step == RECEIVE, work.tensor): index for index, work in enumerate(works)}
    order: list[int] = []
    peak = 0
    for here in _places(counts):
        found = piece_at(tiled, here, tiled.graph.outputs, network.alignment_bytes, network.streamed, effort)
        if found is None:
            return None
        order += [numbers[key] for key in found[0].order()]
        peak = max(peak, found[1])
    return Found(order=tuple(order), peak_bytes=peak, lower_bound_bytes=0, proven=False)


def _places(counts: Sequence[int]) -> Iterator[range]:
    """Yield the tiles of each piece."""
    for first, last in pairwise([0, *accumulate(counts)]):
        yield range(first, last)
