"""How much arithmetic a graph is: multiply-accumulates of its convolutions and fully connected operators."""

from __future__ import annotations

from math import prod

from stowplan.flow.graph import Graph, Operator

WEIGHTED = frozenset({"conv_2d", "depthwise_conv_2d", "fully_connected"})


def multiplications(graph: Graph) -> int:
    """Return the multiply-accumulates of one inference; what other operators do is not counted."""
    return sum(operator_multiplications(graph, operator) for operator in graph.operators)


def operator_multiplications(graph: Graph, operator: Operator) -> int:
    if operator.kind not in WEIGHTED:
        return 0
    weights = graph.tensors[operator.inputs[1]].shape
    per_element = prod(weights[1:3]) if operator.kind == "depthwise_conv_2d" else prod(weights[1:])
    return graph.tensors[operator.outputs[0]].elements * per_element


def recompute_factor(graph: Graph, tiled: Graph) -> float:
    """Return how many times the arithmetic of a graph its tiled form does: 1.0 when nothing is computed twice."""
    once = multiplications(graph)
    return multiplications(tiled) / once if once else 1.0
