"""Padding folded into the convolution that reads it: a padded copy of a tensor is memory for nothing.

Exact: a convolution's own padding stands for real 0, and so does what `pad` adds. Pools are left alone: an average
counts only what lies inside its input, and a maximum is no longer taken of the zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.flow.graph import Attribute, Graph, Operator
from stowplan.nouns import replace

NAME, VERSION = "fold-pads", "1"
_READERS = frozenset({"conv_2d", "depthwise_conv_2d"})
_SIDES = ("pad_top", "pad_left", "pad_bottom", "pad_right")


def fold_pads(graph: Graph) -> Graph:
    """Return the graph with pads folded into convolutions, and without the pads that nobody reads any more."""
    pads = {op.outputs[0]: op for op in graph.operators if op.kind == "pad" and _is_spatial(graph, op)}
    folded = tuple(_folded(graph, operator, pads) for operator in graph.operators)
    wanted = {*graph.outputs, *(tensor for operator in folded for tensor in operator.inputs)}
    kept = tuple(op for op in folded if op.outputs[0] in wanted or op.outputs[0] not in pads)
    return graph if kept == graph.operators else replace(graph, operators=kept)


def _is_spatial(graph: Graph, pad: Operator) -> bool:
    """Whether only rows and columns of an activation are padded, with its own quantization."""
    before, after = pad.integers("before"), pad.integers("after")
    if len(before) != 4 or not graph.is_activation(pad.inputs[0]):
        return False
    source, output = graph.tensors[pad.inputs[0]], graph.tensors[pad.outputs[0]]
    if (source.dtype, source.quantization) != (output.dtype, output.quantization):
        return False
    return not any((before[0], before[3], after[0], after[3]))


def _folded(graph: Graph, operator: Operator, pads: Mapping[int, Operator]) -> Operator:
    """Return a convolution that reads past the pads before it; any other operator as it is."""
    while operator.kind in _READERS and operator.inputs[0] in pads:
        pad = pads[operator.inputs[0]]
        before, after = pad.integers("before"), pad.integers("after")
        added = (before[1], before[2], after[1], after[2])
        sides = {name: operator.integer(name) + more for name, more in zip(_SIDES, added, strict=True)}
        if not _touches(graph, operator, sides):
            return operator
        attributes: dict[str, Attribute] = {**operator.attributes, **sides}
        operator = replace(operator, inputs=(pad.inputs[0], *operator.inputs[1:]), attributes=attributes)
    return operator


def _touches(graph: Graph, operator: Operator, sides: Mapping[str, int]) -> bool:
    """Whether every window still has an element of the input: kernels need not do with less."""
    kernel = graph.tensors[operator.inputs[1]].shape[1:3]
    reach = [(size - 1) * operator.integer(f"dilation_{axis}") + 1 for size, axis in zip(kernel, "hw", strict=True)]
    return (
        max(sides["pad_top"], sides["pad_bottom"]) < reach[0] and max(sides["pad_left"], sides["pad_right"]) < reach[1]
    )
