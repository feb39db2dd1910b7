"""Compiles again what the cache has, and compares: a build that gives other bytes from the same inputs is our fault."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from stowplan.build.artifact import Artifact
from stowplan.build.identity import Identities
from stowplan.build.incremental import ask, compile_incremental
from stowplan.build.request import CompileRequest
from stowplan.build.telemetry import Telemetry
from stowplan.cache.key import differences
from stowplan.cache.layers import Layer
from stowplan.errors import InternalFault, PlanError, StowplanError
from stowplan.flow.model import Model
from stowplan.nouns import replace
from stowplan.planfile.reader import PlanView, read_plan
from stowplan.plugins.host import Host

VERIFIED = "verified"
_FOLLOWING = ("digest", "file_bytes")
"""Fields of a plan's header that differ because something else does: named only when nothing else is."""


def compile_verified(
    request: CompileRequest,
    cache: Layer,
    *,
    plugins: Host,
    telemetry: Telemetry,
    model: Model | None = None,
    identities: Identities | None = None,
) -> Artifact:
    """Return the cache's plan after compiling it anew without a cache and comparing; what is not cached is, first.

    Raises `InternalFault` when the two differ; the cache keeps what it has. Raises what `compile_model` raises, and
    `StowplanError` when a tool changes in between.
    """
    model = model or Model.read(request.model_path)
    identities = identities or Identities(plugins)
    cached = compile_incremental(
        request, cache, plugins=plugins, telemetry=telemetry, model=model, identities=identities
    )
    with telemetry.span("verify", key=cached.key):
        made = compile_incremental(
            request, None, plugins=plugins, telemetry=telemetry, model=model, identities=identities
        )
        difference = first_difference(cached, made)
        if difference:
            # Asked again with all digests looked up anew: a tool that was edited in between is no fault of anybody.
            if ask(request, plugins, model).key != cached.key:
                raise StowplanError(f"{model.name}: a tool changed while the plan was verified; run it again")
            raise InternalFault(_fault(request, cached.key, difference))
    return replace(cached, cache=VERIFIED, plan=made.plan)


def first_difference(cached: Artifact, made: Artifact) -> str:
    """Say where two results differ first, with the cached value and the new one; empty when they are equal."""
    if cached.data != made.data:
        return plan_difference(cached.data, made.data)
    found = differences(_facts(cached.metadata["facts"]), _facts(made.metadata["facts"]))
    return f"report, {found[0]}" if found else ""


def plan_difference(cached: bytes, made: bytes) -> str:
    """Say where two plans differ first: a field of the header, a section, or what no section holds."""
    try:
        old = read_plan(cached, "the cached file")
    except PlanError as err:
        return str(err)
    new = read_plan(made)
    return _header_difference(old, new) or _section_difference(old, new) or "bytes between the sections"


def _header_difference(old: PlanView, new: PlanView) -> str:
    for name, value in new.header.items():
        if name not in _FOLLOWING and old.header[name] != value:
            return f"header, {name}: {_shown(old.header[name])} -> {_shown(value)}"
    return ""


def _section_difference(old: PlanView, new: PlanView) -> str:
    for name in {**new.sections, **old.sections}:
        before, after = _section(old, name), _section(new, name)
        if len(before) != len(after):
            return f"section {name}, {len(before)} -> {len(after)} bytes"
        if before != after:
            return f"section {name}, byte {_first(before, after)} of {len(before)}"
    return ""


def _section(plan: PlanView, name: str) -> bytes:
    start, size, _ = plan.sections.get(name, (0, 0, 0))
    return plan.data[start : start + size]


def _first(before: bytes, after: bytes) -> int:
    return next(index for index, (a, b) in enumerate(zip_longest(before, after)) if a != b)


def _shown(value: int | bytes) -> str:
    return f"{value.hex()[:12]}..." if isinstance(value, bytes) else str(value)


def _facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts that follow from the inputs: how long the proof took is none, whether there was one is."""
    return {**document, "proof": bool(document.get("proof"))}


def _fault(request: CompileRequest, key: str, difference: str) -> str:
    return (
        f"{request.model_path.name}: compiled anew, the plan is not the cached one: {difference} (cache entry "
        f"{key[:12]}...). The build is not reproducible, or somebody else wrote the entry; nothing was overwritten. "
        f"Please report this; --recache replaces the entry"
    )
