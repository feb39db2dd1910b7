"""What a compilation gives back: files and facts, the key that stands for them, and whether they were cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stowplan.build.codec import facts_of
from stowplan.build.facts import Facts
from stowplan.cache.key import Document
from stowplan.nouns import dataclass, field

if TYPE_CHECKING:
    from stowplan.flow.plan import Plan

PLAN = "plan.stow"
"""The name of a plan among an artifact's files."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """`cache` is hit or miss (or off), `layer` where a hit came from: memory, disk, remote, or graph.

    It is "verified" where the plan was compiled again and came out equal.
    A hit of layer `graph` is another file with the same meaning: its schedule and proof were known. `metadata` is plain
    data: the facts of the report, diagnostics, what the first compilation cost. `plan` is there when it was just made.
    """

    key: str
    document: Document = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)
    cache: str
    layer: str = ""
    timings_ns: Mapping[str, int] = field(default_factory=dict)
    plan: Plan | None = field(default=None, repr=False, compare=False)

    @property
    def data(self) -> bytes:
        """The plan's bytes."""
        return self.files[PLAN]

    @property
    def facts(self) -> Facts:
        return facts_of(self.metadata["facts"])

    @property
    def diagnostics(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("diagnostics", ()))
