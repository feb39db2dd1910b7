"""Bazel's worker protocol, both forms: protocol buffers behind their length, and JSON with or without line ends."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any, Protocol

from stowplan.nouns import dataclass

MOST_BYTES = 1 << 28
"""More than any request has; a length beyond it is not a request."""
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5
ARGUMENTS, REQUEST_ID, CANCEL, SANDBOX = 1, 3, 4, 6
EXIT_CODE, OUTPUT, RESPONSE_ID, WAS_CANCELLED = 1, 2, 3, 4


class ProtocolError(ValueError):
    """What came is no request; nothing after it can be trusted."""


@dataclass(frozen=True)
class Request:
    """One command to run in `sandbox` (empty: here), or the wish that the one with this `id` be given up."""

    arguments: tuple[str, ...]
    id: int = 0
    cancel: bool = False
    sandbox: str = ""


@dataclass(frozen=True)
class Response:
    exit_code: int = 0
    output: str = ""
    id: int = 0
    was_cancelled: bool = False


class Codec(Protocol):
    """Turns what arrives, in pieces of any size, into requests, and a response into bytes."""

    def feed(self, data: bytes) -> Iterator[Request]:
        """Yield the requests that are complete with `data`. Raises `ProtocolError`."""
        ...

    def encode(self, response: Response) -> bytes: ...


class JsonCodec:
    """One object after another; Bazel 4 sends no line end after a request, later ones do."""

    def __init__(self) -> None:
        self._text = ""
        self._decode = getincrementaldecoder("utf-8")().decode
        self._parse = json.JSONDecoder().raw_decode

    def feed(self, data: bytes) -> Iterator[Request]:
        try:
            self._text += self._decode(data)
        except UnicodeDecodeError as err:
            raise ProtocolError("not UTF-8") from err
        while self._text.strip():
            text = self._text.lstrip()
            if text[0] != "{":
                raise ProtocolError(f"not a JSON object: {text[:40]!r}")
            try:
                found, end = self._parse(text)
            except ValueError:
                # A request is one line: with the next one begun, this one will not get better.
                if "\n" in text or len(text) > MOST_BYTES:
                    raise ProtocolError(f"no JSON: {text[:40]!r}") from None
                return
            except RecursionError:
                raise ProtocolError("nested too deep") from None
            self._text = text[end:]
            yield _request(found)

    def encode(self, response: Response) -> bytes:
        found: dict[str, Any] = dict(exitCode=response.exit_code, output=response.output, requestId=response.id)
        if response.was_cancelled:
            found["wasCancelled"] = True
        return json.dumps(found).encode("ascii") + b"\n"


class ProtoCodec:
    """Messages of `worker_protocol.proto`, each behind its length; fields that are not needed are passed over."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> Iterator[Request]:
        self._data += data
        while True:
            length, start = _varint(self._data, 0)
            if start < 0:
                return
            if length > MOST_BYTES:
                raise ProtocolError(f"a request of {length} bytes")
            if len(self._data) < start + length:
                return
            message, self._data = self._data[start : start + length], self._data[start + length :]
            yield _message(message)

    def encode(self, response: Response) -> bytes:
        text = response.output.encode("utf-8", "replace")
        body = b"".join(
            _number(field, value)
            for field, value in ((EXIT_CODE, response.exit_code), (RESPONSE_ID, response.id))
            if value
        )
        if text:
            body += _put(OUTPUT << 3 | LENGTH) + _put(len(text)) + text
        if response.was_cancelled:
            body += _number(WAS_CANCELLED, 1)
        return _put(len(body)) + body


def codec(protocol: str) -> Codec:
    return JsonCodec() if protocol == "json" else ProtoCodec()


def _request(found: dict[str, Any]) -> Request:
    arguments, number, sandbox = found.get("arguments", []), found.get("requestId", 0), found.get("sandboxDir", "")
    sound = isinstance(arguments, list) and all(isinstance(word, str) for word in arguments)
    if not sound or not isinstance(number, int) or not isinstance(sandbox, str):
        raise ProtocolError("arguments, requestId or sandboxDir of a wrong type")
    return Request(arguments=tuple(arguments), id=number, cancel=found.get("cancel") is True, sandbox=sandbox)


def _message(data: bytes) -> Request:
    arguments: list[str] = []
    number, cancel, sandbox = 0, False, ""
    for field, value in _fields(data):
        if field == ARGUMENTS and isinstance(value, bytes):
            arguments.append(value.decode("utf-8", "surrogateescape"))
        elif field == SANDBOX and isinstance(value, bytes):
            sandbox = value.decode("utf-8", "surrogateescape")
        elif field == REQUEST_ID and isinstance(value, int):
            number = value
        elif field == CANCEL and isinstance(value, int):
            cancel = bool(value)
    return Request(arguments=tuple(arguments), id=number, cancel=cancel, sandbox=sandbox)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _inside(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _inside(data, at)
            yield tag >> 3, value
            continue
        if kind == LENGTH:
            size, at = _inside(data, at)
        elif kind in (FIXED_32, FIXED_64):
            size = 4 if kind == FIXED_32 else 8
        else:
            raise ProtocolError(f"a field of kind {kind}")
        if at + size > len(data):
            raise ProtocolError("a field longer than its message")
        yield tag >> 3, data[at : at + size]
        at += size


def _inside(data: bytes, at: int) -> tuple[int, int]:
    value, end = _varint(data, at)
    if end < 0:
        raise ProtocolError("a message that ends within a number")
    return value, end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends; -1 as its end when more bytes are needed. Raises `ProtocolError`."""
    value = 0
    for index in range(10):
        if at + index >= len(data):
            return 0, -1
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise ProtocolError("a number of more than 10 bytes")


def _number(field: int, value: int) -> bytes:
    return _put(field << 3 | VARINT) + _put(value % (1 << 64))


def _put(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
