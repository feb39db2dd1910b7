"""The node kinds of a plan and the parameters of each, in the order in which a kernel finds them.

Every parameter is one 32-bit word: `i32`, `f32` (the number's bits), or `const` (index of a constant, -1 for none).
The C header gets an enum of kinds and, for each kind, an enum of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Param:
    """One parameter word of a node."""

    name: str
    type: str = "i32"


@dataclass(frozen=True)
class NodeKind:
    """One kernel. `code` never changes once released."""

    name: str
    code: int
    meaning: str
    params: tuple[Param, ...]


def _kind(name: str, code: int, meaning: str, *params: str) -> NodeKind:
    """Make a kind; a parameter is `name`, `name:f32` or `name:const`."""
    return NodeKind(name, code, meaning, tuple(Param(*p.split(":")) for p in params))


NODE_KINDS: Mapping[str, NodeKind] = {
    kind.name: kind
    for kind in (
        _kind("copy", 1, "output bytes are the input's bytes, in order, whatever the rows of either"),
    )
}
