"""Offers the LZ4 block format for weights; imports the lz4 package only when it packs or unpacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import hook

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Compressor


@dataclass(frozen=True)
class Lz4Compressor:
    """Plain LZ4 blocks: no frame, no size header. The plan says how long a block is, packed and unpacked."""

    name: str = "lz4"
    summary: str = "LZ4 blocks, fast to unpack and with no memory beside the output"

    @property
    def version(self) -> str:
        """Name this adapter and the library, since another library version may pack the same bytes differently."""
        from stowplan_compressor_lz4.blocks import library_version

        return f"1+lz4.{library_version()}"

    def compress(self, data: bytes) -> bytes:
        from stowplan_compressor_lz4.blocks import pack

        return pack(data)

    def decompress(self, data: bytes, size_bytes: int) -> bytes:
        from stowplan_compressor_lz4.blocks import unpack

        return unpack(data, size_bytes)


@hook
def stowplan_compressors() -> Iterable[Compressor]:
    return [Lz4Compressor()]
