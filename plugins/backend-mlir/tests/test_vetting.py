"""What is looked at before the converter sees a model, and what passes between processes: any bytes at all."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.errors import ModelError, UnsupportedError, UsageError
from stowplan.plugins.kinds import Port
from stowplan_backend_mlir import CompilationPlan
from stowplan_backend_mlir.artifact import Artifact, version_of
from stowplan_backend_mlir.header import header
from stowplan_backend_mlir.said import MOST, line
from stowplan_backend_mlir.vetting import vet
from stowplan_backend_mlir.wire import receive, send

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6,
)  # fmt: skip
SLOW = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(changes=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=12), cut=st.integers(0, 2**14))
def test_any_bytes_are_vetted_or_refused(digits: Path, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(digits.read_bytes())
    for place, value in changes:
        data[place % len(data)] = value
    try:
        assert len(vet(bytes(data[: max(len(data) - cut, 0)])))
    except (ModelError, UnsupportedError) as err:
        assert "\n" not in str(err)


@SLOW
@given(data=st.binary(max_size=200))
def test_any_short_bytes_are_refused(data: bytes) -> None:
    with pytest.raises((ModelError, UnsupportedError)):
        vet(data)


def test_a_small_file_cannot_ask_for_much_work() -> None:
    """40,000 subgraphs that are one, whose 40,000 operators are one, which has 40,000 inputs: 6e13 to look at."""
    count = 40_000
    vector, subgraph, operator = 256, 256 + 4 * (count + 1), 256 + 4 * (count + 1) + 256
    data = bytearray(operator + 256)

    def table(at: int, **fields: int) -> None:
        """Lay a table at a place, its vtable 64 bytes behind; fields refer to what lies further on in the file."""
        struct.pack_into("<i", data, at, -64)
        struct.pack_into("<HH", data, at + 64, 4 + 2 * 8, 36)
        for field, place in fields.items():
            number = int(field[1:])
            struct.pack_into("<H", data, at + 64 + 4 + 2 * number, 4 + 4 * number)
            struct.pack_into("<I", data, at + 4 + 4 * number, (place - (at + 4 + 4 * number)) % 2**32)

    struct.pack_into("<I", data, 0, 16)
    table(16, f1=vector, f2=vector)
    struct.pack_into("<I", data, vector, count)
    for place in range(vector + 4, subgraph, 4):
        struct.pack_into("<I", data, place, subgraph - place)
    table(subgraph)
    short = bytes(data)
    with pytest.raises(ModelError, match="share what they are made of"):
        vet(_sharing(short, subgraph, count))
    assert {one.operators for one in vet(short)} == {0}


def _sharing(data: bytes, subgraph: int, count: int) -> bytes:
    """Give the subgraph operators, all of them one: a vector at the end of the file and a table behind it."""
    vector = len(data)
    operator = vector + 4 * (count + 1)
    more = bytearray(data) + bytearray(4 * (count + 1) + 128)
    struct.pack_into("<H", more, subgraph + 64 + 4 + 2 * 3, 4 + 4 * 3)
    struct.pack_into("<I", more, subgraph + 4 + 4 * 3, vector - (subgraph + 4 + 4 * 3))
    struct.pack_into("<I", more, vector, count)
    for place in range(vector + 4, operator, 4):
        struct.pack_into("<I", more, place, operator - place)
    struct.pack_into("<i", more, operator, -64)
    struct.pack_into("<HH", more, operator + 64, 4, 4)
    return bytes(more)


@given(text=st.text(max_size=600))
def test_what_mlir_says_becomes_one_line(text: str) -> None:
    found = line(text)
    assert found.isprintable() and len(found) <= MOST


@pytest.mark.parametrize(("text", "found"), [
    ("Unable to parse module assembly:\nerror: \"-\":1:27: custom op 'foo' is unknown", "custom op 'foo' is unknown"),
    ("Failure while executing pass pipeline:\nerror: unknown: failed to legalize", "failed to legalize"),
    ('loc("output"("/tmp/x.tflite":0:0)): error: \'tosa.reshape\' op operand', "'tosa.reshape' op operand"),
    ("It failed.\nDiagnostic message at loc(\"-\":5:21): only this\nat loc(\"-\":3:13): for that", "only this"),
    ("", "it says nothing"),
])  # fmt: skip
def test_places_that_nobody_has_are_left_out(text: str, found: str) -> None:
    assert line(text) == found


@given(facts=PLAIN, blocks=st.lists(st.binary(max_size=50), max_size=4))
def test_messages_arrive_as_they_were_sent(facts: object, blocks: list[bytes]) -> None:
    stream = io.BytesIO()
    send(stream, facts, blocks)
    stream.seek(0)
    assert receive(stream) == (facts, blocks)
    with pytest.raises(EOFError):
        receive(io.BytesIO(stream.getvalue()[:-1]))


@pytest.mark.parametrize("data", [struct.pack("<II", 2**31, 0), struct.pack("<II", 2, 1) + b"{}" + b"\xff" * 8])
def test_what_is_no_message_is_the_end(data: bytes) -> None:
    with pytest.raises(EOFError, match="no message"):
        receive(io.BytesIO(data))


@given(target=PLAIN, version=PLAIN)
def test_plain_data_has_an_identity_and_equal_data_the_same(target: object, version: object) -> None:
    one = CompilationPlan(target=target, schema_version=version)
    assert one.identity == CompilationPlan(target=target, schema_version=version).identity
    assert (one.identity == CompilationPlan(target=version, schema_version=target).identity) == (
        [type(target), target] == [type(version), version] or repr(target) == repr(version)
    )


@given(data=st.binary(max_size=8))
def test_what_is_no_bytecode_has_no_version(data: bytes) -> None:
    try:
        assert 0 <= version_of(data) < 128
    except ModelError as err:
        assert "no MLIR bytecode" in str(err)


@given(names=st.lists(st.text(max_size=50), min_size=1, max_size=6))
def test_any_names_of_tensors_make_a_header(names: list[str]) -> None:
    ports = tuple(Port(name=name, shape=(2,), dtype="int8", size_bytes=2) for name in names)
    none = dict(key="", lookup_key="", structure="", bytecode=b"", digest="", document={}, functions={})
    artifact = Artifact(name="x", inputs=ports, outputs=(), **none)
    text = header(artifact, "model")
    found = text.partition("void model(")[2].partition(")")[0].split(", ")
    assert len({one.split("*")[1].upper() for one in found}) == len(names)
    assert all(one.split("*")[1].isidentifier() and one.isascii() for one in found)


def test_a_file_is_no_option() -> None:
    with pytest.raises(UsageError, match="cache input target"):
        CompilationPlan(target=open)
