"""Cuts a run of operators into column strips that are computed one after another, or into groups of channels.

The columns that a strip needs of its neighbour are either kept from it (`again` false: everything is computed once) or
computed once more with each (`again` true).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from stowplan.build.tiling import Box, can_cut_channels, can_cut_columns, needs, whole_box
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Range, Tile


def column_strips(
    graph: Graph, operators: Sequence[int], count: int, again: bool, taper: float = 1.0
) -> list[list[Tile]] | None:
    """Return the tiles of each strip in order; None where the operators cannot be cut into so many.

    Each strip is `taper` times as wide as the one before: in one memory the results of those before lie beside it.
    """
    if not all(can_cut_columns(graph, graph.operators[index]) for index in operators):
        return None
    wanted: list[dict[int, Range]] = [{} for _ in range(count)]
    inside = {graph.operators[index].outputs[0] for index in operators}
    for index in reversed(operators):
        output = graph.operators[index].outputs[0]
        if _leaves(graph, output, set(operators)):
            shares = _shares(graph.tensors[output].shape[2], count, taper)
            if shares is None:
                return None
            for strip in range(count):
                _want(wanted[strip], output, shares[strip])
        _share(graph, output, wanted, again)
        for strip in range(count):
            if output in wanted[strip]:
                _ask(graph, index, inside, wanted[strip])
    return [_strip(graph, operators, strip) for strip in wanted]


def channel_groups(graph: Graph, operators: Sequence[int], count: int) -> list[list[Tile]] | None:
    """Return the tiles of each group of channels in order; None where the operators cannot be cut into so many.

    All but the first may need only the channels of their group; what they read from outside may be whole.
    """
    groups: list[list[Tile]] = [[] for _ in range(count)]
    for index in operators:
        operator = graph.operators[index]
        channels = graph.tensors[operator.outputs[0]].shape[-1]
        if not can_cut_channels(graph, operator) or channels % count:
            return None
        if operator.kind == "depthwise_conv_2d" and (channels // count) % operator.integer("multiplier"):
            return None
        for number, tiles in enumerate(groups):
            group = (number * (channels // count), (number + 1) * (channels // count))
            tiles.append(Tile(operator=index, channels=group))
    return groups


def whole_tiles(operators: Iterable[int]) -> list[Tile]:
    return [Tile(operator=index) for index in operators]


def _shares(width: int, count: int, taper: float) -> list[Range] | None:
    """Divide columns among strips; None where one of them would get none."""
    weights = [taper**strip for strip in range(count)]
    ends = [round(width * sum(weights[:strip]) / sum(weights)) for strip in range(count + 1)]
    shares = list(pairwise(ends))
    return shares if all(first < last for first, last in shares) else None


def _leaves(graph: Graph, tensor: int, inside: set[int]) -> bool:
    """Say whether a tensor is read outside of some operators, or by nobody."""
    readers = graph.consumers.get(tensor, ())
    return tensor in graph.outputs or not readers or any(reader not in inside for reader in readers)


def _want(wanted: dict[int, Range], tensor: int, columns: Range) -> None:
    known = wanted.get(tensor, columns)
    wanted[tensor] = (min(known[0], columns[0]), max(known[1], columns[1]))


def _share(graph: Graph, tensor: int, wanted: list[dict[int, Range]], again: bool) -> None:
    """Turn what strips need of a tensor into what they compute: all of it, or what no strip before has computed."""
    done, width = 0, graph.tensors[tensor].shape[2]
    for number, strip in enumerate(wanted):
        first, last = strip.get(tensor, (done, done))
        if again:
            # Columns that no strip needs are computed as well: they belong to the operator.
            strip[tensor] = (min(first, done), width if number == len(wanted) - 1 else last)
        else:
            strip[tensor] = (done, width if number == len(wanted) - 1 else max(last, done))
        done = max(done, strip[tensor][1])
        if strip[tensor][0] >= strip[tensor][1]:
            del strip[tensor]


def _ask(graph: Graph, index: int, inside: set[int], wanted: dict[int, Range]) -> None:
    operator = graph.operators[index]
    output = operator.outputs[0]
    box = Box(wanted[output], whole_box(graph.tensors[output]).channels)
    for position, tensor in enumerate(operator.inputs):
        if tensor in inside:
            _want(wanted, tensor, needs(graph, operator, position, box).columns)


def _strip(graph: Graph, operators: Sequence[int], wanted: dict[int, Range]) -> list[Tile]:
    outputs = ((index, graph.operators[index].outputs[0]) for index in operators)
    return [Tile(operator=index, columns=wanted[output]) for index, output in outputs if output in wanted]
