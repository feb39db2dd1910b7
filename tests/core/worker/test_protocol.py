"""The worker protocol: what arrives in pieces of any size is the requests that were sent, or refused."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.worker.protocol import JsonCodec, ProtoCodec, ProtocolError, Request, Response

WORDS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)
REQUESTS = st.builds(
    Request,
    arguments=st.lists(WORDS, max_size=5).map(tuple),
    id=st.integers(0, 2**31 - 1),
    cancel=st.booleans(),
    sandbox=WORDS,
)


def varint(value: int) -> bytes:
    """Encode a number as protocol buffers do, seven bits at a time, the lowest first."""
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


def text(field: int, value: str) -> bytes:
    data = value.encode()
    return varint(field * 8 + 2) + varint(len(data)) + data


def proto(request: Request) -> bytes:
    """Encode a request by the numbers in worker_protocol.proto, with inputs and verbosity that we pass over."""
    body = b"".join(text(1, word) for word in request.arguments)
    body += varint(2 * 8 + 2) + varint(4) + b"\x0a\x02ab"
    body += varint(3 * 8) + varint(request.id) + varint(4 * 8) + varint(request.cancel) + varint(5 * 8) + varint(10)
    body += text(6, request.sandbox)
    return varint(len(body)) + body


def as_json(request: Request) -> bytes:
    document = dict(
        arguments=request.arguments, inputs=[dict(path="a", digest="b")], requestId=request.id, verbosity=10,
        cancel=request.cancel, sandboxDir=request.sandbox,
    )  # fmt: skip
    return json.dumps(document).encode()


def fed(codec: JsonCodec | ProtoCodec, data: bytes, cuts: list[int]) -> list[Request]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    return [request for piece in pieces for request in codec.feed(piece)]


@given(st.lists(REQUESTS, max_size=4), st.lists(st.integers(0, 1000), max_size=6))
def test_messages_cut_anywhere_are_the_requests_that_were_sent(requests: list[Request], cuts: list[int]) -> None:
    assert fed(ProtoCodec(), b"".join(map(proto, requests)), cuts) == requests


@given(st.lists(REQUESTS, max_size=4), st.lists(st.integers(0, 1000), max_size=6), st.sampled_from([b"", b"\n", b" "]))
def test_objects_with_and_without_line_ends_are_the_requests_that_were_sent(
    requests: list[Request], cuts: list[int], between: bytes
) -> None:
    assert fed(JsonCodec(), between.join(map(as_json, requests)), cuts) == requests


@given(st.integers(0, 255), WORDS, st.integers(0, 2**31 - 1), st.booleans())
def test_responses_have_the_fields_that_bazel_reads(code: int, output: str, number: int, cancelled: bool) -> None:
    response = Response(code, output, number, cancelled)
    document = json.loads(JsonCodec().encode(response))
    assert (document["exitCode"], document["output"], document["requestId"]) == (code, output, number)
    assert document.get("wasCancelled", False) is cancelled
    body = (varint(8) + varint(code) if code else b"") + (varint(24) + varint(number) if number else b"")
    body += (text(2, output) if output else b"") + (varint(32) + b"\x01" if cancelled else b"")
    assert ProtoCodec().encode(response) == varint(len(body)) + body


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff" * 10, "a number of more than 10 bytes"),
        (varint(1 << 40), "a request of 1099511627776 bytes"),
        (b"\x02\x0b\x00", "a field of kind 3"),
        (b"\x03\x0a\x7fx", "a field longer than its message"),
        (b"\x01\x80", "a message that ends within a number"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        list(ProtoCodec().feed(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"hello", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"arguments": [}\n', "no JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"arguments": "compile"}', "of a wrong type"),
        (b'{"arguments": [1]}', "of a wrong type"),
        (b'{"requestId": "1"}', "of a wrong type"),
        (b'{"sandboxDir": 1}', "of a wrong type"),
        (b'{"a":' * 100_000, "nested too deep|no JSON"),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        list(JsonCodec().feed(data))


def test_half_a_request_is_waited_for() -> None:
    codec = JsonCodec()
    assert list(codec.feed(b'{"arguments": ["a')) == []
    assert list(codec.feed(b'"]}')) == [Request(arguments=("a",))]


@given(st.binary(max_size=60))
def test_any_bytes_are_requests_or_refused(data: bytes) -> None:
    for codec in (ProtoCodec(), JsonCodec()):
        try:
            list(codec.feed(data))
        except ProtocolError as err:
            assert str(err)
