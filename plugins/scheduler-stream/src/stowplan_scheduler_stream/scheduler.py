"""Chooses between whole tensors, one streamed region, and streamed regions with spills between them."""

from __future__ import annotations

from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.nouns import replace
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.refusals import check_slow, stages_exceed, too_large
from stowplan_scheduler_stream.search import FURTHER, PER_BOX, Effort
from stowplan_scheduler_stream.spilling import Regions, spilling

WHOLE = Effort(states=400_000, steps=10_000_000)
"""For the whole network at once: the standard models are proven well within it."""
PART = Effort(states=2_000, steps=2_000_000)
"""For each of many regions."""
LEAST_TRAFFIC = "slow traffic is proven least: each input is read once, each output written once"


def schedule(graph: Graph, target: Target, options: ScheduleOptions, name: str) -> Schedule:
    """Return a schedule for the target, the simplest that fits. Raises `DoesNotFit` with the cause."""
    network = Network(graph, target.fast.alignment_bytes, options.streamed_inputs)
    clock = Clock(options.time_limit_s)
    if options.thorough and (target.fast.size_bytes is None or target.slow is None):
        from stowplan_scheduler_stream.least import least_memory

        return least_memory(network, target, options, name, clock)
    budget = Budget(target.fast.size_bytes, options.weights_reserved_bytes, options.stage_weight_bytes)
    further = FURTHER if options.optimal else 1
    regions = _regions(network, target, budget, options, further, clock)
    found = regions.schedule(target, options, name)
    check_slow(found, target)
    return replace(found, certificate=_certificate(regions), cut_short=clock.cut_short)


def _certificate(regions: Regions) -> str:
    """Say so where slow memory cannot be used less: inputs lie there and are read once, outputs are written once."""
    network = regions.network
    if regions.tiles:
        return ""  # columns are read twice where strips meet
    moved = [tensor for placed in regions.placed for tensor in placed.crossing.slow]
    given = {*network.inputs, *network.outputs}
    return LEAST_TRAFFIC if moved and len(set(moved)) == len(moved) and given.issuperset(moved) else ""


def _regions(
    network: Network, target: Target, budget: Budget, options: ScheduleOptions, further: int, clock: Clock
) -> Regions:
    planner = Planner(network, budget, WHOLE.times(further), clock)
    steps = range(len(network.steps))
    placed = planner.whole(steps, slow=False)
    if not budget.holds(placed) and budget.may_join(network, steps):
        placed = planner.streamed(steps, slow=False)
    if budget.holds(placed):
        return Regions(network.graph, network, [placed])
    again = _repeated(network, budget, options, further, clock)
    if again is not None:
        return again
    if target.slow is None:
        raise too_large(network, placed, budget)
    regions = spilling(network, budget, PART.times(further), clock, tiles=options.stage_weight_bytes is None)
    failed = [region for region in regions.placed if not budget.holds(region)]
    if failed:
        raise stages_exceed(regions.network, failed, budget)
    return regions


def _repeated(network: Network, budget: Budget, options: ScheduleOptions, further: int, clock: Clock) -> Regions | None:
    """Return one region that fits because some arithmetic is done more than once; None where that does not help."""
    if options.recompute <= 1 or options.stage_weight_bytes is not None or budget.capacity_bytes is None:
        return None
    from stowplan_scheduler_stream.repeating import repeating

    room = budget.capacity_bytes - budget.floor_bytes + 1
    found = repeating(network, budget, options.recompute, room, PER_BOX // 4 * further, clock)
    return found if found is not None and budget.holds(found.placed[0]) else None
