"""The runtimes that decide what a model means: TFLite Micro, and LiteRT with its reference kernels.

Each skips the test, naming the package, where it is not installed. Inputs and outputs are numpy arrays in the
model's order; the arrays' dtypes are the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]
Run = Callable[[Sequence[Array]], list[Array]]

MiB = 1024 * 1024
ARENAS = (8 * MiB, 64 * MiB, 512 * MiB)
"""TFLite Micro cannot say how much it needs; a model is tried with each of these."""


def run_tflm(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Run a model once in TFLite Micro. Raises `RuntimeError` when it refuses the model."""
    return open_tflm(model)(inputs)


def run_litert_reference(model: bytes, inputs: Sequence[Array]) -> list[Array]:
    """Run a model once with LiteRT's reference kernels. Raises `RuntimeError` or `ValueError` if refused."""
    return open_litert_reference(model)(inputs)


def open_tflm(model: bytes) -> Run:
    """Load a model into TFLite Micro once and return what runs it, for tests with many inputs."""
    pytest.importorskip("tflite_micro", reason="needs the package tflite-micro")
    from tflite_micro.python.tflite_micro import runtime

    interpreter = _allocate(runtime, model)
    count = _outputs(model)

    def run(inputs: Sequence[Array]) -> list[Array]:
        for index, array in enumerate(inputs):
            interpreter.set_input(np.ascontiguousarray(array), index)
        interpreter.invoke()
        return [np.array(interpreter.get_output(index)) for index in range(count)]

    return run


def open_litert_reference(model: bytes) -> Run:
    """Load a model into LiteRT's reference kernels once and return what runs it; inputs may have other shapes."""
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the package ai-edge-litert")
    interpreter = interpreter_module.Interpreter(
        model_content=model,
        experimental_op_resolver_type=interpreter_module.OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    interpreter.allocate_tensors()

    def run(inputs: Sequence[Array]) -> list[Array]:
        details = interpreter.get_input_details()
        resize = [d["index"] for d, array in zip(details, inputs, strict=True) if tuple(d["shape"]) != array.shape]
        for detail, array in zip(details, inputs, strict=True):
            if detail["index"] in resize:
                interpreter.resize_tensor_input(detail["index"], array.shape)
        if resize:
            interpreter.allocate_tensors()
        for detail, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]

    return run


def random_inputs(model: bytes, seed: int) -> list[Array]:
    """Return one random array per input of a model: full range for integers, normal for floats; free dimensions 1."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the package ai-edge-litert")
    graph = schema.Model.GetRootAs(model, 0).Subgraphs(0)
    names = {number: name.lower() for name, number in vars(schema.TensorType).items() if isinstance(number, int)}
    random = np.random.default_rng(seed)
    tensors = [graph.Tensors(graph.Inputs(i)) for i in range(graph.InputsLength())]
    return [_random(random, [max(1, n) for n in t.ShapeAsNumpy()], names[t.Type()]) for t in tensors]


def _random(random: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    if dtype == "bool":
        return random.integers(0, 1, shape, endpoint=True).astype(np.bool_)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def _allocate(runtime: Any, model: bytes) -> Any:
    failure: Exception = RuntimeError("no arena tried")
    for arena in ARENAS:
        try:
            return runtime.Interpreter.from_bytes(model, arena_size=arena)
        except RuntimeError as err:
            failure = err
    raise failure


def _outputs(model: bytes) -> int:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the package ai-edge-litert")
    count = schema.Model.GetRootAs(model, 0).Subgraphs(0).OutputsLength()
    return int(count)
