"""Integer filters as passes see them: the weights of each output channel, and what is known about a channel.

A channel is *constant* when it holds one number at every place, whatever the model's inputs are: its weights are zero
where its inputs are not constant themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence

from stowplan.build.lower.fixed_point import factor, saturate, wrap
from stowplan.build.lower.ranges import LIMITS, integer_range
from stowplan.flow.graph import ABSENT, Graph, Operator, Tensor
from stowplan.nouns import NamedTuple

Constants = Mapping[int, int]
"""The numbers of a tensor's constant channels."""
_SIDES = ("pad_top", "pad_left", "pad_bottom", "pad_right")


class Filter(NamedTuple):
    """A convolution or fully connected operator on int8 or int16 with symmetric weights.

    `rows[o]` are the weights of output channel o; those of a depthwise convolution (`depthwise`) all belong to its
    input channel o, those of others to the input's channels in turn. `biases` are zeros where the operator has none.
    """

    operator: Operator
    x: Tensor
    y: Tensor
    weights: Tensor
    rows: Sequence[bytes]
    biases: Sequence[int]
    depthwise: bool
    padded: bool

    @property
    def channels(self) -> int:
        """How many channels the input has."""
        return self.x.shape[-1]

    def channel(self, output: int, position: int) -> int:
        """Return the input channel that one of an output's weights belongs to."""
        return output if self.depthwise else position % self.channels

    def absorbs(self, known: int) -> bool:
        """Say whether a constant input can be added to the biases: it adds the same at every place."""
        zero_point = 0 if self.x.quantization is None else self.x.quantization.zero_point
        return known == zero_point or not self.padded

    def added(self, known: int, weight: int) -> int:
        """Return what a constant input adds to a sum."""
        return (known - (0 if self.x.quantization is None else self.x.quantization.zero_point)) * weight

    def elsewhere(self, channels: Collection[int]) -> int:
        """Return a mask over an output's weights as one number: all bits of those that belong to other channels."""
        size, each = len(self.rows[0]), bytes(0 if c in channels else 255 for c in range(self.channels))
        return int.from_bytes((each * -(-size // len(each)))[:size], "little")


def filters(graph: Graph) -> Mapping[int, Filter]:
    """Return the filters of a graph by the index of their operators."""
    users: dict[int, int] = {}
    for operator in graph.operators:
        for tensor in operator.inputs:
            users[tensor] = users.get(tensor, 0) + 1
    found = {}
    for index, operator in enumerate(graph.operators):
        if _is_plain(graph, operator) and all(users[t] == 1 for t in operator.inputs[1:] if t != ABSENT):
            found[index] = _filter(graph, operator)
    return found


def constant_channels(graph: Graph, found: Mapping[int, Filter]) -> Mapping[int, Constants]:
    """Return the constant channels of each tensor that has any."""
    known: dict[int, Constants] = {}
    for index, operator in enumerate(graph.operators):
        before = known.get(operator.inputs[0], {}) if operator.inputs else {}
        if index in found:
            after = _computed(found[index], before)
        elif operator.kind in ("reshape", "copy", "max_pool_2d", "average_pool_2d", "pad"):
            after = _passed_on(graph, operator, before)
        else:
            continue
        if after:
            known[operator.outputs[0]] = after
    return known


def _computed(found: Filter, before: Constants) -> Constants:
    known = {channel: number for channel, number in before.items() if found.absorbs(number)}
    others = 0 if found.depthwise else found.elsewhere(known)
    sums = {}
    for output, row in enumerate(found.rows):
        if row.count(0) == len(row):
            sums[output] = found.biases[output]
        elif (output in known) if found.depthwise else not int.from_bytes(row, "little") & others:
            sums[output] = found.biases[output] + _sum_of_constants(found, output, known)
    return _values(found, sums) if sums else {}


def _sum_of_constants(found: Filter, output: int, known: Constants) -> int:
    """Return what constant inputs add to an output's sum."""
    weights = memoryview(found.rows[output]).cast("b")
    return sum(found.added(known[found.channel(output, p)], weight) for p, weight in enumerate(weights) if weight)


def _values(found: Filter, sums: Mapping[int, int]) -> Constants:
    """Return the numbers that come out for sums, as far as this can be told here."""
    source, result, weights = found.x.quantization, found.y.quantization, found.weights.quantization
    limits = LIMITS.get(found.operator.text("activation"))
    if source is None or result is None or weights is None or limits is None:
        return {}
    low, high = integer_range(limits, found.y.dtype, result)
    if low > high:
        return {}
    scales = weights.scales if len(weights.scales) > 1 else weights.scales * len(found.rows)
    source_scale, result_scale, zero_point = source.scale, result.scale, result.zero_point
    return {
        output: saturate(factor(source_scale * scales[output] / result_scale)(wrap(total)) + zero_point, low, high)
        for output, total in sums.items()
        if found.x.dtype == "int8" or total == 0  # 64-bit sums are scaled in another way
    }


def _passed_on(graph: Graph, operator: Operator, before: Constants) -> Constants:
    """Return the constant channels of an operator that keeps numbers that are the same everywhere."""
    x, y = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    if x.quantization != y.quantization or operator.attributes.get("activation", "none") != "none":
        return {}
    if operator.kind == "pad":
        zero_point = 0 if x.quantization is None else x.quantization.zero_point
        return {c: n for c, n in before.items() if n == zero_point} if len(x.shape) > 1 else {}
    if operator.kind != "reshape":
        return before
    size, width = x.shape[-1] if x.shape else 1, y.shape[-1] if y.shape else 1
    return {c: before[c % size] for c in range(width) if c % size in before} if width % size == 0 else {}


def _is_plain(graph: Graph, operator: Operator) -> bool:
    """Say whether an operator is a filter on integers whose channels can be counted."""
    if operator.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
        return False
    x, w, y = (graph.tensors[t] for t in (*operator.inputs[:2], *operator.outputs))
    constant = w.constant is not None and x.constant is None and len(graph.constant_bytes(operator.inputs[1]))
    if not constant or x.dtype not in ("int8", "int16") or (w.dtype, y.dtype) != ("int8", x.dtype):
        return False
    if w.quantization is None or any(w.quantization.zero_points) or not x.shape or not y.shape:
        return False
    outputs = w.shape[-1] if operator.kind == "depthwise_conv_2d" else w.shape[0]
    if y.shape[-1] != outputs or len(w.quantization.scales) not in (1, outputs):
        return False
    if not _has_plain_bias(graph, operator, outputs):
        return False
    if operator.kind == "fully_connected":
        return len(w.shape) == 2 and x.elements % w.shape[1] == 0
    return w.shape[-1] == x.shape[-1]


def _has_plain_bias(graph: Graph, operator: Operator, outputs: int) -> bool:
    if len(operator.inputs) < 3 or operator.inputs[2] == ABSENT:
        return True
    bias = graph.tensors[operator.inputs[2]]
    return bias.constant is not None and bias.dtype in ("int32", "int64") and bias.elements == outputs


def _filter(graph: Graph, operator: Operator) -> Filter:
    x, w, y = (graph.tensors[t] for t in (*operator.inputs[:2], *operator.outputs))
    data, depthwise = graph.constant_bytes(operator.inputs[1]), operator.kind == "depthwise_conv_2d"
    count = y.shape[-1]
    size = len(data) // count
    rows = [data[o::count] if depthwise else data[o * size : (o + 1) * size] for o in range(count)]
    biases: Sequence[int] = [0] * count
    if len(operator.inputs) > 2 and operator.inputs[2] != ABSENT:
        code = "i" if graph.tensors[operator.inputs[2]].dtype == "int32" else "q"
        biases = struct.unpack(f"<{count}{code}", graph.constant_bytes(operator.inputs[2]))
    padded = any(operator.attributes.get(side, 0) for side in _SIDES)
    return Filter(operator, x, y, w, rows, biases, depthwise, padded)
