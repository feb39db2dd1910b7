"""A compilation as a value: passes with their versions, a schedule, a target; all that decides the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stowplan.cache import key as keys
from stowplan.cache.files import sha256
from stowplan.errors import UsageError
from stowplan.nouns import dataclass, field

SCHEDULE = "transform-schedule"
"""The step at which a transform schedule is applied; without it, before the first."""
NEWEST_BYTECODE = 6
"""The version that structures are written in to be digested, and artifacts unless another is asked for."""
CONTEXT_OPTIONS = ("allow_unregistered_dialects", "irdl")
TRANSFORM_OPTIONS = ("expensive_checks", "enforce_single_top_level_transform_op")


@dataclass(frozen=True, kw_only=True)
class PassStep:
    """A pass in Python. `run` is a function of a module, called with the operation and the pass, or "module:function".

    Compilation is in another process, which imports it there. `name` and `version` are its identity: its code is not
    looked at, so a changed function needs a changed version.
    """

    name: str
    version: str
    run: Callable[..., Any] | str = field(compare=False)


GivenStep = str | PassStep | tuple[str, Sequence[Any]] | Callable[..., Any]

COPIES = "stowplan_backend_mlir.passes:copies_to_linalg"
"""The last pass of the default pipeline that sees operations a model has, one behind the other."""
_BUFFERIZE = (
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map "
    "buffer-alignment=0}"
)
"""Where memory is aligned its address goes through an integer, and LLVM then takes all buffers for aliases."""
LLVM: tuple[GivenStep, ...] = (
    "func.func(tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith{include-apply-rescale=true},tosa-to-tensor,tosa-to-scf)",
    "canonicalize,cse,func.func(linalg-fuse-elementwise-ops),canonicalize,cse",
    SCHEDULE,
    _BUFFERIZE,
    "buffer-results-to-out-params{modify-public-functions=true hoist-static-allocs=true}",
    "func.func(buffer-hoisting,buffer-loop-hoisting),buffer-deallocation-pipeline,canonicalize,cse",
    PassStep(name="copies-to-linalg", version="1", run=COPIES),
    "func.func(convert-linalg-to-loops),canonicalize,cse,expand-strided-metadata,lower-affine,convert-scf-to-cf",
    "arith-expand,convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm",
    "finalize-memref-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},convert-cf-to-llvm",
    "reconcile-unrealized-casts,canonicalize,cse",
)
"""From TOSA, or what lies between it and LLVM, to LLVM: results go where the caller says, tensors are pointers."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A transform schedule with every choice made: MLIR text or bytecode, and the sequence in it that is applied.

    `choices` are values for its knobs (`transform.tune.knob`) by name.
    """

    data: str | bytes
    sequence: str = "__transform_main"
    choices: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        return self.data.encode() if isinstance(self.data, str) else bytes(self.data)

    def declaration(self) -> dict[str, Any]:
        return {"sequence": self.sequence, "digest": sha256(self.bytes), "choices": dict(self.choices)}


@dataclass(frozen=True, kw_only=True)
class CompilationPlan:
    """What to make of a module. `pipeline` is passes as text, `PassStep`s, and pairs of an operation and its steps.

    `target` and `schema_version` are the caller's own words for the machine and for dynamic dialects: plain data that
    tells keys apart. `desired_emit_version` is the bytecode's (None: the newest). `labels` go to telemetry and into no
    key. Raises `UsageError` for what has no identity that lasts longer than this process.
    """

    pipeline: str | Sequence[GivenStep] = LLVM
    transform_schedule: Schedule | str | bytes | None = None
    transform_options: Mapping[str, bool] = field(default_factory=dict)
    target: Any = ""
    schema_version: Any = ""
    desired_emit_version: int | None = None
    context_options: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pipeline", steps_of(self.pipeline))
        schedule = self.transform_schedule
        if isinstance(schedule, (str, bytes)):
            object.__setattr__(self, "transform_schedule", Schedule(data=schedule))
        _only(self.transform_options, TRANSFORM_OPTIONS, "transform_options")
        _only(self.context_options, CONTEXT_OPTIONS, "context_options")
        if self.transform_options and self.transform_schedule is None:
            raise UsageError("transform_options: there is no transform_schedule that they could be for")
        version = self.desired_emit_version
        if version is not None and (type(version) is not int or not 0 <= version <= NEWEST_BYTECODE):
            raise UsageError(f"desired_emit_version is {version!r}: bytecode has versions 0 to {NEWEST_BYTECODE}")
        keys.canonical(self.declaration())

    @property
    def schedule(self) -> Schedule | None:
        given = self.transform_schedule
        return given if isinstance(given, Schedule) else None

    @property
    def steps(self) -> tuple[str | PassStep, ...]:
        """The pipeline as it was checked: passes as text, and steps with a version."""
        return steps_of(self.pipeline)

    @property
    def emit_version(self) -> int:
        return NEWEST_BYTECODE if self.desired_emit_version is None else self.desired_emit_version

    def declaration(self) -> dict[str, Any]:
        """Return the plan as plain data: what decides the result, passes by name and version, defaults filled in."""
        schedule = self.schedule
        return {
            "pipeline": [_declared(step) for step in self.steps],
            "schedule": None if schedule is None else schedule.declaration(),
            "transform_options": dict(self.transform_options),
            "target": self.target,
            "schema_version": self.schema_version,
            "emit_version": self.emit_version,
            "context_options": dict(self.context_options),
        }

    @property
    def identity(self) -> str:
        """SHA-256 of the declaration; computed each time, so that it cannot be another plan's."""
        return keys.digest(self.declaration())


OPTIONS = tuple(name for name in CompilationPlan.__annotations__)


def plan_of(options: Mapping[str, Any]) -> CompilationPlan:
    """Return the plan of keyword options, of which `pipeline_version` gives functions in `pipeline` their version."""
    given = dict(options)
    version = given.pop("pipeline_version", None)
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise UsageError(f"no option {unknown[0]!r}: options are {', '.join(sorted((*OPTIONS, 'pipeline_version')))}")
    if version is not None:
        if not isinstance(version, str) or not version:
            raise UsageError(f"pipeline_version is {version!r}: give a text that changes whenever a pass does")
        given["pipeline"] = _versioned(given.get("pipeline", LLVM), version)
    return CompilationPlan(**given)


def steps_of(pipeline: object) -> tuple[str | PassStep, ...]:
    """Return a pipeline as texts and steps that have an identity. Raises `UsageError`."""
    if isinstance(pipeline, str):
        return (pipeline,) if pipeline.strip() else ()
    if not isinstance(pipeline, Sequence) or isinstance(pipeline, bytes):
        raise UsageError(f"pipeline is a {type(pipeline).__name__}: write passes as text, or a list of steps")
    return tuple(_checked(step) for step in pipeline)


def place_of(step: PassStep) -> str:
    """Return where a step's function is imported from. Raises `UsageError` for one that only this process has."""
    run = step.run
    place = run if isinstance(run, str) else f"{getattr(run, '__module__', '')}:{getattr(run, '__qualname__', '')}"
    module, _, name = place.partition(":")
    if not module or not name or "<" in name or module == "__main__":
        raise UsageError(
            f"step {step.name}: passes run in a process of their own, which cannot import {place}; "
            "move the function to the top of a module"
        )
    return place


def _checked(step: object) -> str | PassStep:
    if isinstance(step, str):
        return step
    if isinstance(step, PassStep):
        for what in ("name", "version"):
            if not isinstance(getattr(step, what), str) or not getattr(step, what):
                raise UsageError(f"step {step.name!r}: needs an explicit {what}, a text of its own")
        place_of(step)
        return step
    if isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str) and not callable(step[1]):
        inner = steps_of(step[1])
        if not all(isinstance(one, str) and one != SCHEDULE for one in inner):
            raise UsageError(f"steps in {step[0]}: only passes as text can be nested; put others beside them")
        return f"{step[0]}({','.join(map(str, inner))})"
    if callable(step):
        called = getattr(step, "__name__", repr(step))
        raise UsageError(
            f"pass {called}: a function is no stable identity; write PassStep(name=..., version=..., run=...), or give "
            "pipeline_version"
        )
    raise UsageError(f"step {step!r:.80}: write passes as text, a PassStep, or (operation, steps)")


def _versioned(pipeline: object, version: str) -> object:
    if not isinstance(pipeline, (list, tuple)):
        return pipeline
    return [
        PassStep(name=getattr(step, "__name__", "pass"), version=version, run=step)
        if callable(step) and not isinstance(step, (str, PassStep))
        else step
        for step in pipeline
    ]


def _declared(step: object) -> Any:
    return [step.name, step.version, place_of(step)] if isinstance(step, PassStep) else step


def _only(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"{what}: no option {name!r}; there are {', '.join(known)}")


def source_of(source: object) -> tuple[str, bytes]:
    """Return the name and the bytes of a source: a file, its bytes or text, a `Model`, or a module of torch-mlir."""
    from stowplan.flow.model import Model

    if isinstance(source, Model):
        return source.name, source.data
    if isinstance(source, bytes):
        return "source", source
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return "source", source.encode()
    if isinstance(source, (str, Path)):
        model = Model.read(Path(source))
        return model.name, model.data
    operation: Any = getattr(source, "operation", None)
    if callable(getattr(operation, "write_bytecode", None)):
        from io import BytesIO

        written = BytesIO()
        operation.write_bytecode(written)
        return "module", written.getvalue()
    raise UsageError(f"source is a {type(source).__name__}: give a file, bytes, MLIR as text, or a module")
