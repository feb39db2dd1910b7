"""Compiles a module or a model, or finds that this was done before: by its bytes, or by what it means."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from stowplan.build.runtime import Cache, layer_of
from stowplan.build.runtime import invalidate as forget
from stowplan.build.telemetry import Telemetry
from stowplan.cache import key as keys
from stowplan.cache.entry import Entry
from stowplan.cache.files import sha256
from stowplan.cache.layers import Layer, Layered
from stowplan.errors import StowplanError, UsageError
from stowplan.nouns import dataclass
from stowplan_backend_mlir.artifact import BYTECODE, Artifact, Part, functions_of, ports_of, version_of
from stowplan_backend_mlir.context import Context, context_or
from stowplan_backend_mlir.installation import llvm_revision as installed_revision
from stowplan_backend_mlir.installation import require, versions
from stowplan_backend_mlir.plan import SCHEDULE, CompilationPlan, PassStep, place_of, plan_of, source_of

KIND = "mlir"
Observer = Callable[[str, Mapping[str, Any]], object]
Facts = Mapping[str, Any]


def compile(  # noqa: A001 - the name that it has in every library of this kind
    source: object,
    plan: CompilationPlan | None = None,
    *,
    cache: Cache = "memory",
    context: Context | None = None,
    llvm_revision: str = "",
    telemetry: Observer | None = None,
    signature: int | str = 0,
    profile: bool = False,
    **options: Any,
) -> Artifact:
    """Return the bytecode of a TFLite model, or of MLIR as text, bytecode or a module of torch-mlir.

    Without a plan, `options` are those of `CompilationPlan` and `pipeline_version`; with one there may be none. A
    `context` is used and left open. `llvm_revision` stands for the installed LLVM in the key. `signature` chooses
    among a TFLite model's. Code for a `profile` reads a counter between operators, and is kept nowhere.
    Raises `UsageError`, `ModelError`, `UnsupportedError`, and `RuntimeFailure` for a crash.
    """
    if plan is not None and options:
        raise UsageError(
            f"option {sorted(options)[0]!r} beside a plan: the plan decides that; only cache, context, llvm_revision, "
            "telemetry and signature may be given"
        )
    plan = plan or plan_of(options)
    name, data = source_of(source)
    events = telemetry_of(telemetry, plan.labels)
    started = time.monotonic_ns()
    document = document_of(data, plan, signature, llvm_revision or installed_revision())
    layer = None if profile else layer_of(cache)
    return _Compilation(name, data, plan, document, layer, context, events, started, profile).artifact()


def invalidate(cache: Cache = "memory", key: str = "all") -> int:
    """Forget the entry of a lookup key in a cache, or all that compilations to MLIR left there; return how many."""
    layer = layer_of(cache)
    if layer is None:
        return 0
    if key != "all":
        return forget(layer, key=key)
    found = [one for one, record in layer.records() if record.document.get("kind") == KIND]
    return sum(layer.remove(one) for one in found)


def document_of(data: bytes, plan: CompilationPlan, signature: int | str, revision: str) -> dict[str, Any]:
    """Return everything that an artifact depends on, as the lookup key has it."""
    converter = versions()["tosa-converter-for-tflite"] if data[4:8] == b"TFL3" else None
    return {
        "format": keys.FORMAT,
        "kind": KIND,
        "source": {"digest": sha256(data), "signature": signature, "converter": converter},
        "llvm": revision,
        "plan": plan.declaration(),
    }


def telemetry_of(observer: Observer | None, labels: Mapping[str, Any]) -> Telemetry:
    """Return what tells the caller and the installed plugins what happens."""
    from stowplan.plugins.host import host

    return Telemetry(*filter(None, (host().event, observer)), labels=labels)


@dataclass(frozen=True)
class _Compilation:
    """One call of `compile`."""

    name: str
    data: bytes
    plan: CompilationPlan
    document: dict[str, Any]
    given: Layer | None
    context: Context | None
    events: Telemetry
    started_ns: int
    profile: bool

    def artifact(self) -> Artifact:
        cache = self.given or Layered([])
        key = keys.digest(self.document)
        with cache.alone(key):
            entry = self._usable(cache, key)
            lookup_ns = time.monotonic_ns() - self.started_ns
            self.events.event("lookup", key=key, start_ns=self.started_ns, duration_ns=lookup_ns)
            if entry is not None:
                self.events.event("hit", key=key, layer=entry.layer)
                return self._made(entry.files[BYTECODE], entry.meta, "hit", {"lookup": lookup_ns})
            self.events.event("miss", key=key)
            cache.note("miss", key)
            return self._compiled(cache, lookup_ns)

    def _compiled(self, cache: Layer, lookup_ns: int) -> Artifact:
        require("torch_mlir", *(("tosa_converter_for_tflite",) if self.document["source"]["converter"] else ()))
        with ExitStack() as stack:
            context = stack.enter_context(context_or(self.context))
            stack.enter_context(context.held())
            begun = time.monotonic_ns()
            parsed, _ = context.call(
                "parse", {"signature": self.document["source"]["signature"],
                          "context_options": dict(self.plan.context_options), "ticks": self.profile},
                [self.data], where=self.name,
            )  # fmt: skip
            timings = {"lookup": lookup_ns, "parse": time.monotonic_ns() - begun}
            self.events.event("parse", start_ns=begun, duration_ns=timings["parse"])
            meta = {name: parsed[name] for name in ("structure", "functions", "ports")}
            document = structure_document(self.document, parsed["structure"])
            known = self._usable(cache, keys.digest(document))
            if known is not None:
                data, status = known.files[BYTECODE], "structure"
            else:
                (data, meta["parts"]), status = self._transformed(context, parsed, timings), "miss"
        cost = {"cost_ns": sum(timings.values()), "made_ns": time.time_ns()}
        for one in (self.document, document):
            if not cache.put(Entry(document=one, files={BYTECODE: data}, meta={**meta, **cost})) and self.given:
                self.events.event("failure", key=keys.digest(one), reason="the cache took no entry")
        return self._made(data, meta, status if self.given else "off", timings)

    def _transformed(self, context: Context, parsed: Facts, timings: dict[str, int]) -> tuple[bytes, list[int]]:
        schedule, ports = self.plan.schedule, parsed["ports"]
        begun = time.monotonic_ns()
        answer, (data,) = context.call(
            "transform", {
                "module": parsed["module"], "names": ports["names"] if ports else [],
                "steps": [_sent(step) for step in self.plan.steps],
                "schedule": None if schedule is None else schedule.declaration(),
                "transform_options": dict(self.plan.transform_options), "emit_version": self.plan.emit_version,
            },
            [] if schedule is None else [schedule.bytes], where=self.name,
        )  # fmt: skip
        timings.update(transform=answer["transform_ns"], serialize=answer["serialize_ns"])
        self.events.event("transform", start_ns=begun, duration_ns=timings["transform"])
        self.events.event("serialize", start_ns=begun + timings["transform"], duration_ns=timings["serialize"])
        return data, answer["parts"]

    def _usable(self, cache: Layer, key: str) -> Entry | None:
        """Return an entry that holds what it should; any other is removed, said, and as if it were not there."""
        entry = cache.get(key)
        if entry is None:
            return None
        try:
            data, meta = entry.files[BYTECODE], entry.meta
            functions_of(meta["functions"])
            if version_of(data) <= self.plan.emit_version and len(meta["structure"]) == 64:
                return entry
            reason = "its bytecode has another version"
        except (KeyError, TypeError, AttributeError, StowplanError) as err:
            reason = f"it is no artifact: {err}"
        cache.remove(key)
        self.events.event("failure", key=key, reason=reason)
        return None

    def _made(self, data: bytes, meta: Facts, status: str, timings: Mapping[str, int]) -> Artifact:
        ports = meta["ports"]
        document = structure_document(self.document, meta["structure"])
        done = {name: timings.get(name, 0) for name in ("lookup", "parse", "transform", "serialize")}
        return Artifact(
            name=self.name, key=keys.digest({**self.document, "structure": meta["structure"]}),
            lookup_key=keys.digest(self.document), structure=meta["structure"], bytecode=data, digest=sha256(data),
            document=document, functions=functions_of(meta["functions"]),
            inputs=None if ports is None else ports_of(ports["inputs"]),
            outputs=None if ports is None else ports_of(ports["outputs"]),
            operators=0 if ports is None else ports["operators"],
            dequantized=0 if ports is None else ports["dequantized"], parts=_parts(meta),
            cache=status, timings_ns=done, labels=self.plan.labels,
        )  # fmt: skip


def _parts(meta: Facts) -> tuple[Part, ...]:
    names = meta["ports"]["names"] if meta["ports"] else []
    return tuple(Part(index=index, kind=names[index][0], name=names[index][1]) for index in meta.get("parts", ()))


def structure_document(document: Mapping[str, Any], structure: str) -> dict[str, Any]:
    """Return what bytecode depends on, whatever the source was called and however it was written."""
    return {**{name: value for name, value in document.items() if name != "source"}, "structure": structure}


def _sent(step: str | PassStep) -> str | list[str]:
    return step if isinstance(step, str) else [step.name, step.version, place_of(step)]


__all__ = ["SCHEDULE", "compile", "invalidate"]
