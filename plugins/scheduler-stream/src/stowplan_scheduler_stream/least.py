"""The least memory there is, and how near it is to the bound: what `thorough` asks for.

With one pool: the searched orders of the whole network, each packed with patience; the bound is the live peak that no
order of whole rows, each computed once, can go below. With slow memory as well: the smallest fast pool for which a
cut into regions is found, by bisection; the bound is what a single tile of the hungriest operator needs.
"""

from __future__ import annotations

import time

from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.nouns import dataclass, replace
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.repeating import repeating
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.sections import least_tiles_bytes
from stowplan_scheduler_stream.spilling import Regions, spilling

CLASS = "orders of whole rows, each computed once"
TILES = "orders of tiles, each computed once"
AGAIN = "orders of tiles with up to {} times the arithmetic"
DEFAULT_SECONDS = 10.0
SEEDS = 8
"""Orders with the same live peak pack differently; this many are tried."""


@dataclass(frozen=True)
class _Least:
    regions: Regions
    bound_bytes: int
    among: str = CLASS


def least_memory(network: Network, target: Target, options: ScheduleOptions, name: str) -> Schedule:
    """Return the schedule with the smallest fast pool that was found in the time given, and its certificate."""
    seconds = DEFAULT_SECONDS if options.time_limit_s is None else options.time_limit_s
    deadline = time.monotonic() + seconds
    floor = options.weights_reserved_bytes
    find = _smallest_fast if target.slow is not None else _one_pool
    least = find(network, floor, seconds, deadline)
    if target.slow is None and options.recompute > 1:
        least = _repeated(network, least, floor, options.recompute, seconds)
    found = least.regions.schedule(target, options, name)
    bound = min(least.bound_bytes, found.pool_bytes[0])
    certificate = _certificate(found.pool_bytes[0], bound, least.among)
    return replace(found, lower_bound_bytes=bound, certificate=certificate)


def _certificate(height_bytes: int, bound_bytes: int, among: str) -> str:
    if height_bytes == bound_bytes:
        return f"proven least among {among}"
    gap = (height_bytes - bound_bytes) * 100 / max(bound_bytes, 1)
    return f"at most {gap:.1f} % above the least among {among} ({bound_bytes} bytes)"


def _one_pool(network: Network, floor: int, seconds: float, deadline: float) -> _Least:
    planner = Planner(network, Budget(None, floor), Effort(states=3_000_000, seconds=seconds / 3))
    steps = range(len(network.steps))
    best = min(planner.whole(steps, slow=False), planner.greedy(steps, slow=False), key=_height_of)
    bound = 0
    for seed in range(SEEDS):
        if best.packed.height_bytes == bound or (seed > 1 and time.monotonic() > deadline):
            break
        found = planner.search(steps, slow=False, seed=max(seed - 1, 0), cuts=seed == 1)
        if found is None:
            break
        bound = max(bound, found.lower_bound_bytes + floor)
        if found.peak_bytes + floor >= best.packed.height_bytes:
            continue
        patience = max(0.2, (deadline - time.monotonic()) / (SEEDS - seed))
        placed = planner.searched(steps, False, found, goal_bytes=bound, seconds=patience)
        best = min(best, placed, key=_height_of)
    return _Least(Regions(network.graph, network, [best]), bound)


def _repeated(network: Network, least: _Least, floor: int, factor: float, seconds: float) -> _Least:
    """Return what needs less with more arithmetic, or what there was."""
    useless = least.regions.height_bytes - floor
    found = repeating(network, Budget(None, floor), factor, useless, seconds)
    if found is None or found.height_bytes >= least.regions.height_bytes:
        return least
    return _Least(found, floor + least_tiles_bytes(network), AGAIN.format(factor))


def _smallest_fast(network: Network, floor: int, seconds: float, deadline: float) -> _Least:
    """Bisect the fast budget, for whole rows and then for tiles as well: what fits only grows with it."""
    effort = Effort(states=2_000, seconds=seconds)
    bound = floor
    for index in range(len(network.steps)):
        found = Planner(network, Budget(None, floor), effort).search(range(index, index + 1), slow=True)
        bound = max(bound, found.lower_bound_bytes + floor if found else 0)
    best = spilling(network, Budget(None, floor), effort, tiles=False)
    for tiles in (False, True):
        low, high = floor if tiles else bound, best.height_bytes
        while low < high and time.monotonic() < deadline:
            middle = (low + high) // 2
            tried = spilling(network, Budget(middle, floor), effort, tiles)
            if tried.height_bytes <= middle:
                best, high = tried, tried.height_bytes
            else:
                low = middle + 1
    return _Least(best, floor + least_tiles_bytes(network), TILES)


def _height_of(placed: Placed) -> int:
    return placed.packed.height_bytes
