"""Branches and loops: inlined, chosen between, unrolled, or refused plainly; the answers are LiteRT's."""

from __future__ import annotations

import time

import numpy as np
import pytest

from control_models import FLOATS, branching, counting, inner, unary
from oracles import run_litert_reference
from scattered import run_whole
from stowplan.errors import UnsupportedError
from tflite_builder import ModelBuilder
from tflite_import import import_bytes


def check(model: bytes, *inputs: np.ndarray) -> None:
    wanted = run_litert_reference(model, inputs)
    got = run_whole(model, [array.tobytes() for array in inputs])
    for data, want in zip(got, wanted, strict=True):
        assert np.allclose(np.frombuffer(data, want.dtype).reshape(want.shape), want, atol=1e-5)


X = np.linspace(0.1, 3, 6, dtype=np.float32).reshape(FLOATS)


@pytest.mark.parametrize("taken", [True, False])
def test_a_condition_of_the_run_chooses_between_both_branches(taken: bool) -> None:
    model = branching(None, unary("LOG"), unary("SQRT"))
    assert [op.kind for op in import_bytes(model).operators] == ["log", "sqrt", "select", "abs"]
    check(model, np.array(taken), X)


@pytest.mark.parametrize("taken", [b"\1", b"\0"])
def test_a_constant_condition_leaves_the_branch_taken(taken: bytes) -> None:
    model = branching(taken, unary("LOG"), unary("SQRT"))
    kinds = [op.kind for op in import_bytes(model).operators]
    assert [kind for kind in kinds if kind != "reshape"] == ["log" if any(taken) else "sqrt", "abs"]
    check(model, X)


def test_branches_within_branches_are_inlined_as_well() -> None:
    def nested(model: ModelBuilder, inputs: list[int]) -> list[int]:
        limit = model.constant("limit", np.array(1.5, np.float32))
        total, above = model.tensor("total", (), "float32"), model.tensor("above", (), "bool")
        y = model.tensor("nested_y", FLOATS, "float32")
        axes = model.constant("axes", np.array([0, 1], np.int32))
        model.operator("MEAN", [inputs[0], axes], [total], keep_dims=False)
        model.operator("GREATER", [total, limit], [above])
        model.operator("IF", [above, inputs[0]], [y], then_subgraph_index=3, else_subgraph_index=4)
        return [y]

    model = ModelBuilder()
    c, x = model.input("c", (), "bool"), model.input("x", FLOATS, "float32")
    y = model.tensor("y", FLOATS, "float32")
    model.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    model.outputs(y)
    inner(model, "then", [(FLOATS, "float32")], nested)
    for name, kind in (("other", "NEG"), ("big", "SQRT"), ("small", "EXP")):
        inner(model, name, [(FLOATS, "float32")], unary(kind))
    data = model.build()
    for taken in (True, False):
        for scale in (0.5, 2):
            check(data, np.array(taken), X * np.float32(scale))


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_counted_loop_is_unrolled(turns: int) -> None:
    model = counting(turns)
    assert sum(op.kind == "add" for op in import_bytes(model).operators) == turns
    check(model, X)


@pytest.mark.parametrize(("turns", "step"), [(10, 0), (2_000_000_000, 1), (5000, 1)])
def test_loops_without_end_or_of_very_many_turns_are_refused_soon(turns: int, step: int) -> None:
    start = time.monotonic()
    with pytest.raises(UnsupportedError, match=r"operator 0 \(WHILE .*how often it runs depends on the model's inputs"):
        import_bytes(counting(turns, step=step))
    assert time.monotonic() - start < 20


def test_a_loop_whose_end_depends_on_the_inputs_is_refused() -> None:
    model = ModelBuilder()
    x, y = model.input("x", FLOATS, "float32"), model.tensor("y", FLOATS, "float32")
    model.operator("WHILE", [x], [y], cond_subgraph_index=1, body_subgraph_index=2)
    model.outputs(y)

    def condition(model: ModelBuilder, inputs: list[int]) -> list[int]:
        axes, limit = model.constant("axes", np.array([0, 1], np.int32)), model.constant("l", np.array(9, np.float32))
        total, goes_on = model.tensor("total", (), "float32"), model.tensor("goes_on", (), "bool")
        model.operator("SUM", [inputs[0], axes], [total], keep_dims=False)
        model.operator("LESS", [total, limit], [goes_on])
        return [goes_on]

    inner(model, "condition", [(FLOATS, "float32")], condition)
    inner(model, "body", [(FLOATS, "float32")], unary("EXP"))
    with pytest.raises(UnsupportedError, match="a loop with a known number of turns would be supported"):
        import_bytes(model.build())


def test_branches_of_different_shapes_are_refused() -> None:
    def half(model: ModelBuilder, inputs: list[int]) -> list[int]:
        y = model.tensor("half", (1, 1), "float32")
        axes = model.constant("axes", np.array([1], np.int32))
        model.operator("SUM", [inputs[0], axes], [y], keep_dims=True)
        return [y]

    with pytest.raises(UnsupportedError, match="its output is 1x6 float32 or 1x1 float32, as its condition turns out"):
        import_bytes(branching(None, unary("ABS"), half))


def test_branches_that_do_not_fit_are_refused() -> None:
    model = ModelBuilder()
    c, x = model.input("c", (), "bool"), model.input("x", FLOATS, "float32")
    y = model.tensor("y", FLOATS, "float32")
    model.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=7)
    model.outputs(y)
    inner(model, "then", [(FLOATS, "float32")], unary("ABS"))
    with pytest.raises(UnsupportedError, match=r"operator 0 \(IF \"y\"\): its branches keep state, or do not take"):
        import_bytes(model.build())


def test_an_unsupported_operator_that_nothing_depends_on_refuses_nothing() -> None:
    model = ModelBuilder()
    x = model.input("x", FLOATS, "float32")
    y, unread = model.tensor("y", FLOATS, "float32"), model.tensor("unread", FLOATS, "float32")
    model.operator("CUSTOM", [x], [unread], custom_code="Nobody")
    model.operator("ABS", [x], [y])
    assert [op.kind for op in import_bytes(model.outputs(y).build()).operators] == ["abs"]


def test_a_condition_of_more_than_one_number_is_refused() -> None:
    model = ModelBuilder()
    c, x = model.input("c", (2,), "bool"), model.input("x", FLOATS, "float32")
    y = model.tensor("y", FLOATS, "float32")
    model.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    model.outputs(y)
    for name in ("then", "other"):
        inner(model, name, [(FLOATS, "float32")], unary("ABS"))
    with pytest.raises(UnsupportedError, match="a condition of shape 2; one number is defined"):
        import_bytes(model.build())
