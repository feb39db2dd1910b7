"""Models with branches and loops, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tflite_builder import ModelBuilder

Body = Callable[[ModelBuilder, list[int]], list[int]]
FLOATS = (1, 6)


def inner(model: ModelBuilder, name: str, ports: Sequence[tuple[tuple[int, ...], str]], body: Body) -> int:
    """Add a subgraph whose inputs have these shapes and types."""
    index = model.subgraph(name)
    inputs = [model.input(f"{name}_in{i}", shape, dtype) for i, (shape, dtype) in enumerate(ports)]
    model.outputs(*body(model, inputs))
    return index


def unary(kind: str) -> Body:
    def body(model: ModelBuilder, inputs: list[int]) -> list[int]:
        y = model.tensor(f"{kind}_y", FLOATS, "float32")
        model.operator(kind, [inputs[-1]], [y])
        return [y]

    return body


def branching(condition: bytes | None, then: Body, other: Body, shape: tuple[int, ...] = FLOATS) -> bytes:
    """A model that gives abs of one branch; its condition is an input if it is not given."""
    model = ModelBuilder()
    c = model.input("c", (), "bool") if condition is None else model.tensor("c", (), "bool", data=condition)
    x = model.input("x", FLOATS, "float32")
    y, z = model.tensor("y", shape, "float32"), model.tensor("z", shape, "float32")
    model.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    model.operator("ABS", [y], [z])
    model.outputs(z)
    inner(model, "then", [(FLOATS, "float32")], then)
    inner(model, "other", [(FLOATS, "float32")], other)
    return model.build()


def counting(turns: int, start: int = 0, step: int = 1, carried: str = "float32") -> bytes:
    """x doubles, and counts what it was added to, once in each turn."""
    model = ModelBuilder()
    x = model.input("x", FLOATS, carried)
    i = model.constant("i", np.array(start, np.int32))
    ends = [model.tensor("i_end", (), "int32"), model.tensor("x_end", FLOATS, carried)]
    model.operator("WHILE", [i, x], ends, cond_subgraph_index=1, body_subgraph_index=2)
    model.outputs(ends[1], ends[0])
    ports = [((), "int32"), (FLOATS, carried)]

    def condition(model: ModelBuilder, inputs: list[int]) -> list[int]:
        limit, goes_on = model.constant("limit", np.array(turns, np.int32)), model.tensor("goes_on", (), "bool")
        model.operator("LESS", [inputs[0], limit], [goes_on])
        return [goes_on]

    def body(model: ModelBuilder, inputs: list[int]) -> list[int]:
        one, next_i = model.constant("one", np.array(step, np.int32)), model.tensor("next_i", (), "int32")
        doubled = model.tensor("doubled", FLOATS, carried)
        model.operator("ADD", [inputs[0], one], [next_i])
        model.operator("ADD", [inputs[1], inputs[1]], [doubled])
        return [next_i, doubled]

    inner(model, "condition", ports, condition)
    inner(model, "body", ports, body)
    return model.build()
