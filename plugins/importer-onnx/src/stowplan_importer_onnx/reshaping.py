"""Reshapes of values whose tensors have their axes in another order than the model: free wherever possible.

A reshape splits into groups: the fewest neighbouring axes before and after with as many elements. Inside a group the
elements stay in order, so a tensor in which each group's axes lie side by side only gets another shape.
"""

from __future__ import annotations

from math import prod

from stowplan_importer_onnx.builder import NOTHING, Builder, Value, plain

Group = tuple[tuple[int, ...], tuple[int, ...]]


def reshaped(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    if shape == value.shape:
        return value
    assert prod(shape) == value.elements
    if not value.elements:
        return Value(
            builder.step("reshape", (builder.natural(value),), shape, value.dtype),
            shape,
            value.dtype,
            plain(len(shape)),
        )
    found = _groups(value.shape, shape)
    order = _gathered(value, found)
    after = _order_after(found, order)
    tensor = builder.stored(value, order)
    stored = builder.tensors[tensor]
    result = tuple(shape[axis] for axis in after)
    q = stored.quantization
    if q is not None and q.per_channel:
        return reshaped(builder, builder.real(value), shape)
    if builder.held(tensor) is not None:
        held = builder.held(tensor)
        assert held is not None
        return Value(builder.constant(held.reshape(result), q).tensor, shape, value.dtype, after)
    return Value(builder.step("reshape", (tensor,), result, stored.dtype, NOTHING, q), shape, value.dtype, after)


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[Group]:
    """Return the groups of axes before and after; axes of one element go with the group that begins there."""
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, second = i, j
        a = b = 1
        if i < len(old) and j < len(new) and old[i] == new[j]:
            a = b = old[i]
            i, j = i + 1, j + 1
        else:
            if i < len(old) and (j >= len(new) or new[j] != 1 or old[i] == 1):
                a, i = old[i], i + 1
            if j < len(new) and (first >= len(old) or old[first] != 1 or new[j] == 1):
                b, j = new[j], j + 1
            while a != b:
                if a < b:
                    a, i = a * old[i], i + 1
                else:
                    b, j = b * new[j], j + 1
        groups.append((tuple(range(first, i)), tuple(range(second, j))))
    return groups


def _gathered(value: Value, groups: list[Group]) -> tuple[int, ...]:
    """Return the stored order with each group's axes together and in the model's order, otherwise as it was."""
    of = {axis: number for number, (axes, _) in enumerate(groups) for axis in axes}
    sequence = list(dict.fromkeys(of[axis] for axis in value.order if value.shape[axis] > 1))
    ones = [number for number, (axes, _) in enumerate(groups) if axes and number not in sequence]
    return tuple(axis for number in _with_ones(sequence, ones) for axis in groups[number][0])


def _order_after(groups: list[Group], order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of the new axes: each group's where its old ones were."""
    of = {axis: number for number, (axes, _) in enumerate(groups) for axis in axes}
    sequence = list(dict.fromkeys(of[axis] for axis in order))
    new = [number for number, (axes, _) in enumerate(groups) if not axes]
    return tuple(axis for number in _with_ones(sequence, new) for axis in groups[number][1])


def _with_ones(sequence: list[int], ones: list[int]) -> list[int]:
    """Return groups with those of single elements among them: in the model's order, or first where that is another.

    First, as rows are counted along the first axes: a last axis of one element would make each element a row.
    """
    return sorted(sequence + ones) if sequence == sorted(sequence) else ones + sequence
