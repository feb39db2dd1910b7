"""The backend acme for stowplan: interprets plans of tables in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.plugins.kinds import Availability, Backend, Compiled, Coverage, SourceOptions

STOWPLAN_CONTRACT = 1


class AcmeBackend:
    """Interprets plans in Python; of the operators it takes those on int8 that are a table of 256 entries."""

    name: str = "acme"
    summary: str = "plans of tables, interpreted in Python"
    version: str = "1"

    def available(self) -> Availability:
        from stowplan.plugins.kinds import Availability

        return Availability(ok=True)

    def accelerators(self) -> tuple[str, ...]:
        return ("cpu",)

    def coverage(self, graph: Graph) -> Coverage:
        from stowplan_backend_acme.interpret import coverage

        return coverage(graph)

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        from stowplan_backend_acme.interpret import Interpreted

        return Interpreted(plan, poison)

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        from stowplan.errors import UsageError

        raise UsageError(f"backend {self.name} generates no sources: take -b c")


@hook
def stowplan_backends() -> Sequence[Backend]:
    return [AcmeBackend()]
