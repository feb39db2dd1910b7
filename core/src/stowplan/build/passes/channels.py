"""Channels that no output depends on are removed from integer networks, with their weights, rows and products.

Such a channel is read by nobody, or is constant (`passes/filters.py`) and added to the biases of those that read it.
The result is the same to the bit: every sum is the same integer. Floats are left alone: their kernels would add up the
same numbers in another order.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from itertools import compress
from math import prod

from stowplan.build.passes.axes import Axes, last_axis
from stowplan.build.passes.filters import Constants, Filter, constant_channels, filters
from stowplan.flow.graph import ABSENT, Graph, Operator, Quantization, Tensor
from stowplan.nouns import dataclass, replace

NAME, VERSION = "remove-channels", "1"
GRAIN = 4
"""Kernels take as many channels at once; what is left of a tensor is filled up to a multiple with channels it had."""
WORD = 2**31


def remove_channels(graph: Graph) -> Graph:
    """Return the graph without the channels that no output depends on; with a note when there were any."""
    found = filters(graph)
    if not found:
        return graph
    axes = Axes(graph)
    for index, operator in enumerate(graph.operators):
        axes.connect(operator, is_filter=index in found)
    for tensor in (*graph.inputs, *graph.outputs):
        axes.fix(tensor)
    removal = Removal(graph, axes, found, constant_channels(graph, found))
    removal.settle()
    return removal.rewritten()


@dataclass
class Removal:
    """`kept` are the channels of each group that stay; it only grows until nothing depends on any other."""

    graph: Graph
    axes: Axes
    filters: Mapping[int, Filter]
    constants: Mapping[int, Constants]

    def __post_init__(self) -> None:
        groups = {self.axes.group(t) for op in self.graph.operators for t in (*op.inputs, *op.outputs) if t != ABSENT}
        self.kept = {g: set(range(self.axes.period(g))) if self.axes.is_fixed(g) else set[int]() for g in groups}
        self.mixing = {i: f for i, f in self.filters.items() if not f.depthwise}
        self.absorbing = {i: self._absorbed(f) for i, f in self.mixing.items()}

    def _absorbed(self, found: Filter) -> Constants:
        """Return the constant inputs that the biases of a filter can take in."""
        known = {c: n for c, n in self.constants.get(found.operator.inputs[0], {}).items() if found.absorbs(n)}
        most = max((abs(found.added(n, 128)) for n in known.values()), default=0) * max(map(len, found.rows))
        # Pruned channels keep biases of any size, but nothing is added to these.
        biases = [abs(bias) for bias, row in zip(found.biases, found.rows, strict=True) if any(row)]
        if max(biases, default=0) + most < WORD:
            return known
        return {c: n for c, n in known.items() if not found.added(n, 1)}

    def settle(self) -> None:
        done: dict[int, set[int]] = {index: set() for index in self.mixing}
        before = -1
        while before != (before := sum(map(len, self.kept.values()))):
            for index, found in self.mixing.items():
                self._demand(index, found, done[index])
            for group, kept in self.kept.items():
                _fill(kept, self.axes.period(group))

    def _demand(self, index: int, found: Filter, done: set[int]) -> None:
        """Keep the input channels that the outputs of a filter depend on; `done` are those that were asked before."""
        x, y = found.operator.inputs[0], found.operator.outputs[0]
        kept, wanted = self.kept[self.axes.group(x)], self.kept[self.axes.group(y)]
        period, known = self.axes.period(x), self.absorbing[index]
        outputs = self.axes.period(y)
        asked = [o for o in range(len(found.rows)) if o not in done and o % outputs in wanted]
        done.update(asked)
        reads = 0  # the weights of all these outputs over one another, each output's as one number
        for output in asked:
            reads |= int.from_bytes(found.rows[output], "little")
        if known:
            reads &= found.elsewhere(known)
        places = reads.to_bytes(len(found.rows[0]), "little")
        kept.update(place % period for place, weight in enumerate(places) if weight)

    def stays(self, tensor: int) -> list[bool]:
        """Say of each element of a tensor's last axis whether it stays."""
        kept, period = self.kept[self.axes.group(tensor)], self.axes.period(tensor)
        return [position % period in kept for position in range(last_axis(self.graph, tensor))]

    def rewritten(self) -> Graph:
        shrunk = {t: self.stays(t) for op in self.graph.operators for t in op.outputs}
        shrunk = {t: stays for t, stays in shrunk.items() if not all(stays)}
        if not shrunk:
            return self.graph
        tensors, constants = list(self.graph.tensors), dict(self.graph.constants)
        for tensor, stays in shrunk.items():
            shape = tensors[tensor].shape
            tensors[tensor] = replace(tensors[tensor], shape=(*shape[:-1], sum(stays)))
        operators = list(self.graph.operators)
        for index, found in self.filters.items():
            if not {found.operator.inputs[0], found.operator.outputs[0]}.isdisjoint(shrunk):
                operators[index] = self._smaller(index, found, tensors, constants)
        used = {t.constant for t in tensors} | {state.initial for state in self.graph.states}
        graph = replace(
            self.graph,
            tensors=tuple(tensors),
            operators=tuple(operators),
            constants={digest: data for digest, data in constants.items() if digest in used},
        )
        return replace(graph, notes=(*graph.notes, self._note(graph)))

    def _smaller(self, index: int, found: Filter, tensors: list[Tensor], constants: dict[str, bytes]) -> Operator:
        """Store the weights and biases that stay; return the operator, which may have got biases."""
        outputs = self.stays(found.operator.outputs[0])
        biases = list(compress(found.biases, outputs))
        rows = list(compress(found.rows, outputs))
        weights = tensors[found.operator.inputs[1]]
        if found.depthwise:
            data, shape = b"".join(map(bytes, zip(*rows, strict=True))), (*weights.shape[:-1], len(rows))
        else:
            period, kept = (
                self.axes.period(found.operator.inputs[0]),
                self.kept[self.axes.group(found.operator.inputs[0])],
            )
            inputs = [position % period in kept for position in range(len(rows[0]))]
            dropped = self._dropped(index, found, inputs)
            biases = [b + _added(row, dropped) for b, row in zip(biases, rows, strict=True)]
            data = b"".join(bytes(compress(row, inputs)) for row in rows)
            shape = (len(rows), *weights.shape[1:-1], sum(inputs) // prod(weights.shape[1:-1]))
        quantization = _selected(weights.quantization, outputs)
        tensors[found.operator.inputs[1]] = replace(
            weights, shape=shape, quantization=quantization, constant=_stored(data, constants)
        )
        return self._biased(found, biases, outputs, tensors, constants)

    def _dropped(self, index: int, found: Filter, inputs: Sequence[bool]) -> list[tuple[int, int]]:
        """Return the places of the inputs that go, each with what it adds to a sum per unit of its weight."""
        known = self.absorbing[index]
        gone = (p for p, stays in enumerate(inputs) if not stays and found.channel(0, p) in known)
        added = ((p, found.added(known[found.channel(0, p)], 1)) for p in gone)
        return [(p, number) for p, number in added if number]

    def _biased(
        self, found: Filter, biases: list[int], outputs: list[bool], tensors: list[Tensor], constants: dict[str, bytes]
    ) -> Operator:
        operator = found.operator
        has_bias = len(operator.inputs) > 2 and operator.inputs[2] != ABSENT
        if not has_bias and not any(biases):
            return operator
        old = tensors[operator.inputs[2]] if has_bias else None
        dtype = old.dtype if old else "int32" if found.x.dtype == "int8" else "int64"
        data = struct.pack(f"<{len(biases)}{'i' if dtype == 'int32' else 'q'}", *biases)
        name = old.name if old else f"{found.weights.name}_bias"
        quantization = _selected(old.quantization, outputs) if old else None
        tensor = Tensor(
            name=name, shape=(len(biases),), dtype=dtype, quantization=quantization, constant=_stored(data, constants)
        )
        if has_bias:
            tensors[operator.inputs[2]] = tensor
            return operator
        tensors.append(tensor)
        return replace(operator, inputs=(*operator.inputs[:2], len(tensors) - 1))

    def _note(self, graph: Graph) -> str:
        sizes = [
            sum(last_axis(one, one.operators[index].outputs[0]) for index in self.filters)
            for one in (self.graph, graph)
        ]
        products = [sum(_products(one, one.operators[index]) for index in self.filters) for one in (self.graph, graph)]
        return (
            f"{sizes[0] - sizes[1]} of {sizes[0]} channels hold one number or are not read, and are left out: "
            f"{products[1] / 1e6:.2f} instead of {products[0] / 1e6:.2f} million MACs"
        )


def _added(row: bytes, dropped: Sequence[tuple[int, int]]) -> int:
    """Return what constant inputs that go add to a sum."""
    if not dropped:
        return 0
    weights = memoryview(row).cast("b")
    return sum(weights[place] * number for place, number in dropped)


def _fill(kept: set[int], period: int) -> None:
    """Keep a multiple of `GRAIN` channels, and at least some, as far as there are any."""
    wanted = min(period, max(-(-len(kept) // GRAIN) * GRAIN, GRAIN))
    for channel in range(period):
        if len(kept) >= wanted:
            return
        kept.add(channel)


def _selected(quantization: Quantization | None, stays: Sequence[bool]) -> Quantization | None:
    if quantization is None or not quantization.per_channel:
        return quantization
    return replace(
        quantization,
        scales=tuple(compress(quantization.scales, stays)),
        zero_points=tuple(compress(quantization.zero_points, stays)),
    )


def _stored(data: bytes, constants: dict[str, bytes]) -> str:
    digest = hashlib.sha256(data).hexdigest()
    constants[digest] = data
    return digest


def _products(graph: Graph, operator: Operator) -> int:
    weights, output = graph.tensors[operator.inputs[1]], graph.tensors[operator.outputs[0]]
    if operator.kind == "depthwise_conv_2d":
        return output.elements * prod(weights.shape[:-1])
    return output.elements * prod(weights.shape[1:])
