"""The least memory there is, and how near it is to the bound: what `thorough` asks for.

With one pool: the searched orders of the whole network, each packed with patience; the bound is the live peak that no
order of whole rows, each computed once, can go below. With slow memory as well: the smallest fast pool for which a
cut into regions is found, by bisection; the bound is what a single tile of the hungriest operator needs.
"""

from __future__ import annotations

from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.nouns import dataclass, replace
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.refusals import too_large
from stowplan_scheduler_stream.search import FURTHER, PER_BOX, Effort, Found
from stowplan_scheduler_stream.sections import least_tiles_bytes
from stowplan_scheduler_stream.spilling import Regions, spilling

CLASS = "orders of whole rows, each computed once"
TILES = "orders of tiles, each computed once"
AGAIN = "orders of tiles with up to {} times the arithmetic"
WHOLE = Effort(states=3_000_000, steps=40_000_000)
PART = Effort(states=2_000, steps=2_000_000)
MOST_ROWS = 4000
"""The packer gets no more work for more rows: its time is bounded, then, by what is reached in it."""
SHARE_OF_ONCE = 0.4
"""Of the time there is, for orders that compute everything once, where others may be asked for as well."""
SEEDS = 8
"""Orders with the same live peak pack differently; this many are tried."""


@dataclass(frozen=True)
class _Least:
    regions: Regions
    bound_bytes: int
    among: str = CLASS


def least_memory(network: Network, target: Target, options: ScheduleOptions, name: str, clock: Clock) -> Schedule:
    """Return the schedule with the smallest fast pool that was found, and its certificate. Raises `DoesNotFit`."""
    find = _smallest_fast if target.slow is not None else _one_pool
    floor, further = options.weights_reserved_bytes, FURTHER if options.optimal else 1
    repeats = target.slow is None and options.recompute > 1
    once = clock.part(SHARE_OF_ONCE) if repeats else clock
    least = find(network, floor, further, once)
    clock.note(once.cut_short)
    if repeats:
        least = _repeated(network, least, floor, further, clock, options.recompute)
    budget = Budget(target.fast.size_bytes, floor)
    if target.slow is None and not budget.holds(least.regions.placed[0]):
        raise too_large(least.regions.network, least.regions.placed[0], budget)
    found = least.regions.schedule(target, options, name)
    bound = min(least.bound_bytes, found.pool_bytes[0])
    certificate = _certificate(found.pool_bytes[0], bound, least.among)
    return replace(found, lower_bound_bytes=bound, certificate=certificate, cut_short=clock.cut_short)


def _certificate(height_bytes: int, bound_bytes: int, among: str) -> str:
    if height_bytes == bound_bytes:
        return f"proven least among {among}"
    if bound_bytes <= 0:
        return f"how near this is to the least among {among} is not known"
    gap = (height_bytes - bound_bytes) * 100 / max(bound_bytes, 1)
    return f"at most {gap:.1f} % above the least among {among} ({bound_bytes} bytes)"


def _one_pool(network: Network, floor: int, further: int, clock: Clock) -> _Least:
    """Place the first order that is found; where the bound is lower still, others as well, the least crowded first."""
    planner = Planner(network, Budget(None, floor), WHOLE.times(further), clock)
    steps = range(len(network.steps))
    best = min(planner.whole(steps, slow=False), planner.greedy(steps, slow=False), key=_height_of)
    first = planner.search(steps, slow=False, share=1 / 3)
    if first is None:
        return _Least(Regions(network.graph, network, [best]), 0)
    bound = _without_padding(planner, first, first.lower_bound_bytes + floor, floor)
    work = PER_BOX * further * min(MOST_ROWS, sum(network.stuff(t).rows for t in network.tensors))
    if first.peak_bytes + floor < best.packed.height_bytes:
        placed = planner.searched(steps, False, first, work // SEEDS, goal_bytes=bound, share=1 / SEEDS)
        best = min(best, placed, key=_height_of)
    if best.packed.height_bytes > bound and not clock.is_over():
        others, bound = _others(planner, first, bound, floor)
        for found in others:
            if best.packed.height_bytes == bound or clock.is_over():
                break
            if found.peak_bytes + floor < best.packed.height_bytes:
                placed = planner.searched(steps, False, found, work, goal_bytes=bound, share=3 / 4)
                best = min(best, placed, key=_height_of)
    return _Least(Regions(network.graph, network, [best]), bound)


def _others(planner: Planner, first: Found, bound: int, floor: int) -> tuple[list[Found], int]:
    """Return the first order and others, the most promising first, and the bound that is known then."""
    steps = range(len(planner.network.steps))
    orders = {first.order: first}
    for seed in range(SEEDS - 1):
        if seed > 0 and planner.clock.is_over():
            break
        found = planner.search(steps, False, seed, cuts=seed == 0, known_bytes=max(bound - floor, 0), share=1 / SEEDS)
        if found is None:
            break
        bound = max(bound, found.lower_bound_bytes + floor)
        orders.setdefault(found.order, found)
    return sorted(orders.values(), key=lambda found: (found.peak_bytes, planner.crowding(steps, False, found))), bound


def _repeated(network: Network, least: _Least, floor: int, further: int, clock: Clock, factor: float) -> _Least:
    """Return what needs less with more arithmetic, or what there was."""
    from stowplan_scheduler_stream.repeating import repeating

    useless = least.regions.height_bytes - floor
    found = repeating(network, Budget(None, floor), factor, useless, PER_BOX * further, clock)
    if found is None or found.height_bytes >= least.regions.height_bytes:
        return least
    return _Least(found, floor + least_tiles_bytes(network), AGAIN.format(factor))


def _without_padding(planner: Planner, found: Found, bound: int, floor: int) -> int:
    """Return the bound, or a better one of rows without the bytes between them where those blur it."""
    if found.lower_bound_bytes == found.peak_bytes:
        return bound
    exact = Planner(planner.network, planner.budget, replace(planner.effort, padded=False), planner.clock)
    again = exact.search(range(len(planner.network.steps)), slow=False, share=1 / 3)
    return bound if again is None else max(bound, again.lower_bound_bytes + floor)


def _smallest_fast(network: Network, floor: int, further: int, clock: Clock) -> _Least:
    """Bisect the fast budget, for whole rows and then for tiles as well: what fits only grows with it."""
    effort = PART.times(further)
    best = spilling(network, Budget(None, floor), effort, clock, tiles=False)
    bound = floor + least_tiles_bytes(network)
    for tiles in (False, True):
        low, high = bound, best.height_bytes
        while low < high and not clock.is_over():
            middle = (low + high) // 2
            tried = spilling(network, Budget(middle, floor), effort, clock, tiles)
            if tried.height_bytes <= middle:
                best, high = tried, tried.height_bytes
            else:
                low = middle + 1
    return _Least(best, bound, TILES)


def _height_of(placed: Placed) -> int:
    return placed.packed.height_bytes
