"""Run lengths: n below 128 and n + 1 bytes as they are, or n of 128 and more and a byte to repeat n - 125 times."""

from __future__ import annotations

from itertools import groupby

MOST_LITERALS = 128
SHORTEST_RUN = 3
LONGEST_RUN = 130


def pack(data: bytes) -> bytes:
    """Return the packed form; at worst one byte in 128 longer than `data`."""
    packed, literals = bytearray(), bytearray()
    for value, group in groupby(data):
        count = sum(1 for _ in group)
        while count >= SHORTEST_RUN:
            run = min(count, LONGEST_RUN)
            flush(packed, literals)
            packed += bytes((128 + run - SHORTEST_RUN, value))
            count -= run
        literals += bytes((value,)) * count
    flush(packed, literals)
    return bytes(packed)


def unpack(data: bytes, size_bytes: int) -> bytes:
    """Return the `size_bytes` that were packed. Raises `ValueError` when `data` holds any other number."""
    found, position = bytearray(), 0
    while position < len(data) and len(found) <= size_bytes:
        control = data[position]
        literals = control + 1 if control < 128 else 0
        end = position + 1 + (literals or 1)
        if end > len(data):
            raise ValueError(f"damaged: byte {position} announces more than there is")
        chunk = data[position + 1 : end]
        found += chunk if literals else chunk * (control - 128 + SHORTEST_RUN)
        position = end
    if len(found) != size_bytes or position != len(data):
        raise ValueError(f"damaged: {len(found)} bytes and more are packed, {size_bytes} were promised")
    return bytes(found)


def flush(packed: bytearray, literals: bytearray) -> None:
    for start in range(0, len(literals), MOST_LITERALS):
        chunk = literals[start : start + MOST_LITERALS]
        packed += bytes((len(chunk) - 1,)) + chunk
    literals.clear()
