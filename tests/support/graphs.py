"""Graphs for tests: the shipped builder's small network, and random ones of every shape."""

from __future__ import annotations

import random

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph
from stowplan.testing.builder import GraphBuilder, window
from stowplan.testing.graphs import small_cnn

__all__ = ["GraphBuilder", "random_graph", "row_bytes_of", "small_cnn", "window"]


def row_bytes_of(graph: Graph, tensor: int) -> int:
    """Return the bytes of one row (W*C elements) of a rank-4 tensor."""
    found = graph.tensors[tensor]
    return found.shape[2] * found.shape[3] * SIZE_BYTES[found.dtype]


def random_graph(seed: int, dtype: str = "int8") -> Graph:
    """A random CNN: windows of every stride, dilation and padding, uneven branches, bypasses, pools, concatenation."""
    rng = random.Random(seed)
    b = GraphBuilder(dtype, seed)
    alive = [b.input(1, rng.randint(3, 14), rng.randint(1, 9), rng.randint(1, 5))]
    for _ in range(rng.randint(2, 8)):
        alive.append(_random_operator(rng, b, alive))
        alive = alive[-3:]
    last = alive[-1]
    tail = rng.choice(("none", "mean", "flatten", "pool"))
    if tail == "mean":
        last = b.softmax(b.fully_connected(b.mean(last), rng.randint(2, 6)))
    elif tail == "flatten":
        last = b.fully_connected(b.reshape(last, 1, b.tensors[last].elements), rng.randint(2, 6))
    elif tail == "pool":
        shape = b.tensors[last].shape
        last = b.pool(last, "average_pool_2d", kernel=(shape[1], shape[2]), stride=(1, 1))
    unread = {t for op in b.operators for t in op.outputs} - {t for op in b.operators for t in op.inputs}
    return b.graph(last, *sorted(unread - {last}), name=f"random{seed}")


def _random_operator(rng: random.Random, b: GraphBuilder, alive: list[int]) -> int:
    x = rng.choice(alive[-2:])
    _, height, width, depth = b.tensors[x].shape
    kernel = (rng.randint(1, min(4, height)), rng.randint(1, min(3, width)))
    stride = (rng.randint(1, 3), rng.randint(1, 2))
    dilation = (rng.randint(1, 2), 1)
    same = rng.random() < 0.7 or (kernel[0] - 1) * dilation[0] + 1 > height
    kind = rng.choice(
        ("conv", "conv", "depthwise", "pool", "average", "add", "gate", "pad", "concat", "relu", "pointwise2",
         "grouped", "transposed")
    )  # fmt: skip
    if kind == "grouped" and b.dtype == "int8":
        groups = rng.choice([g for g in range(1, depth + 1) if depth % g == 0])
        return b.grouped(x, groups * rng.randint(1, 3), groups, kernel)
    if kind == "transposed" and height * width <= 48:
        return b.transposed(x, rng.randint(1, 4), (rng.randint(1, 3), rng.randint(1, 3)), (rng.randint(1, 2), 2))
    if kind == "conv":
        return b.conv(x, rng.randint(1, 6), kernel, stride, dilation, same, bias=rng.random() < 0.8)
    if kind == "pointwise2":
        return b.conv(x, rng.randint(1, 6), (1, 1), (2, 2))
    if kind == "depthwise":
        return b.depthwise(x, kernel, stride, rng.randint(1, 2), dilation, same)
    if kind in ("pool", "average"):
        return b.pool(x, "max_pool_2d" if kind == "pool" else "average_pool_2d", kernel, stride, same)
    if kind == "add":
        return b.add(x, b.conv(x, depth, (3, 3), same=True))
    if kind == "gate":
        return b.add(
            b.conv(b.conv(x, depth, (3, 1)), depth, (1, 3)),
            b.unary(x, "logistic") if b.dtype == "float32" else x,
            "mul",
        )
    if kind == "pad":
        return b.pad(
            x,
            (0, rng.randint(0, 2), rng.randint(0, 1), 0),
            (0, rng.randint(0, 2), rng.randint(0, 1), rng.randint(0, 1)),
        )
    if kind == "concat":
        return b.concatenation((b.conv(x, 3), b.conv(x, 2, (1, 1))), rng.choice((3, 3, 3)))
    return b.unary(x, "relu")
