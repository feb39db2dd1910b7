"""Which tensors have the same channels: a channel can leave one of them only together with all others.

The channels of a tensor are its last axis. A flattened tensor has each channel once per place, so channels are counted
modulo the *period* of a group: its elements `r`, `r + period`, ... belong to channel `r`.
"""

from __future__ import annotations

from math import gcd

from stowplan.flow.graph import ABSENT, Graph, Operator
from stowplan.flow.operators import BINARY, UNARY

_ELEMENTWISE = UNARY | {"quantize", "dequantize", "cast", "copy"}
_PLACES = frozenset({"max_pool_2d", "average_pool_2d", "resize_bilinear"})
"""Operators that combine places and no channels."""


class Axes:
    """Tensors in groups. A *fixed* group keeps all its channels, whatever they hold."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._parents = list(range(len(graph.tensors)))
        self._periods = [max(last_axis(graph, t), 1) for t in range(len(graph.tensors))]
        self._fixed = [False] * len(graph.tensors)

    def group(self, tensor: int) -> int:
        while self._parents[tensor] != tensor:
            self._parents[tensor] = tensor = self._parents[self._parents[tensor]]
        return tensor

    def period(self, tensor: int) -> int:
        return self._periods[self.group(tensor)]

    def is_fixed(self, tensor: int) -> bool:
        return self._fixed[self.group(tensor)]

    def fix(self, tensor: int) -> None:
        self._fixed[self.group(tensor)] = True

    def narrow(self, tensor: int, size: int) -> None:
        """Say that the tensor is also read in runs of `size` elements."""
        group = self.group(tensor)
        self._periods[group] = gcd(self._periods[group], size)

    def join(self, tensor: int, other: int) -> None:
        first, second = self.group(tensor), self.group(other)
        self._parents[second] = first
        self._fixed[first] |= self._fixed[second]
        self.narrow(first, self._periods[second])

    def connect(self, operator: Operator, is_filter: bool) -> None:
        """Note what an operator asks of its tensors; a filter that is known (`passes/filters.py`) may lose weights."""
        if is_filter and operator.kind != "depthwise_conv_2d":
            self.narrow(operator.inputs[0], self._graph.tensors[operator.inputs[1]].shape[-1])
            return
        activations = [t for t in operator.inputs if t != ABSENT and self._graph.is_activation(t)]
        if is_filter or _keeps_channels(self._graph, operator):
            for tensor in activations:
                self.join(tensor, operator.outputs[0])
            return
        for tensor in (*activations, *operator.outputs):
            self.fix(tensor)


def last_axis(graph: Graph, tensor: int) -> int:
    shape = graph.tensors[tensor].shape
    return shape[-1] if shape else 1


def _keeps_channels(graph: Graph, operator: Operator) -> bool:
    """Say whether each channel of the output depends on the same channel of the activations, and on nothing else."""
    kind = operator.kind
    if kind in _ELEMENTWISE or kind in _PLACES or kind == "reshape":
        return True
    if kind == "pad":
        return operator.integers("before")[-1:] == operator.integers("after")[-1:] == (0,)
    if kind == "mean":
        rank = len(graph.tensors[operator.inputs[0]].shape)
        return rank - 1 not in operator.integers("axes")
    return kind in BINARY and all(_matches(graph, operator, tensor) for tensor in operator.inputs)


def _matches(graph: Graph, operator: Operator, tensor: int) -> bool:
    """An activation with the output's channels, or one constant number for all of them."""
    if graph.is_activation(tensor):
        return last_axis(graph, tensor) == last_axis(graph, operator.outputs[0])
    return graph.tensors[tensor].elements == 1
