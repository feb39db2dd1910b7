"""Times plans on this machine, operator by operator, through the C backend's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Compiled, Profile, Profiler

__version__ = "0.1.0"
CAPACITY = 65536
EVENT_BYTES = 24


@dataclass(frozen=True)
class HostProfiler:
    """Two looks at the clock for each firing; keeps totals for each node, and the last firings one by one."""

    name: str = "host"
    summary: str = "times plans on this machine, operator by operator"
    cost_bytes: int = CAPACITY * EVENT_BYTES

    def attach(self, compiled: Compiled) -> Profile:
        from stowplan_profiler_host.recording import Recording

        return Recording.of(compiled, CAPACITY)


@hook
def stowplan_profilers() -> Sequence[Profiler]:
    return [HostProfiler()]
