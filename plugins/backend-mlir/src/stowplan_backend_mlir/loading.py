"""A model compiled by LLVM as `stowplan accelerate` sees it: it runs here, or is written ahead of time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from stowplan.errors import ModelError, UsageError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import Acceleration, LoadOptions, Metrics, Partitioning, Port, Precompiled, Share
from stowplan_backend_mlir import compiling
from stowplan_backend_mlir.artifact import Artifact
from stowplan_backend_mlir.context import Context
from stowplan_backend_mlir.engine import Jit, emit, jit
from stowplan_backend_mlir.header import header
from stowplan_backend_mlir.target import Target, target


class MlirModel:
    """A model as machine code, in a process of its own. Runs are also told to `recording` while there is one."""

    def __init__(self, artifact: Artifact, code: Jit, context: Context, acceleration: Acceleration) -> None:
        self.artifact = artifact
        self.acceleration = acceleration
        self.recording: Recording | None = None
        self._code = code
        self._context = context

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self.artifact.inputs or ()

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self.artifact.outputs or ()

    @property
    def fully_accelerated(self) -> bool:
        return self.acceleration.fully

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        return self.run_with_metrics(inputs)[0]

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
        started_ns = time.monotonic_ns()
        outputs, duration_ns = self._code.timed(inputs)
        if self.recording is not None and self.recording.is_on:
            self.recording.note_run(started_ns, duration_ns, self._code.ticks())
        return outputs, Metrics(duration_ns=duration_ns)

    def close(self) -> None:
        """End the process; a second call does nothing."""
        self._code.close()
        self._context.close()


class Recording(Protocol):
    """What is told of each run: when it began, how long it took, and the counter before each part and at the end."""

    is_on: bool

    def note_run(self, started_ns: int, duration_ns: int, ticks: Sequence[int]) -> None: ...


def load_model(model: Model, options: LoadOptions) -> MlirModel:
    """Compile for the processor and load the code. Raises what compiling raises, and `UsageError`."""
    targets = [target(name) for name in options.accelerators]
    _check(options)
    context = Context()
    try:
        artifact = _compiled(model, options, context, profile=options.profile)
        code = jit(artifact, opt_level=targets[0].opt_level, context=context)
    except BaseException:
        context.close()
        raise
    return MlirModel(artifact, code, context, _acceleration(artifact, options.accelerators, targets[0]))


def partition(model: Model, vendor: str, options: LoadOptions) -> Partitioning:
    """Say that all is taken, since a model is compiled as a whole or refused."""
    target(vendor)
    _check(options)
    return _counts(_compiled(model, options, None))


def precompile(model: Model, vendor: str, options: LoadOptions) -> Precompiled:
    """Return what the target asks for: an object file, LLVM's text, bytecode, or the header of the first two."""
    wanted = target(vendor)
    _check(options)
    artifact = _compiled(model, options, None)
    return Precompiled(data=_written(artifact, wanted), counts=_counts(artifact))


def _written(artifact: Artifact, wanted: Target) -> bytes:
    if wanted.form == "bytecode":
        return artifact.bytecode
    if wanted.form == "header":
        return header(artifact, wanted.name).encode()
    return emit(artifact, form=wanted.form, name=wanted.name, opt_level=wanted.opt_level).data


def _compiled(model: Model, options: LoadOptions, context: Context | None, profile: bool = False) -> Artifact:
    if model.data[4:8] != b"TFL3":
        raise ModelError(f"{model.name}: is no TFLite model, and the converter reads no other; export it as .tflite")
    return compiling.compile(model, cache="memory", context=context, signature=options.signature, profile=profile)


def _counts(artifact: Artifact) -> Partitioning:
    return Partitioning(operators=artifact.operators, taken=artifact.operators, partitions=1)


def _acceleration(artifact: Artifact, asked: tuple[str, ...], used: Target) -> Acceleration:
    """Return where the model runs: on the processor, which counts as no accelerator."""
    why = ""
    if artifact.dequantized:
        why = f"{artifact.dequantized} operators compute in float with weights that are integers in the file"
    first = Share(accelerator=asked[0], present=True, tried=True, taken=artifact.operators, partitions=1,
                  device=f"LLVM -O{used.opt_level}", why=why)  # fmt: skip
    rest = [Share(accelerator=name, present=True, tried=False, why="the one before it takes every operator")
            for name in asked[1:]]  # fmt: skip
    return Acceleration(asked=asked, used=asked[0], operators=artifact.operators, taken=0, fully=False,
                        shares=(first, *rest))  # fmt: skip


def _check(options: LoadOptions) -> None:
    """Refuse options that would change nothing."""
    usual = LoadOptions()
    for option, is_given in (("--precision", options.precision != usual.precision), ("--device", options.device != ""),
                             ("--threads", options.threads != usual.threads)):  # fmt: skip
        if is_given:
            raise UsageError(f"{option}: means nothing to backend mlir, whose code runs on one thread; leave it out")
