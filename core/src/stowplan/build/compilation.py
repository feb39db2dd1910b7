"""A compilation as a value: all that decides the result, declared once, with an identity that processes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from stowplan.build.request import CompileRequest, Step
from stowplan.cache import key as keys
from stowplan.errors import UsageError
from stowplan.nouns import dataclass, field
from stowplan.units import parse_pools, parse_recompute

GivenStep = Step | tuple[str, str, Callable[..., Any]]


@dataclass(frozen=True, kw_only=True)
class CompilationPlan:
    """What to compile a model into. `memory` is as on the command line: "32K", "32K+1M", or (name, bytes) pairs.
    So are `stream_inputs`, `recompute` and `optimal`; what the search for the least memory costs is paid once.

    Each of `steps`, graph passes of the caller's own, carries a version: its code is not looked at. `target` is the
    caller's name for the machine and only tells keys apart; `labels` go to telemetry and into no key.
    Raises `UsageError` for what has no stable identity.
    """

    memory: str | tuple[tuple[str, int], ...] = ()
    flash_bytes: int | None = None
    scheduler: str = "stream"
    compressor: str = "none"
    backend: str = "c"
    xip: bool = False
    keep_names: bool = False
    prove: bool = True
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stream_inputs: Sequence[str] = ()
    recompute: float = 1.0
    optimal: bool = False
    steps: Sequence[GivenStep] = ()
    target: str = ""
    schema_version: str = ""
    emit_version: str | None = None
    labels: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(checked_step(step) for step in self.steps))
        self.declaration()

    def declaration(self) -> dict[str, Any]:
        """Return the plan as plain data: what decides the result, steps by name and version, defaults filled in."""
        from stowplan.build.keys import emit_version

        request = self.request(Path("model"))
        return {
            "memory": [list(pool) for pool in request.pools],
            "flash_bytes": self.flash_bytes,
            "scheduler": self.scheduler,
            "compressor": self.compressor,
            "backend": self.backend,
            "xip": self.xip,
            "keep_names": self.keep_names,
            "prove": self.prove,
            "input_shapes": {name: list(shape) for name, shape in self.input_shapes.items()},
            "stream_inputs": list(request.stream_inputs),
            "recompute": request.recompute,
            "optimal": request.optimal,
            "steps": [[step.name, step.version] for step in request.steps],
            "target": self.target,
            "schema_version": self.schema_version,
            "emit_version": emit_version(self.emit_version),
        }

    @property
    def identity(self) -> str:
        """SHA-256 of the declaration; computed each time, so that it cannot be another plan's."""
        return keys.digest(self.declaration())

    def request(self, path: Path, toolchain_revision: str = "") -> CompileRequest:
        """Return the plan applied to a model file."""
        memory = parse_pools([self.memory], "memory") if isinstance(self.memory, str) else self.memory
        return CompileRequest(
            model_path=path,
            pools=tuple((name, size) for name, size in memory),
            flash_bytes=self.flash_bytes,
            scheduler=self.scheduler,
            compressor=self.compressor,
            backend=self.backend,
            xip=self.xip,
            keep_names=self.keep_names,
            prove=self.prove,
            input_shapes=dict(self.input_shapes),
            stream_inputs=(self.stream_inputs,) if isinstance(self.stream_inputs, str) else tuple(self.stream_inputs),
            recompute=parse_recompute(str(self.recompute), "recompute"),
            optimal=self.optimal,
            steps=tuple(step for step in self.steps if isinstance(step, Step)),
            target_label=self.target,
            schema_version=self.schema_version,
            emit_version=self.emit_version,
            toolchain_revision=toolchain_revision,
        )


def plan_of(options: Mapping[str, Any]) -> CompilationPlan:
    """Return the plan of keyword options. Raises `UsageError` for a name that is none."""
    known = {field.name for field in fields(CompilationPlan)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"no option {unknown[0]!r}: options are {', '.join(sorted(known))}")
    return CompilationPlan(**options)


def checked_step(step: object) -> Step:
    """Return a step that has an identity. Raises `UsageError` for a function without a version of its own."""
    if isinstance(step, Step):
        name, version, run = step.name, step.version, step.run
    elif isinstance(step, tuple) and len(step) == 3:
        name, version, run = step
    else:
        called = getattr(step, "__name__", repr(step))
        raise UsageError(f"step {called}: a function is no stable identity; write Step(name=..., version=..., run=...)")
    if not isinstance(name, str) or not name or not isinstance(version, str) or not version:
        raise UsageError(f"step {name!r}: needs an explicit version, a text that changes whenever the function does")
    if not callable(run):
        raise UsageError(f"step {name}: {run!r} cannot be called")
    return Step(name=name, version=version, run=run)
