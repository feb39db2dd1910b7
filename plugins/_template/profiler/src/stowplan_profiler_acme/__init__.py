"""The profiler acme for stowplan: times whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Compiled, Profile, Profiler

STOWPLAN_CONTRACT = 1
KEPT_EVENTS = 4096


class AcmeProfiler:
    """Looks at the clock before and after each run."""

    name: str = "acme"
    summary: str = "times whole runs of any backend"
    cost_bytes: int = KEPT_EVENTS * 16

    def attach(self, compiled: Compiled) -> Profile:
        from stowplan_profiler_acme.recording import Recording

        return Recording(compiled, KEPT_EVENTS)


@hook
def stowplan_profilers() -> Sequence[Profiler]:
    return [AcmeProfiler()]
