"""Runs a plan's steps on a module that was parsed, and writes what comes of it as bytecode of the version asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from stowplan.errors import ModelError, RuntimeFailure, UnsupportedError, UsageError
from stowplan_backend_mlir.importing import bytecode, held, run_passes
from stowplan_backend_mlir.plan import COPIES, NEWEST_BYTECODE, SCHEDULE
from stowplan_backend_mlir.said import line
from stowplan_backend_mlir.ticks import add_ticks

Step = str | list[str]


def transform(
    blocks: Sequence[bytes], *, module: int, steps: list[Step], schedule: dict[str, Any] | None,
    transform_options: dict[str, bool], emit_version: int, names: list[list[str]],
) -> tuple[dict[str, Any], Sequence[bytes]]:  # fmt: skip
    """Return the module's bytecode after all steps, and how long those and the writing took.

    With `names`, kind and output of each operator, the code reads a counter between them; `parts` says between which.
    """
    from torch_mlir import ir

    parsed = held.pop(module)
    started, parts = time.monotonic_ns(), list[int]()
    with parsed.context, ir.Location.unknown():
        if schedule is not None:
            apply = _schedule(blocks[0], schedule, transform_options)
            steps = steps if SCHEDULE in steps else [SCHEDULE, *steps]
        for step in steps:
            if isinstance(step, list):
                _run_own(parsed, *step)
                if names and step[2] == COPIES:
                    parts = add_ticks(parsed, names)
            elif step == SCHEDULE:
                if schedule is not None:
                    apply(parsed)
            else:
                _run(parsed, step)
        transformed = time.monotonic_ns()
        data = _written(parsed, emit_version)
    spent = {"transform_ns": transformed - started, "serialize_ns": time.monotonic_ns() - transformed}
    return {**spent, "parts": parts}, [data]


def _run(module: Any, text: str) -> None:
    from torch_mlir import ir

    try:
        run_passes(module, text)
    except ir.MLIRError as err:
        raise UnsupportedError(f"a pass failed: {line(err)}", [line(err)]) from None
    except ValueError as err:
        errors = [part for part in str(err).splitlines() if "error:" in part]
        raise UsageError(
            f"pipeline {text[:100]!r}: {errors[0].partition('error: ')[2][:200] if errors else err}"
        ) from None


def _run_own(module: Any, name: str, version: str, place: str) -> None:
    """Run a pass in Python. What it raises is said with its name."""
    from torch_mlir import ir, passmanager

    function = _imported(name, place)
    raised: list[Exception] = []

    def guarded(operation: Any, own: Any) -> None:
        try:
            function(operation, own)
        except Exception as err:  # an exception may not pass through MLIR; it is raised again below
            raised.append(err)
            own.signal_pass_failure()

    manager = passmanager.PassManager("builtin.module")
    manager.add(guarded, name=name)
    try:
        manager.run(module.operation)
    except ir.MLIRError as err:
        why = f"{type(raised[0]).__name__}: {raised[0]}" if raised else line(err)
        raise RuntimeFailure(f"step {name} {version} failed: {line(why)}") from None


def _imported(name: str, place: str) -> Callable[[Any, Any], None]:
    module, _, path = place.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as err:
        raise UsageError(f"step {name}: {place} cannot be imported: {line(err)}") from None
    if not callable(found):
        raise UsageError(f"step {name}: {place} cannot be called")
    function: Callable[[Any, Any], None] = found
    return function


def _schedule(data: bytes, facts: dict[str, Any], options: dict[str, bool]) -> Callable[[Any], None]:
    """Return what applies a schedule to a module. Raises `UsageError` for one that is none."""
    from torch_mlir import ir
    from torch_mlir.dialects.transform import interpreter

    try:
        script = ir.Module.parse(data if data.startswith(b"ML\xefR") else data.decode("utf-8"))
    except (ir.MLIRError, UnicodeDecodeError) as err:
        raise UsageError(f"transform_schedule: MLIR cannot read it: {line(err)}") from None
    _choose(script, facts["choices"])
    named = [one for one in script.body.operations if one.operation.name == "transform.named_sequence"]
    known = [str(ir.StringAttr(one.operation.attributes["sym_name"]).value) for one in named]
    if facts["sequence"] not in known:
        raise UsageError(f"transform_schedule: no sequence {facts['sequence']!r}; it has {', '.join(known) or 'none'}")
    entry = named[known.index(facts["sequence"])]
    wanted = interpreter.TransformOptions()
    for name, value in options.items():
        setattr(wanted, name, bool(value))

    def apply(module: Any) -> None:
        try:
            interpreter.apply_named_sequence(module.operation, entry.operation, script.operation, wanted)
        except (ir.MLIRError, ValueError, RuntimeError) as err:
            raise UnsupportedError(f"the transform schedule failed: {line(err)}", [line(err)]) from None

    return apply


def _choose(script: Any, choices: dict[str, Any]) -> None:
    """Write each choice into its knob. Raises `UsageError` for a knob left open, and for a choice that is none."""
    from torch_mlir import ir

    knobs: dict[str, Any] = {}

    def note(operation: Any) -> Any:
        if operation.name == "transform.tune.knob":
            knobs[str(ir.StringAttr(operation.attributes["name"]).value)] = operation
        return ir.WalkResult.ADVANCE

    script.operation.walk(note)
    unknown = sorted(set(choices) - set(knobs))
    if unknown:
        raise UsageError(f"transform_schedule: no knob {unknown[0]!r}; it has {', '.join(sorted(knobs)) or 'none'}")
    for name, knob in knobs.items():
        given = [str(one) for one in knob.attributes]
        if name in choices:
            knob.attributes["selected"] = _within(name, choices[name], knob)
        elif "selected" not in given:
            raise UsageError(f"transform_schedule: knob {name!r} has no value; give one in choices")


def _within(name: str, value: Any, knob: Any) -> Any:
    """Return a choice as the option of the knob that it is."""
    from torch_mlir import ir

    options = knob.attributes["options"]
    allowed = list(ir.ArrayAttr(options)) if isinstance(options, ir.ArrayAttr) else []
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    for one in allowed:
        if str(one).partition(" : ")[0] == text:
            return one
    shown = ", ".join(str(one).partition(" : ")[0] for one in allowed)
    raise UsageError(f"transform_schedule: knob {name!r} cannot be {value!r:.60}; it takes {shown or 'nothing known'}")


def _written(module: Any, version: int) -> bytes:
    from torch_mlir import ir

    try:
        if not module.operation.verify():
            raise ModelError("what the passes made is no valid module")
        return bytecode(_in_one_order(module), version)
    except ir.MLIRError as err:
        raise ModelError(f"what the passes made is no valid module: {line(err)}") from None
    except ValueError as err:
        raise UsageError(f"{line(err)}; this MLIR writes versions 0 to {NEWEST_BYTECODE}") from None


def _in_one_order(module: Any) -> Any:
    """Return the module as its text has it: bytecode also keeps in which order values are used.

    That order differs between processes after bufferization, and LLVM's code would differ with it.
    """
    from torch_mlir import ir

    read = ir.Module.parse(module.operation.get_asm(print_generic_op_form=True))
    run_passes(read, "strip-debuginfo")
    return read
