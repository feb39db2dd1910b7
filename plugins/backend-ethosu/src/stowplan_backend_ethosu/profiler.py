"""Vela's estimates as stowplan's profiles are read: there is nothing to record, they are there at once."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.errors import RuntimeFailure
from stowplan.plugins.kinds import Compiled, ProfileEvent, ProfileTotal
from stowplan_backend_ethosu.loading import EthosuModel
from stowplan_backend_ethosu.report import Report


class EthosuProfile:
    """The estimates of one model, operator by operator, for one run."""

    def __init__(self, report: Report) -> None:
        self._report = report
        left = len(report.operators) - report.taken
        self.note = f"{left} operators stay on the CPU, of which Vela estimates nothing" if left else ""

    @classmethod
    def of(cls, compiled: Compiled) -> EthosuProfile:
        if not isinstance(compiled, EthosuModel):
            raise RuntimeFailure(f"profiler ethosu knows Vela's models, not a {type(compiled).__name__}")
        return cls(compiled.made.report)

    def resume(self) -> None:
        """Do nothing: estimates are not recorded."""

    def pause(self) -> None:
        """Do nothing: estimates are not recorded."""

    def reset(self) -> None:
        """Do nothing: estimates are not recorded."""

    def pending(self) -> int:
        return len(self.events(0))

    def events(self, limit: int) -> Sequence[ProfileEvent]:
        found, start_ns = [], 0
        for total in self.by_operator():
            found.append(ProfileEvent(name=total.name, kind=total.kind, start_ns=start_ns, index=total.index,
                                      duration_ns=total.duration_ns, estimated=True))  # fmt: skip
            start_ns += total.duration_ns
        return found[-limit:]

    def by_kind(self) -> Sequence[ProfileTotal]:
        kinds: dict[str, list[int]] = {}
        for operator in self._report.operators:
            if operator.taken:
                kinds.setdefault(operator.kind, []).append(operator.cycles)
        totals = [
            ProfileTotal(
                name=kind, kind="operator", count=len(cycles), duration_ns=self._report.duration_ns(sum(cycles))
            )
            for kind, cycles in kinds.items()
        ]
        return sorted(totals, key=lambda total: -total.duration_ns)

    def by_operator(self) -> Sequence[ProfileTotal]:
        taken = [(index, operator) for index, operator in enumerate(self._report.operators) if operator.taken]
        return [
            ProfileTotal(name=operator.name or operator.kind, kind=operator.kind, count=1, order=order, index=index,
                         duration_ns=self._report.duration_ns(operator.cycles))
            for order, (index, operator) in enumerate(taken)
        ]  # fmt: skip
