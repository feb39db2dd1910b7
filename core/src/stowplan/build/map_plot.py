"""The memory map as SVG: time across, address up, one colour per tensor, names on hover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.build.memory_map import MapBox, MemoryMap, Peak, PoolMap, memory_map
from stowplan.build.svg import (
    colour,
    document,
    escaped,
    label,
    line,
    rect,
    round_ticks,
    short,
    size_label,
    width_of,
)
from stowplan.flow.plan import Plan
from stowplan.nouns import dataclass
from stowplan.units import format_size

_WIDTH, _LEFT, _RIGHT = 1200, 96, 150
_PLOT_PX = _WIDTH - _LEFT - _RIGHT
_HEAD_PX, _STAGES_PX, _AXIS_PX, _LEGEND_ROW_PX = 54, 20, 44, 18
_FAST_PX, _SLOW_PX = 520, 260
_LEGEND_COLUMNS, _LEGEND_ROWS = 4, 8
_LEAST_LETTERS = 12
_NEAR = 1.6
"""A budget above this many times what the plan needs is only named, not drawn: it would flatten the map."""


def svg(memory: MemoryMap) -> str:
    """Return the map as one self-contained SVG document.

    Boxes are `<rect>` elements of a group `boxes` per pool, whose coordinates are firings and bytes.
    """
    colours = _colours(memory)
    body = [label(_LEFT, 24, f"{memory.name}: memory over time", "title"), label(_LEFT, 42, _subtitle(memory), "quiet")]
    top: float = _HEAD_PX
    for pool in memory.pools:
        if not pool.boxes and not pool.reserved_bytes:
            continue
        panel = _Panel(memory, pool, top + 22 + _STAGES_PX, _FAST_PX if pool is memory.fast else _SLOW_PX)
        body += panel.draw(colours)
        top = panel.top + panel.height + _AXIS_PX
    body += _legend(memory, colours, top)
    shown = min(len(colours), _LEGEND_COLUMNS * _LEGEND_ROWS + 1)
    rows = -(-shown // _LEGEND_COLUMNS)
    return document(_WIDTH, int(top + 16 + (rows + 1) * _LEGEND_ROW_PX), f"Memory map of {memory.name}", body)


def plan_svg(plan: Plan) -> str:
    """Return the map of a plan as SVG."""
    return svg(memory_map(plan.graph, plan.schedule))


def _subtitle(memory: MemoryMap) -> str:
    tensors = len({box.tensor for pool in memory.pools for box in pool.boxes})
    words = [f"{_number(memory.steps, 'firing')}", _number(len(memory.stages), "stage"), _number(tensors, "tensor")]
    return ", ".join(words) + "; point at a box for its tensor, rows and life"


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _colours(memory: MemoryMap) -> dict[int, str]:
    """One colour per tensor, in the order in which they come to life, so that neighbours differ."""
    first: dict[int, int] = {}
    for pool in memory.pools:
        for box in pool.boxes:
            first[box.tensor] = min(first.get(box.tensor, box.first), box.first)
    order = sorted(first, key=lambda tensor: (first[tensor], tensor))
    return {tensor: colour(index) for index, tensor in enumerate(order)}


@dataclass
class _Panel:
    """One pool drawn with its axes; `top` and `height` are those of the plot itself, in pixels."""

    memory: MemoryMap
    pool: PoolMap
    top: float
    height: float

    def __post_init__(self) -> None:
        budget = self.pool.budget_bytes
        self.drawn_budget = budget is not None and budget <= _NEAR * self.pool.size_bytes
        self.most_bytes = max(1, self.pool.size_bytes, budget if self.drawn_budget and budget else 0)
        self.steps = max(1, self.memory.steps)
        self.peak: Peak = self.pool.peak(0, self.steps)

    def x(self, step: float) -> float:
        return _LEFT + step / self.steps * _PLOT_PX

    def y(self, address: float) -> float:
        return self.top + self.height - address / self.most_bytes * self.height

    def draw(self, colours: dict[int, str]) -> Iterator[str]:
        yield label(_LEFT, self.top - _STAGES_PX - 8, self._heading())
        yield from self._stages()
        yield rect(_LEFT, self.top, _PLOT_PX, self.height, "plot")
        yield from self._grid()
        yield from self._boxes(colours)
        yield from self._borders()
        yield from self._names()
        yield rect(_LEFT, self.top, _PLOT_PX, self.height, "frame")
        yield from self._marks()

    def _heading(self) -> str:
        pool = self.pool
        words = [f"{pool.name} memory: the plan needs {size_label(pool.size_bytes)}"]
        if pool.budget_bytes is not None:
            words.append(f"budget {size_label(pool.budget_bytes)}")
        words.append(f"at most {size_label(self.peak.size_bytes)} alive")
        return ", ".join(words)

    def _stages(self) -> Iterator[str]:
        for number, (first, last) in enumerate(self.memory.stages):
            start, end = self.x(first), self.x(last)
            kind = "odd" if number % 2 else "even"
            yield f"<g><title>stage {number}: firings {first} to {last - 1}</title>" + rect(
                start, self.top - _STAGES_PX, end - start, _STAGES_PX - 4, kind
            )
            words = f"stage {number}" if end - start > width_of(f"stage {number}") else str(number)
            if end - start > width_of(words):
                yield label((start + end) / 2, self.top - 8, words, "quiet", "middle")
            yield "</g>"

    def _borders(self) -> Iterator[str]:
        for first, _ in self.memory.stages[1:]:
            yield line(self.x(first), self.top, self.x(first), self.top + self.height, "border")

    def _grid(self) -> Iterator[str]:
        for address in round_ticks(self.most_bytes, 8, binary=True):
            yield line(_LEFT, self.y(address), _LEFT + _PLOT_PX, self.y(address), "grid")
            yield label(_LEFT - 8, self.y(address) + 4, size_label(address), "quiet", "end")
        bottom = self.top + self.height
        for step in round_ticks(self.steps, 12, binary=False):
            yield line(self.x(step), bottom, self.x(step), bottom + 5, "grid")
            yield label(self.x(step), bottom + 18, f"{step:,}", "quiet", "middle")
        yield label(_LEFT + _PLOT_PX + 10, bottom + 18, "firing", "quiet")

    def _boxes(self, colours: dict[int, str]) -> Iterator[str]:
        """Yield the boxes in a group scaled to firings and bytes: short numbers, and a file one can compute with."""
        across, up = _PLOT_PX / self.steps, self.height / self.most_bytes
        move = f"translate({_LEFT} {short(self.top + self.height)}) scale({across:.8g} {-up:.8g})"
        stroke = min(1.0, 0.12 * across) if self.steps < 4000 else 0
        yield f'<g class="boxes" id="pool-{escaped(self.pool.name)}" transform="{move}" stroke-width="{stroke:.2f}">'
        if self.pool.reserved_bytes:
            yield (
                f'<rect class="kept" x="0" y="0" width="{self.steps}" height="{self.pool.reserved_bytes}">'
                f"<title>kept for decompressed weights, {self.pool.reserved_bytes:,} B</title></rect>"
            )
        for tensor, boxes in _by_tensor(self.pool.boxes).items():
            yield f'<g class="box" fill="{colours[tensor]}" aria-label="{escaped(first_name(boxes[0].name), 60)}">'
            yield from map(_box, boxes)
            yield "</g>"
        yield "</g>"

    def _names(self) -> Iterator[str]:
        """Write a tensor's name into its boxes that have room for it."""
        for box in self.pool.boxes:
            wide = self.x(box.last) - self.x(box.first)
            high = self.y(box.offset_bytes) - self.y(box.end_bytes)
            fits, name = int((wide - 8) / (11 * 0.6)), first_name(box.name)
            if high >= 14 and fits >= min(len(name), _LEAST_LETTERS):
                middle = (self.y(box.offset_bytes) + self.y(box.end_bytes)) / 2 + 4
                yield label(self.x(box.first) + 4, middle, _tail(name, fits), "in")

    def _marks(self) -> Iterator[str]:
        budget, right = self.pool.budget_bytes, _LEFT + _PLOT_PX
        levels = [(self.pool.size_bytes, f"plan {size_label(self.pool.size_bytes)}", "peak")]
        if self.drawn_budget and budget is not None:
            levels.append((budget, f"budget {size_label(budget)}", "budget"))
        below = self.top + self.height
        for address, words, kind in sorted(levels):
            yield line(_LEFT, self.y(address), right + 6, self.y(address), kind)
            below = min(below - 15, self.y(address) + 4)  # labels must not lie on each other
            yield label(right + 10, below, words, f"{kind}text")
        middle = self.x(self.peak.step + 0.5)
        yield line(middle, self.y(self.pool.size_bytes), middle, self.top + self.height + 5, "peak")
        words = f"most alive: {format_size(self.peak.size_bytes)} at firing {self.peak.step:,}"
        anchor = "start" if middle < _LEFT + _PLOT_PX / 2 else "end"
        yield label(middle, self.top + self.height + 34, words, "peaktext", anchor)


def first_name(name: str) -> str:
    """Return the first of the names that converters join with semicolons when they fuse operators."""
    return name.partition(";")[0] or name


def _tail(name: str, length: int) -> str:
    """Return the end of a name that is too long: names of one model tend to begin alike."""
    return name if len(name) <= length else "..." + name[len(name) - length + 3 :]


def _by_tensor(boxes: Sequence[MapBox]) -> dict[int, list[MapBox]]:
    found: dict[int, list[MapBox]] = {}
    for box in boxes:
        found.setdefault(box.tensor, []).append(box)
    return found


def _box(box: MapBox) -> str:
    return (
        f'<rect x="{box.first}" y="{box.offset_bytes}" width="{box.last - box.first}" height="{box.size_bytes}">'
        f"<title>{_words(box)}</title></rect>"
    )


def _words(box: MapBox) -> str:
    rows = f"row {box.first_row}" if box.last_row - box.first_row == 1 else f"rows {box.first_row}-{box.last_row - 1}"
    if box.accumulator:
        rows = "partial sums"
    life = f"firing {box.first}" if box.last - box.first == 1 else f"firings {box.first}-{box.last - 1}"
    place = f"{box.size_bytes:,} B at {box.offset_bytes:,}"
    return f"{escaped(box.name, 60)}: {rows}, {place}, {life}, by {escaped(box.writer, 60)}"


def _legend(memory: MemoryMap, colours: dict[int, str], top: float) -> Iterator[str]:
    """Name the tensors that fill most of the map, in order of life."""
    area: dict[int, int] = {}
    names: dict[int, str] = {}
    for pool in memory.pools:
        for box in pool.boxes:
            area[box.tensor] = area.get(box.tensor, 0) + box.size_bytes * (box.last - box.first)
            names[box.tensor] = first_name(box.name)
    most = _LEGEND_COLUMNS * _LEGEND_ROWS
    chosen = set(sorted(area, key=lambda tensor: -area[tensor])[:most])
    wide = (_WIDTH - _LEFT - 24) / _LEGEND_COLUMNS
    shown = [tensor for tensor in colours if tensor in chosen]
    for index, tensor in enumerate(shown):
        row, column = divmod(index, _LEGEND_COLUMNS)
        x, y = _LEFT + column * wide, top + 16 + row * _LEGEND_ROW_PX
        yield f'<rect fill="{colours[tensor]}" x="{short(x)}" y="{short(y - 10)}" width="12" height="12"/>'
        yield label(x + 18, y, _tail(names[tensor], int((wide - 26) / (12 * 0.6))))
    left = len(colours) - len(shown)
    if left:
        y = top + 16 + -(-len(shown) // _LEGEND_COLUMNS) * _LEGEND_ROW_PX
        yield label(_LEFT, y, f"and {left} smaller", "quiet")
