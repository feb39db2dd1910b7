"""LiteRT for stowplan: its accelerators answered honestly, its profiler, and one model shared safely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.model import Model
    from stowplan.plugins.kinds import (
        Accelerated,
        Availability,
        Backend,
        Compiled,
        Coverage,
        LoadOptions,
        Partitioning,
        Precompiled,
        Profile,
        Profiler,
        SourceOptions,
    )
    from stowplan_backend_litert.compiled import CompiledModel as CompiledModel
    from stowplan_backend_litert.environments import Environment as Environment
    from stowplan_backend_litert.environments import environment as environment
    from stowplan_backend_litert.environments import platform_support as platform_support
    from stowplan_backend_litert.isolated import Isolated as Isolated
    from stowplan_backend_litert.library import available as available
    from stowplan_backend_litert.modelfile import signatures as signatures
    from stowplan_backend_litert.server import Client as Client
    from stowplan_backend_litert.server import Server as Server

__version__ = "0.1.0"
_HOMES = {
    "CompiledModel": "compiled", "Environment": "environments", "environment": "environments",
    "platform_support": "environments", "available": "library", "signatures": "modelfile", "Isolated": "isolated",
    "Server": "server", "Client": "server",
}  # fmt: skip
__all__ = ["Client", "CompiledModel", "Environment", "Isolated", "Server", "available", "environment",
           "platform_support", "signatures"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is used when it is used: this module is imported to list what is installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


class LiteRtBackend:
    """Compiles .tflite files through LiteRT; it runs models, not plans."""

    name: str = "litert"
    summary: str = "LiteRT: runs .tflite models on CPU, GPU and NPU, and says what the accelerator took"
    version: str = __version__

    def available(self) -> Availability:
        from stowplan.plugins.kinds import Availability
        from stowplan_backend_litert.errors import LiteRtError
        from stowplan_backend_litert.library import library

        try:
            library()
        except LiteRtError as err:
            return Availability(ok=False, why=str(err))
        return Availability(ok=True)

    def accelerators(self) -> tuple[str, ...]:
        from stowplan_backend_litert.environments import Environment

        with Environment() as env:
            return tuple(accelerator.kind for accelerator in env.accelerators())

    def coverage(self, graph: Graph) -> Coverage:
        """Say that the CPU takes every operator: what an accelerator takes is known by compiling the model itself."""
        from stowplan.plugins.kinds import Coverage

        return Coverage(taken=tuple(range(len(graph.operators))), reasons={})

    def load_model(self, model: Model, options: LoadOptions) -> Accelerated:
        from stowplan_backend_litert.loading import load_model

        return load_model(model, options)

    def toolchain(self, vendor: str) -> Mapping[str, str]:
        from stowplan_backend_litert.ahead import toolchain

        return {"stowplan-backend-litert": self.version, **toolchain(vendor)}

    def partition(self, model: Model, vendor: str, options: LoadOptions) -> Partitioning:
        from stowplan_backend_litert.ahead import partition

        return partition(model, vendor, options)

    def precompile(self, model: Model, vendor: str, options: LoadOptions) -> Precompiled:
        from stowplan_backend_litert.ahead import precompile

        return precompile(model, vendor, options)

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        raise _no_plans()

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        raise _no_plans()


class LiteRtProfiler:
    """LiteRT's own profiler, operator by operator."""

    name: str = "litert"
    summary: str = "LiteRT's profiler: time per operator; whole runs where the accelerator records none"
    cost_bytes: int = 68 * 1024 * 1024

    def attach(self, compiled: Compiled) -> Profile:
        from stowplan_backend_litert.profiler import LiteRtProfile

        return LiteRtProfile.of(compiled)


@hook
def stowplan_backends() -> Sequence[Backend]:
    return [LiteRtBackend()]


@hook
def stowplan_profilers() -> Sequence[Profiler]:
    return [LiteRtProfiler()]


def _no_plans() -> Exception:
    from stowplan.errors import UnsupportedError

    return UnsupportedError(
        "backend litert runs models, not plans: stowplan accelerate MODEL.tflite, or take -b c for the plan"
    )
