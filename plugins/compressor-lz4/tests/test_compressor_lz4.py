"""The LZ4 compressor: round trips, true sizes, and what it does with blocks that are not its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_compressor_lz4 import Lz4Compressor, stowplan_compressors

LZ4 = Lz4Compressor()


@pytest.mark.parametrize("size_bytes", [*range(40), 255, 256, 65535, 65536, 1 << 20])
def test_every_length_from_zero_round_trips(size_bytes: int) -> None:
    data = bytes((i * i) >> 7 & 0xFF for i in range(size_bytes))
    assert LZ4.decompress(LZ4.compress(data), size_bytes) == data


@given(st.binary(max_size=2000))
def test_any_bytes_round_trip(data: bytes) -> None:
    assert LZ4.decompress(LZ4.compress(data), len(data)) == data


def test_a_constant_run_shrinks_and_the_packed_form_has_no_size_header() -> None:
    packed = LZ4.compress(bytes(4096))
    assert len(packed) < 40
    assert packed[:4] != (4096).to_bytes(4, "little")


@pytest.mark.parametrize("wrong", [-1, 0, 99, 101, 25000, 2**31, 2**63])
def test_another_length_than_was_packed_is_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match="LZ4 block"):
        LZ4.decompress(LZ4.compress(b"stow" * 25), wrong)


@given(st.binary(max_size=300), st.integers(0, 5000))
def test_garbage_is_refused_or_has_the_promised_length(data: bytes, size_bytes: int) -> None:
    with contextlib.suppress(ValueError):
        assert len(LZ4.decompress(data, size_bytes)) == size_bytes


@given(st.binary(min_size=64, max_size=64), st.data())
def test_a_truncated_block_is_refused(data: bytes, draw: st.DataObject) -> None:
    packed = LZ4.compress(data)
    cut = draw.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(ValueError, match="LZ4 block"):
        LZ4.decompress(packed[:cut], len(data))


def test_the_version_names_the_library_that_packs() -> None:
    assert LZ4.version.startswith("1+lz4.1.")


def test_the_hook_offers_one_record_with_a_name_and_a_summary() -> None:
    (record,) = stowplan_compressors()
    assert (record.name, bool(record.summary)) == ("lz4", True)


def test_importing_the_plugin_imports_neither_lz4_nor_numpy() -> None:
    code = "import sys, stowplan_compressor_lz4; print([m for m in ('lz4', 'numpy', 'pluggy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
