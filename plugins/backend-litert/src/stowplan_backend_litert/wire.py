"""Messages between processes, five bytes and a little JSON, and the memory that carries the tensors. No pickles."""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stowplan.nouns import asdict
from stowplan.plugins.records import Port
from stowplan_backend_litert.errors import BY_CODE, LibraryUnavailableError, LiteRtError

RUN, CALL, DONE, VALUE, FAILED, MEMORY = b"R", b"C", b"K", b"V", b"E", b"M"
_HEAD = struct.Struct("<cI")
MOST_BYTES = 64 * 1024 * 1024
HEADER_BYTES = 64  # its first two bytes are the sign to stop
ALIGNMENT_BYTES = 64


def send(connection: socket.socket, kind: bytes, value: Any = None) -> None:
    """Send one message; most have no value and are five bytes."""
    body = b"" if value is None else json.dumps(value).encode()
    connection.sendall(_HEAD.pack(kind, len(body)) + body)


def receive(connection: socket.socket) -> tuple[bytes, Any]:
    """Return the next message. Raises `EOFError` when the other side is gone, and `TimeoutError`."""
    kind, size = _HEAD.unpack(_exactly(connection, _HEAD.size))
    if size > MOST_BYTES:
        raise EOFError("the other side sent something that is no message")
    return kind, json.loads(_exactly(connection, size)) if size else None


def failure(err: LiteRtError) -> dict[str, Any]:
    return dict(code=err.code, message=str(err), status=err.status, text=err.text)


def raised(value: dict[str, Any]) -> LiteRtError:
    """Return the error that `failure` described."""
    kind = BY_CODE.get(value["code"], LiteRtError)
    return kind(value["message"], status=value["status"], text=value["text"])


def ports_as_json(ports: Sequence[Port]) -> list[dict[str, Any]]:
    return [asdict(port) for port in ports]


def ports_from_json(value: Sequence[dict[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(**{**fields, "shape": tuple(fields["shape"])}) for fields in value)


class Memory:
    """Memory that two processes see: two bytes that mean stop, then the inputs, then the outputs."""

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port], descriptor: int | None = None) -> None:
        places, size = _places([*inputs, *outputs])
        self.descriptor = _new_file(size) if descriptor is None else descriptor
        try:
            if os.fstat(self.descriptor).st_size < size:
                raise LiteRtError("the shared memory is smaller than the model's tensors")
            self._map = mmap.mmap(self.descriptor, size)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._view = memoryview(self._map)
        views = [
            self._view[place : place + port.size_bytes] for place, port in zip(places, [*inputs, *outputs], strict=True)
        ]
        self.inputs, self.outputs = views[: len(inputs)], views[len(inputs) :]

    @property
    def head(self) -> memoryview:
        return self._view[:HEADER_BYTES]

    def stop(self) -> None:
        self._view[0] = 1

    def close(self) -> None:
        for view in (*self.inputs, *self.outputs):
            view.release()
        self._view.release()
        with suppress(BufferError):  # a caller still holds a view; the memory goes with it
            self._map.close()
        with suppress(OSError):
            os.close(self.descriptor)


def require_posix() -> None:
    if sys.platform == "win32":
        raise LibraryUnavailableError("Server and Isolated need Unix sockets; use CompiledModel on this system")


def _places(ports: Sequence[Port]) -> tuple[list[int], int]:
    places, end = [], HEADER_BYTES
    for port in ports:
        places.append(end)
        end += -(-port.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return places, end


def _new_file(size: int) -> int:
    if sys.platform.startswith("linux"):
        descriptor = os.memfd_create("stowplan-tensors")
    else:
        descriptor, path = tempfile.mkstemp(prefix="stowplan-tensors-")
        os.unlink(path)
    os.ftruncate(descriptor, size)
    return descriptor


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError("the other side is gone")
        parts += part
    return bytes(parts)
