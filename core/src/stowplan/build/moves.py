"""Where moved elements come from: the operators `rearrange` and `sample` as axes with an offset per index.

Element (i0, i1, ...) of such an operator's output is element `base + axes[0][i0] + axes[1][i1] + ...` of its input,
both counted in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from stowplan.flow.graph import Operator
from stowplan.nouns import dataclass

MOVES = frozenset({"rearrange", "sample"})

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
