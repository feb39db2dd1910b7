"""The scheduler acme for stowplan: whole tensors, first fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.schedule import Schedule
    from stowplan.flow.target import Target
    from stowplan.plugins.kinds import ScheduleOptions, Scheduler

STOWPLAN_CONTRACT = 1


class AcmeScheduler:
    """Whole tensors in the model's order, each at the lowest place that is free while it lives."""

    name: str = "acme"
    summary: str = "whole tensors in the model's order, first fit"
    version: str = "1"

    def schedule(self, graph: Graph, target: Target, options: ScheduleOptions) -> Schedule:
        from stowplan_scheduler_acme.place import schedule

        return schedule(graph, target, options, f"{self.name} {self.version}")


@hook
def stowplan_schedulers() -> Sequence[Scheduler]:
    return [AcmeScheduler()]
