"""The self test of generated code: inputs that both sides can make up, and the digest of what they must give.

The C side is in templates/core.c.in. Inputs are made up rather than stored because they would take as much flash as the
model's inputs take memory. Numbers are random, floats lie in [-1, 1); what may be an index is zero.
"""

from __future__ import annotations

import struct

from stowplan.plugins.kinds import Port

SEED = 0x9E3779B9


def golden_digest(plan: bytes) -> str:
    """Return the SHA-256 of all outputs, one after another, of a first run on the made-up inputs.

    Raises `PlanError` for a plan that cannot be run, `RuntimeFailure` when there is no C compiler to run it with.
    """
    import hashlib
    from contextlib import closing

    from stowplan.errors import RuntimeFailure
    from stowplan_backend_c.host import HostCompiled

    try:
        compiled = HostCompiled(plan)
    except RuntimeFailure as err:
        raise RuntimeFailure(f"the self test needs a run here: {err}; or leave it out with --no-selftest") from err
    with closing(compiled):
        outputs = compiled.run([made_up(port, index) for index, port in enumerate(compiled.inputs)])
    return hashlib.sha256(b"".join(outputs)).hexdigest()


def made_up(port: Port, index: int) -> bytes:
    """Return the bytes of input number `index`."""
    state = SEED * (index + 1) & 0xFFFFFFFF
    if port.dtype == "float32":
        words = _words(state, port.size_bytes // 4)
        return struct.pack(f"<{len(words)}f", *((word >> 8) * 2.0**-23 - 1.0 for word in words))
    if port.dtype in ("int8", "uint8", "int16"):
        return bytes(word >> 24 for word in _words(state, port.size_bytes))
    return bytes(port.size_bytes)


def _words(state: int, count: int) -> list[int]:
    """Return random words: xorshift with three shifts, which needs nothing but 32 bits."""
    found = []
    for _ in range(count):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        found.append(state)
    return found
