"""The hooks a plugin may implement: the whole contract between stowplan and its plugins.

A plugin is a distribution with one entry point in the group `stowplan`, whose value is a module with functions of
these names. Each returns records (see `plugins/kinds.py`); the work is in the records' methods. A plugin module
imports nothing heavy: it holds the record, and the record's methods import what they need.

    # pyproject.toml
    [project.entry-points.stowplan]
    importer-acme = "stowplan_importer_acme"

    # stowplan_importer_acme/__init__.py
    from stowplan.plugins.hooks import hook

    @hook
    def stowplan_importers():
        return [AcmeImporter()]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from stowplan.flow.target import Target
    from stowplan.plugins.kinds import Backend, Compressor, Importer, Profiler, Scheduler

PROJECT = "stowplan"
Function = TypeVar("Function", bound=Callable[..., Any])


def hook(function: Function) -> Function:
    """Mark a plugin's function as an implementation of the hook of that name.

    The same mark as `pluggy.HookimplMarker("stowplan")` sets, without importing pluggy on a warm start.
    """
    options = dict(wrapper=False, hookwrapper=False, optionalhook=False, tryfirst=False, trylast=False, specname=None)
    setattr(function, PROJECT + "_impl", options)
    return function


def _spec(function: Function) -> Function:
    options = dict(firstresult=False, historic=False, warn_on_impl=None, warn_on_impl_args=None)
    setattr(function, PROJECT + "_spec", options)
    return function


@_spec
def stowplan_importers() -> Iterable[Importer]:
    """Offer importers of model formats."""
    raise NotImplementedError


@_spec
def stowplan_schedulers() -> Iterable[Scheduler]:
    """Offer schedulers."""
    raise NotImplementedError


@_spec
def stowplan_compressors() -> Iterable[Compressor]:
    """Offer compressors of constants."""
    raise NotImplementedError


@_spec
def stowplan_backends() -> Iterable[Backend]:
    """Offer backends, which run plans or generate code from them."""
    raise NotImplementedError


@_spec
def stowplan_profilers() -> Iterable[Profiler]:
    """Offer profilers."""
    raise NotImplementedError


@_spec
def stowplan_targets() -> Iterable[Target]:
    """Offer targets: machines by name, with their memories."""
    raise NotImplementedError


@_spec
def stowplan_event(name: str, facts: Mapping[str, object]) -> None:
    """Observe something that happened (`facts` are plain data). A failure here is reported and contained."""
