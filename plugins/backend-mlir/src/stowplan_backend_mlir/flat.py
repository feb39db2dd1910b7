"""Reads the few fields of a TFLite file that vetting looks at; a place outside the file is an error, never a read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from stowplan.errors import ModelError


class Table:
    """One table of a flatbuffer. Fields that are absent have the default that is asked for."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self._fields = at - number(data, "<i", at)
        self._size = number(data, "<H", self._fields)

    def value(self, field: int, form: str, default: int = 0) -> int:
        at = self._place(field)
        return default if at is None else int(number(self.data, form, at))

    def flag(self, field: int) -> bool:
        return bool(self.value(field, "<B"))

    def table(self, field: int) -> Table | None:
        at = self._place(field)
        return None if at is None else Table(self.data, at + number(self.data, "<I", at))

    def tables(self, field: int) -> list[Table]:
        return [Table(self.data, at + number(self.data, "<I", at)) for at in self._items(field, 4)]

    def integers(self, field: int, most: int) -> list[int]:
        """Return the first of a vector: a file may have many operators share one that is as long as the file."""
        return [int(number(self.data, "<i", at)) for at in islice(self._items(field, 4), most)]

    def real(self, field: int) -> float:
        """Return the first of a vector of floats, 0 where there is none."""
        for at in self._items(field, 4):
            return float(number(self.data, "<f", at))
        return 0.0

    def bytes(self, field: int, most: int) -> bytes:
        start, count = self._vector(field, 1)
        return self.data[start : start + min(count, most)]

    def _items(self, field: int, size: int) -> Iterator[int]:
        start, count = self._vector(field, size)
        yield from range(start, start + size * count, size)

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        at = self._place(field)
        if at is None:
            return 0, 0
        start = at + number(self.data, "<I", at)
        count = number(self.data, "<I", start)
        if start + 4 + count * size > len(self.data):
            raise _damaged()
        return start + 4, count

    def _place(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = number(self.data, "<H", self._fields + entry)
        return self.at + offset if offset else None


def root(data: bytes) -> Table:
    """Return the table of a whole file. Raises `ModelError` for one that is cut off or no such file."""
    return Table(data, number(data, "<I", 0))


def number(data: bytes, form: str, at: int) -> Any:
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise _damaged()
    return struct.unpack_from(form, data, at)[0]


def _damaged() -> ModelError:
    return ModelError("is damaged: it refers to a place outside of the file; export it again")
