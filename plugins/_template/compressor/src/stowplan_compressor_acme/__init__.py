"""Packs weights for stowplan as run lengths, under the name acme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Compressor

STOWPLAN_CONTRACT = 1


class AcmeCompressor:
    """Runs of equal bytes as two bytes, everything else as it is."""

    name: str = "acme"
    summary: str = "run lengths: for weights with long runs of zeros"
    version: str = "1"

    def compress(self, data: bytes) -> bytes:
        from stowplan_compressor_acme.runs import pack

        return pack(data)

    def decompress(self, data: bytes, size_bytes: int) -> bytes:
        from stowplan_compressor_acme.runs import unpack

        return unpack(data, size_bytes)


@hook
def stowplan_compressors() -> Sequence[Compressor]:
    return [AcmeCompressor()]
