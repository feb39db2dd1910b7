"""What the report says of one compilation: plain numbers and words, nothing formatted yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class PortFact:
    """A model input or output as the report lists it; a streamed input with how its rows come."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    streamed: bool = False
    rows: int = 0
    row_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class StageFact:
    """One stage: which operators (graph indices) run in it, how, and what they need of the fast pool."""

    index: int
    operators: tuple[int, ...]
    kinds: tuple[str, ...]
    tiled: bool
    firings: int
    peak_bytes: int
    bound_by: str
    reload_bytes: int
    spill_bytes: int
    weight_bytes: int


@dataclass(frozen=True, kw_only=True)
class TrialFact:
    """Another budget that was tried: what came out."""

    fast_bytes: int
    fits: bool
    stages: int = 0
    tiled: int = 0


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything `compile` and `analyze` print, and `--json` returns. Sizes are bytes; None is not known or not asked.

    `fits` is the verdict; `cause` says why not. `tflite_micro_bytes` is the arena of TFLite Micro's planner,
    `unscheduled_bytes` the live peak of whole tensors in file order. `traffic` is (read, written) slow memory per
    inference, measured in a run. `compressed` maps a compressor to the plan size it would give.
    """

    file: str
    name: str
    dtype: str
    operators: int
    inputs: tuple[PortFact, ...]
    outputs: tuple[PortFact, ...]
    notes: tuple[str, ...] = ()
    fits: bool = True
    cause: str = ""
    fast_budget_bytes: int | None = None
    slow_budget_bytes: int | None = None
    has_slow: bool = False
    flash_budget_bytes: int | None = None
    tflite_micro_bytes: int | None = None
    unscheduled_bytes: int = 0
    largest_tensor_bytes: int = 0
    largest_tensor_shape: tuple[int, ...] = ()
    fast_bytes: int | None = None
    live_peak_bytes: int | None = None
    slow_bytes: int | None = None
    reserved_bytes: int = 0
    stages: int = 0
    tiled: int = 0
    plan_bytes: int | None = None
    weight_bytes: int = 0
    compressor: str = "none"
    xip: bool = False
    proof: str = ""
    traffic: tuple[int, int] | None = None
    compressed: Mapping[str, int] = field(default_factory=dict)
    trials: tuple[TrialFact, ...] = ()
    stage_table: tuple[StageFact, ...] = ()

    @property
    def total_bytes(self) -> int | None:
        """All memory the plan needs, fast and slow together: what a chip with one memory would have to have."""
        return None if self.fast_bytes is None else self.fast_bytes + (self.slow_bytes or 0)
