"""The default scheduler: operators run row by row, interleaved, and every row has its own place in memory."""

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
class StreamScheduler:
    """Whole tensors where they fit; else regions of interleaved rows; else regions with spills between them."""

    name: str = "stream"
    summary: str = "streams rows through regions of operators, spills between regions"
    version: str = "3"

    def schedule(self, graph: Graph, target: Target, options: ScheduleOptions) -> Schedule:
        from stowplan_scheduler_stream.scheduler import schedule

        return schedule(graph, target, options, f"{self.name} {self.version}")


@hook
def stowplan_schedulers() -> Iterable[Scheduler]:
    return [StreamScheduler()]
