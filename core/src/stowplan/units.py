"""Sizes as people write and read them: "32K" to 32768 and back to "32.00 KiB". Nothing else reads or writes sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from stowplan.errors import UsageError

FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
MOST_RECOMPUTE = 100
MOST_BYTES = 2**40  # no target has more; a slip of the keyboard should not become a budget
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *(?:([kmg])i?)?b?", re.IGNORECASE | re.ASCII)


def parse_size(text: str, option: str) -> int:
    """Return the bytes `text` stands for: a number with B, K, KB, KiB, M, MB, MiB, G, GB or GiB, in powers of 1024.

    A fraction of a byte is cut off. Raises `UsageError`, which names `option`, for anything else and for zero.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(text) > 40:
        raise UsageError(f"{option} {_shown(text)}: is no size; write a number with K, M or G, such as 32K or 1.5M")
    whole, _, fraction = match[1].partition(".")
    size_bytes: int = int(whole + fraction) * FACTORS[(match[2] or "").lower()] // 10 ** len(fraction)
    if size_bytes == 0:
        raise UsageError(f"{option} {_shown(text)}: a size must be at least one byte")
    if size_bytes > MOST_BYTES:
        raise UsageError(f"{option} {_shown(text)}: is more than any target has ({format_size(MOST_BYTES)})")
    return size_bytes


def parse_pools(values: Sequence[str], option: str = "-m") -> tuple[tuple[str, int], ...]:
    """Return (name, bytes) of the fast and then the slow memory from `-m 32K -m 1M` or `-m 32K+1M`; empty for none."""
    parts = [part for value in values for part in value.split("+")]
    if len(parts) > 2:
        raise UsageError(f"{option}: at most two memories, fast and then slow; {len(parts)} were given")
    return tuple(zip(("fast", "slow"), (parse_size(part, option) for part in parts), strict=False))


def format_size(size_bytes: int) -> str:
    """Return a size with two decimals in the largest unit that leaves at least one: "28.22 KiB", "17 B"."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.2f} {unit}"
    return f"{size_bytes} B"


def format_shape(shape: Sequence[int]) -> str:
    """Return a shape as "1x96x96x3"; a free dimension as "?", a single value as "scalar"."""
    return "x".join("?" if dim < 0 else str(dim) for dim in shape) or "scalar"


def parse_shape(text: str, option: str) -> tuple[str, tuple[int, ...]]:
    """Return name and shape from `NAME:1x96x96x3`. The name may itself hold colons. Raises `UsageError`."""
    name, colon, dims = text.rpartition(":")
    if not colon or not name or not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})*", dims, re.ASCII):
        raise UsageError(f"{option} {_shown(text)}: write an input's name and its shape, such as image:1x96x96x3")
    shape = tuple(int(dim) for dim in dims.split("x"))
    if 0 in shape:
        raise UsageError(f"{option} {_shown(text)}: a dimension must be at least 1")
    return name, shape


def parse_recompute(text: str, option: str) -> float:
    """Return how many times the arithmetic may be done. Raises `UsageError` for what is no factor from 1 to 100."""
    with suppress(ValueError):
        factor = float(text)
        if 1 <= factor <= MOST_RECOMPUTE:
            return factor
    raise UsageError(f"{option} {_shown(text)}: write a factor from 1 (nothing twice) to {MOST_RECOMPUTE}, such as 1.1")


def _shown(text: str) -> str:
    return (text or '""') if len(text) <= 40 else text[:37] + "..."
