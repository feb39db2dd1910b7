"""The hurried SHA-256 is SHA-256, and a command that finds no change loads no OpenSSL."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import sha


@given(st.binary(max_size=300))
def test_it_is_what_hashlib_says(data: bytes) -> None:
    assert sha.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_so_it_is_where_the_long_way_begins(more: int) -> None:
    data = bytes(sha.SHORT_BYTES + more)
    assert sha.sha256(data).digest() == hashlib.sha256(data).digest()


def test_short_data_needs_no_openssl() -> None:
    code = "import sys; from stowplan.sha import sha256; sha256(b'a'); print('_hashlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
