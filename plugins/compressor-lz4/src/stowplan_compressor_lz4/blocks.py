"""LZ4 blocks through the lz4 package: pack at the highest level, unpack with every length checked."""

from __future__ import annotations

import lz4
import lz4.block

LEVEL = 12  # the highest: packing happens once on a host, unpacking costs the device the same at any level
MOST_EXPANSION = 255  # a byte of a block can stand for at most this many bytes


def library_version() -> str:
    """Return the version of the LZ4 C library."""
    return str(lz4.library_version_string())


def pack(data: bytes) -> bytes:
    """Return `data` as one LZ4 block."""
    return bytes(lz4.block.compress(data, mode="high_compression", compression=LEVEL, store_size=False))


def unpack(data: bytes, size_bytes: int) -> bytes:
    """Return the `size_bytes` that a block stands for. Raises `ValueError` when it stands for any other number."""
    if not 0 <= size_bytes <= MOST_EXPANSION * len(data):
        raise ValueError(f"an LZ4 block of {len(data)} bytes cannot hold {size_bytes} bytes")
    try:
        # One byte more than promised, so that a block that is too long is seen as such.
        unpacked = bytes(lz4.block.decompress(data, uncompressed_size=size_bytes + 1))
    except (lz4.block.LZ4BlockError, OverflowError, MemoryError) as err:
        raise ValueError(f"damaged LZ4 block of {len(data)} bytes: {err}") from err
    if len(unpacked) != size_bytes:
        raise ValueError(f"an LZ4 block holds {len(unpacked)} bytes, {size_bytes} were promised")
    return unpacked
