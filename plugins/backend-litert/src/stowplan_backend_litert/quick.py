"""A CPU model's run as one compiled call, made once a model has been run often enough to be worth it.

`CompiledModel.run` itself becomes a compiled method then: a frame of Python's is a twentieth of a small run. Each model
has a capsule with what the method needs to know of it, or None and the long way. Without a C compiler, on an
interpreter without this ABI, or where an accelerator keeps its own buffers there is none: runs then go piece by piece
through ctypes, four microseconds slower and otherwise the same.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stowplan_backend_litert.arrays import CODES
from stowplan_backend_litert.library import library

if TYPE_CHECKING:
    from stowplan_backend_litert.engine import Engine
    from stowplan_backend_litert.ownership import Claim
    from stowplan_backend_litert.ports import Slot

WORTH_IT = 16
"""Runs after which a model gets its function; loading it takes as long as some hundred small runs."""


class _Slot(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p), ("size_bytes", ctypes.c_int64), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32), ("code", ctypes.c_int32),
        ("array_type", ctypes.py_object), ("dtype", ctypes.py_object),
    )  # fmt: skip


class _Context(ctypes.Structure):
    _fields_ = (
        ("run", ctypes.c_void_p), ("model", ctypes.c_void_p), ("signature", ctypes.c_size_t),
        ("inputs", ctypes.c_size_t), ("takes", ctypes.c_void_p), ("outputs", ctypes.c_size_t),
        ("gives", ctypes.c_void_p), ("stop", ctypes.c_void_p), ("input_slots", ctypes.POINTER(_Slot)),
        ("output_slots", ctypes.POINTER(_Slot)), ("guarded", ctypes.c_void_p), ("acquire", ctypes.py_object),
        ("at_once", ctypes.py_object), ("release", ctypes.py_object),
    )  # fmt: skip


def quick_capsule(
    engine: Engine, takes: ctypes.Array[ctypes.c_void_p], gives: ctypes.Array[ctypes.c_void_p], stop: Any, claim: Claim
) -> object | None:
    """Return what the compiled method has to know to run a model, or None where it cannot.

    The method enters the claim and leaves it, except where a run fails. It goes the long way where the claim does not
    let everybody in at once, and for inputs that are not plainly bytes or arrays of the ports' types and shapes.
    """
    native = _native()
    slots = [*engine.inputs, *engine.outputs]
    if native is None or any(slot.view is None or slot.port.dtype not in CODES for slot in slots):
        return None
    inputs, outputs = _described(engine.inputs), _described(engine.outputs)
    context = _Context(
        run=ctypes.cast(library().LiteRtRunCompiledModel, ctypes.c_void_p).value,
        model=engine.handle, signature=engine.signature.index,
        inputs=len(engine.inputs), takes=ctypes.addressof(takes),
        outputs=len(engine.outputs), gives=ctypes.addressof(gives),
        stop=ctypes.addressof(stop), input_slots=inputs[0], output_slots=outputs[0],
        guarded=ctypes.addressof(claim.guarded), acquire=claim.lock.acquire, at_once=(False,), release=claim.leave,
    )  # fmt: skip
    capsule: object = native.quick_capsule(
        ctypes.addressof(context), (context, inputs, outputs, takes, gives, stop, slots, claim)
    )
    return capsule


def quick_method(of: type[Any]) -> Callable[..., Any]:
    """Return the compiled `run` of a class; asked for only where there was a capsule."""
    method: Callable[..., Any] = _native().quick_method(of)
    return method


def _described(slots: Sequence[Slot]) -> tuple[Any, list[Any]]:
    shapes = [(ctypes.c_int64 * max(len(slot.port.shape), 1))(*slot.port.shape) for slot in slots]
    found = (_Slot * max(len(slots), 1))()
    numpy = sys.modules.get("numpy")  # who gives arrays has it
    for entry, slot, shape in zip(found, slots, shapes, strict=False):
        entry.memory = ctypes.addressof(ctypes.c_char.from_buffer(slot.view)) if slot.view else None
        entry.size_bytes, entry.rank = slot.port.size_bytes, len(slot.port.shape)
        entry.shape, entry.code = shape, ord(CODES[slot.port.dtype])
        if numpy is not None:
            entry.array_type, entry.dtype = numpy.ndarray, numpy.dtype(slot.port.dtype)
    return found, shapes


@lru_cache(maxsize=1)
def _native() -> Any:
    """Return the compiled part, or None where it cannot be built."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    from pathlib import Path  # with the rest only where a model is run often

    from stowplan.errors import RuntimeFailure
    from stowplan.native.library import NativeLibrary

    flags = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
    code = NativeLibrary(name="stowplan-litert", folders=(Path(__file__).parent / "native",), flags=flags)
    try:
        native = ctypes.PyDLL(str(code.path()))
        native.quick_capsule.argtypes = [ctypes.c_void_p, ctypes.py_object]
        native.quick_method.argtypes = [ctypes.py_object]
        native.quick_capsule.restype = native.quick_method.restype = ctypes.py_object
    except (RuntimeFailure, OSError, AttributeError):
        return None
    return native
