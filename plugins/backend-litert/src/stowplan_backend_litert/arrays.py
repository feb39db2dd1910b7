"""What callers give and get: bytes, buffers, numpy arrays and DLPack tensors, checked against a port to the byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from stowplan.plugins.records import Port
from stowplan_backend_litert.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RAW = (bytes, bytearray)
DTYPES = {
    "?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "e": "float16",
    "f": "float32", "d": "float64", "q": "int64", "Q": "uint64", "l": "int64", "L": "uint64",
}  # fmt: skip

CODES = {dtype: code for code, dtype in DTYPES.items() if code not in "lL"}
"""How numpy and others say each type in a buffer, where there is one way."""


def arranged(given: Sequence[Any] | Mapping[str, Any], ports: Sequence[Port]) -> Sequence[Any]:
    """Return inputs in the order of the ports, whether given so or by name. Raises `InputError`."""
    if isinstance(given, Mapping):
        unknown = [name for name in given if all(name != port.name for port in ports)]
        if unknown:
            names = ", ".join(port.name for port in ports)
            raise InputError(f"no input {unknown[0]!r}; the model has {names or 'none'}")
        missing = [port.name for port in ports if port.name not in given]
        if missing:
            raise InputError(f"input {missing[0]} is missing; the model has {len(ports)} inputs")
        return [given[port.name] for port in ports]
    if isinstance(given, (bytes, bytearray, memoryview, str)) or not isinstance(given, Sequence):
        raise InputError(f"inputs are {type(given).__name__}: give a list with one item per input, or a dict by name")
    if len(given) != len(ports):
        raise InputError(f"{len(given)} inputs given, the model has {len(ports)}")
    return given


def flat(given: Any, port: Port) -> bytes | bytearray | memoryview:
    """Return the bytes of one input. Raises `InputError` when size, type or shape are not exactly the port's."""
    if isinstance(given, RAW):
        if len(given) != port.size_bytes:
            raise InputError(f"input {port.name}: {len(given)} bytes given, {described(port)}")
        return given
    view = _view(given, port)
    if view.nbytes != port.size_bytes and (view.itemsize == 1 or not _typed(given, view)):
        raise InputError(f"input {port.name}: {view.nbytes} bytes given, {described(port)}")
    if _typed(given, view):
        _check_type(view, port)
    return view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()


def writable(given: Any, port: Port) -> memoryview:
    """Return the bytes behind a caller's output buffer. Raises `InputError` unless it takes exactly the output."""
    try:
        view = memoryview(given)
    except TypeError:
        raise InputError(
            f"output {port.name}: {type(given).__name__} is no buffer; give a bytearray or array"
        ) from None
    if view.readonly:
        raise InputError(f"output {port.name}: the buffer is read-only; give one that can be written")
    if not view.c_contiguous:
        raise InputError(f"output {port.name}: the buffer has gaps; give a contiguous one")
    if view.nbytes != port.size_bytes:
        raise InputError(f"output {port.name}: the buffer has {view.nbytes} bytes, {described(port)}")
    if _typed(given, view):
        _check_type(view, port, "output")
    return view.cast("B") if view.nbytes else view


def to_array(data: bytes | bytearray, port: Port) -> NDArray[Any]:
    """Return an output as a numpy array, which is also what DLPack consumers take."""
    import numpy as np

    kind: np.dtype[Any] = np.dtype(port.dtype)
    return np.frombuffer(bytearray(data), kind).reshape(port.shape)


def described(port: Port) -> str:
    """Return what a port takes: "1x96x96x3 int8 takes 27648"."""
    return f"{_shape(port.shape)} {port.dtype} takes {port.size_bytes}"


def _view(given: Any, port: Port) -> memoryview:
    try:
        return memoryview(given)
    except (TypeError, ValueError, BufferError):
        pass
    if not hasattr(given, "__dlpack__"):
        raise InputError(
            f"input {port.name}: {type(given).__name__} is neither bytes nor an array; {described(port)} bytes"
        )
    try:
        import numpy as np  # the one reader of DLPack that is at hand

        array: Any = np.from_dlpack(given)
        return memoryview(array)
    except (ImportError, TypeError, ValueError, BufferError, RuntimeError) as err:
        raise InputError(f"input {port.name}: its DLPack tensor cannot be read: {err}") from err


def _typed(given: Any, view: memoryview) -> bool:
    """Say whether the buffer says what its elements are; plain bytes say nothing."""
    plain = isinstance(given, memoryview) and view.format in ("B", "b", "c") and view.ndim == 1
    return not plain and not isinstance(given, RAW)


def _check_type(view: memoryview, port: Port, role: str = "input") -> None:
    code = view.format.lstrip("=<@|")
    dtype = DTYPES.get(code, view.format)
    if dtype in ("int64", "uint64") and view.itemsize == 4:  # "l" has another size on another platform
        dtype = dtype.replace("64", "32")
    if dtype != port.dtype:
        raise InputError(f"{role} {port.name}: holds {dtype}, the model has {port.dtype}; convert it first")
    shape = tuple(view.shape or ())
    flat_shape = (prod(port.shape),)
    if shape not in (tuple(port.shape), flat_shape):
        wanted = _shape(port.shape)
        raise InputError(f"{role} {port.name}: has shape {_shape(shape)}, the model {wanted}; reshape it first")


def _shape(shape: Sequence[int]) -> str:
    from stowplan.units import format_shape  # only for messages, and brings fractions and decimals with it

    return format_shape(shape)
