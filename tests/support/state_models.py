"""Models that keep something from run to run: variables read and assigned anywhere, and SVDF."""

from __future__ import annotations

from typing import Any

import numpy as np

from tflite_builder import ModelBuilder

HEIGHT, WIDTH, CHANNELS = 6, 2, 3
SHAPE = (1, HEIGHT, WIDTH, CHANNELS)


class Program:
    """A model over tensors of one shape that reads and assigns variables wherever it likes."""

    def __init__(self, variables: int) -> None:
        self.model = ModelBuilder()
        self.row = self.model.input("row", (1, 2, WIDTH, CHANNELS), "float32")
        self.made = [self.model.input("x", SHAPE, "float32")]
        self.named = 0
        self.handles = [self.model.tensor(f"handle_{v}", (), "resource") for v in range(variables)]
        self.assigned: set[int] = set()
        for number, handle in enumerate(self.handles):
            self.model.operator("VAR_HANDLE", [], [handle], shared_name=f"v{number}")
            self.read(number)

    def read(self, variable: int) -> None:
        self.model.operator("READ_VARIABLE", [self.handles[variable % len(self.handles)]], [self._new()])

    def assign(self, variable: int, what: int) -> None:
        variable %= len(self.handles)
        if variable not in self.assigned:
            self.assigned.add(variable)
            self.model.operator("ASSIGN_VARIABLE", [self.handles[variable], self._any(what)], [])

    def add(self, a: int, b: int) -> None:
        self.model.operator("ADD", [self._any(a), self._any(b)], [self._new()])

    def relu(self, a: int) -> None:
        self.model.operator("RELU", [self._any(a)], [self._new()])

    def shift(self, a: int, up: bool) -> None:
        """Two new rows below, and two less above; or the other way round."""
        joined = self.model.tensor(self._name("joined"), (1, HEIGHT + 2, WIDTH, CHANNELS), "float32")
        parts = [self._any(a), self.row] if up else [self.row, self._any(a)]
        self.model.operator("CONCATENATION", parts, [joined], axis=1)
        begin = self._numbers([0, 2 if up else 0, 0, 0])
        self.model.operator("SLICE", [joined, begin, self._numbers(list(SHAPE))], [self._new()])

    def pool(self, a: int) -> None:
        """Rows that look at their neighbours: no row can take another's place at once."""
        options = dict(padding="SAME", stride_h=1, stride_w=1, filter_height=3, filter_width=1)
        self.model.operator("MAX_POOL_2D", [self._any(a)], [self._new()], options="Pool2DOptions", **options)

    def finish(self, what: int) -> bytes:
        """Return the model: it gives a sum of everything made, so that a wrong value shows, and one of its tensors."""
        total = self.made[0]
        for tensor in self.made[1:]:
            self.model.operator("ADD", [total, tensor], [self._new()])
            total = self.made.pop()
        shown = self.model.tensor("shown", SHAPE, "float32")
        self.model.operator("ABS", [self._any(what)], [shown])
        return self.model.outputs(total, shown).build()

    def _name(self, kind: str) -> str:
        self.named += 1
        return f"{kind}{self.named}"

    def _any(self, number: int) -> int:
        return self.made[number % len(self.made)]

    def _new(self) -> int:
        self.made.append(self.model.tensor(self._name("t"), SHAPE, "float32"))
        return self.made[-1]

    def _numbers(self, values: list[int]) -> int:
        return self.model.constant(self._name("n"), np.array(values, np.int32))


def shift_register() -> bytes:
    """Six rows of which the eldest two go, as a streaming model keeps them."""
    program = Program(1)
    program.shift(1, True)
    program.assign(0, 2)
    del program.made[1]  # only the shift reads the old rows
    return program.finish(1)


Sizes = tuple[int, int, int, int, int]
"""Batches, features, units, rank and memory."""


def svdf(sizes: Sizes, biased: bool = True, relu: bool = False, integers: bool = False, **changed: Any) -> bytes:
    """Return a model of one SVDF; with `integers`, the same weights as int8."""
    batches, features, units, rank, memory = sizes
    random, model, filters = np.random.default_rng(sum(sizes)), ModelBuilder(), units * rank
    x = model.input("x", (batches, features), "float32")
    inputs = [x]
    for name, shape in (("feature", (filters, features)), ("time", (filters, memory))):
        values = random.integers(-127, 128, shape).astype(np.int8)
        scaled = {"scale": 1 / 64} if integers else {}
        inputs.append(model.constant(name, values if integers else values.astype(np.float32) / 64, **scaled))
    bias = changed.get("bias", random.normal(size=units).astype(np.float32))
    inputs.append(model.constant("bias", bias) if biased else -1)
    inputs.append(
        model.tensor("memory", changed.get("state", (batches, filters * memory)), "float32", is_variable=True)
    )
    y = model.tensor("y", (batches, units), "float32")
    options = dict(rank=changed.get("rank", rank), fused_activation_function="RELU" if relu else "NONE")
    model.operator("SVDF", inputs, [y], options="SVDFOptions", **options)
    return model.outputs(y).build()
