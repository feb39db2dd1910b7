"""Why a network does not fit: which stage, which operator, how many bytes, and which tensors take them."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.errors import DoesNotFit
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.units import format_size
from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget
from stowplan_scheduler_stream.region import RegionOrder

SHOWN = 3
"""Of many stages that do not fit, the worst are named."""
NAME_LENGTH = 40


def too_large(network: Network, placed: Placed, budget: Budget) -> DoesNotFit:
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


def stages_exceed(network: Network, failed: Sequence[Placed], budget: Budget) -> DoesNotFit:
    assert budget.capacity_bytes is not None
    worst = sorted(failed, key=lambda placed: -placed.packed.height_bytes)
    lines = []
    for placed in worst[:SHOWN]:
        step, names = _busiest(network, placed.order)
        lines.append(f"{step} needs {format_size(placed.packed.height_bytes)} ({names})")
    if len(worst) > SHOWN:
        lines.append(f"and {len(worst) - SHOWN} more")
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
    tensors = ((network.graph.tensors[order.spans[i].tensor].name, size) for i, size in largest if size)
    return name, ", ".join(f"{_short(tensor)} {format_size(size)}" for tensor, size in tensors)


def _short(name: str) -> str:
    """Exporters join names of a hundred letters; the first of them say which tensor it is."""
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 3] + "..."


def check_slow(found: Schedule, target: Target) -> None:
    if target.slow is None:
        return
    needed, given = found.pool_bytes[1], target.slow.size_bytes
    if given is not None and needed > given:
        tiled = sum(region.tiled for region in found.regions)
        raise DoesNotFit(
            f"fits {format_size(target.fast.size_bytes or 0)} fast memory, {len(found.regions)} stages, {tiled} tiled; "
            f"slow memory {format_size(needed)} needed, {format_size(given)} given",
            needed_bytes=needed,
            budget_bytes=given,
        )
