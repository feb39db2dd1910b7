"""Runs plans on emulated boards with QEMU: their bytes, exact instruction counts, stack and arena in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook
from stowplan.plugins.kinds import Availability, BoardOptions, Coverage

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.plugins.kinds import Backend, BoardCompiled, Compiled, SourceOptions

__version__ = "0.1.0"


@dataclass(frozen=True)
class QemuBackend:
    """The generated C of a plan in a test firmware, on an emulated core. See `stowplan.plugins.kinds.BoardBackend`."""

    name: str = "qemu"
    summary: str = "emulated boards: bytes, exact instruction counts, stack and arena in use"
    version: str = __version__

    def available(self) -> Availability:
        from stowplan_profiler_qemu.boards import BOARDS
        from stowplan_profiler_qemu.tools import missing

        reasons = [missing(board) for board in BOARDS.values()]
        return Availability(ok=not all(reasons), why=reasons[0] if all(reasons) else "")

    def accelerators(self) -> tuple[str, ...]:
        return ("cpu",)

    def coverage(self, graph: Graph) -> Coverage:
        from stowplan_backend_c import CBackend

        return CBackend().coverage(graph)

    def boards(self) -> Mapping[str, str]:
        from stowplan_profiler_qemu.boards import BOARDS

        return {board.name: board.core for board in BOARDS.values()}

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        return self.compile_on(plan, BoardOptions(board="cortex-m4"))

    def compile_on(self, plan: bytes, options: BoardOptions) -> BoardCompiled:
        from stowplan_profiler_qemu.compiled import QemuCompiled

        return QemuCompiled(plan, options)

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        from stowplan_backend_c import CBackend

        return CBackend().generate(plan, options)


@hook
def stowplan_backends() -> Sequence[Backend]:
    return [QemuBackend()]
