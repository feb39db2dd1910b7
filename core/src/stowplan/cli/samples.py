"""Inputs for runs whose results nobody looks at: the same bytes every time, and numbers that no kernel trips over."""

from __future__ import annotations

import random
from array import array

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.plugins.kinds import Port

_FLOATS = {"float32": "f", "float64": "d"}


def sample(port: Port, seed: int = 0) -> bytes:
    """Return bytes for an input: floats between -1 and 1, any small integers, zeros for what may be an index."""
    numbers = random.Random(seed)
    if port.dtype in _FLOATS:
        count = port.size_bytes // SIZE_BYTES[port.dtype]
        return array(_FLOATS[port.dtype], (numbers.uniform(-1, 1) for _ in range(count))).tobytes()
    if port.dtype in ("int8", "uint8", "int16"):
        return numbers.randbytes(port.size_bytes)
    return bytes(port.size_bytes)
