"""Pads fold into convolutions and nowhere else, and no output byte changes."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from fitting import fit
from graphs import GraphBuilder
from stowplan.build.passes.pads import fold_pads
from stowplan.build.prove import random_bytes
from stowplan.flow.graph import Graph
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host


def run(graph: Graph, seed: int) -> list[bytes]:
    generator = random.Random(seed)
    with closing(host().backends()["c"].compile(write_plan(fit(graph, None)))) as model:
        return model.run([random_bytes(port, generator) for port in model.inputs])


def padded(seed: int, dtype: str, reader: str) -> Graph:
    b = GraphBuilder(dtype, seed)
    rng = b.random
    x = b.input(1, rng.randint(4, 9), rng.randint(4, 8), rng.randint(1, 5))
    before, after = ((0, rng.randint(0, 2), rng.randint(0, 2), 0) for _ in range(2))
    y = b.pad(x, before, after)
    stride = (rng.randint(1, 2), rng.randint(1, 2))
    if reader == "conv_2d":
        return b.graph(b.conv(y, rng.randint(1, 6), (3, 3), stride, same=rng.random() < 0.3))
    return b.graph(b.depthwise(y, (3, 3), stride, rng.randint(1, 2), same=rng.random() < 0.3))


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("reader", ["conv_2d", "depthwise_conv_2d"])
def test_folding_changes_no_output_byte(reader: str, dtype: str) -> None:
    gone = 0
    for seed in range(25):
        graph = padded(seed, dtype, reader)
        folded = fold_pads(graph)
        gone += len(folded.operators) == 1
        assert run(graph, seed) == run(folded, seed)
    assert gone > 10


def test_a_pad_that_somebody_else_reads_stays() -> None:
    b = GraphBuilder()
    y = b.pad(b.input(1, 6, 6, 2), (0, 1, 1, 0), (0, 1, 1, 0))
    graph = fold_pads(b.graph(b.conv(y, 2, same=False), b.pool(y)))
    assert [op.kind for op in graph.operators] == ["pad", "conv_2d", "max_pool_2d"]
    assert graph.operators[1].inputs[0] == graph.inputs[0]


def test_pools_channels_and_model_outputs_keep_their_pads() -> None:
    for build in (
        lambda b, x: (b.pool(b.pad(x, (0, 1, 1, 0), (0, 0, 0, 0)), "average_pool_2d"),),
        lambda b, x: (b.conv(b.pad(x, (0, 0, 0, 1), (0, 0, 0, 0)), 2),),
        lambda b, x: (b.pad(x, (0, 1, 1, 0), (0, 0, 0, 0)),),
    ):
        b = GraphBuilder()
        graph = b.graph(*build(b, b.input(1, 6, 6, 2)))
        assert fold_pads(graph) is graph


def test_a_pad_wider_than_the_kernel_stays() -> None:
    b = GraphBuilder()
    graph = b.graph(b.conv(b.pad(b.input(1, 6, 6, 2), (0, 3, 0, 0), (0, 0, 0, 0)), 2, same=False))
    assert fold_pads(graph) is graph
