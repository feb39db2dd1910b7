"""Offers a range coder for weights: every bit of a byte by odds that follow the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Compressor


@dataclass(frozen=True)
class RangeCompressor:
    """An adaptive range coder, without tables or headers. The plan says how long a block is, packed and unpacked."""

    name: str = "range"
    summary: str = "range coder: smaller than LZ4 on quantized weights, slower to unpack, 0.5 KiB of stack"
    version: str = "1"

    def compress(self, data: bytes) -> bytes:
        from stowplan_compressor_range.coder import pack

        return pack(data)

    def decompress(self, data: bytes, size_bytes: int) -> bytes:
        from stowplan_compressor_range.coder import unpack

        return unpack(data, size_bytes)


@hook
def stowplan_compressors() -> Iterable[Compressor]:
    return [RangeCompressor()]
