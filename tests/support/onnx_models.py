"""Small ONNX models for tests, made with the onnx package, and what onnxruntime answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.flow.model import Model
from stowplan_backend_c import CBackend

Array = NDArray[Any]
FREE = "batch"


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Array],
    *,
    opset: int = 17,
    dtypes: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Return a model; inputs are float32 unless `dtypes` says otherwise, outputs have no stated shape."""
    types = dtypes or {}
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info(n, types.get(n, TensorProto.FLOAT), s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, types.get(n, TensorProto.FLOAT), None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def small_cnn(batch: int | str = 1) -> onnx.ModelProto:
    """A network as PyTorch's exporter writes it: convolutions, a normalization, a flatten by its Shape, Gemm."""
    chance = np.random.default_rng(0)
    constants = {
        "conv1.weight": chance.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "conv1.bias": chance.normal(size=8).astype(np.float32),
        "bn.weight": chance.uniform(0.5, 2, 8).astype(np.float32),
        "bn.bias": chance.normal(size=8).astype(np.float32),
        "bn.mean": chance.normal(size=8).astype(np.float32),
        "bn.var": chance.uniform(0.5, 2, 8).astype(np.float32),
        "conv2.weight": chance.normal(size=(8, 1, 3, 3)).astype(np.float32),
        "fc.weight": chance.normal(size=(5, 8 * 4 * 4)).astype(np.float32),
        "fc.bias": chance.normal(size=5).astype(np.float32),
        "zero": np.array(0, np.int64),
        "minus": np.array([-1], np.int64),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "conv1.weight", "conv1.bias"], ["/conv1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["/conv1", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["/bn"]),
        node("Relu", ["/bn"], ["/relu"]),
        node("Conv", ["/relu", "conv2.weight"], ["/conv2"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8,
             strides=[2, 2]),
        node("Constant", [], ["/low"], value=numpy_helper.from_array(np.array(0.0, np.float32))),
        node("Constant", [], ["/high"], value=numpy_helper.from_array(np.array(6.0, np.float32))),
        node("Clip", ["/conv2", "/low", "/high"], ["/clip"]),
        node("Shape", ["/clip"], ["/shape"]),
        node("Gather", ["/shape", "zero"], ["/batch"], axis=0),
        node("Constant", [], ["/axes"], value=numpy_helper.from_array(np.array([0], np.int64))),
        node("Unsqueeze", ["/batch", "/axes"], ["/batch1"]),
        node("Concat", ["/batch1", "minus"], ["/flat_shape"], axis=0),
        node("Reshape", ["/clip", "/flat_shape"], ["/flat"]),
        node("Gemm", ["/flat", "fc.weight", "fc.bias"], ["logits"], alpha=1.0, beta=1.0, transB=1),
    ]  # fmt: skip
    return network(nodes, {"image": [batch, 3, 8, 8]}, ["logits"], constants)


def model_of(proto: onnx.ModelProto | bytes, folder: Path | None = None) -> Model:
    """Return a model as an importer gets it; `folder` is where it seems to lie."""
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    return Model(path=(folder or Path()) / "model.onnx", data=data, digest="")


def random_inputs(proto: onnx.ModelProto, seed: int = 0, sizes: Mapping[str, int] | None = None) -> dict[str, Array]:
    """Return random inputs: reals in -1..1, small integers; named dimensions are 1 unless `sizes` has them."""
    chance = np.random.default_rng(seed)
    constants = {tensor.name for tensor in proto.graph.initializer}
    found: dict[str, Array] = {}
    for value in proto.graph.input:
        if value.name in constants:
            continue
        dims = value.type.tensor_type.shape.dim
        shape = [d.dim_value or (sizes or {}).get(d.dim_param, 1) for d in dims]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        real = chance.uniform(-1, 1, shape)
        found[value.name] = (real if dtype.kind == "f" else chance.integers(0, 7, shape)).astype(dtype)
    return found


def run_onnxruntime(
    proto: onnx.ModelProto | bytes, inputs: Mapping[str, Array], optimized: bool = False
) -> list[Array]:
    """Return onnxruntime's answers, without its optimizations unless asked for."""
    ort = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def run_plan(path: Path, inputs: Mapping[str, Array], prove: bool = False, **options: Any) -> list[Array]:
    """Compile a model file and return the plan's answers."""
    compiled = CBackend().compile(compile_model(CompileRequest(model_path=path, prove=prove, **options)).data)
    found = compiled.run([np.ascontiguousarray(inputs[port.name]).tobytes() for port in compiled.inputs])
    return [np.frombuffer(a, p.dtype).reshape(p.shape) for a, p in zip(found, compiled.outputs, strict=True)]
