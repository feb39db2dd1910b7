"""The key documents of the build: of a model's bytes, and of a graph's meaning for early cut-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stowplan.build.identity import Identities
from stowplan.build.passes import channels, pads, planes
from stowplan.build.request import CompileRequest
from stowplan.cache.key import FORMAT
from stowplan.errors import UsageError
from stowplan.nouns import asdict

SCHEMA_VERSION = 1
"""Goes up when graphs or canonical operators mean something else than before."""
BUILTIN_STEPS = (
    "import", f"{pads.NAME} {pads.VERSION}", f"{channels.NAME} {channels.VERSION}", f"{planes.NAME} {planes.VERSION}",
    "schedule", "verify", "lower", "pack", "prove", "serialize",
)  # fmt: skip


def plan_document(
    request: CompileRequest, model_digest: str, identities: Identities, external: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything the plan of a model depends on, defaults filled in, labelled for explanations.

    `external` are the files beside the model that hold a part of it: name and SHA-256.
    """
    return {
        "format": FORMAT,
        "kind": "plan",
        "source": {"name": request.model_path.name, "digest": model_digest, "external": dict(external)},
        "target": _target(request),
        "schedule": _schedule(request, identities),
        "pipeline": _pipeline(request),
        "schema": {"version": SCHEMA_VERSION, "user": request.schema_version},
        "emit": {"plan": emit_version(request.emit_version)},
        "options": _options(request),
        "toolchain": request.toolchain_revision or identities.toolchain(request),
    }


def schedule_document(
    document: Mapping[str, Any], graph_digest: str, numbering: str, streamed: Sequence[int]
) -> dict[str, Any]:
    """Return the key of the schedule behind a plan: the graph's meaning instead of the file it was read from.

    Importers are left out: what they did is in the graph. So are the names that the plan keeps; `streamed` are the
    tensors whose names were asked for.
    """
    toolchain = document["toolchain"]
    if isinstance(toolchain, Mapping):
        plugins = {n: facts for n, facts in toolchain["plugins"].items() if not n.startswith("importer ")}
        toolchain = {**toolchain, "plugins": plugins}
    shared = {name: part for name, part in document.items() if name not in ("source", "toolchain", "kind")}
    graph = {"digest": graph_digest, "numbering": numbering}
    options = {**document["schedule"]["options"], "stream_inputs": list(streamed)}
    schedule = {**document["schedule"], "options": options}
    return {**shared, "kind": "schedule", "graph": graph, "schedule": schedule, "toolchain": toolchain}


def emit_version(requested: str | None) -> str:
    """Return the version of plan files to write. Raises `UsageError` for one that this tool does not write."""
    from stowplan.planfile.layout import VERSION_MAJOR, VERSION_MINOR

    current = f"{VERSION_MAJOR}.{VERSION_MINOR}"
    if requested not in (None, current):
        raise UsageError(f"plan version {requested}: this stowplan writes version {current}; leave it out or name that")
    return current


def _target(request: CompileRequest) -> dict[str, Any]:
    target = asdict(request.target)
    target["pools"] = {pool["name"]: pool for pool in target["pools"]}
    if request.target_label:
        target["label"] = request.target_label
    return target


def _schedule(request: CompileRequest, identities: Identities) -> dict[str, Any]:
    versions = [offer.version for _, offer in identities.host.offered("scheduler", request.scheduler)]
    return {
        "scheduler": request.scheduler,
        "version": versions[0] if versions else "",
        # Not the time limit: a plan that it cut short is never stored, and any other is what no limit would give.
        "options": {
            "optimal": request.optimal,
            "recompute": request.recompute,
            "stream_inputs": sorted(request.stream_inputs),
        },
    }


def _pipeline(request: CompileRequest) -> dict[str, Any]:
    first, *rest = BUILTIN_STEPS
    steps = [first, *(f"{step.name} {step.version}" for step in request.steps), *rest]
    if not request.prove:
        steps.remove("prove")
    return {"steps": steps}


def _options(request: CompileRequest) -> dict[str, Any]:
    return {
        "backend": request.backend,
        "compressor": request.compressor,
        "input_shapes": {name: list(shape) for name, shape in request.input_shapes.items()},
        "keep_names": request.keep_names,
        "prove": request.prove,
        "xip": request.xip,
    }
