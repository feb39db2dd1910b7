"""A bounds-checked reader of the FlexBuffer maps in which custom operators keep their options: names and numbers.

A map's values are numbers of 1, 2, 4 or 8 bytes, in place or at an offset back; each has a type byte behind them.
Damage raises `Damaged`, which says at which byte of the options.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from stowplan_importer_tflite.flatbuffer import Damaged

NULL, INT, UINT, FLOAT = range(4)
INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP = range(6, 10)
BOOL = 26
INDIRECT = {INDIRECT_INT: INT, INDIRECT_UINT: UINT, INDIRECT_FLOAT: FLOAT}
CODES = {INT: "bhiq", UINT: "BHIQ", BOOL: "BHIQ", FLOAT: " efd"}
"""By type, the `struct` code for each width; there are no floats of one byte."""
MAX_BYTES = 1 << 16
"""Options of real operators have some hundred bytes."""
MAX_KEY_BYTES = 256

Value = int | float | bool | None


def read_map(data: bytes) -> Mapping[str, Value]:
    """Return the numbers of a map by name; what is no number is left out."""
    if not 3 <= len(data) <= MAX_BYTES:
        raise Damaged(f"options of {len(data)} bytes; a map of numbers has 3 to {MAX_BYTES}")
    width, kind = data[-1], data[-2]
    if kind >> 2 != MAP:
        raise Damaged(f"options of type {kind >> 2}, not a map ({MAP})")
    if width not in (1, 2, 4, 8):
        raise Damaged(f"an offset of {width} bytes")
    start = _back(data, len(data) - 2 - width, width)
    return _Map(data, start, 1 << (kind & 3)).values()


class _Map:
    """A map at `start`: in front its keys and their number, from there on values, then a type for each."""

    def __init__(self, data: bytes, start: int, width: int) -> None:
        self.data, self.start, self.width = data, start, width
        self.count = _unsigned(data, start - width, width)
        self.key_width = _unsigned(data, start - 2 * width, width)
        self.keys = _back(data, start - 3 * width, width)
        if self.key_width not in (1, 2, 4, 8):
            raise Damaged(f"byte {start - 2 * width}: keys of {self.key_width} bytes")
        _inside(data, start, self.count * (width + 1))

    def values(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for index in range(self.count):
            kind = self.data[self.start + self.count * self.width + index]
            value = self._value(index, kind >> 2, 1 << (kind & 3))
            if value is not None:
                found[self._key(index)] = value
        return found

    def _key(self, index: int) -> str:
        start = _back(self.data, self.keys + index * self.key_width, self.key_width)
        end = self.data.find(b"\0", start, start + MAX_KEY_BYTES)
        if end < 0:
            raise Damaged(f"byte {start}: a name without an end")
        return self.data[start:end].decode("utf-8", "replace")

    def _value(self, index: int, kind: int, far_width: int) -> Value:
        position, width = self.start + index * self.width, self.width
        if kind in INDIRECT:
            position, width, kind = _back(self.data, position, width), far_width, INDIRECT[kind]
        code = CODES.get(kind, "    ")[width.bit_length() - 1]
        if code == " ":
            return None
        _inside(self.data, position, width)
        value: float = struct.unpack_from(f"<{code}", self.data, position)[0]
        return bool(value) if kind == BOOL else value


def _inside(data: bytes, position: int, size: int) -> None:
    if position < 0 or position + size > len(data):
        raise Damaged(f"byte {max(position, 0)}: {size} bytes are needed there, the options have {len(data)}")


def _unsigned(data: bytes, position: int, width: int) -> int:
    _inside(data, position, width)
    return int.from_bytes(data[position : position + width], "little")


def _back(data: bytes, position: int, width: int) -> int:
    """Return where the offset at `position` points: so many bytes before itself."""
    target = position - _unsigned(data, position, width)
    _inside(data, target, 0)
    return target
