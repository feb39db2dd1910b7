"""Whole tensors in file order, placed like TFLite Micro's greedy planner: the baseline every report compares with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.schedule import Schedule
    from stowplan.flow.target import Target
    from stowplan.plugins.kinds import ScheduleOptions, Scheduler


@dataclass(frozen=True)
class GreedyScheduler:
    """One firing per operator, one pool, no views: what TFLite Micro needs for the same file."""

    name: str = "greedy"
    summary: str = "whole tensors, TFLite Micro's planner: the baseline"
    version: str = "1"

    def schedule(self, graph: Graph, target: Target, options: ScheduleOptions) -> Schedule:
        from stowplan_scheduler_greedy.scheduler import schedule

        return schedule(graph, target, options, f"{self.name} {self.version}")


@hook
def stowplan_schedulers() -> Iterable[Scheduler]:
    return [GreedyScheduler()]
