"""A bounds-checked reader of FlatBuffers: tables, vectors, strings and scalars, with nothing of the schema in it.

Every offset is checked before it is followed. A file may point at the same bytes from many places, so that a small
file could unfold into gigabytes; what is read is counted against a budget in proportion to the file's size.
Damage raises `Damaged`, which says at which byte.
"""

from __future__ import annotations

import struct

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_SCALARS = {code: struct.Struct("<" + code) for code in "bBhHiIqQfd?"}

UNFOLDING = 4
"""How many times over the bytes of a file may be read. Writers share little, so sound files stay below 1."""
SLACK_BYTES = 65536


class Damaged(Exception):
    """The bytes are no sound FlatBuffer."""


class Buffer:
    """The file's bytes and how many of them may still be read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.remaining = UNFOLDING * len(data) + SLACK_BYTES

    def root(self) -> Table:
        """Return the table that the file is about."""
        return Table(self, self.follow(0))

    def take(self, position: int, size: int) -> None:
        """Check that `size` bytes from `position` are inside the file, and charge them."""
        if position < 0 or position + size > len(self.data):
            raise Damaged(f"byte {max(position, 0)}: {size} bytes are needed there, the file has {len(self.data)}")
        self.remaining -= size
        if self.remaining < 0:
            raise Damaged(f"byte {position}: the same bytes are used over and over")

    def u32(self, position: int) -> int:
        self.take(position, 4)
        return int(_U32.unpack_from(self.data, position)[0])

    def follow(self, position: int) -> int:
        """Return where the unsigned offset stored at `position` points."""
        return position + self.u32(position)


class Table:
    """One table. A field is named by its number in the schema; one that is absent reads as its default."""

    __slots__ = ("_buffer", "_fields", "_position", "_vtable")

    def __init__(self, buffer: Buffer, position: int) -> None:
        buffer.take(position, 4)
        vtable = position - _I32.unpack_from(buffer.data, position)[0]
        buffer.take(vtable, 4)
        size = _U16.unpack_from(buffer.data, vtable)[0]
        if size < 4 or size % 2:
            raise Damaged(f"byte {vtable}: a table of fields cannot be {size} bytes long")
        buffer.take(vtable, size)
        self._buffer, self._position, self._vtable, self._fields = buffer, position, vtable, (size - 4) // 2

    def scalar(self, number: int, code: str, default: float = 0) -> float:
        """Return a number; `code` is its `struct` code."""
        position = self._field(number)
        if position is None:
            return default
        packing = _SCALARS[code]
        self._buffer.take(position, packing.size)
        value: float = packing.unpack_from(self._buffer.data, position)[0]
        return value

    def integer(self, number: int, code: str = "i", default: int = 0) -> int:
        return int(self.scalar(number, code, default))

    def flag(self, number: int) -> bool:
        return self.integer(number, "B") != 0

    def table(self, number: int) -> Table | None:
        position = self._field(number)
        return None if position is None else Table(self._buffer, self._buffer.follow(position))

    def tables(self, number: int) -> list[Table]:
        """Return a vector of tables; empty when absent."""
        start, count = self._vector(number, 4)
        return [Table(self._buffer, self._buffer.follow(start + 4 * i)) for i in range(count)]

    def numbers(self, number: int, code: str) -> tuple[float, ...]:
        """Return a vector of numbers; empty when absent."""
        start, count = self._vector(number, _SCALARS[code].size)
        return struct.unpack_from(f"<{count}{code}", self._buffer.data, start) if count else ()

    def integers(self, number: int, code: str = "i") -> tuple[int, ...]:
        return tuple(int(n) for n in self.numbers(number, code))

    def blob(self, number: int) -> memoryview:
        """Return a vector of bytes without copying it; empty when absent."""
        start, count = self._vector(number, 1)
        return memoryview(self._buffer.data)[start : start + count]

    def text(self, number: int) -> str:
        """Return a string with whatever cannot be printed on a line replaced; empty when absent."""
        text = bytes(self.blob(number)).decode("utf-8", "replace")
        return (
            text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        )

    def has(self, number: int) -> bool:
        return self._field(number) is not None

    def _field(self, number: int) -> int | None:
        if number >= self._fields:
            return None
        # The vtable was checked as a whole, so this read is inside the file.
        offset: int = _U16.unpack_from(self._buffer.data, self._vtable + 4 + 2 * number)[0]
        return self._position + offset if offset else None

    def _vector(self, number: int, element_bytes: int) -> tuple[int, int]:
        position = self._field(number)
        if position is None:
            return 0, 0
        start = self._buffer.follow(position)
        count = self._buffer.u32(start)
        self._buffer.take(start + 4, count * element_bytes)
        return start + 4, count
