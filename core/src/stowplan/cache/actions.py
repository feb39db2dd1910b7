"""Action results as the HTTP cache protocol has them: the few protobuf fields that say which files an action gave.

Servers that check what they store (bazel-remote does) read these messages, and hand one out only when they have all of
its files. Written by hand because it is four fields: field 2 of the result is a file, with its path (1) and digest (2),
which is hash (1) and size (2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stowplan.cache.entry import Damaged
from stowplan.cache.files import is_digest

MOST_BYTES = 1024**2
_VARINT, _BYTES = 0, 2


def encode(files: Mapping[str, tuple[str, int]]) -> bytes:
    """Return the message for files by path, each with (SHA-256, size)."""
    return b"".join(_field(2, _file(path, digest, size)) for path, (digest, size) in sorted(files.items()))


def decode(data: bytes) -> dict[str, tuple[str, int]]:
    """Return the files of a message. Raises `Damaged` for anything that is none."""
    if len(data) > MOST_BYTES:
        raise Damaged(f"its answer of {len(data)} bytes is too long")
    try:
        found = dict(_read_file(value) for number, value in _fields(data) if number == 2 and isinstance(value, bytes))
    except (IndexError, ValueError, KeyError) as err:
        raise Damaged("its answer is no action result") from err
    if not found:
        raise Damaged("its answer names no file")
    return found


def _file(path: str, digest: str, size: int) -> bytes:
    return _field(1, path.encode()) + _field(2, _field(1, digest.encode()) + _tag(2, _VARINT) + _varint(size))


def _read_file(data: bytes) -> tuple[str, tuple[str, int]]:
    fields = dict(_fields(data))
    path, inner = fields[1], fields[2]
    if not isinstance(path, bytes) or not isinstance(inner, bytes):
        raise ValueError("a file has no path or no digest")
    digest = dict(_fields(inner))
    name, size = digest[1], digest.get(2, 0)
    if not isinstance(name, bytes) or not isinstance(size, int) or not is_digest(name.decode("ascii")):
        raise ValueError("a digest is none")
    return path.decode("utf-8"), (name.decode("ascii"), size)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
        elif kind == _BYTES:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ValueError("a field is cut off")
            yield number, data[at : at + length]
            at += length
        elif kind in (1, 5):  # fixed-size numbers of fields we do not know
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("a field has an unknown form")


def _field(number: int, data: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(data)) + data


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")
