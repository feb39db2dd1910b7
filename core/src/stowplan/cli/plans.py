"""Opens the plan files that commands are given, or plans the models that are as good."""

from __future__ import annotations

from pathlib import Path

from stowplan.errors import UsageError
from stowplan.flow.model import Model
from stowplan.planfile.reader import PlanView, is_plan, read_plan


def open_plan(path: Path) -> PlanView:
    """Return the plan in a file. A model given instead is a `UsageError` that says what to do first."""
    file = Model.read(path)
    if not is_plan(file.data) and _is_model(file):
        raise UsageError(f"{path.name} is a model, not a plan: compile it first: stowplan compile {path} -m SIZE")
    return read_plan(file.data, path.name)


def plan_of(file: Model) -> PlanView:
    """Return the plan in a file, or one of a model with as much memory as it likes: nobody keeps it, nothing is proven.

    Raises `StowplanError`.
    """
    if is_plan(file.data):
        return read_plan(file.data, file.name)
    from stowplan.build.pipeline import CompileRequest, compile_model

    return read_plan(compile_model(CompileRequest(model_path=file.path, prove=False)).data)


def _is_model(file: Model) -> bool:
    from stowplan.plugins.host import host

    importers = host().importers().values()
    return any(file.path.suffix.lower() in importer.suffixes for importer in importers)
