"""A schedule with nothing left to decide: lowered nodes, packed constants, and what the file will say about itself."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.build.lower import Lowered
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule
from stowplan.nouns import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Block:
    """The constants of one stage, packed together by a compressor."""

    packed: bytes = field(repr=False)
    unpacked_bytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is written to a `.stow` file.

    `lowered[n]` is the kernel and parameters of node n. `stage_of_node[n]` is the stage whose block node n's constants
    are in. `blocks[s]` is stage s's packed constants, None where a stage has none; empty without compression.
    """

    model_digest: str
    graph: Graph
    schedule: Schedule
    lowered: tuple[Lowered, ...]
    stage_of_node: tuple[int, ...]
    blocks: tuple[Block | None, ...] = ()
    compressor: str = "none"
    xip: bool = False
    keep_names: bool = False
    proven: bool = False
    provenance: Mapping[str, object] = field(default_factory=dict)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the model's constants that the plan uses, each once, before packing."""
        used = {t.constant for t in self.graph.tensors if t.constant is not None}
        return sum(len(self.graph.constants[c]) for c in used if c is not None)
