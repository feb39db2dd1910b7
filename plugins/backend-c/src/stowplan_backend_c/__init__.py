"""The C backend: runs plans on this machine through the C runtime, and generates C for firmware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook
from stowplan.plugins.kinds import Availability, Coverage

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.plugins.kinds import Backend, Compiled, SourceOptions

__version__ = "0.1.0"


@dataclass(frozen=True)
class CBackend:
    """Portable C kernels; the host library is compiled on first use and kept in the user's cache."""

    name: str = "c"
    summary: str = "portable C11 runtime: runs plans here, generates sources for firmware"
    version: str = __version__

    def available(self) -> Availability:
        from stowplan.errors import RuntimeFailure
        from stowplan.native.toolchain import find_compiler

        try:
            find_compiler()
        except RuntimeFailure as err:
            return Availability(ok=False, why=str(err))
        return Availability(ok=True)

    def host_identity(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return what plans run with here, for cache keys: compiler and processor, and the files to watch for them."""
        from stowplan.native.describe import host_identity

        return host_identity()

    def accelerators(self) -> tuple[str, ...]:
        return ("cpu",)

    def coverage(self, graph: Graph) -> Coverage:
        from stowplan_backend_c.coverage import coverage

        return coverage(graph)

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        from stowplan_backend_c.host import HostCompiled

        return HostCompiled(plan, poison)

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        from stowplan_backend_c.codegen import generate

        return generate(plan, options)


@hook
def stowplan_backends() -> Sequence[Backend]:
    return [CBackend()]
