"""Small models for LiteRT's tests: signatures, partial acceleration, wide integers, and one that takes its time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tflite_builder import ModelBuilder


def two_signatures(fixed: bool = False) -> bytes:
    """Two signatures, add and mul, over free rows of four floats, or over one row if `fixed`."""
    free = None if fixed else (-1, 4)
    model = ModelBuilder()
    for index, kind in enumerate(("ADD", "MUL")):
        if index:
            model.subgraph("second")
        x, y = (model.input(name, (1, 4), "float32", shape_signature=free) for name in ("x", "y"))
        z = model.tensor("z", (1, 4), "float32", shape_signature=free)
        model.operator(kind, [x, y], [z])
        model.outputs(z)
        model.signature(kind.lower(), {"x": x, "y": y}, {"result": z}, subgraph=index)
    return model.build()


def through_int64() -> bytes:
    """ADD, CAST to int64, CAST back, ADD, MUL: a GPU takes the floats only, the last two operators here."""
    model = ModelBuilder()
    x = model.input("x", (1, 8), "float32")
    a, f, b, y = (model.tensor(name, (1, 8), "float32") for name in ("a", "f", "b", "y"))
    i = model.tensor("i", (1, 8), "int64")
    model.operator("ADD", [x, x], [a])
    model.operator("CAST", [a], [i], options="CastOptions")
    model.operator("CAST", [i], [f], options="CastOptions")
    model.operator("ADD", [f, x], [b])
    model.operator("MUL", [b, b], [y])
    return model.outputs(y).build()


def cast(source: str, target: str, count: int = 4) -> bytes:
    """One CAST between two types."""
    model = ModelBuilder()
    x = model.input("x", (count,), source)
    y = model.tensor("y", (count,), target)
    model.operator("CAST", [x], [y], options="CastOptions")
    return model.outputs(y).build()


def custom() -> bytes:
    """One operator that nobody knows."""
    model = ModelBuilder()
    x, y = model.input("x", (4,), "float32"), model.tensor("y", (4,), "float32")
    model.operator("CUSTOM", [x], [y], custom_code="MyOperator")
    return model.outputs(y).build()


def slow(operators: int = 400, count: int = 100_000) -> bytes:
    """A chain of CUMSUM, which no delegate takes: tens of milliseconds, with a chance to stop at each operator."""
    model = ModelBuilder()
    tensor = model.input("x", (1, count), "float32")
    axis = model.constant("axis", np.array(1, np.int32))
    for index in range(operators):
        result = model.tensor(f"t{index}", (1, count), "float32")
        model.operator("CUMSUM", [tensor, axis], [result], options="CumsumOptions")
        tensor = result
    return model.outputs(tensor).build()


def convolving(operators: int = 3, size: int = 32, channels: int = 16) -> bytes:
    """A chain of CONV_2D of floats: milliseconds of work on little data."""
    model = ModelBuilder()
    shape, random = (1, size, size, channels), np.random.default_rng(0)
    tensor = model.input("x", shape, "float32")
    for index in range(operators):
        filters = random.normal(size=(channels, 3, 3, channels)).astype(np.float32) / 12
        constants = [model.constant(f"w{index}", filters), model.constant(f"b{index}", np.zeros(channels, np.float32))]
        result = model.tensor(f"t{index}", shape, "float32")
        model.operator("CONV_2D", [tensor, *constants], [result], padding="SAME", stride_h=1, stride_w=1)
        tensor = result
    return model.outputs(tensor).build()


def interpreter_outputs(model: bytes, inputs: list[Any]) -> list[Any]:
    """Run a model in the classic interpreter: other code than ours up to the kernels."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]
