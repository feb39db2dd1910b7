"""What a caller wants compiled: model, memories, options; light to import, since a warm start needs no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.flow.target import Pool, Target
from stowplan.nouns import dataclass, field

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph

POOL_NAMES = ("fast", "slow")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A pass of the caller's own: a function from graph to graph, run after the import.

    `name` and `version` are its identity in cache keys: the function's code is not looked at, so a changed function
    needs a changed version.
    """

    name: str
    version: str
    run: Callable[[Graph], Graph] = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class CompileRequest:
    """What the caller wants. `pools` are (name, budget in bytes), fast first; no pools means no budget.

    The rows of the inputs named in `stream_inputs` arrive while the plan runs. With `optimal` the scheduler goes on to
    the least memory and its certificate; `time_limit_s` may end it early, and such a plan is not cached.
    Up to `recompute` times the arithmetic may be done where that saves memory.
    The last four are for keys: `schema_version` and `target_label` are the caller's own, `emit_version` the plan file's
    (None: the current one), and `toolchain_revision` stands for what is found out about the tools where it is given.
    """

    model_path: Path
    pools: tuple[tuple[str, int], ...] = ()
    flash_bytes: int | None = None
    compressor: str = "none"
    xip: bool = False
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    keep_names: bool = False
    prove: bool = True
    scheduler: str = "stream"
    backend: str = "c"
    stream_inputs: tuple[str, ...] = ()
    recompute: float = 1.0
    optimal: bool = False
    time_limit_s: float | None = None
    steps: tuple[Step, ...] = ()
    schema_version: str = ""
    emit_version: str | None = None
    target_label: str = ""
    toolchain_revision: str = ""

    @property
    def target(self) -> Target:
        pools = self.pools or ((POOL_NAMES[0], 0),)
        sizes = [size if self.pools else None for _, size in pools]
        return Target(
            pools=tuple(Pool(name=name, size_bytes=size) for (name, _), size in zip(pools, sizes, strict=True)),
            flash_bytes=self.flash_bytes,
        )
