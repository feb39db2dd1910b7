"""The memory map in letters, for a terminal: time across, address up, a letter per tensor."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_letters, digits

from stowplan.build.map_plot import first_name
from stowplan.build.memory_map import MapBox, MemoryMap, PoolMap
from stowplan.units import format_size

WIDTH, HEIGHT = 72, 16
_LETTERS = ascii_letters + digits
_NAMED = 20
_OTHER, _KEPT, _EMPTY = "*", "#", "."


def text_lines(memory: MemoryMap, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """Return the map: each letter is the tensor that fills most of a cell of time and address."""
    letters = _letters(memory)
    lines: list[str] = []
    for pool in memory.pools:
        if pool.boxes or pool.reserved_bytes:
            lines += [*([""] if lines else []), *_panel(memory, pool, letters, width, height)]
    return [*lines, "", *_legend(memory, letters)]


def _letters(memory: MemoryMap) -> dict[int, str]:
    """One letter per tensor in order of life; there are 62, and the tensors that fill least share a star."""
    area: dict[int, int] = {}
    first: dict[int, int] = {}
    for pool in memory.pools:
        for box in pool.boxes:
            area[box.tensor] = area.get(box.tensor, 0) + box.size_bytes * (box.last - box.first)
            first[box.tensor] = min(first.get(box.tensor, box.first), box.first)
    largest = sorted(area, key=lambda tensor: (-area[tensor], tensor))[: len(_LETTERS)]
    named = sorted(largest, key=lambda tensor: (first[tensor], tensor))
    return {**dict.fromkeys(area, _OTHER), **dict(zip(named, _LETTERS, strict=False))}


def _panel(memory: MemoryMap, pool: PoolMap, letters: dict[int, str], width: int, height: int) -> Iterator[str]:
    steps, size = max(1, memory.steps), max(1, pool.size_bytes)
    width, height = (steps * (width // steps) if steps < width else width), min(height, size)
    peak = pool.peak(0, steps)
    yield (
        f"{pool.name} memory: {format_size(pool.size_bytes)}, at most {format_size(peak.size_bytes)} alive "
        f"(firing {peak.step:,} of {memory.steps:,})"
    )
    cells = _cells(pool, letters, steps, size, width, height)
    for row in reversed(range(height)):
        mark = format_size((row + 1) * size // height) if (height - 1 - row) % 4 == 0 else ""
        yield f"{mark:>11} |" + "".join(cells[row])
    yield " " * 11 + " +" + "-" * width
    yield " " * 13 + "0" + f"firing {memory.steps:,}".rjust(width - 1)


def _cells(pool: PoolMap, letters: dict[int, str], steps: int, size: int, width: int, height: int) -> list[list[str]]:
    """Return rows of letters, lowest address first."""
    areas: list[list[dict[str, int]]] = [[{} for _ in range(width)] for _ in range(height)]
    whole = MapBox(
        tensor=-1, name="", writer="", first_row=0, last_row=1, offset_bytes=0, size_bytes=pool.reserved_bytes,
        first=0, last=steps,
    )  # fmt: skip
    for box, letter in [(whole, _KEPT), *((box, letters[box.tensor]) for box in pool.boxes)]:
        for row, high in _shares(box.offset_bytes, box.end_bytes, size, height):
            for column, wide in _shares(box.first, box.last, steps, width):
                area = areas[row][column]
                area[letter] = area.get(letter, 0) + high * wide
    return [[max(area, key=area.__getitem__) if area else _EMPTY for area in line] for line in areas]


def _shares(first: int, last: int, whole: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield which of `count` equal parts of [0, whole) a range touches, and how much of each, in parts of `count`."""
    if last <= first:
        return
    for index in range(first * count // whole, min(count, -(-last * count // whole))):
        yield index, min(last * count, (index + 1) * whole) - max(first * count, index * whole)


def _legend(memory: MemoryMap, letters: dict[int, str]) -> Iterator[str]:
    names = {box.tensor: first_name(box.name) for pool in memory.pools for box in pool.boxes}
    order = sorted((letter, tensor) for tensor, letter in letters.items() if letter != _OTHER)
    order.sort(key=lambda item: _LETTERS.index(item[0]))
    for letter, tensor in order[:_NAMED]:
        yield f"  {letter}   {_tail(names[tensor])}"
    more = len(letters) - min(len(order), _NAMED)
    if more:
        yield f"  and {more} more"
    if any(pool.reserved_bytes for pool in memory.pools):
        yield f"  {_KEPT}   kept for decompressed weights"


def _tail(name: str) -> str:
    return name if len(name) <= 60 else "..." + name[-57:]
