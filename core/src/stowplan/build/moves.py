"""Where moved elements come from: the operators `rearrange` and `sample` as axes with an offset per index.

Element (i0, i1, ...) of such an operator's output is element `base + axes[0][i0] + axes[1][i1] + ...` of its input,
both counted in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from stowplan.flow.graph import Operator
from stowplan.nouns import dataclass

MOVES = frozenset({"rearrange", "sample"})

MOST_RUNS = 32
"""As many runs describe what one row is made of; beyond that it is taken for all that lies between."""

Offsets = Sequence[int]


@dataclass(frozen=True)
class Source:
    """`axes[k][i]` is what index i along axis k adds; a `range` where the steps are even."""

    base: int
    axes: tuple[Offsets, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    @property
    def elements(self) -> int:
        return prod(self.sizes)

    def span(self, first: int, last: int) -> range:
        """Return the input elements from the lowest to the highest that the output elements [first, last) come from."""
        low = high = self.base
        loose = False  # whether an axis further out takes more than one index, so that this one takes them all
        size = self.elements
        for axis in self.axes:
            size //= len(axis)
            if loose:
                part: Offsets = axis
            else:
                start, end = first // size % len(axis), (last - 1) // size % len(axis)
                part, loose = axis[start : end + 1], start != end
            low += _least(part)
            high += _most(part)
        return range(low, high + 1)

    def runs(self, first: int, last: int) -> list[range]:
        """Return the input elements that the output elements [first, last) come from, as ranges with little between.

        Together they may hold more than what is read, never less: where a few long runs do not describe it, it is
        the span.
        """
        block, free = last - first, len(self.axes)
        while free > 0 and prod(self.sizes[free - 1 :]) <= block:
            free -= 1
        inner = self.axes[free:]
        long = max((n for n, axis in enumerate(inner) if _is_dense(axis)), key=lambda n: len(inner[n]), default=None)
        if long is None or prod(self.sizes[free:]) != block or first % block:
            return [self.span(first, last)]
        if block > MOST_RUNS * len(inner[long]):
            return [self.span(first, last)]
        start, size = self.base, self.elements
        for axis in self.axes[:free]:
            size //= len(axis)
            start += axis[first // size % len(axis)]
        others = product(*(axis for n, axis in enumerate(inner) if n != long))
        begins = sorted(start + sum(offsets) for offsets in others)
        return [range(begin, begin + len(inner[long])) for begin in begins]


def _is_dense(axis: Offsets) -> bool:
    return isinstance(axis, range) and axis.step == 1 and len(axis) > 1


def even(count: int, step: int) -> Offsets:
    """Return the offsets of `count` indices that lie `step` elements apart."""
    return range(0, count * step, step) if step else (0,) * count


def source_of(operator: Operator, shape: Sequence[int], result: Sequence[int]) -> Source:
    """Return where the elements of a `rearrange` or `sample` come from, by its input's shape and its output's."""
    if operator.kind == "rearrange":
        pairs = zip(operator.integers("sizes"), operator.integers("strides"), strict=True)
        return Source(operator.integer("offset"), tuple(even(size, stride) for size, stride in pairs))
    axes: list[Offsets] = []
    indices, taken = operator.integers("indices"), 0
    for axis, count in enumerate(result):
        step = prod(shape[axis + 1 :])
        if axis in operator.integers("axes"):
            axes.append(tuple(index * step for index in indices[taken : taken + count]))
            taken += count
        else:
            axes.append(even(count, step))
    return Source(0, tuple(axes))


def reach(source: Source) -> range:
    """Return the input elements from the lowest to the highest that anything comes from."""
    return source.span(0, source.elements)


def _least(part: Offsets) -> int:
    return min(part[0], part[-1]) if isinstance(part, range) else min(part)


def _most(part: Offsets) -> int:
    return max(part[0], part[-1]) if isinstance(part, range) else max(part)
