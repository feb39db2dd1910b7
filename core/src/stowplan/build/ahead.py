"""Compiles a model for a vendor's chip, or finds that this was done before with the same tools."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from stowplan.cache import key as cachekey
from stowplan.cache.entry import Entry
from stowplan.flow.model import Model
from stowplan.nouns import asdict
from stowplan.plugins.kinds import LoadOptions, ModelBackend, Partitioning, Precompiled

if TYPE_CHECKING:
    from stowplan.cache.layers import Layer

FILE = "model.tflite"


def document(backend: ModelBackend, model: Model, vendor: str, options: LoadOptions) -> dict[str, Any]:
    """Return everything that the compiled model depends on."""
    return {
        "format": cachekey.FORMAT,
        "kind": "precompiled",
        "source": {"name": model.name, "digest": model.digest},
        "target": {"vendor": vendor, "device": options.device},
        "options": {"signature": options.signature, "precision": options.precision},
        "toolchain": {"backend": backend.name, "tools": dict(backend.toolchain(vendor))},
    }


def precompile(
    backend: ModelBackend, model: Model, vendor: str, options: LoadOptions, cache: Layer | None, recache: bool = False
) -> tuple[Precompiled, bool]:
    """Return the compiled model, and whether it was found. Raises what the backend raises."""
    question = document(backend, model, vendor, options)
    key = cachekey.digest(question)
    with nullcontext() if cache is None else cache.alone(key):
        found = None if cache is None or recache else _found(cache, key)
        if found is not None:
            return found, True
        made = backend.precompile(model, vendor, options)
        if cache is not None:
            cache.put(Entry(document=question, files={FILE: made.data}, meta={"counts": asdict(made.counts)}))
        return made, False


def _found(cache: Layer, key: str) -> Precompiled | None:
    entry = cache.get(key)
    if entry is None or FILE not in entry.files:
        return None
    try:
        counts = Partitioning(**{name: int(count) for name, count in entry.meta["counts"].items()})
    except (KeyError, TypeError, ValueError, AttributeError):  # another version's entry: a miss
        return None
    return Precompiled(data=entry.files[FILE], counts=counts)
