"""Quantized ONNX models step by step: each operator on the very numbers that onnxruntime has there.

Through a whole network one step of one operator grows to any size, also between onnxruntime's own ways to run it: what
can be asked of each operator by itself is that it is no more than one step off. A piece reaches from one set of
quantized tensors to the next: a QLinear operator, or DequantizeLinear, operators on reals, QuantizeLinear.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnx_models import Array, run_onnxruntime, run_plan
from stowplan.errors import StowplanError

MARKS = ("QuantizeLinear", "QLinear", "QGemm")


class Piece(NamedTuple):
    """How far one quantized tensor is from onnxruntime's, in steps, and how many of its elements are."""

    name: str
    steps: float
    differing: int
    elements: int


def is_quantized(model: onnx.ModelProto) -> bool:
    return any(node.op_type.startswith((*MARKS, "DynamicQuantize")) for node in model.graph.node)


def pieces(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Piece]:
    """Return every quantized tensor of a model, computed from onnxruntime's own tensors before it."""
    marked = [name for node in model.graph.node if node.op_type.startswith(MARKS) for name in node.output]
    known = dict(inputs) | _tensors(model, marked, inputs)
    makers = {name: node for node in model.graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    found = []
    for name in marked:
        part, given = _part(model, name, makers, known, constants)
        if given:
            found.append(_compared(part, name, given, known[name]))
    return found


def _tensors(model: onnx.ModelProto, names: Sequence[str], inputs: Mapping[str, Array]) -> dict[str, Array]:
    wide = onnx.ModelProto.FromString(model.SerializeToString())
    del wide.graph.output[:]
    wide.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, run_onnxruntime(wide, inputs), strict=True))


def _part(
    model: onnx.ModelProto, name: str, makers: Mapping[str, onnx.NodeProto], known: Mapping[str, Array],
    constants: Mapping[str, onnx.TensorProto],
) -> tuple[onnx.ModelProto, dict[str, Array]]:  # fmt: skip
    """Return the operators that make one tensor of known ones, as a model, and what they read."""
    wanted, names, given, held = [name], set(), {}, {}
    while wanted:
        current = wanted.pop()
        for needed in [current] if current == name else ():
            names.add(needed)
        for read in makers[current].input:
            if read in constants:
                held[read] = constants[read]
            elif read in known:
                given[read] = known[read]
            elif read and read not in names:
                names.add(read)
                wanted.append(read)
    nodes = [node for node in model.graph.node if names.intersection(node.output)]
    entries = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()
    ]
    exits = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(known[name].dtype), None)]
    graph = helper.make_graph(nodes, "piece", entries, exits, list(held.values()))
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version), given


def _compared(part: onnx.ModelProto, name: str, given: Mapping[str, Array], expected: Array) -> Piece:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "piece.onnx"
        path.write_bytes(part.SerializeToString())
        try:
            answer = run_plan(path, given)[0]
        except StowplanError as err:
            raise AssertionError(f"the piece that makes {name} is refused: {err}") from err
    apart = np.abs(answer.astype(np.int64) - expected.astype(np.int64))
    if apart.max(initial=0) > 1:  # onnxruntime's own functions are approximations: near 0 its sigmoid is off by 1e-7
        newer = helper.make_model(part.graph, opset_imports=[helper.make_opsetid("", 21)])
        exact = np.asarray(ReferenceEvaluator(newer).run(None, dict(given))[0])
        apart = np.minimum(apart, np.abs(answer.astype(np.int64) - exact.astype(np.int64)))
    return Piece(name, float(apart.max(initial=0)), int((apart > 0).sum()), apart.size)
