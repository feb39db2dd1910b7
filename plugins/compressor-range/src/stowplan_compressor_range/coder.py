"""The range coder: a byte is eight decisions down a tree, each coded by the odds that this decision had so far.

The C decoder is `runtime/stow_range.c` of backend-c; both compute with the same integers, so that the form is one.
"""

from __future__ import annotations

ODDS_BITS = 12
RATE = 5  # odds move by 1/32 of what is missing: fast enough for a stage's layers to differ, and best on real weights
LEAST = 1 << 24  # below this, the interval is widened by a byte
WHOLE = (1 << 32) - 1
END_BYTES = 4
MOST_EXPANSION = 91  # eight decisions at the best odds take 0.09 bits


def pack(data: bytes) -> bytes:
    """Return `data` as one block. It ends so that the decoder, having read all of it, is in the middle."""
    out = bytearray()
    odds = [1 << ODDS_BITS - 1] * 256
    low, width, one = 0, WHOLE, 1 << ODDS_BITS
    for byte in data:
        node = 1
        for shift in (7, 6, 5, 4, 3, 2, 1, 0):
            zero = odds[node]
            bound = (width >> ODDS_BITS) * zero
            if byte >> shift & 1:
                low += bound
                width -= bound
                odds[node] = zero - (zero >> RATE)
                node += node + 1
            else:
                width = bound
                odds[node] = zero + (one - zero >> RATE)
                node += node
            if width < LEAST:
                if low > WHOLE:
                    _carry(out)
                out.append(low >> 24 & 0xFF)
                low = (low & 0xFFFFFF) << 8
                width <<= 8
    low += width >> 1
    if low > WHOLE:
        _carry(out)
    return bytes(out) + (low & WHOLE).to_bytes(END_BYTES, "big")


def unpack(data: bytes, size_bytes: int) -> bytes:
    """Return the `size_bytes` that a block stands for. Raises `ValueError` when it stands for any other number."""
    if not 0 <= size_bytes <= MOST_EXPANSION * len(data) + 64:
        raise ValueError(f"a range-coded block of {len(data)} bytes cannot hold {size_bytes} bytes")
    out = bytearray()
    odds = [1 << ODDS_BITS - 1] * 256
    code, at, width, one = int.from_bytes(data[:END_BYTES], "big"), END_BYTES, WHOLE, 1 << ODDS_BITS
    while len(out) < size_bytes and at <= len(data):
        node = 1
        while node < 256:
            zero = odds[node]
            bound = (width >> ODDS_BITS) * zero
            if code < bound:
                width = bound
                odds[node] = zero + (one - zero >> RATE)
                node += node
            else:
                code -= bound
                width -= bound
                odds[node] = zero - (zero >> RATE)
                node += node + 1
            if width < LEAST:
                width <<= 8
                code = (code << 8 & WHOLE) | (data[at] if at < len(data) else 0)
                at += 1
        out.append(node & 0xFF)
    if len(out) != size_bytes or at != len(data) or code != width >> 1:
        raise ValueError(f"damaged range-coded block of {len(data)} bytes, or not of {size_bytes} bytes")
    return bytes(out)


def _carry(out: bytearray) -> None:
    """Add one to the number that was written; its first bytes are never all 0xFF, since the whole stays below one."""
    at = len(out) - 1
    while out[at] == 0xFF:
        out[at] = 0
        at -= 1
    out[at] += 1
