"""Arm Ethos-U for stowplan: Vela compiles a model for the NPU, and estimates what a run will cost there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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

__version__ = "0.1.0"


class EthosuBackend:
    """Compiles .tflite files with Vela; what it makes runs on boards with an Ethos-U, not here."""

    name: str = "ethosu"
    summary: str = "Arm Ethos-U: compiles .tflite models with Vela, says what the NPU takes and estimates its cost"
    version: str = __version__

    def available(self) -> Availability:
        from stowplan.errors import RuntimeFailure
        from stowplan.plugins.kinds import Availability
        from stowplan_backend_ethosu.installation import folder

        try:
            folder()
        except RuntimeFailure as err:
            return Availability(ok=False, why=str(err))
        return Availability(ok=True)

    def accelerators(self) -> tuple[str, ...]:
        from stowplan_backend_ethosu.machine import ACCELERATORS

        return tuple(ACCELERATORS)

    def coverage(self, graph: Graph) -> Coverage:
        """Say that it takes no operator of a graph: Vela reads model files, see `partition`."""
        from stowplan.plugins.kinds import Coverage

        why = "Vela compiles model files: stowplan accelerate MODEL.tflite -b ethosu --on ethos-u55-128"
        return Coverage(taken=(), reasons=dict.fromkeys(range(len(graph.operators)), why))

    def load_model(self, model: Model, options: LoadOptions) -> Accelerated:
        from stowplan_backend_ethosu.loading import load_model

        return load_model(model, options)

    def toolchain(self, vendor: str) -> Mapping[str, str]:
        """Return all that the output depends on beside the model, with every default filled in."""
        from stowplan_backend_ethosu.installation import version
        from stowplan_backend_ethosu.machine import machine

        return {"stowplan-backend-ethosu": self.version, "ethos-u-vela": version(), **machine(vendor).facts}

    def partition(self, model: Model, vendor: str, options: LoadOptions) -> Partitioning:
        from stowplan_backend_ethosu.compiling import compiled
        from stowplan_backend_ethosu.machine import machine

        return compiled(model, machine(vendor)).counts

    def precompile(self, model: Model, vendor: str, options: LoadOptions) -> Precompiled:
        from stowplan.plugins.kinds import Precompiled
        from stowplan_backend_ethosu.compiling import compiled
        from stowplan_backend_ethosu.machine import machine

        made = compiled(model, machine(vendor))
        return Precompiled(data=made.data, counts=made.counts)

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        raise _no_plans()

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        raise _no_plans()


class EthosuProfiler:
    """Vela's estimates, operator by operator."""

    name: str = "ethosu"
    summary: str = "Vela's estimates for an Ethos-U: cycles per operator, without a board"
    cost_bytes: int = 0

    def attach(self, compiled: Compiled) -> Profile:
        from stowplan_backend_ethosu.profiler import EthosuProfile

        return EthosuProfile.of(compiled)


@hook
def stowplan_backends() -> Sequence[Backend]:
    return [EthosuBackend()]


@hook
def stowplan_profilers() -> Sequence[Profiler]:
    return [EthosuProfiler()]


def _no_plans() -> Exception:
    from stowplan.errors import UnsupportedError

    return UnsupportedError(
        "backend ethosu compiles models, not plans: stowplan accelerate MODEL.tflite -b ethosu --aot ethos-u55-128, "
        "or take -b c for the plan"
    )
