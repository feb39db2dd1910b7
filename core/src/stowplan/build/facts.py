"""What the report says of one compilation: plain numbers and words, nothing formatted yet."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.nouns import dataclass, field


@dataclass(frozen=True, kw_only=True)
class PortFact:
    """A model input or output as the report lists it; a streamed input with how its rows come, and how often."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    streamed: bool = False
    rows: int = 0
    row_bytes: int = 0
    turns: int = 1


@dataclass(frozen=True, kw_only=True)
class AliveFact:
    """A tensor with rows alive at a peak, and their bytes."""

    tensor: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class StageFact:
    """One stage: which operators (graph indices) run in it, how, and what they need of the fast pool.

    `live_peak_bytes` is the most alive at once in it, `alive` the tensors of that moment, largest first; both are
    found out by `analyze` only.
    """

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
    live_peak_bytes: int | None = None
    alive: tuple[AliveFact, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ShrinkFact:
    """Why a model does not fit: `over_bytes` too many in `pool` memory at `operator`, where `alive` are, largest first.

    `least_bytes` is the smallest need of that pool that was found.
    """

    pool: str
    operator: str
    least_bytes: int
    over_bytes: int
    alive: tuple[AliveFact, ...]


@dataclass(frozen=True, kw_only=True)
class MinimumFact:
    """The smallest memory of one kind: that of a plan which the checker passed and which ran, unless `why` says no.

    `lower_bound_bytes` is what no plan of the class named in `certificate` can go below, None where nothing is known;
    `recompute` how many times the model's arithmetic it does; `proven` says that the plan ran and gave equal bytes.
    """

    bytes: int | None
    lower_bound_bytes: int | None
    recompute: float
    proven: bool
    certificate: str = ""
    why: str = ""

    @property
    def gap_percent(self) -> float | None:
        """How far the plan may be above the least there is; None where that is not known."""
        if self.bytes is None or not self.lower_bound_bytes:  # a bound of nothing says nothing
            return None
        return (self.bytes - self.lower_bound_bytes) * 100 / self.lower_bound_bytes


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """The smallest single pool, the smallest fast pool beside ample slow memory, the smallest with streamed input."""

    one_pool: MinimumFact
    fast: MinimumFact
    streamed_input: MinimumFact


@dataclass(frozen=True, kw_only=True)
class ParetoFact:
    """A proven plan that nothing with as little fast memory beats in slow traffic (bytes per inference).

    `recompute` is how many times the model's arithmetic it does; no plan in the list beats it in all three.
    """

    fast_bytes: int
    slow_bytes: int
    slow_read_bytes: int
    slow_written_bytes: int
    stages: int
    tiled: int
    recompute: float = 1.0

    @property
    def traffic_bytes(self) -> int:
        return self.slow_read_bytes + self.slow_written_bytes


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
    `unscheduled_bytes` the live peak of whole tensors in file order. `certificate` says what was proven, and
    `lower_bound_bytes` below which no schedule of that class gets by, where it was looked for.
    `traffic` is (read, written) slow memory per inference, measured in a run; `recompute` how many times the
    model's arithmetic the plan does. `compressed` maps a compressor to the plan size it would give.
    `shrink` says what stands in the way of a budget, `minimum` and `pareto` are there when they were asked for.
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
    lower_bound_bytes: int | None = None
    certificate: str = ""
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
    recompute: float = 1.0
    compressed: Mapping[str, int] = field(default_factory=dict)
    trials: tuple[TrialFact, ...] = ()
    stage_table: tuple[StageFact, ...] = ()
    shrink: ShrinkFact | None = None
    minimum: Minimum | None = None
    pareto: tuple[ParetoFact, ...] = ()

    @property
    def total_bytes(self) -> int | None:
        """All memory the plan needs, fast and slow together: what a chip with one memory would have to have."""
        return None if self.fast_bytes is None else self.fast_bytes + (self.slow_bytes or 0)
