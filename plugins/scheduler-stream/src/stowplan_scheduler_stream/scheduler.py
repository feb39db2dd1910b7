"""Chooses between whole tensors, one streamed region, and streamed regions with spills between them."""

from __future__ import annotations

from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream.assemble import assemble
from stowplan_scheduler_stream.least import least_memory
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import PATIENCE_SECONDS, Budget, Planner
from stowplan_scheduler_stream.refusals import check_slow, stages_exceed, too_large
from stowplan_scheduler_stream.repeating import repeating
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.spilling import Regions, spilling

WHOLE = Effort(states=400_000, seconds=1.0)
"""For the whole network at once: the standard models are proven well within it."""
PART = Effort(states=2_000, seconds=60.0)
"""For each of many regions: bounded by states alone, so that the outcome does not depend on the machine's speed."""


def schedule(graph: Graph, target: Target, options: ScheduleOptions, name: str) -> Schedule:
    """Return a schedule for the target, the simplest that fits. Raises `DoesNotFit` with the cause."""
    network = Network(graph, target.fast.alignment_bytes, options.streamed_inputs)
    if options.thorough and target.fast.size_bytes is None:
        return least_memory(network, target, options, name)
    budget = Budget(target.fast.size_bytes, options.weights_reserved_bytes, options.stage_weight_bytes)
    planner = Planner(network, budget, WHOLE)
    steps = range(len(network.steps))
    placed = planner.whole(steps, slow=False)
    if not budget.holds(placed) and budget.may_join(network, steps):
        placed = planner.streamed(steps, slow=False)
    if budget.holds(placed):
        return assemble(network, target, options, name, [placed])
    again = _repeated(network, budget, options)
    if again is not None:
        return again.schedule(target, options, name)
    if target.slow is None:
        raise too_large(network, placed, budget)
    regions = spilling(network, budget, PART, tiles=options.stage_weight_bytes is None)
    failed = [region for region in regions.placed if not budget.holds(region)]
    if failed:
        raise stages_exceed(regions.network, failed, budget)
    found = regions.schedule(target, options, name)
    check_slow(found, target)
    return found


def _repeated(network: Network, budget: Budget, options: ScheduleOptions) -> Regions | None:
    """Return one region that fits because some arithmetic is done more than once; None where that does not help."""
    if options.recompute <= 1 or options.stage_weight_bytes is not None or budget.capacity_bytes is None:
        return None
    room = budget.capacity_bytes - budget.floor_bytes + 1
    found = repeating(network, budget, options.recompute, room, PATIENCE_SECONDS)
    return found if found is not None and budget.holds(found.placed[0]) else None
