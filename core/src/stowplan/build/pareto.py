"""Fast memory against slow traffic: the plans worth having from the smallest fast pool to one that needs no slow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import log

from stowplan.build.facts import ParetoFact
from stowplan.build.least import UNLIMITED, Asker
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Schedule, slow_traffic
from stowplan.flow.target import FAST, SLOW
from stowplan.nouns import dataclass
from stowplan.plugins.kinds import Metrics

BUDGETS = 16
"""How many budgets are tried, both ends included."""
_NARROW = 1.02
"""Two budgets nearer than this ratio are not worth one between them."""


@dataclass(frozen=True)
class _Point:
    """What a budget gave: nothing changes between what the plan needs and the budget it was asked with."""

    budget_bytes: int
    plan: Plan
    traffic_bytes: int
    recompute: float

    @property
    def fast_bytes(self) -> int:
        return self.plan.schedule.pool_bytes[FAST]


def find_pareto(asker: Asker, progress: Callable[[str], None], budgets: int = BUDGETS) -> tuple[ParetoFact, ...]:
    """Return the front, smallest fast pool first; every plan in it was run, and its traffic counted in that run.

    Raises `InternalFault` when a plan fails its checker or its proof.
    """
    progress("smallest fast memory beside slow memory")
    plans = [asker.least(slow=True), asker.least(slow=False)]
    if asker.session.request.recompute > 1:
        plans.append(asker.least(slow=False, recompute=1.0))
    points = [_point(asker, plan) for plan in plans]
    for turn in range(budgets - len(points)):
        budget = _widest(sorted(points, key=lambda p: p.fast_bytes), _compulsory(asker))
        if budget is None:
            break
        progress(f"fast memory against slow traffic, {turn + len(points)} of {budgets}")
        points.append(_point(asker, asker.plan(budget, UNLIMITED), budget))
    return tuple(_proven(asker, point, progress) for point in _front(points))


def _compulsory(asker: Asker) -> int:
    """Bytes of inputs and outputs: what has to move when they lie in slow memory."""
    graph = asker.session.graph
    return sum(graph.tensors[tensor].size_bytes for tensor in (*graph.entries, *graph.exits))


def _point(asker: Asker, plan: Plan, budget_bytes: int | None = None) -> _Point:
    needed = plan.schedule.pool_bytes[FAST]
    return _Point(max(needed, budget_bytes or needed), plan, traffic_of(plan.schedule), asker.recompute(plan))


def traffic_of(schedule: Schedule) -> int:
    """Return the bytes that move between fast and slow memory in one inference."""
    return sum(sum(slow_traffic(schedule, node)) for node in schedule.nodes)


def _widest(points: list[_Point], compulsory_bytes: int) -> int | None:
    """Return a budget in the middle of where most changes over the widest range; None when all is known."""
    best, found = 0.0, None
    for low, high in pairwise(points):
        start, end = low.budget_bytes, high.fast_bytes
        if high.traffic_bytes >= low.traffic_bytes or end <= start * _NARROW or end - start < 2:
            continue
        change = log((low.traffic_bytes + compulsory_bytes + 1) / (high.traffic_bytes + compulsory_bytes + 1))
        score = change * log(end / max(1, start))
        if score > best:
            best, found = score, round((max(1, start) * end) ** 0.5)
    return found


def _front(points: list[_Point]) -> list[_Point]:
    """Drop what another point beats or equals in all: fast memory, traffic, arithmetic."""
    front: list[_Point] = []
    for point in sorted(points, key=lambda p: (p.fast_bytes, p.traffic_bytes, p.recompute)):
        if all(point.traffic_bytes < other.traffic_bytes or point.recompute < other.recompute for other in front):
            front.append(point)
    return front


def _proven(asker: Asker, point: _Point, progress: Callable[[str], None]) -> ParetoFact:
    progress(f"running the plan of {point.fast_bytes} bytes")
    run: Metrics = asker.prove(point.plan)[0]
    schedule = point.plan.schedule
    return ParetoFact(
        fast_bytes=point.fast_bytes,
        slow_bytes=schedule.pool_bytes[SLOW] if len(schedule.pool_bytes) > SLOW else 0,
        slow_read_bytes=run.slow_read_bytes or 0,
        slow_written_bytes=run.slow_written_bytes or 0,
        stages=len(schedule.regions),
        tiled=sum(region.tiled for region in schedule.regions),
        recompute=point.recompute,
    )
