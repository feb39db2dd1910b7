"""What the kit's plainest graphs compute, written out element by element: an oracle without a line of any kernel."""

from __future__ import annotations

from itertools import product

from stowplan.flow.graph import Graph, Operator


def run(graph: Graph, inputs: list[bytes]) -> list[bytes] | None:
    """Return the outputs of an int8 graph of relu, reshape and max pools; None for any other graph."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    for operator in graph.operators:
        data = values.get(operator.inputs[0])
        if data is None or operator.kind not in _STEPS:
            return None
        values[operator.outputs[0]] = _STEPS[operator.kind](graph, operator, data)
    return [values[t] for t in graph.outputs]


def _relu(graph: Graph, operator: Operator, data: bytes) -> bytes:
    quantization = graph.tensors[operator.inputs[0]].quantization
    assert quantization is not None
    assert quantization == graph.tensors[operator.outputs[0]].quantization
    return bytes(max(_signed(byte), quantization.zero_point) & 255 for byte in data)


def _reshape(graph: Graph, operator: Operator, data: bytes) -> bytes:
    return data


def _max_pool(graph: Graph, operator: Operator, data: bytes) -> bytes:
    _, _, width, depth = graph.tensors[operator.inputs[0]].shape
    _, out_h, out_w, _ = graph.tensors[operator.outputs[0]].shape
    assert not any(operator.integer(f"pad_{side}") for side in ("top", "left", "bottom", "right"))
    window = list(product(range(operator.integer("kernel_h")), range(operator.integer("kernel_w"))))
    down, across = operator.integer("stride_h"), operator.integer("stride_w")
    found = bytearray()
    for i, j, c in product(range(out_h), range(out_w), range(depth)):
        places = (((i * down + p) * width + j * across + q) * depth + c for p, q in window)
        found.append(max(_signed(data[place]) for place in places) & 255)
    return bytes(found)


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


_STEPS = {"relu": _relu, "reshape": _reshape, "max_pool_2d": _max_pool}
