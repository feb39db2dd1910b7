"""Packing instances with a known perfect answer: a full rectangle of time and address, cut up at random."""

from __future__ import annotations

import random

Cut = tuple[int, int, int, int]
"""A piece as (first, last, low, high): steps [first, last), units of address [low, high)."""


def perfect(seed: int, count: int, steps: int = 240, units: int = 1024, unit_bytes: int = 1024) -> list[Cut]:
    """Return at least `count` pieces, shuffled, that fill `steps` by `units * unit_bytes` bytes without a gap.

    The largest piece is cut next, along time, along address, or into a pinwheel of five, which no straight cut makes.
    """
    rng = random.Random(seed)
    pieces: list[Cut] = [(0, steps, 0, units)]
    while len(pieces) < count:
        ranked = sorted(range(len(pieces)), key=lambda i: -_weight(pieces[i], steps, units) * rng.uniform(0.3, 1.0))
        chosen = next(i for i in ranked if pieces[i][1] - pieces[i][0] > 1 or pieces[i][3] - pieces[i][2] > 1)
        pieces += _cut(pieces.pop(chosen), rng, steps, units)
    rng.shuffle(pieces)
    return [(first, last, low * unit_bytes, high * unit_bytes) for first, last, low, high in pieces]


def _weight(piece: Cut, steps: int, units: int) -> float:
    first, last, low, high = piece
    return (last - first) / steps * (high - low) / units


def _cut(piece: Cut, rng: random.Random, steps: int, units: int) -> list[Cut]:
    first, last, low, high = piece
    wide, tall = last - first, high - low
    if wide >= 3 and tall >= 3 and rng.random() < 0.15:
        return _pinwheel(piece, rng)
    along_time = tall == 1 or (wide > 1 and rng.random() < wide / steps / (wide / steps + tall / units))
    if along_time:
        at = first + rng.randint(1, wide - 1)
        return [(first, at, low, high), (at, last, low, high)]
    at = low + rng.randint(1, tall - 1)
    return [(first, last, low, at), (first, last, at, high)]


def _pinwheel(piece: Cut, rng: random.Random) -> list[Cut]:
    first, last, low, high = piece
    a, b = sorted(rng.sample(range(first + 1, last), 2))
    c, d = sorted(rng.sample(range(low + 1, high), 2))
    return [(first, b, low, c), (b, last, low, d), (a, last, d, high), (first, a, c, high), (a, b, c, d)]
