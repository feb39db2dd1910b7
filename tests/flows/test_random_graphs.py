"""Random networks at many budgets: every plan that is written passes the checker and its proof."""

from __future__ import annotations

import pytest

from fitting import fit, fit_and_prove, prove_plan
from graphs import GraphBuilder, random_graph
from stowplan.errors import DoesNotFit


@pytest.mark.parametrize("seed", range(60))
def test_integer_networks_are_right_at_every_budget(seed: int) -> None:
    proven, _ = fit_and_prove(random_graph(seed), budgets=5)
    assert proven > 1


@pytest.mark.parametrize("seed", range(25))
def test_float_networks_give_the_same_bits_tiled_and_untiled(seed: int) -> None:
    proven, _ = fit_and_prove(random_graph(seed, "float32"), budgets=4)
    assert proven > 1


@pytest.mark.parametrize("seed", range(15))
def test_the_baseline_scheduler_is_right_too(seed: int) -> None:
    prove_plan(fit(random_graph(seed), None, scheduler="greedy"))


@pytest.mark.parametrize("seed", range(25))
def test_compressed_weights_are_right_at_every_budget(seed: int) -> None:
    """One block is unpacked at a time below the activations, whatever the stages are."""
    graph = random_graph(seed)
    whole = fit(graph, None, compressor="lz4")
    prove_plan(whole)
    for percent in (90, 60, 40):
        budget = whole.schedule.pool_bytes[0] * percent // 100
        for sizes in ((budget,), (budget, 1 << 20)):
            try:
                plan = fit(graph, *sizes, compressor="lz4")
            except DoesNotFit:
                continue
            assert plan.schedule.pool_bytes[0] <= budget
            prove_plan(plan)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_a_kernel_as_high_as_its_input_takes_it_row_by_row(multiplier: int) -> None:
    """12x3x8 -> conv -> depthwise 12x2 -> softmax: the depthwise keeps sums instead of twelve rows."""
    b = GraphBuilder(seed=multiplier)
    y = b.conv(b.input(1, 12, 3, 8), 8)
    tall = b.depthwise(y, kernel=(12, 2), multiplier=multiplier, same=False)
    graph = b.graph(b.softmax(b.fully_connected(b.reshape(tall, 1, b.tensors[tall].elements), 4)))
    plan = fit(graph, 460)
    tiled = [n for n in plan.schedule.nodes if n.operator == 1]
    assert tiled[0].by_input
    assert tiled[0].accumulator >= 0
    prove_plan(plan)
    assert fit_and_prove(graph)[0] > 4


def test_an_operator_may_be_whole_when_its_input_arrives_once_more() -> None:
    """Its input is then another tensor than the model's, which holds the same: the checker refused that."""
    assert fit_and_prove(random_graph(730086), budgets=8)[0] >= 20
