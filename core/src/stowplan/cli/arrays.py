"""Reads and writes tensors as .npy or raw .bin files, without numpy: start-up cost, and nothing is ever unpickled."""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path

from stowplan.errors import ModelError, RuntimeFailure, UsageError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.model import Model
from stowplan.nouns import replace
from stowplan.plugins.kinds import Port
from stowplan.units import format_shape

MAGIC = b"\x93NUMPY"
MOST_HEADER_BYTES = 65536
_CODES = {
    "bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8",
}  # fmt: skip
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


def labelled(ports: Sequence[Port], role: str) -> tuple[Port, ...]:
    """Return the ports with names that tell them apart: "input1" for an empty one, "x#1" for the second "x"."""
    names: list[str] = []
    for index, port in enumerate(ports):
        name = port.name or f"{role}{index}"
        names.append(name if name not in names else f"{name}#{index}")
    return tuple(replace(port, name=name) for port, name in zip(ports, names, strict=True))


def read_tensor(path: Path, port: Port) -> bytes:
    """Return the bytes for one input from a file. Raises `RuntimeFailure` when type, shape or size are wrong."""
    suffix = check_suffix(path, "input")
    try:
        data = Model.read(path, max_bytes=port.size_bytes + MOST_HEADER_BYTES).data
    except ModelError as err:
        raise RuntimeFailure(f"input {port.name}: {err}") from err
    if suffix == ".npy":
        return _from_npy(data, path, port)
    if len(data) != port.size_bytes:
        raise RuntimeFailure(f"{path}: {len(data)} bytes, input {port.name} takes {port.size_bytes} ({describe(port)})")
    return data


def read_samples(path: Path, port: Port, most: int) -> list[bytes]:
    """Return the bytes of up to `most` samples for one input from a file that has one, or several one after another.

    An .npy file of several has them along its first axis. Raises `RuntimeFailure` as `read_tensor` does.
    """
    suffix = check_suffix(path, "inputs")
    try:
        data = Model.read(path).data
    except ModelError as err:
        raise RuntimeFailure(f"input {port.name}: {err}") from err
    if suffix == ".npy":
        data = _several_from_npy(data, path, port)
    size = port.size_bytes
    if not size or not data or len(data) % size:
        raise RuntimeFailure(f"{path}: {len(data)} bytes are no whole samples of {size} bytes ({describe(port)})")
    return [data[start : start + size] for start in range(0, min(len(data), most * size), size)]


def to_file(path: Path, port: Port, data: bytes) -> bytes:
    """Return what to write to `path` for a tensor: its bytes, or an .npy file around them."""
    return npy_header(port) + data if path.suffix.lower() == ".npy" else data


def check_suffix(path: Path, role: str) -> str:
    """Return the lower-case suffix of a file with a tensor. Raises `UsageError` for anything but .npy and .bin."""
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".bin"):
        raise UsageError(f"--{role} {path}: write .npy or .bin at the end, to say what the file holds")
    return suffix


def npy_header(port: Port) -> bytes:
    """Return the start of a version 1 .npy file, padded so that the data begins at a multiple of 64."""
    text = str({"descr": _CODES[port.dtype], "fortran_order": False, "shape": tuple(port.shape)})
    padded = text + " " * (-(len(MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    return MAGIC + b"\x01\x00" + struct.pack("<H", len(padded)) + padded.encode("latin-1")


def values(port: Port, data: bytes) -> list[int | float | bool]:
    """Return a tensor's elements as numbers."""
    return list(struct.unpack(f"<{len(data) // SIZE_BYTES[port.dtype]}{_FORMATS[port.dtype]}", data))


def describe(port: Port) -> str:
    """Return shape and type of a port: "1x96x96x3 int8"."""
    return f"{format_shape(port.shape)} {port.dtype}"


def _from_npy(data: bytes, path: Path, port: Port) -> bytes:
    shape, start = _typed(data, path, port)
    if shape != port.shape:
        raise _misshapen(path, port, shape)
    return _whole(data, start, shape, path, port)


def _several_from_npy(data: bytes, path: Path, port: Port) -> bytes:
    shape, start = _typed(data, path, port)
    one = port.shape[1:] if port.shape[:1] == (1,) else port.shape
    if shape != port.shape and shape[1:] != one:
        raise _misshapen(path, port, shape)
    return _whole(data, start, shape, path, port)


def _typed(data: bytes, path: Path, port: Port) -> tuple[tuple[int, ...], int]:
    """Return the shape of a file whose type is the port's, and where the data starts."""
    dtype, shape, start = _parse_header(data, path)
    if dtype != port.dtype:
        raise RuntimeFailure(
            f"{path}: holds {dtype}, input {port.name} is {port.dtype}{_quantized(port)}; convert it first"
        )
    return shape, start


def _misshapen(path: Path, port: Port, shape: tuple[int, ...]) -> RuntimeFailure:
    return RuntimeFailure(
        f"{path}: holds {format_shape(shape)}, input {port.name} is {format_shape(port.shape)}; reshape it first"
    )


def _whole(data: bytes, start: int, shape: tuple[int, ...], path: Path, port: Port) -> bytes:
    dtype = port.dtype
    if len(data) - start != prod(shape) * SIZE_BYTES[dtype]:
        raise RuntimeFailure(f"{path}: {len(data) - start} bytes of data do not make {format_shape(shape)} {dtype}")
    return data[start:]


def _parse_header(data: bytes, path: Path) -> tuple[str, tuple[int, ...], int]:
    """Return dtype, shape and where the data starts."""
    if data[:6] != MAGIC or len(data) < 12 or data[6] not in (1, 2, 3):
        raise RuntimeFailure(f"{path}: is no .npy file")
    start = 10 if data[6] == 1 else 12
    size = struct.unpack_from("<H" if data[6] == 1 else "<I", data, 8)[0]
    if size > MOST_HEADER_BYTES or start + size > len(data):
        raise RuntimeFailure(f"{path}: the .npy header is damaged")
    header = _literal(data[start : start + size].decode("utf-8" if data[6] == 3 else "latin-1", "replace"))
    shape, code = header.get("shape"), header.get("descr")
    if not isinstance(shape, tuple) or any(type(dim) is not int or dim < 0 for dim in shape):
        raise RuntimeFailure(f"{path}: the .npy header is damaged")
    if header.get("fortran_order") is not False and len(shape) > 1:
        raise RuntimeFailure(f"{path}: is stored column by column; save it with numpy.ascontiguousarray(...)")
    if not isinstance(code, str) or re.sub("^=", "<", code) not in _DTYPES:
        shown = code if isinstance(code, str) and len(code) < 10 else "a structure"
        raise RuntimeFailure(f"{path}: holds elements of type {shown}, which no input takes; convert it first")
    return _DTYPES[re.sub("^=", "<", code)], shape, start + size


def _literal(text: str) -> dict[str, object]:
    try:
        found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _quantized(port: Port) -> str:
    return "" if port.scale is None else f" (real = {port.scale:.6g} * (q - {port.zero_point}))"
