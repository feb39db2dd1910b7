"""Opens a model for the command line and for `stowplan.plugins.kinds.ModelBackend`: one environment, one model."""

from __future__ import annotations

from typing import Any

from stowplan.flow.model import Model
from stowplan.plugins.kinds import Accelerated, LoadOptions
from stowplan_backend_litert.compiled import CompiledModel
from stowplan_backend_litert.environments import Environment


def load_model(model: Model, options: LoadOptions) -> Accelerated:
    """Compile a model for the first accelerator that takes any of it."""
    wanted: dict[str, Any] = dict(
        accelerators=options.accelerators,
        precision=options.precision,
        profile=options.profile,
        signature=options.signature,
        threads=options.threads,
        npu_device=options.device or "default",
    )
    if options.isolated:
        from stowplan_backend_litert.isolated import Isolated

        return Isolated(model, **wanted)
    with Environment() as env:  # what the model uses of it lives on
        return CompiledModel(env, model, **wanted)
