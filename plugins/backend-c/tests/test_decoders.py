"""The runtime's LZ4 and SHA-256 against the packages everyone uses, on honest and on damaged data."""

from __future__ import annotations

import ctypes
import random

import pytest

from stowplan.planfile import layout
from stowplan.planfile.writer import digest_of
from stowplan_backend_c.binding import runtime
from stowplan_backend_c.host import AlignedBytes
from tiny_plans import copying_plan

lz4_block = pytest.importorskip("lz4.block", reason="the lz4 package is the oracle here")


def decoded(packed: bytes, size: int) -> bytes | None:
    """Return what the C decoder makes of `packed`; both sides lie between guards."""
    source, target = AlignedBytes(len(packed), "source"), AlignedBytes(size, "target")
    ctypes.memmove(source.address, packed, len(packed))
    done = runtime().library.stow_lz4_decode(source.address, len(packed), target.address, size)
    source.check()
    target.check()
    return ctypes.string_at(target.address, size) if done else None


def packed_by_package(data: bytes) -> bytes:
    packed: bytes = lz4_block.compress(data, store_size=False)
    return packed


def samples(rng: random.Random) -> list[bytes]:
    noise = rng.randbytes(3000)
    runs = b"".join(bytes([rng.randrange(4)]) * rng.randrange(1, 700) for _ in range(40))
    repeats = (rng.randbytes(37) * 50)[:1500]
    return [b"", b"a", b"abcdefghijklmnop", bytes(100_000), noise, runs, repeats, noise + noise, runs + noise + runs]


def test_lz4_blocks_of_the_package_decode_to_what_was_packed() -> None:
    for data in samples(random.Random(1)):
        assert decoded(packed_by_package(data), len(data)) == data


def test_lz4_blocks_of_another_size_are_refused() -> None:
    for data in samples(random.Random(2))[1:]:
        packed = packed_by_package(data)
        assert decoded(packed, len(data) + 1) is None
        assert decoded(packed, len(data) - 1) is None


def test_a_truncated_lz4_block_is_refused() -> None:
    data = samples(random.Random(3))[-1]
    packed = packed_by_package(data)
    for size in range(0, len(packed), 7):
        assert decoded(packed[:size], len(data)) is None


def test_mutated_lz4_blocks_stay_in_bounds_and_agree_with_the_package() -> None:
    """What the package accepts, the decoder gives byte for byte; what it refuses may be refused or decoded."""
    rng = random.Random(4)
    agreed = 0
    for _ in range(4000):
        data = rng.choice(samples(rng)[1:])[: rng.randrange(1, 600)]
        packed = bytearray(packed_by_package(data))
        for _ in range(rng.randrange(1, 4)):
            packed[rng.randrange(len(packed))] = rng.randrange(256)
        found = decoded(bytes(packed), len(data))
        try:
            expected = lz4_block.decompress(bytes(packed), uncompressed_size=len(data))
        except lz4_block.LZ4BlockError:
            continue
        if len(expected) == len(data):
            assert found == expected
            agreed += 1
    assert agreed > 200


def test_a_length_that_would_wrap_is_refused() -> None:
    assert decoded(b"\xf0" + b"\xff" * 5000, 64) is None
    assert decoded(b"\x1fa\x01\x00" + b"\xff" * 5000 + b"\x00", 64) is None


def test_a_match_before_the_start_or_at_offset_zero_is_refused() -> None:
    assert decoded(b"\x10a\x02\x00" + b"\x50abcde", 10) is None
    assert decoded(b"\x10a\x00\x00" + b"\x50abcde", 10) is None
    assert decoded(b"\x10a\x01\x00" + b"\x50abcde", 10) == b"aaaaaabcde"[:5] + b"abcde"


@pytest.mark.parametrize("extra", [*range(130), 1000, 4096])
def test_the_digest_is_sha_256_for_any_length(extra: int) -> None:
    plan = bytearray(copying_plan().file() + random.Random(extra).randbytes(extra))
    at = layout.HEADER.offset_of("file_bytes")
    plan[at : at + 4] = len(plan).to_bytes(4, "little")
    start = layout.HEADER.offset_of("digest")
    plan[start : start + 32] = digest_of(bytes(plan))
    assert checked(bytes(plan)) == "no error"
    plan[-1] ^= 0x80
    assert checked(bytes(plan)) == "its digest does not match its contents"


def checked(plan: bytes) -> str:
    memory = AlignedBytes(len(plan), "plan")
    ctypes.memmove(memory.address, plan, len(plan))
    return runtime().text(runtime().library.stow_check_digest(memory.address, len(plan)))
