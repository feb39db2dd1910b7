"""Records which hooks were called in which plugin with what: for tests of plugins, observers above all.

with record_hooks() as calls:
    host().event("compiled", {"size_bytes": 7})
assert calls.of("stowplan_event")[0].arguments["name"] == "compiled"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stowplan.nouns import dataclass
from stowplan.plugins import host as host_module


@dataclass(frozen=True, kw_only=True)
class HookCall:
    """One call of one hook: its name, the modules that answered, and what they were given."""

    hook: str
    plugins: tuple[str, ...]
    arguments: Mapping[str, Any]


class HookCalls(list[HookCall]):
    """The calls so far, oldest first."""

    def of(self, hook: str) -> list[HookCall]:
        return [call for call in self if call.hook == hook]

    def note(self, hook: str, plugins: tuple[str, ...], arguments: Mapping[str, Any]) -> None:
        self.append(HookCall(hook=hook, plugins=plugins, arguments=dict(arguments)))


@contextmanager
def record_hooks() -> Iterator[HookCalls]:
    """Record the calls of every hook in this process while the block runs."""
    calls = HookCalls()
    host_module.WATCHERS.append(calls.note)
    try:
        yield calls
    finally:
        host_module.WATCHERS.remove(calls.note)
