"""Small named graphs for the conformance kit: each has something that schedulers, backends or importers get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan.flow.graph import Graph
from stowplan.testing.builder import GraphBuilder


def relu() -> Graph:
    """12 x 3 x 4 -> relu: one table over whole rows, which the smallest backend can do."""
    b = GraphBuilder()
    return b.graph(b.unary(b.input(1, 12, 3, 4), "relu"), name="relu")


def chain() -> Graph:
    """6 x 4 x 2 -> relu -> 1 x 48, by a view that costs no memory."""
    b = GraphBuilder()
    return b.graph(b.reshape(b.unary(b.input(1, 6, 4, 2), "relu"), 1, 48), name="chain")


def window() -> Graph:
    """9 x 5 x 3 -> max pool 3 x 2, stride 2 x 1 -> relu: rows that two output rows read."""
    b = GraphBuilder()
    y = b.pool(b.input(1, 9, 5, 3), "max_pool_2d", kernel=(3, 2), stride=(2, 1))
    return b.graph(b.unary(y, "relu"), name="window")


def small_cnn(dtype: str = "int8") -> Graph:
    """12x8x3 -> conv 4 -> depthwise stride 2 -> add of two branches -> mean -> fully connected -> softmax."""
    b = GraphBuilder(dtype)
    x = b.input(1, 12, 8, 3)
    y = b.depthwise(b.conv(x, 4), stride=(2, 2))
    z = b.add(b.conv(y, 4, kernel=(1, 1)), b.conv(y, 4))
    return b.graph(b.softmax(b.fully_connected(b.mean(z), 5)))


def residual(dtype: str = "int8") -> Graph:
    """16x8x4 -> conv -> conv -> add with the input: one tensor outlives the branch beside it."""
    b = GraphBuilder(dtype, seed=1)
    x = b.input(1, 16, 8, 4)
    return b.graph(b.add(b.conv(b.conv(x, 8), 4), x), name="residual")


def two_ends() -> Graph:
    """Two inputs, added and pooled; the sum is an output as well: outputs live to the end, inputs from the start."""
    b = GraphBuilder(seed=2)
    total = b.add(b.input(1, 8, 4, 3), b.input(1, 8, 4, 3))
    return b.graph(b.pool(total), total, name="two_ends")


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "relu": relu,
    "chain": chain,
    "window": window,
    "small_cnn": small_cnn,
    "small_cnn_float": lambda: small_cnn("float32"),
    "residual": residual,
    "two_ends": two_ends,
}
"""By name, smallest first. Made anew by each call, so that whoever changes one harms nobody else."""
