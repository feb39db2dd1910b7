"""The inputs and outputs of a compiled model, and the memory that they lie in."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from math import prod
from typing import Any

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.nouns import dataclass, field
from stowplan.plugins.records import Port
from stowplan_backend_litert import layouts
from stowplan_backend_litert.arrays import CODES, flat
from stowplan_backend_litert.calls import READ, WRITE, ask, ask_text, call, destroy
from stowplan_backend_litert.errors import CompileFailedError, ModelRefusedError
from stowplan_backend_litert.modelfile import Signature

ALIGNMENT_BYTES = 64
SLACK_BYTES = 64  # vectorised kernels may read a little past the end
MOST_PORTS = 4096


@dataclass
class Slot:
    """One input or output: its port, LiteRT's buffer, and, where that is host memory, a view of it.

    Host memory of our own needs no lock around each copy, which is a third of the time of a small model's run.
    """

    port: Port
    handle: int
    view: memoryview | None = None
    keep: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._size, self._shape, self._code = self.port.size_bytes, self.port.shape, CODES.get(self.port.dtype)

    def take(self, given: Any) -> None:
        """Write what a caller gave, checked. The ways that most callers take are short."""
        view = self.view
        if view is None:
            self.write(flat(given, self.port))
        elif type(given) is bytes and len(given) == self._size:
            view[:] = given
        elif hasattr(given, "dtype") and _is_plain(source := memoryview(given), self._code, self._shape):
            view[:] = source.cast("B")
        else:
            view[:] = flat(given, self.port)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.view is not None:
            self.view[:] = data
            return
        address = self._lock(WRITE)
        try:
            ctypes.memmove(address, bytes(data), self.port.size_bytes)
        finally:
            call("UnlockTensorBuffer", self.handle)

    def read(self) -> bytes:
        if self.view is not None:
            return bytes(self.view)
        address = self._lock(READ)
        try:
            return ctypes.string_at(address, self.port.size_bytes)
        finally:
            call("UnlockTensorBuffer", self.handle)

    def close(self) -> None:
        destroy("TensorBuffer", self.handle)
        self.handle = 0
        if self.view is not None:
            self.view.release()

    def _lock(self, mode: int) -> int:
        address = ctypes.c_void_p()
        call("LockTensorBuffer", self.handle, ctypes.byref(address), mode)
        return address.value or 0


def _is_plain(source: memoryview, code: str | None, shape: tuple[int, ...]) -> bool:
    return source.format == code and source.shape == shape and source.c_contiguous


def make_slots(env: int, model: int, signature: Signature, host_memory: bool) -> tuple[list[Slot], list[Slot]]:
    """Return the inputs and outputs of a signature, ready to use."""
    made: list[Slot] = []
    try:
        inputs = [_slot(env, model, signature, "Input", index, kind, host_memory, made)
                  for index, kind in enumerate(_input_types(model, signature))]  # fmt: skip
        outputs = [_slot(env, model, signature, "Output", index, kind, host_memory, made)
                   for index, kind in enumerate(_output_types(model, signature))]  # fmt: skip
    except BaseException:
        for slot in made:
            slot.close()
        raise
    return inputs, outputs


def handles(slots: Iterable[Slot]) -> ctypes.Array[ctypes.c_void_p]:
    found = [slot.handle for slot in slots]
    return (ctypes.c_void_p * max(len(found), 1))(*found)


def _input_types(model: int, signature: Signature) -> list[layouts.RankedType]:
    kinds = []
    for index in range(_count(signature, "Inputs")):
        kind = _ranked(signature, "Input", index)
        call("GetCompiledModelInputTensorLayout", model, signature.index, index, ctypes.byref(kind.layout))
        kinds.append(kind)
    return kinds


def _output_types(model: int, signature: Signature) -> list[layouts.RankedType]:
    count = _count(signature, "Outputs")
    shapes = (layouts.Layout * max(count, 1))()
    call("GetCompiledModelOutputTensorLayouts", model, signature.index, count, shapes, True)
    kinds = [_ranked(signature, "Output", index) for index in range(count)]
    for kind, shape in zip(kinds, shapes, strict=False):
        kind.layout = shape
    return kinds


def _count(signature: Signature, role: str) -> int:
    count: int = ask(f"GetNumSignature{role}", signature.handle, kind=ctypes.c_size_t)
    if count > MOST_PORTS:
        raise ModelRefusedError(f"signature {signature.key} claims {count} {role.lower()}; the file is damaged")
    return count


def _ranked(signature: Signature, role: str, index: int) -> layouts.RankedType:
    tensor = ask(f"GetSignature{role}TensorByIndex", signature.handle, index, error=ModelRefusedError)
    kind = layouts.RankedType()
    call("GetRankedTensorType", tensor, ctypes.byref(kind), error=ModelRefusedError, what=f"{role.lower()} {index}")
    return kind


def _slot(
    env: int, model: int, signature: Signature, role: str, index: int, kind: layouts.RankedType, host: bool,
    made: list[Slot],
) -> Slot:  # fmt: skip
    port = _port(signature, role, index, kind)
    needs = ask(f"GetCompiledModel{role}BufferRequirements", model, signature.index, index)
    slot = _host_slot(port, kind) if host and _takes_host_memory(needs) and port.size_bytes else None
    if slot is None:
        handle = ask("CreateManagedTensorBufferFromRequirements", env, ctypes.byref(kind), needs)
        slot = Slot(port, handle)
    made.append(slot)
    packed = ask("GetTensorBufferPackedSize", slot.handle, kind=ctypes.c_size_t)
    if packed != port.size_bytes:  # also a check of our idea of the structs
        raise CompileFailedError(f"{role.lower()} {port.name}: LiteRT counts {packed} bytes, we {port.size_bytes}")
    return slot


def _host_slot(port: Port, kind: layouts.RankedType) -> Slot:
    memory = (ctypes.c_ubyte * (port.size_bytes + ALIGNMENT_BYTES + SLACK_BYTES))()
    start = -ctypes.addressof(memory) % ALIGNMENT_BYTES
    handle = ctypes.c_void_p()
    address = ctypes.addressof(memory) + start
    arguments = (ctypes.byref(kind), address, port.size_bytes, None, ctypes.byref(handle))
    call("CreateTensorBufferFromHostMemory", *arguments)
    view = memoryview(memory).cast("B")[start : start + port.size_bytes]
    return Slot(port, handle.value or 0, view, memory)


def _takes_host_memory(needs: int) -> bool:
    count = ask("GetNumTensorBufferRequirementsSupportedBufferTypes", needs, kind=ctypes.c_int)
    kinds = {
        ask("GetTensorBufferRequirementsSupportedTensorBufferType", needs, index, kind=ctypes.c_int)
        for index in range(count)
    }
    return layouts.HOST_MEMORY in kinds


def _port(signature: Signature, role: str, index: int, kind: layouts.RankedType) -> Port:
    name = ask_text(f"GetSignature{role}Name", signature.handle, index)
    dtype = layouts.ELEMENTS.get(kind.element_type, f"type {kind.element_type}")
    where = f"{role.lower()} {name or index}"
    if dtype not in SIZE_BYTES:
        raise CompileFailedError(f"{where}: is {dtype}, which cannot be given as bytes of fixed size; export another")
    shape = kind.layout.shape
    if kind.layout.rank > 8 or any(dim < 0 for dim in shape):
        raise CompileFailedError(f"{where}: shape {shape} is open; resize it, or export it with a fixed shape")
    scale, zero_point = _quantization(signature, role, index)
    size_bytes = prod(shape) * SIZE_BYTES[dtype]
    return Port(name=name, shape=shape, dtype=dtype, size_bytes=size_bytes, scale=scale, zero_point=zero_point)


def _quantization(signature: Signature, role: str, index: int) -> tuple[float | None, int]:
    tensor = ask(f"GetSignature{role}TensorByIndex", signature.handle, index)
    if ask("GetQuantizationTypeId", tensor, kind=ctypes.c_int) != layouts.PER_TENSOR:
        return None, 0
    found = layouts.PerTensorQuantization()
    call("GetPerTensorQuantization", tensor, ctypes.byref(found))
    return float(found.scale), int(found.zero_point)
