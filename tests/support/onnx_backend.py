"""stowplan as a backend for ONNX's own tests: compiles each model for its inputs, and runs the plan.

Tests give as inputs what exporters write into the file: shapes, axes, pads. Where stowplan asks for a constant, the
backend makes one of the input's value and tries again; what is refused then is refused.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import UnsupportedError
from stowplan_backend_c import CBackend

TRIES = 8


class Refused(BackendIsNotSupposedToImplementIt):
    """stowplan said that it does not support the model."""


class StowplanRep(BackendRep):
    """One model; each set of inputs is compiled for."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model

    def run(self, inputs: Sequence[Any], **options: Any) -> tuple[Any, ...]:
        constants = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input if value.name not in constants]
        inputs = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
        if any(not isinstance(value, np.ndarray) for value in inputs):
            raise _refused("inputs that are no tensors")
        given = dict(zip(names, inputs, strict=False))
        fixed: dict[str, Any] = {name: array for name, array in given.items() if array.size == 0}
        for _ in range(TRIES):
            model = with_constants(self.model, given, fixed)
            try:
                return tuple(answers(model, {n: a for n, a in given.items() if n not in fixed}))
            except UnsupportedError as err:
                assert "make no sense together" not in str(err), err
                asked = {name: given[name] for name in _asked_for(str(err), given) if name not in fixed}
                if not asked:
                    raise _refused(str(err)) from err
                fixed |= asked
        raise _refused("too many inputs that have to be constant")


class StowplanBackend(Backend):
    """What the official runner talks to. `refusals` collects why tests were refused."""

    refusals: list[str] = []  # noqa: RUF012 - the runner wants a class, not an instance

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> StowplanRep:
        return StowplanRep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def _refused(why: str) -> Refused:
    StowplanBackend.refusals.append(why)
    return Refused(why)


def with_constants(model: onnx.ModelProto, given: dict[str, Any], fixed: dict[str, Any]) -> onnx.ModelProto:
    """Return the model with the shapes of these inputs, some of them as constants."""
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    graph = changed.graph
    kept = [value for value in graph.input if value.name not in fixed]
    del graph.input[:]
    graph.input.extend(kept)
    for value in graph.input:
        if value.name not in given:
            continue
        array, shape = given[value.name], value.type.tensor_type.shape
        del shape.dim[:]
        for size in array.shape:
            shape.dim.add().dim_value = size
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in fixed.items())
    return changed


def answers(model: onnx.ModelProto, inputs: dict[str, Any]) -> Iterator[Any]:
    """Compile, run once and yield the outputs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        data = compile_model(CompileRequest(model_path=path, prove=False)).data
    compiled = CBackend().compile(data)
    found = compiled.run([np.ascontiguousarray(inputs[port.name]).tobytes() for port in compiled.inputs])
    for port, answer in zip(compiled.outputs, found, strict=True):
        yield np.frombuffer(answer, port.dtype).reshape(port.shape)


def _asked_for(refusal: str, given: dict[str, Any]) -> list[str]:
    """Return the inputs that a refusal says have to be constant."""
    asked = re.findall(r"'([^']*)' must be constant", refusal)
    return [name for name in asked if name in given]
