"""Plans beside the one asked for: other pools, the least memory there is; each checked, and proven on demand."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build.passes import planes
from stowplan.build.pipeline import POOL_NAMES, Session
from stowplan.build.planning import Lowering, PlanOptions, plan_uncompressed
from stowplan.build.work import recompute_factor
from stowplan.flow.plan import Plan
from stowplan.flow.target import Pool, Target
from stowplan.nouns import dataclass
from stowplan.planfile.writer import write_plan
from stowplan.plugins.kinds import Metrics, ScheduleOptions

UNLIMITED = None


@dataclass(frozen=True)
class Asker:
    """Asks the session's scheduler for plans, with at most `time_limit_s` for each.

    Inputs that the session streams are streamed here too, unless others are named.
    """

    session: Session
    time_limit_s: float | None = None

    def plan(self, *sizes: int | None) -> Plan:
        """Return a checked plan for pools of these sizes, fast and then slow. Raises `DoesNotFit`."""
        asked = ScheduleOptions(
            time_limit_s=self.time_limit_s,
            streamed_inputs=self.session.streamed,
            recompute=self.session.request.recompute,
        )
        return self._plan(sizes, asked)

    def least(
        self, *, slow: bool, streamed_inputs: tuple[int, ...] | None = None, recompute: float | None = None
    ) -> Plan:
        """Return the checked plan with the smallest fast pool that the scheduler finds."""
        streamed = self.session.streamed if streamed_inputs is None else streamed_inputs
        asked = ScheduleOptions(
            thorough=True,
            optimal=self.session.request.optimal,
            time_limit_s=self.time_limit_s,
            streamed_inputs=streamed,
            recompute=self.session.request.recompute if recompute is None else recompute,
        )
        return self._plan((UNLIMITED, UNLIMITED) if slow else (UNLIMITED,), asked)

    def recompute(self, plan: Plan) -> float:
        """Return how many times the model's arithmetic a plan does."""
        return recompute_factor(self.session.graph, plan.graph)

    def prove(self, plan: Plan) -> tuple[Metrics, ...]:
        """Run a plan. Raises `ProofFailed`."""
        return self.session.prove(write_plan(plan), self._lowering(plan.schedule.streamed))

    def _lowering(self, streamed: Sequence[int]) -> Lowering:
        """Return the session's operators, or those of the graph in which other inputs arrive row by row."""
        session = self.session
        graph = planes.arriving_pixels(session.graph, streamed)
        return session.lowering if graph is session.graph else Lowering(graph)

    def _plan(self, sizes: tuple[int | None, ...], asked: ScheduleOptions) -> Plan:
        session = self.session
        pools = tuple(Pool(name=name, size_bytes=size) for name, size in zip(POOL_NAMES, sizes, strict=False))
        scheduler = session.host.schedulers()[session.request.scheduler]
        options = PlanOptions(schedule=asked)
        lowering = self._lowering(asked.streamed_inputs)
        return plan_uncompressed(session.model, lowering, Target(pools=pools), scheduler, options)
