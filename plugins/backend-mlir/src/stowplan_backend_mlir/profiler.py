"""Where the time of a model goes, operator by operator: code that was made for it reads a counter between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from stowplan.errors import RuntimeFailure
from stowplan.plugins.kinds import Compiled, ProfileEvent, ProfileTotal
from stowplan_backend_mlir.artifact import Part
from stowplan_backend_mlir.loading import MlirModel

MOST_EVENTS = 100_000


class MlirProfile:
    """The recording of one model. A part's share of the counter is its share of the run's time."""

    note = ""

    def __init__(self, model: MlirModel) -> None:
        self.is_on = False
        self._parts = model.artifact.parts
        self._model = model
        self.reset()

    @classmethod
    def of(cls, compiled: Compiled) -> MlirProfile:
        if not isinstance(compiled, MlirModel):
            raise RuntimeFailure(f"profiler mlir records models of backend mlir, not a {type(compiled).__name__}")
        if not compiled.artifact.parts:
            raise RuntimeFailure("this model was not compiled for a profile: load it with profile=True")
        return cls(compiled)

    def note_run(self, started_ns: int, duration_ns: int, ticks: Sequence[int]) -> None:
        """Take in one run."""
        whole = max(ticks[-1] - ticks[0], 1)
        self._runs += 1
        for place, part in enumerate(self._parts):
            spent = round(duration_ns * (ticks[place + 1] - ticks[place]) / whole)
            start = started_ns + round(duration_ns * (ticks[place] - ticks[0]) / whole)
            self._spent[place] += spent
            self._events.append((part, start, spent))

    def resume(self) -> None:
        self._model.recording, self.is_on = self, True

    def pause(self) -> None:
        self.is_on = False

    def reset(self) -> None:
        self._runs = 0
        self._spent = [0] * len(self._parts)
        self._events: deque[tuple[Part, int, int]] = deque(maxlen=MOST_EVENTS)

    def pending(self) -> int:
        return len(self._events)

    def events(self, limit: int) -> Sequence[ProfileEvent]:
        kept = list(self._events)[-limit:]
        return [
            ProfileEvent(name=part.name or part.kind, kind=part.kind, start_ns=start - kept[0][1], duration_ns=spent,
                         index=part.index, estimated=True)
            for part, start, spent in kept
        ]  # fmt: skip

    def by_kind(self) -> Sequence[ProfileTotal]:
        kinds: dict[str, dict[int, int]] = {}
        for part, spent in zip(self._parts, self._spent, strict=True):
            found = kinds.setdefault(part.kind, {})
            found[part.index] = found.get(part.index, 0) + spent
        totals = [
            ProfileTotal(name=kind, kind="operator", count=self._runs * len(found), duration_ns=sum(found.values()))
            for kind, found in kinds.items()
        ]
        return sorted(totals, key=lambda total: -total.duration_ns) if self._runs else []

    def by_operator(self) -> Sequence[ProfileTotal]:
        """Return each operator where it begins first; MLIR may do a part of it later."""
        spent: dict[int, int] = {}
        for part, one in zip(self._parts, self._spent, strict=True):
            spent[part.index] = spent.get(part.index, 0) + one
        first = {part.index: part for part in reversed(self._parts)}
        return [
            ProfileTotal(name=first[index].name or first[index].kind, kind=first[index].kind, count=self._runs,
                         duration_ns=total, order=order, index=index)
            for order, (index, total) in enumerate(spent.items())
        ] if self._runs else []  # fmt: skip
