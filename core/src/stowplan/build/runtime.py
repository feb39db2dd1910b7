"""The incremental compiler as a library: compile, emit objects and load models, each from the cache where possible."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from stowplan.build.artifact import Artifact
from stowplan.build.compilation import CompilationPlan, plan_of
from stowplan.build.identity import Identities
from stowplan.build.incremental import compile_incremental
from stowplan.build.loaded import Loaded
from stowplan.build.telemetry import Observer, Telemetry
from stowplan.cache import key as keys
from stowplan.cache.entry import Record
from stowplan.cache.files import sha256
from stowplan.cache.layers import Layer, Layered, Memory
from stowplan.cache.store import Store
from stowplan.errors import ModelError, UsageError
from stowplan.flow.model import Model
from stowplan.plugins.host import Host, host

Source = str | Path | bytes | Model
Cache = Literal["memory", "disk", "layered", "off"] | Layer
RUNTIME_OPTIONS = ("cache", "context", "telemetry", "toolchain_revision")
"""What may be given beside a plan: where to keep results, which plugins, who is told. All else is the plan's to say."""

_memory = Memory()


class CompilationRuntime:
    """Compiles models incrementally. Safe for several threads; results are the same with any cache and with none.

    `cache` is memory (of this process), disk (of this user), layered (both, the default), off, or a layer of your own.
    `context` are the plugins to use. `telemetry` is called with each event's name and facts.
    """

    def __init__(
        self,
        cache: Cache = "layered",
        *,
        context: Host | None = None,
        telemetry: Observer | None = None,
        toolchain_revision: str = "",
    ) -> None:
        self.cache = layer_of(cache)
        self.context = context or host()
        self.observer = telemetry
        self.revision = toolchain_revision

    def compile(self, source: Source, plan: CompilationPlan | None = None, **options: Any) -> Artifact:
        """Return the artifact of a model: a file, its bytes (then named `model.tflite`), or a `Model`.

        Without a plan, `options` are those of `CompilationPlan`; with one, only `cache`, `context`, `telemetry` and
        `toolchain_revision` may be given. Raises `UsageError` for others, and what compiling raises.
        """
        runtime, rest = self._with(options)
        if plan is not None and rest:
            allowed = ", ".join(RUNTIME_OPTIONS)
            raise UsageError(
                f"option {sorted(rest)[0]!r} beside a plan: the plan decides that; only {allowed} may be given"
            )
        return runtime._compile(source, plan or plan_of(rest))

    def emit_object(
        self,
        artifact: Artifact,
        path: str | Path,
        *,
        name: str = "",
        compiler: str = "",
        flags: Sequence[str] | None = None,
    ) -> Path:
        """Write an object file made from an artifact's plan, with its header beside it, and return its path.

        `name` begins every symbol (the file's name otherwise). `compiler` is the command of the target's compiler.
        Raises `RuntimeFailure` and `OutputError`.
        """
        from stowplan.build import objects
        from stowplan.cli.output import write_files

        path = Path(path)
        files, _ = objects.object_files(
            artifact.data,
            name=name or _symbol(path.stem),
            backend=_backend_of(artifact),
            plugins=self.context,
            cache=self.cache,
            telemetry=self._telemetry(),
            compiler=compiler,
            flags=objects.FLAGS if flags is None else flags,
        )
        headers = {path.with_name(file): data for file, data in files.items() if file != objects.OBJECT}
        write_files({path: files[objects.OBJECT], **headers})
        return path

    def load(self, artifact: Artifact) -> Loaded:
        """Return the model of an artifact, ready to be called. Raises `PlanError` when its bytes are not sound."""
        backend = self.context.backends()[_backend_of(artifact)]
        telemetry = self._telemetry()
        with telemetry.span("load", key=artifact.key, backend=backend.name):
            return Loaded(backend.compile(artifact.data), artifact.key, telemetry)

    def invalidate(
        self, *, key: str = "", everything: bool = False, target: str = "", older_than_seconds: float | None = None
    ) -> int:
        """Forget entries: one by key, all, those of a target, or those made longer ago; return how many.

        Raises `UsageError` unless exactly one is asked for.
        """
        return (
            0
            if self.cache is None
            else invalidate(
                self.cache, key=key, everything=everything, target=target, older_than_seconds=older_than_seconds
            )
        )

    def _with(self, options: dict[str, Any]) -> tuple[CompilationRuntime, dict[str, Any]]:
        own = {name: value for name, value in options.items() if name in RUNTIME_OPTIONS}
        rest = {name: value for name, value in options.items() if name not in RUNTIME_OPTIONS}
        if not own:
            return self, rest
        cache: Cache = own.get("cache", self.cache or "off")
        runtime = CompilationRuntime(
            cache,
            context=own.get("context") or self.context,
            telemetry=own.get("telemetry") or self.observer,
            toolchain_revision=own.get("toolchain_revision") or self.revision,
        )
        return runtime, rest

    def _compile(self, source: Source, plan: CompilationPlan) -> Artifact:
        model = model_of(source)
        request = plan.request(model.path, self.revision)
        return compile_incremental(
            request, self.cache, plugins=self.context, telemetry=self._telemetry(plan.labels), model=model
        )

    def _telemetry(self, labels: Mapping[str, Any] | None = None) -> Telemetry:
        observers = [self.context.event] if self.observer is None else [self.context.event, self.observer]
        return Telemetry(*observers, labels=labels)


def toolchain_revision(context: Host | None = None) -> str:
    """Return one digest over core, every working plugin with its sources and needs, and the host's compiler."""
    plugins = context or host()
    identities = Identities(plugins)
    found = {plugin.entry: identities.plugin(plugin) for plugin in plugins.plugins if plugin.state == "ok"}
    machines = {name: identities.machine(name) for name in plugins.backends()}
    identities.save()
    return keys.digest({"stowplan": identities.core(), "plugins": found, "hosts": machines})


def layer_of(cache: Cache) -> Layer | None:
    """Return the cache that is asked for. Raises `UsageError` for a word that names none."""
    if not isinstance(cache, str):
        return cache
    if cache == "off":
        return None
    made: dict[str, Any] = {
        "memory": lambda: _memory, "disk": Store, "layered": lambda: Layered([_memory, Store()]),
    }  # fmt: skip
    if cache not in made:
        raise UsageError(f"no cache {cache!r}: choose memory, disk, layered, off, or give a layer of your own")
    layer: Layer = made[cache]()
    return layer


def invalidate(
    cache: Layer, *, key: str = "", everything: bool = False, target: str = "", older_than_seconds: float | None = None
) -> int:
    """Forget entries of a cache; see `CompilationRuntime.invalidate`."""
    asked = [bool(key), everything, bool(target), older_than_seconds is not None]
    if sum(asked) != 1:
        raise UsageError("invalidate: give exactly one of key, everything, target and older_than_seconds")
    if key:
        return int(cache.remove(key))
    before_ns = None if older_than_seconds is None else time.time_ns() - int(older_than_seconds * 1e9)
    chosen = [k for k, record in cache.records() if everything or matches(record, target, before_ns)]
    return sum(cache.remove(k) for k in chosen)


def matches(record: Record, target: str = "", before_ns: int | None = None) -> bool:
    """Say whether an entry is for a target, or was made before a time."""
    if target:
        found = record.document.get("target", {})
        return target in (found.get("label"), found.get("name"))
    return before_ns is not None and int(record.meta.get("made_ns", 0)) < before_ns


def model_of(source: Source) -> Model:
    """Return a model however it is given. Raises `ModelError`."""
    if isinstance(source, Model):
        return source
    if isinstance(source, bytes):
        if not source:
            raise ModelError("the model has no bytes")
        return Model(path=Path("model.tflite"), data=source, digest=sha256(source))
    return Model.read(source)


def _backend_of(artifact: Artifact) -> str:
    options = artifact.document.get("options", {})
    return str(options.get("backend", "c"))


def _symbol(stem: str) -> str:
    """Return the beginning of C identifiers for a file's name."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem).strip("_")[:48]
    return name if name[:1].isalpha() and not name.lower().startswith("stow") else f"model_{name}".rstrip("_")
