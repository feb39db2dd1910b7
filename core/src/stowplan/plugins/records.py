"""What compiled models say of themselves: ports, metrics, accelerators. Apart from the kinds, for a quick start."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.nouns import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Port:
    """One input or output of a compiled model. `scale` is None where values are not quantized.

    The rows of a `streamed` input arrive while the model runs; `rows` and `row_bytes` say how it is cut, and are 0 for
    all others. In each of so many `turns` all of them arrive, from the first on.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    size_bytes: int
    scale: float | None = None
    zero_point: int = 0
    streamed: bool = False
    rows: int = 0
    row_bytes: int = 0
    turns: int = 1


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What one run cost. Byte counts are between fast and slow memory; None where a backend cannot tell.

    `counters` are what an accelerator reports of itself, under its own names.
    """

    duration_ns: int
    slow_read_bytes: int | None = None
    slow_written_bytes: int | None = None
    counters: Mapping[str, int | float | bool | str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one accelerator had of a model. `present` is None when nobody looked, `taken` counts operators.

    `why` says what kept it from the others.
    """

    accelerator: str
    present: bool | None
    tried: bool
    taken: int = 0
    partitions: int | None = None
    device: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Acceleration:
    """Where a model ended up. `taken` counts the operators on accelerators other than the CPU, `fully` means all."""

    asked: tuple[str, ...]
    used: str
    operators: int
    taken: int
    fully: bool
    shares: tuple[Share, ...]
