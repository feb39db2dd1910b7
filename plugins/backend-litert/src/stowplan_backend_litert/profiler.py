"""LiteRT's profiler as stowplan's profilers are used: paused when attached, recording between `resume` and `pause`."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.errors import RuntimeFailure
from stowplan.plugins.kinds import Compiled, ProfileEvent, ProfileTotal
from stowplan_backend_litert.compiled import CompiledModel
from stowplan_backend_litert.isolated import Isolated
from stowplan_backend_litert.recorder import Event


class LiteRtProfile:
    """The recording of one model that was compiled with `profile=True`."""

    def __init__(self, model: CompiledModel | Isolated) -> None:
        self._model = model
        self.note = model.profile_note
        model.pause_profile()
        model.reset_profile()

    @classmethod
    def of(cls, compiled: Compiled) -> LiteRtProfile:
        if not isinstance(compiled, (CompiledModel, Isolated)):
            raise RuntimeFailure(f"profiler litert records LiteRT's models, not a {type(compiled).__name__}")
        return cls(compiled)

    def resume(self) -> None:
        self._model.resume_profile()

    def pause(self) -> None:
        self._model.pause_profile()

    def pending(self) -> int:
        return self._model.pending_events()

    def events(self, limit: int) -> Sequence[ProfileEvent]:
        found = self._model.profile(limit)
        first = min((event.start_us for event in found if event.start_us), default=0)
        return [_translated(event, first) for event in found if _timed(event)]

    def reset(self) -> None:
        self._model.reset_profile()

    def by_kind(self) -> Sequence[ProfileTotal]:
        return [
            ProfileTotal(name=entry.tag, kind=entry.kind, count=entry.count, duration_ns=entry.us * 1000)
            for entry in self._model.summarise_profile()
        ]

    def by_operator(self) -> Sequence[ProfileTotal]:
        return [
            ProfileTotal(name=entry.tag, kind=entry.kind, count=entry.count, duration_ns=entry.us * 1000,
                         order=entry.order, index=entry.node)
            for entry in self._model.profile_nodes()
        ]  # fmt: skip


def _timed(event: Event) -> bool:
    """Say whether an event has a time: LiteRT's telemetry puts other numbers where the duration is."""
    return not (isinstance(event.type, str) and event.type.startswith("telemetry"))


def _translated(event: Event, first_us: int) -> ProfileEvent:
    return ProfileEvent(
        name=event.tag,
        kind=str(event.type) if event.tag != "run" else "run",
        start_ns=max(event.start_us - first_us, 0) * 1000,
        duration_ns=event.us * 1000,
        index=event.node,
        estimated=event.start_estimated,
    )
