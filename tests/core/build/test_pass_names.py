"""The key of a plan names every pass that may change a graph, though it does not import them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from stowplan.build import passes, pipeline
from stowplan.build.keys import BUILTIN_STEPS


def test_every_pass_is_in_the_key_by_name_and_version() -> None:
    modules = [import_module(f"stowplan.build.passes.{found.name}") for found in pkgutil.iter_modules(passes.__path__)]
    named = {f"{module.NAME} {module.VERSION}" for module in modules if hasattr(module, "NAME")}
    assert named == {step for step in BUILTIN_STEPS if " " in step}


def test_the_pipeline_s_passes_are_in_the_key_in_their_order() -> None:
    done = [f"{step.name} {step.version}" for step in pipeline.BUILTIN_PASSES]
    assert [step for step in BUILTIN_STEPS if step in done] == done
