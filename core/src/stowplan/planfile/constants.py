"""Where each constant of a plan lies: each once, at a multiple of 16, in the file or in a stage's block."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.build.lower import Lowered
from stowplan.flow.graph import Graph, Operator
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.layout import SECTION_ALIGNMENT_BYTES


def align(size: int, alignment: int = SECTION_ALIGNMENT_BYTES) -> int:
    """Return `size` rounded up to a multiple of `alignment`."""
    return -(-size // alignment) * alignment


class ConstantPool:
    """Collects constants; equal bytes are stored once."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._chunks: list[bytes] = []
        self.size_bytes = 0

    def add(self, data: bytes) -> int:
        """Return the offset of these bytes in the pool, storing them if they are new."""
        if data not in self._offsets:
            padded = data + bytes(align(len(data)) - len(data))
            self._offsets[data] = self.size_bytes
            self._chunks.append(padded)
            self.size_bytes += len(padded)
        return self._offsets[data]

    def bytes(self) -> bytes:
        return b"".join(self._chunks)


def constants_of(lowered: Lowered, operator: Operator | None, graph: Graph) -> Iterable[bytes]:
    """Yield the constants a node needs, in the order in which the writer numbers them."""
    for param in NODE_KINDS[lowered.kind].params:
        value = lowered.params.get(param.name)
        if param.type == "const" and isinstance(value, (bytes, bytearray, memoryview)):
            yield bytes(value)
    for operand in lowered.operands:
        if operator is not None and operand.form is not None:
            yield graph.constant_bytes(operator.inputs[operand.position])
