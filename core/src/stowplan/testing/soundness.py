"""Whether a graph is one: every rule of `flow/graph.py` that later steps rely on, checked without them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import isfinite

from stowplan.flow.dtypes import RANGE, SIZE_BYTES
from stowplan.flow.graph import ABSENT, Graph, Operator, Tensor
from stowplan.flow.operators import KINDS


def unsoundness(graph: Graph) -> Iterator[str]:
    """Yield what is wrong with a graph, one sentence each; nothing for a sound one."""
    if not graph.outputs:
        yield "it has no outputs"
    yield from _numbers(graph)
    for index, tensor in enumerate(graph.tensors):
        for wrong in _tensor(graph, tensor):
            yield f'tensor {index} "{tensor.name}" {wrong}'
    for index, operator in enumerate(graph.operators):
        for wrong in _operator(operator):
            yield f"operator {index} ({operator.kind}) {wrong}"
    yield from _order(graph)
    yield from _signatures(graph)


def _numbers(graph: Graph) -> Iterator[str]:
    used = [*graph.inputs, *graph.outputs, *(t for op in graph.operators for t in op.outputs)]
    used += [t for op in graph.operators for t in op.inputs if t != ABSENT]
    for number in used:
        if not 0 <= number < len(graph.tensors):
            yield f"it names tensor {number} of {len(graph.tensors)}"
    if len(set(graph.inputs)) < len(graph.inputs):
        yield "an input is listed twice"


def _tensor(graph: Graph, tensor: Tensor) -> Iterator[str]:
    if tensor.dtype not in SIZE_BYTES:
        yield f"has the dtype {tensor.dtype!r}, which is none of {', '.join(SIZE_BYTES)}"
        return
    if any(type(size) is not int or size < 0 for size in tensor.shape):
        yield f"has the shape {tensor.shape}; sizes are integers, and free ones are bound"
        return
    if tensor.constant is not None:
        data = graph.constants.get(tensor.constant)
        if data is None:
            yield "is a constant whose bytes are not in Graph.constants"
        elif len(data) != tensor.size_bytes:
            yield f"takes {tensor.size_bytes} bytes and has {len(data)}"
        elif hashlib.sha256(data).hexdigest() != tensor.constant:
            yield "has bytes with another SHA-256 than Tensor.constant says"
    yield from _quantization(tensor)


def _quantization(tensor: Tensor) -> Iterator[str]:
    q = tensor.quantization
    if q is None:
        return
    if len(q.scales) != len(q.zero_points) or not q.scales:
        yield f"has {len(q.scales)} scales and {len(q.zero_points)} zero points"
        return
    if any(not isfinite(scale) or scale <= 0 for scale in q.scales):
        yield "has a scale that is not above 0"
    if q.per_channel and (
        q.axis is None or not 0 <= q.axis < len(tensor.shape) or tensor.shape[q.axis] != len(q.scales)
    ):
        yield f"has {len(q.scales)} scales along axis {q.axis} of {tensor.shape}"
    low, high = RANGE.get(tensor.dtype, (-(2**63), 2**63))
    if any(not low <= point <= high for point in q.zero_points):
        yield f"has a zero point that does not fit {tensor.dtype}"


def _operator(operator: Operator) -> Iterator[str]:
    kind = KINDS.get(operator.kind)
    if kind is None:
        yield "is no canonical operator; see stowplan.flow.operators.KINDS"
        return
    missing = sorted(set(kind.attributes) - set(operator.attributes))
    surplus = sorted(set(operator.attributes) - set(kind.attributes))
    if missing:
        yield f"lacks {', '.join(missing)}"
    if surplus:
        yield f"has attributes that it does not know: {', '.join(surplus)}"
    if not operator.source:
        yield "has no source, the name that users know it by"


def _order(graph: Graph) -> Iterator[str]:
    there = {*graph.inputs, *(i for i, tensor in enumerate(graph.tensors) if tensor.constant is not None)}
    for index, operator in enumerate(graph.operators):
        for tensor in operator.inputs:
            if tensor != ABSENT and tensor not in there:
                yield f"operator {index} ({operator.kind}) reads tensor {tensor} before anybody has made it"
        for tensor in operator.outputs:
            if tensor in there:
                yield f"operator {index} ({operator.kind}) writes tensor {tensor}, which is there already"
            there.add(tensor)
    for tensor in graph.outputs:
        if tensor not in there:
            yield f"nobody makes its output, tensor {tensor}"


def _signatures(graph: Graph) -> Iterator[str]:
    for signature in graph.signatures:
        for name, tensor in (*signature.inputs, *signature.outputs):
            if not 0 <= tensor < len(graph.tensors):
                yield f'signature "{signature.key}" maps "{name}" to tensor {tensor}, which does not exist'
