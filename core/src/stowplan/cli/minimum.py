"""The report's blocks on the least memory, and on fast memory against slow traffic."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build.facts import Minimum, MinimumFact, ParetoFact
from stowplan.cli.output import columns, painted
from stowplan.units import format_size

PARETO_NUMBERS = frozenset({5, 6, 7})


def minimum_lines(minimum: Minimum | None) -> list[str]:
    """Return the three minima with their lower bounds; nothing when they were not asked for."""
    rows = minimum_rows(minimum)
    return [painted("minimum", "bold"), *columns(rows)] if rows else []


def minimum_rows(minimum: Minimum | None) -> list[tuple[str, str, str]]:
    """Return the kinds of minimum: which, how much, and how near to the least that is."""
    if minimum is None:
        return []
    return [
        _minimum("one memory", minimum.one_pool),
        _minimum("fast memory", minimum.fast, "beside ample slow memory, "),
        _minimum("streamed input", minimum.streamed_input),
    ]


def _minimum(label: str, fact: MinimumFact, where: str = "") -> tuple[str, str, str]:
    if fact.bytes is None:
        return label, "-", fact.why
    remark = where + _bound(fact) + arithmetic(fact.recompute, "; ")
    if not fact.proven:
        remark += f"; not run: {fact.why}"
    return label, _both(fact.bytes), remark


def _bound(fact: MinimumFact) -> str:
    if fact.gap_percent is None:
        return "no lower bound known"
    if fact.gap_percent <= 0:
        return fact.certificate or "proven least"
    return fact.certificate or f"at most {fact.gap_percent:.1f} % above the least ({fact.lower_bound_bytes} bytes)"


def _both(size_bytes: int) -> str:
    return f"{size_bytes} B" if size_bytes < 1024 else f"{format_size(size_bytes)} ({size_bytes})"


def arithmetic(recompute: float, before: str = "") -> str:
    """Say how much more arithmetic a plan does than the model; nothing when it does no more."""
    return f"{before}{recompute:.2f} times the arithmetic" if recompute > 1 else ""


def pareto_lines(points: Sequence[ParetoFact]) -> list[str]:
    """Return the table of plans worth having, smallest fast memory first."""
    if not points:
        return []
    title = painted("fast memory against slow traffic of one inference", "bold")
    return [title, *columns(pareto_rows(points), right=PARETO_NUMBERS)]


def pareto_rows(points: Sequence[ParetoFact]) -> list[list[str]]:
    """Return the table's head and its rows; how much is computed again is there where anything is."""
    head: list[str] = ["fast", "slow traffic", "read", "written", "slow memory", "stages", "tiled"]
    rows = [
        [
            *(_both(n) for n in (point.fast_bytes, point.traffic_bytes)),
            *(format_size(n) for n in (point.slow_read_bytes, point.slow_written_bytes, point.slow_bytes)),
            str(point.stages),
            str(point.tiled),
        ]
        for point in points
    ]
    if any(point.recompute > 1 for point in points):
        head.append("arithmetic")
        rows = [[*row, f"{point.recompute:.2f} x"] for row, point in zip(rows, points, strict=True)]
    return [head, *rows]
