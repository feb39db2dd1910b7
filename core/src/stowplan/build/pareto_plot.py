"""Fast memory against slow traffic as SVG: a falling stair of proven plans, both axes with sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log2

from stowplan.build.facts import ParetoFact
from stowplan.build.svg import document, escaped, label, line, rect, short, size_label
from stowplan.units import format_size

_WIDTH, _HEIGHT = 900, 560
_LEFT, _TOP, _RIGHT, _BOTTOM = 110, 64, 40, 64
_PLOT_WIDTH, _PLOT_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM


def pareto_svg(name: str, points: Sequence[ParetoFact]) -> str:
    """Return the curve. Fast memory is drawn by powers of two, traffic from zero: none at all is a point of it."""
    body = [
        label(_LEFT, 26, f"{name}: slow traffic against fast memory", "title"),
        label(
            _LEFT,
            46,
            "bytes between fast and slow memory in one inference; every dot is a plan that ran",
            "quiet",
            length=120,
        ),
        rect(_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT, "plot"),
        *_Curve(points).draw(),
        rect(_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT, "frame"),
    ]
    return document(_WIDTH, _HEIGHT, f"Slow traffic against fast memory of {name}", body)


class _Curve:
    def __init__(self, points: Sequence[ParetoFact]) -> None:
        self.points = points
        sizes = [max(1, point.fast_bytes) for point in points] or [1]
        self.low, self.high = log2(min(sizes)) - 0.25, log2(max(sizes)) + 0.5
        self.most = max([1, *(point.traffic_bytes for point in points)]) * 1.06

    def x(self, size_bytes: int) -> float:
        return _LEFT + (log2(max(1, size_bytes)) - self.low) / (self.high - self.low) * _PLOT_WIDTH

    def y(self, traffic_bytes: float) -> float:
        return _TOP + _PLOT_HEIGHT * (1 - traffic_bytes / self.most)

    def draw(self) -> Iterator[str]:
        yield from self._axes()
        yield self._stair()
        for point in self.points:
            yield (
                f'<circle class="dot" cx="{short(self.x(point.fast_bytes))}" cy="{short(self.y(point.traffic_bytes))}" '
                f'r="5"><title>{escaped(_words(point), 200)}</title></circle>'
            )
        yield from self._names()

    def _stair(self) -> str:
        """A plan serves every larger budget too, until the next one: the curve falls in steps."""
        path: list[str] = []
        for index, point in enumerate(self.points):
            x, y = short(self.x(point.fast_bytes)), short(self.y(point.traffic_bytes))
            path.append(f"M{x} {y}" if index == 0 else f"H{x}V{y}")
        return f'<path class="curve" d="{"".join(path)}H{_LEFT + _PLOT_WIDTH}"/>' if path else ""

    def _axes(self) -> Iterator[str]:
        bottom = _TOP + _PLOT_HEIGHT
        for power in range(ceil(self.low), floor(self.high) + 1):
            x = self.x(2**power)
            yield line(x, _TOP, x, bottom, "grid")
            yield label(x, bottom + 18, size_label(2**power), "quiet", "middle")
        step = 2 ** max(0, ceil(log2(self.most / 8)))
        for traffic in range(0, int(self.most) + 1, step):
            yield line(_LEFT, self.y(traffic), _LEFT + _PLOT_WIDTH, self.y(traffic), "grid")
            yield label(_LEFT - 8, self.y(traffic) + 4, size_label(traffic), "quiet", "end")
        yield label(_LEFT + _PLOT_WIDTH / 2, bottom + 42, "fast memory", "quiet", "middle")
        yield label(_LEFT - 8, _TOP - 10, "slow traffic", "quiet", "end")

    def _names(self) -> Iterator[str]:
        """Write sizes beside the dots, where they do not lie on each other."""
        taken: list[tuple[float, float]] = []
        for point in self.points:
            x, y = self.x(point.fast_bytes) + 9, self.y(point.traffic_bytes) - 8
            if any(abs(x - left) <= 150 and abs(y - top) <= 15 for left, top in taken):
                continue
            taken.append((x, y))
            anchor = "start" if x < _LEFT + _PLOT_WIDTH - 130 else "end"
            yield label(x, y, f"{format_size(point.fast_bytes)}: {format_size(point.traffic_bytes)}", anchor=anchor)


def _words(point: ParetoFact) -> str:
    return (
        f"{point.fast_bytes:,} B fast, {point.slow_bytes:,} B slow memory: {point.slow_read_bytes:,} B read, "
        f"{point.slow_written_bytes:,} B written, {point.stages} stages, {point.tiled} tiled"
    )
