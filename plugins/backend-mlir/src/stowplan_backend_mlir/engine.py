"""What becomes of an artifact: a model that runs here, in a process of its own, or an object file with its header."""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from stowplan.build.telemetry import Telemetry
from stowplan.errors import RuntimeFailure, UsageError
from stowplan.nouns import dataclass
from stowplan_backend_mlir.artifact import Artifact, Function
from stowplan_backend_mlir.compiling import Observer, telemetry_of
from stowplan_backend_mlir.context import Context, context_or
from stowplan_backend_mlir.header import header
from stowplan_backend_mlir.importing import ENTRY
from stowplan_backend_mlir.ticks import FUNCTION as TICKS

OPT_LEVELS = (0, 1, 2, 3)
FORMS = ("object", "llvm")


class Jit:
    """An artifact as machine code in the process of a context. Threads wait for their turn; `close` gives it up."""

    def __init__(
        self, artifact: Artifact, *, opt_level: int, shared_libraries: Sequence[str | Path], initialize: bool,
        context: Context | None, telemetry: Telemetry,
    ) -> None:  # fmt: skip
        self.artifact = artifact
        self._telemetry = telemetry
        self._own = None if context is not None else Context()
        self._context = context or self._own
        assert self._context is not None
        self._facts = {"key": artifact.key, "cache": artifact.cache}
        begun = time.monotonic_ns()
        try:
            answer, _ = self._context.call(
                "load", {
                    "functions": _callable(artifact),
                    "opt_level": opt_level, "initialize": initialize,
                    "shared_libraries": [str(Path(one).absolute()) for one in shared_libraries],
                },
                [artifact.bytecode], where=artifact.name,
            )  # fmt: skip
        except BaseException:
            self.close()
            raise
        self._number, self._generation = answer["model"], self._context.generation
        telemetry.event("codegen", start_ns=begun, duration_ns=answer["codegen_ns"], **self._facts)
        telemetry.event("load", start_ns=begun + answer["codegen_ns"], duration_ns=answer["load_ns"], **self._facts)

    def run(self, inputs: Sequence[bytes], symbol: str = ENTRY) -> list[bytes]:
        """Call a function of tensors once: their bytes in its order, and those of its results."""
        return self.timed(inputs, symbol)[0]

    def timed(self, inputs: Sequence[bytes], symbol: str = ENTRY) -> tuple[list[bytes], int]:
        """Run once; return the outputs and what the call alone took, in nanoseconds."""
        outputs, _, duration_ns = self._call(symbol, inputs)
        return outputs, duration_ns

    def ticks(self) -> list[int]:
        """Return what the counter was in the last run of code made for a profile: before each part, and at the end."""
        _, (data,) = self._request(TICKS, [], [])
        return [one for (one,) in struct.iter_unpack("<q", data)]

    def invoke(self, symbol: str, *arguments: Any) -> Any:
        """Call a function with numbers for scalars and bytes for tensors; return one result, a tuple, or None."""
        outputs, scalars, _ = self._call(symbol, arguments)
        tensors = iter(outputs)
        found = tuple(next(tensors) if one is None else one for one in scalars)
        return found[0] if len(found) == 1 else found or None

    def close(self) -> None:
        """Give up what it holds; a second call does nothing."""
        context, self._context = self._context, None
        if self._own is not None:
            self._own.close()
        elif context is not None and context.pid is not None and context.generation == getattr(self, "_generation", 0):
            context.call("unload", {"model": self._number}, where=self.artifact.name)

    def __enter__(self) -> Jit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, symbol: str, arguments: Sequence[Any]) -> tuple[list[bytes], list[Any], int]:
        function = _function(self.artifact, symbol)
        tensors, scalars = _sorted(f"{self.artifact.name}: {symbol}", function, arguments)
        begun = time.monotonic_ns()
        answer, outputs = self._request(symbol, scalars, tensors)
        self._telemetry.event(
            "execution", start_ns=begun, duration_ns=answer["duration_ns"], symbol=symbol, **self._facts
        )
        return outputs, answer["scalars"], answer["duration_ns"]

    def _request(self, symbol: str, scalars: list[Any], tensors: list[bytes]) -> tuple[Any, list[bytes]]:
        name, context = self.artifact.name, self._context
        if context is None:
            raise RuntimeFailure(f"{name}: this model was closed")
        if context.pid is None or context.generation != self._generation:
            raise RuntimeFailure(f"{name}: the process that held this model is gone; make a new one with jit()")
        facts = {"model": self._number, "symbol": symbol, "scalars": scalars}
        return context.call("run", facts, tensors, where=name)


def jit(
    artifact: Artifact,
    *,
    opt_level: int = 2,
    shared_libraries: Sequence[str | Path] = (),
    initialize: bool = True,
    context: Context | None = None,
    telemetry: Observer | None = None,
) -> Jit:
    """Make machine code of an artifact, ready to be called, in the context given or one of its own.

    `shared_libraries` have the functions that the module only declares. Raises `UsageError`, `ModelError` for bytecode
    that is not the artifact's, and `RuntimeFailure`.
    """
    _check_level(opt_level)
    for one in shared_libraries:
        if not Path(one).is_file():
            raise UsageError(f"shared_libraries: {one}: no such file")
    return Jit(
        artifact.validated(), opt_level=opt_level, shared_libraries=shared_libraries, initialize=initialize,
        context=context, telemetry=telemetry_of(telemetry, artifact.labels),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """What was emitted: `data`, its C header ("" for what is no model), and the functions it needs from elsewhere."""

    data: bytes
    header: str
    needs: tuple[str, ...]


def emit(
    artifact: Artifact,
    *,
    form: str = "object",
    name: str = "",
    opt_level: int = 2,
    context: Context | None = None,
    telemetry: Observer | None = None,
) -> Emitted:
    """Return an artifact as an object file of this processor, or as LLVM's text for another's compiler (`llvm`).

    With `name` the model's function is called so. The same artifact and name give the same bytes on one machine.
    """
    _check_level(opt_level)
    if form not in FORMS:
        raise UsageError(f"form is {form!r:.60}: choose {' or '.join(FORMS)}")
    if name and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
        raise UsageError(f"name {name!r:.80}: write a C identifier of at most 63 characters")
    if name and ENTRY not in artifact.functions:
        raise UsageError(f"name {name!r}: only a model's function gets a name; this module names its own")
    events = telemetry_of(telemetry, artifact.labels)
    begun = time.monotonic_ns()
    with context_or(context) as used:
        answer, (data,) = used.call(
            "emit", {"form": form, "opt_level": opt_level, "symbols": {ENTRY: name} if name else {}},
            [artifact.validated().bytecode], where=artifact.name,
        )  # fmt: skip
    facts = {"key": artifact.key, "cache": artifact.cache}
    events.event("codegen", start_ns=begun, duration_ns=answer["codegen_ns"], **facts)
    events.event("emit", start_ns=begun, duration_ns=time.monotonic_ns() - begun, form=form, **facts)
    return Emitted(data=data, header=header(artifact, name or ENTRY), needs=tuple(answer["needs"]))


def emit_object(
    artifact: Artifact,
    path: str | Path,
    *,
    name: str = "",
    opt_level: int = 2,
    context: Context | None = None,
    telemetry: Observer | None = None,
) -> Path:
    """Write an object file of the code that `jit` runs, for a model with its header beside it; return its path.

    Folders are made as needed. Raises what `emit` raises, and `OutputError`.
    """
    from stowplan.cli.output import write_files

    target = Path(os.path.abspath(path))
    made = emit(artifact, name=name, opt_level=opt_level, context=context, telemetry=telemetry)
    target.parent.mkdir(parents=True, exist_ok=True)
    headers = {target.with_suffix(".h"): made.header.encode()} if made.header else {}
    write_files({target: made.data, **headers})
    return target


def _check_level(opt_level: int) -> None:
    if opt_level not in OPT_LEVELS or isinstance(opt_level, bool):
        raise UsageError(f"opt_level is {opt_level!r:.40}: choose 0, 1, 2 or 3")


def _function(artifact: Artifact, symbol: str) -> Function:
    if symbol not in artifact.functions:
        known = ", ".join(artifact.functions) or "none"
        raise UsageError(f"{artifact.name}: no function {symbol!r:.80}; it has {known}")
    return artifact.functions[symbol]


def _sorted(where: str, function: Function, arguments: Sequence[Any]) -> tuple[list[bytes], list[Any]]:
    """Return the bytes of tensors and the other arguments. Raises `RuntimeFailure` for a wrong number or size."""
    from stowplan_backend_mlir.running import tensor_bytes

    if len(arguments) != len(function.inputs):
        raise RuntimeFailure(f"{where} takes {len(function.inputs)} inputs, not {len(arguments)}")
    tensors, scalars = [], []
    for number, (kind, given) in enumerate(zip(function.inputs, arguments, strict=True)):
        if kind["shape"] is None:
            if not isinstance(given, (int, float)):
                raise RuntimeFailure(f"{where}: input {number} is a {type(given).__name__}, it takes {kind['element']}")
            scalars.append(given)
            continue
        data, wanted = bytes(given), tensor_bytes(kind)
        if len(data) != wanted:
            raise RuntimeFailure(f"{where}: input {number} has {len(data)} bytes, it takes {wanted}")
        tensors.append(data)
    return tensors, scalars


def _callable(artifact: Artifact) -> dict[str, Any]:
    """Return the functions that may be called, with that which says what the counter was."""
    found = {name: _plain(one) for name, one in artifact.functions.items()}
    if artifact.parts:
        size = len(artifact.parts) + 1
        found[TICKS] = {"inputs": [], "outputs": [{"shape": [size], "element": "i64", "tensor": False}]}
    return found


def _plain(function: Function) -> Mapping[str, Any]:
    return {"inputs": [dict(one) for one in function.inputs], "outputs": [dict(one) for one in function.outputs]}
