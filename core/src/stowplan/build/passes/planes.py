"""A streamed input of planes arrives as pixels, where the model makes pixels of it at once.

Planes come one after another: a row of pixels would have to wait for the last plane, with the whole image in memory.
Cameras give pixels, and so the transposition is left out and its result is the input. What it means is unchanged, its
layout is not: the report says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph, Operator
from stowplan.nouns import replace
from stowplan.units import format_shape

NAME, VERSION = "arriving-pixels", "1"


def arriving_pixels(graph: Graph, streamed: Sequence[int]) -> Graph:
    """Return the graph in which the rows of streamed inputs arrive in the order in which they are read."""
    for tensor in streamed:
        moves = [op for op in graph.operators if tensor in op.inputs]
        if len(moves) == 1 and _is_transposition(graph, moves[0], tensor):
            graph = _without(graph, moves[0], tensor)
    return graph


def _is_transposition(graph: Graph, move: Operator, tensor: int) -> bool:
    """Whether an operator only puts a tensor's elements into another order, a row of them from all over the tensor."""
    output = move.outputs[0]
    source, result = graph.tensors[tensor], graph.tensors[output]
    if move.kind != "rearrange" or {tensor, output} & {*graph.outputs, *graph.state_tensors}:
        return False
    axes = [
        (stride, size)
        for size, stride in zip(move.integers("sizes"), move.integers("strides"), strict=True)
        if size > 1
    ]
    step = 1
    for stride, size in sorted(axes):
        if stride != step:
            return False
        step *= size
    same = (source.dtype, source.elements) == (result.dtype, result.elements)
    return same and step == source.elements and move.integer("offset") == 0 and _is_scattered(graph, move, tensor)


def _is_scattered(graph: Graph, move: Operator, tensor: int) -> bool:
    # Imported here: keys take this module's name and version, and what is cached already needs no more.
    from stowplan.build.moves import source_of
    from stowplan.build.rows import default_form

    source, result = graph.tensors[tensor], graph.tensors[move.outputs[0]]
    row = default_form(result.shape, result.dtype).row_bytes // SIZE_BYTES[result.dtype]
    return len(source_of(move, source.shape, result.shape).runs(0, row)) > 1


def _without(graph: Graph, move: Operator, tensor: int) -> Graph:
    """Return the graph with an operator's output in the place of its input."""
    output = move.outputs[0]
    before, shape = graph.tensors[tensor], graph.tensors[output].shape
    tensors = list(graph.tensors)
    tensors[tensor] = replace(before, shape=shape)
    operators = tuple(
        replace(op, inputs=tuple(tensor if t == output else t for t in op.inputs))
        for op in graph.operators
        if op is not move
    )
    note = (
        f'input "{before.name}": its rows arrive as {format_shape(shape)}; '
        f"the model itself makes that of its {format_shape(before.shape)}"
    )
    return replace(graph, tensors=tuple(tensors), operators=operators, notes=(*graph.notes, note))
