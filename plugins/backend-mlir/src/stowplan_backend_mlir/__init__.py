"""MLIR for stowplan: TFLite models through TOSA to bytecode, to runs on this machine, and to object files."""

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
    from stowplan_backend_mlir.artifact import Artifact as Artifact
    from stowplan_backend_mlir.compiling import compile as compile  # noqa: A004 - as in every library of this kind
    from stowplan_backend_mlir.compiling import invalidate as invalidate
    from stowplan_backend_mlir.context import Context as Context
    from stowplan_backend_mlir.engine import Emitted as Emitted
    from stowplan_backend_mlir.engine import Jit as Jit
    from stowplan_backend_mlir.engine import emit as emit
    from stowplan_backend_mlir.engine import emit_object as emit_object
    from stowplan_backend_mlir.engine import jit as jit
    from stowplan_backend_mlir.installation import llvm_revision as llvm_revision
    from stowplan_backend_mlir.plan import CompilationPlan as CompilationPlan
    from stowplan_backend_mlir.plan import PassStep as PassStep
    from stowplan_backend_mlir.plan import Schedule as Schedule

__version__ = "0.1.0"
_HOMES = {
    "Artifact": "artifact", "compile": "compiling", "invalidate": "compiling", "Context": "context",
    "Emitted": "engine", "Jit": "engine", "emit": "engine", "emit_object": "engine", "jit": "engine",
    "llvm_revision": "installation", "CompilationPlan": "plan", "PassStep": "plan", "Schedule": "plan",
    "LLVM": "plan", "SCHEDULE": "plan",
}  # fmt: skip
__all__ = ["LLVM", "SCHEDULE", "Artifact", "CompilationPlan", "Context", "Emitted", "Jit", "PassStep", "Schedule",
           "compile", "emit", "emit_object", "invalidate", "jit", "llvm_revision"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is used when it is used: this module is imported to list what is installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


class MlirBackend:
    """Compiles .tflite files through TOSA and LLVM for this machine's processor."""

    name: str = "mlir"
    summary: str = "MLIR and LLVM: compiles .tflite models through TOSA, runs them here, makes object files of them"
    version: str = __version__

    def available(self) -> Availability:
        from stowplan.errors import RuntimeFailure
        from stowplan.plugins.kinds import Availability
        from stowplan_backend_mlir.installation import require

        try:
            require("torch_mlir", "tosa_converter_for_tflite")
        except RuntimeFailure as err:
            return Availability(ok=False, why=str(err))
        return Availability(ok=True)

    def accelerators(self) -> tuple[str, ...]:
        return ("cpu",)

    def coverage(self, graph: Graph) -> Coverage:
        """Say that it takes no operator of a graph: the converter reads model files."""
        from stowplan.plugins.kinds import Coverage

        why = "MLIR compiles model files: stowplan accelerate MODEL.tflite -b mlir --on cpu"
        return Coverage(taken=(), reasons=dict.fromkeys(range(len(graph.operators)), why))

    def load_model(self, model: Model, options: LoadOptions) -> Accelerated:
        from stowplan_backend_mlir.loading import load_model

        return load_model(model, options)

    def toolchain(self, vendor: str) -> Mapping[str, str]:
        """Return all that the output depends on beside the model, with every default filled in."""
        from stowplan_backend_mlir.target import target

        return {"stowplan-backend-mlir": self.version, **target(vendor).facts}

    def partition(self, model: Model, vendor: str, options: LoadOptions) -> Partitioning:
        from stowplan_backend_mlir.loading import partition

        return partition(model, vendor, options)

    def precompile(self, model: Model, vendor: str, options: LoadOptions) -> Precompiled:
        from stowplan_backend_mlir.loading import precompile

        return precompile(model, vendor, options)

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        raise _no_plans()

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        raise _no_plans()


class MlirProfiler:
    """Times what each operator of a model became."""

    name: str = "mlir"
    summary: str = "models of backend mlir, operator by operator: code that reads the processor's counter between them"
    cost_bytes: int = 0

    def attach(self, compiled: Compiled) -> Profile:
        from stowplan_backend_mlir.profiler import MlirProfile

        return MlirProfile.of(compiled)


@hook
def stowplan_backends() -> Sequence[Backend]:
    return [MlirBackend()]


@hook
def stowplan_profilers() -> Sequence[Profiler]:
    return [MlirProfiler()]


def _no_plans() -> Exception:
    from stowplan.errors import UnsupportedError

    return UnsupportedError(
        "backend mlir compiles models, not plans: stowplan accelerate MODEL.tflite -b mlir --aot cpu -o MODEL.o, "
        "or take -b c for the plan"
    )
