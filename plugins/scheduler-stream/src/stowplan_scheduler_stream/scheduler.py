"""Chooses between whole tensors, one streamed region, and streamed regions with spills between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan.units import format_size
from stowplan_scheduler_stream.assemble import Placed, assemble
from stowplan_scheduler_stream.network import Network, constants_in
from stowplan_scheduler_stream.packing import Packed, pack_region
from stowplan_scheduler_stream.region import RegionOrder, order_region


@dataclass(frozen=True)
class _Budget:
    """The bytes a region may use, above those reserved for weights."""

    capacity_bytes: int | None
    floor_bytes: int
    weight_bytes: int | None

    def holds(self, packed: Packed) -> bool:
        return self.capacity_bytes is None or packed.height_bytes <= self.capacity_bytes


def schedule(graph: Graph, target: Target, options: ScheduleOptions, name: str) -> Schedule:
    """Return a schedule for the target, the simplest that fits. Raises `DoesNotFit` with the cause."""
    network = Network(graph, target.fast.alignment_bytes)
    budget = _Budget(target.fast.size_bytes, options.weights_reserved_bytes, options.stage_weight_bytes)
    steps = range(len(network.steps))
    for tiled in (False, True):
        if tiled and not _may_join(network, steps, budget):
            continue
        placed = _whole_network(network, steps, budget, tiled)
        if budget.holds(placed.packed):
            return assemble(network, target, options, name, [placed])
    if target.slow is None:
        raise _too_large(network, placed, budget, target)
    regions = _cut(network, budget)
    failed = [placed for placed in regions if not budget.holds(placed.packed)]
    if failed:
        raise _stages_exceed(network, failed, len(regions), budget)
    found = assemble(network, target, options, name, regions)
    _check_slow(found, target)
    return found


def _whole_network(network: Network, steps: range, budget: _Budget, tiled: bool) -> Placed:
    """One region with everything in fast memory, model inputs and outputs included."""
    order = order_region(network, steps, (), (), tiled)
    return Placed(steps, order, pack_region(network, order, budget.capacity_bytes, budget.floor_bytes), (), ())


def _cut(network: Network, budget: _Budget) -> list[Placed]:
    """Cut the steps into regions, each as long as it fits; what crosses a border goes through slow memory.

    A region that fits with its operators run at once is not tiled. A single step that does not fit is a region too.
    """
    regions = []
    first, count = 0, len(network.steps)
    while first < count:
        last, placed = _longest(network, first, count, budget)
        plain = _region(network, range(first, last), budget, tiled=False)
        regions.append(plain if budget.holds(plain.packed) else placed)
        first = last
    return regions


def _longest(network: Network, first: int, count: int, budget: _Budget) -> tuple[int, Placed]:
    """Return the end of the longest region from `first` that fits, by doubling and halving; at least one step."""
    good, best = first + 1, _region(network, range(first, first + 1), budget, tiled=True)
    if not budget.holds(best.packed):
        return good, best
    stride, bad = 1, count + 1
    while good < count and bad > good + 1:
        trial = min(good + stride, bad - 1, count)
        placed = _region(network, range(first, trial), budget, tiled=True)
        if _may_join(network, range(first, trial), budget) and budget.holds(placed.packed):
            good, best, stride = trial, placed, stride * 2 if bad > count else max(1, (bad - trial) // 2)
        else:
            bad, stride = trial, max(1, (trial - good) // 2)
    return good, best


def _region(network: Network, steps: range, budget: _Budget, tiled: bool) -> Placed:
    reload, spill = network.crossing(steps.start, steps.stop)
    order = order_region(network, steps, reload, spill, tiled)
    packed = pack_region(network, order, budget.capacity_bytes, budget.floor_bytes)
    return Placed(steps, order, packed, tuple(reload), tuple(spill))


def _may_join(network: Network, steps: range, budget: _Budget) -> bool:
    """Whether one stage may hold the constants of all these steps (a single step always may)."""
    if budget.weight_bytes is None or len(steps) == 1:
        return True
    return constants_in([network.steps[i] for i in steps]) <= budget.weight_bytes


# Why it does not fit.


def _too_large(network: Network, placed: Placed, budget: _Budget, target: Target) -> DoesNotFit:
    assert budget.capacity_bytes is not None
    needed = placed.packed.height_bytes
    step, names = _busiest(network, placed.order)
    return DoesNotFit(
        f"1 stage exceeds it: {format_size(needed)} needed at {step} "
        f"({format_size(needed - budget.capacity_bytes)} over). Largest tensors there: {names}. "
        "Give slow memory with a second -m, or a smaller input",
        needed_bytes=needed,
        budget_bytes=budget.capacity_bytes,
    )


def _stages_exceed(network: Network, failed: Sequence[Placed], total: int, budget: _Budget) -> DoesNotFit:
    assert budget.capacity_bytes is not None
    worst = sorted(failed, key=lambda placed: -placed.packed.height_bytes)
    lines = []
    for placed in worst[:5]:
        step, names = _busiest(network, placed.order)
        lines.append(f"{step} needs {format_size(placed.packed.height_bytes)} ({names})")
    count = "1 stage exceeds it" if len(failed) == 1 else f"{len(failed)} stages exceed it"
    return DoesNotFit(
        f"{count}: " + "; ".join(lines),
        needed_bytes=worst[0].packed.height_bytes,
        budget_bytes=budget.capacity_bytes,
    )


def _busiest(network: Network, order: RegionOrder) -> tuple[str, str]:
    """Name the operator at which most bytes are alive, and the largest tensors alive there."""
    changes: list[tuple[int, int, int]] = []
    for index, span in enumerate(order.spans):
        size = network.stuff(span.tensor).row_bytes
        if span.accumulator_of >= 0:
            size = network.steps[span.accumulator_of].accumulator_bytes
        for first, last in zip(span.first, span.last, strict=True):
            changes += [(first, index, size), (last, index, -size)]
    alive, total, peak, worst = dict.fromkeys(range(len(order.spans)), 0), 0, -1, (0, dict[int, int]())
    for step, index, size in sorted(changes, key=lambda change: (change[0], change[2])):
        alive[index] += size
        total += size
        if total > peak:
            peak, worst = total, (step, dict(alive))
    work = order.works[order.firings[min(worst[0], len(order.firings) - 1)][0]]
    name = network.steps[work.step].name if work.step >= 0 else network.graph.tensors[work.tensor].name
    largest = sorted(worst[1].items(), key=lambda item: -item[1])[:3]
    names = [f"{network.graph.tensors[order.spans[i].tensor].name} {format_size(size)}" for i, size in largest if size]
    return name, ", ".join(names)


def _check_slow(found: Schedule, target: Target) -> None:
    assert target.slow is not None
    needed, given = found.pool_bytes[1], target.slow.size_bytes
    if given is not None and needed > given:
        tiled = sum(region.tiled for region in found.regions)
        raise DoesNotFit(
            f"fits {format_size(target.fast.size_bytes or 0)} fast memory, {len(found.regions)} stages, {tiled} tiled; "
            f"slow memory {format_size(needed)} needed, {format_size(given)} given",
            needed_bytes=needed,
            budget_bytes=given,
        )
