"""The machine a model is fitted into: its memories, its flash, and the kernels it can run."""

from __future__ import annotations

import hashlib
from functools import cached_property

from stowplan.nouns import asdict, dataclass

FAST, SLOW = 0, 1
"""Indices of the two pools everywhere: kernels read and write the fast one; the slow one holds what is spilled."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One memory of the target; `size_bytes` is the budget, None where the user gave none."""

    name: str
    size_bytes: int | None
    alignment_bytes: int = 4
    cost_per_byte: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """Pools in the order fast, slow. One pool means that everything, inputs and outputs included, lives in it."""

    name: str = "portable"
    pools: tuple[Pool, ...]
    flash_bytes: int | None = None
    kernels: str = "portable"

    @property
    def fast(self) -> Pool:
        return self.pools[FAST]

    @property
    def slow(self) -> Pool | None:
        return self.pools[SLOW] if len(self.pools) > 1 else None

    @cached_property
    def digest(self) -> str:
        import json  # only keys ask for a digest

        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
