"""Messages between a process and its worker: a little JSON and blocks of bytes, each with its length before it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import IO, Any

_HEAD = struct.Struct("<II")
_SIZE = struct.Struct("<Q")
MOST_FACTS = 64 * 1024**2
MOST_BYTES = 2**32


def send(stream: IO[bytes], facts: Any, blocks: Sequence[bytes] = ()) -> None:
    body = json.dumps(facts).encode()
    stream.write(_HEAD.pack(len(body), len(blocks)) + body)
    for block in blocks:
        stream.write(_SIZE.pack(len(block)))
        stream.write(block)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Any, list[bytes]]:
    """Return the next message. Raises `EOFError` when the other side is gone or sends what is no message."""
    size, count = _HEAD.unpack(_exactly(stream, _HEAD.size))
    if size > MOST_FACTS:
        raise EOFError("the other side sent something that is no message")
    facts = json.loads(_exactly(stream, size))
    return facts, [_block(stream) for _ in range(count)]


def _block(stream: IO[bytes]) -> bytes:
    (size,) = _SIZE.unpack(_exactly(stream, _SIZE.size))
    if size > MOST_BYTES:
        raise EOFError("the other side sent something that is no message")
    return _exactly(stream, size)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other side is gone")
    return data
