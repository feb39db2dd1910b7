"""The data types of tensors and how many bytes an element takes."""

from __future__ import annotations

SIZE_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
RANGE = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}


def size_bytes(dtype: str) -> int:
    """Return the bytes of one element. Raises `KeyError` for a dtype that stowplan does not know."""
    return SIZE_BYTES[dtype]
