"""MediaPipe's own operator, a transposed convolution with biases: no runtime here has it, so it is spread by hand."""

from __future__ import annotations

import struct
from contextlib import closing
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import open_litert_reference
from scattered import run_scattered, run_whole
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import UnsupportedError
from stowplan_backend_c import CBackend
from tflite_builder import ModelBuilder
from tflite_import import import_bytes, shared_models

CODE = "Convolution2DTransposeBias"
SAME, VALID = 1, 2


def spreading(
    shape: tuple[int, ...], weights: Any, bias: Any, result: tuple[int, ...], options: bytes, dtype: str = "float32"
) -> bytes:
    model = ModelBuilder()
    x, y = (model.input("x", shape, dtype, scale=0.1), model.tensor("y", result, dtype, scale=0.1))
    inputs = [x, model.constant("w", weights, scale=0.1), model.constant("b", bias, scale=0.01)]
    model.operator("CUSTOM", inputs, [y], custom_code=CODE, custom_options=options)
    return model.outputs(y).build()


def spread(x: Any, weights: Any, bias: Any, padding: int, stride: tuple[int, int]) -> Any:
    """Add every input pixel's kernel at its place on a sheet that has room for all, then cut the sheet."""
    (n, h, w, _), (out, kernel_h, kernel_w, _) = x.shape, weights.shape
    sheet = np.zeros((n, (h - 1) * stride[0] + kernel_h, (w - 1) * stride[1] + kernel_w, out))
    for i in range(h):
        for j in range(w):
            top, left = i * stride[0], j * stride[1]
            sheet[:, top : top + kernel_h, left : left + kernel_w] += np.einsum("nc,opqc->npqo", x[:, i, j], weights)
    for axis, (size, kernel, step) in enumerate(((h, kernel_h, stride[0]), (w, kernel_w, stride[1])), 1):
        cut = max(0, kernel - (size - 1) % step - 1) if padding == SAME else 0
        sheet = np.take(sheet, range(cut // 2, sheet.shape[axis] - (cut - cut // 2)), axis)
    return sheet + bias


SIZES = st.integers(1, 5)


@settings(max_examples=60, deadline=None)
@given(size=st.tuples(SIZES, SIZES), kernel=st.tuples(SIZES, SIZES), stride=st.tuples(SIZES, SIZES),
       channels=st.tuples(SIZES, SIZES), padding=st.sampled_from([SAME, VALID]), seed=st.integers(0, 99))  # fmt: skip
def test_kernels_are_spread_as_by_hand(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], channels: tuple[int, int], padding: int,
    seed: int,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    x = random.normal(size=(1, *size, channels[0])).astype(np.float32)
    weights = random.normal(size=(channels[1], *kernel, channels[0])).astype(np.float32)
    bias = random.normal(size=channels[1]).astype(np.float32)
    want = spread(x, weights, bias, padding, stride)
    if 0 in want.shape:
        return
    model = spreading(x.shape, weights, bias, want.shape, struct.pack("<3i", padding, stride[1], stride[0]))
    (got,) = run_whole(model, [x.tobytes()])
    assert run_scattered(model, [x.tobytes()], seed) == [got]
    np.testing.assert_allclose(np.frombuffer(got, np.float32).reshape(want.shape), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (b"", "options of 0 bytes; 12 are defined"),
        (struct.pack("<3i", 0, 1, 1), "padding 0; SAME (1) and VALID (2) are defined"),
        (struct.pack("<3i", 1, 0, 1), "stride 0; 1 to 1048576 would be supported"),
        (struct.pack("<3i", 1, 1, -7), "stride -7; 1 to 1048576 would be supported"),
    ],
)
def test_other_options_are_refused(options: bytes, why: str) -> None:
    ones = np.ones((2, 1, 1, 3), np.float32)
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(spreading((1, 2, 2, 3), ones, ones[:, 0, 0, 0], (1, 2, 2, 2), options))
    assert caught.value.reasons[0].endswith(f"): {why}")


def test_integers_are_refused() -> None:
    options, weights = struct.pack("<3i", 1, 1, 1), np.ones((2, 1, 1, 3), np.int8)
    with pytest.raises(UnsupportedError, match="int8 activations; float32 is defined"):
        import_bytes(spreading((1, 2, 2, 3), weights, np.ones(2, np.int32), (1, 2, 2, 2), options, "int8"))


def with_builtins(data: bytes) -> bytes:
    """Return a model with the operator replaced by TRANSPOSE_CONV, which is the same where kernels do not overlap."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    graph, code = model.subgraphs[0], schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.TRANSPOSE_CONV
    code.version = 3
    model.operatorCodes.append(code)
    for operator in graph.operators:
        if model.operatorCodes[operator.opcodeIndex].customCode != CODE.encode():
            continue
        buffer, tensor, options = schema.BufferT(), schema.TensorT(), schema.TransposeConvOptionsT()
        sizes = np.array(graph.tensors[operator.outputs[0]].shape, np.int32)
        buffer.data = np.frombuffer(sizes.tobytes(), np.uint8)
        model.buffers.append(buffer)
        tensor.shape, tensor.type, tensor.buffer = [4], schema.TensorType.INT32, len(model.buffers) - 1
        tensor.name = "size"
        graph.tensors.append(tensor)
        _, options.strideW, options.strideH = struct.unpack("<3i", bytes(operator.customOptions))
        options.padding = schema.Padding.SAME
        x, w, b = operator.inputs
        operator.inputs, operator.customOptions = [len(graph.tensors) - 1, w, x, b], None
        operator.opcodeIndex = len(model.operatorCodes) - 1
        operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.TransposeConvOptions, options
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_mediapipes_selfie_segmentation_equals_litert_with_the_operator_replaced() -> None:
    paths = shared_models("segment/mp109_selfie_segmentation.tflite")
    if not paths:
        pytest.skip("the shared models are absent")
    truth = open_litert_reference(with_builtins(paths[0].read_bytes()))
    plan = compile_model(CompileRequest(model_path=paths[0])).data
    with closing(CBackend().compile(plan)) as compiled:
        for seed in range(2):
            image = np.random.default_rng(seed).random((1, 256, 256, 3)).astype(np.float32)
            (got,), (want,) = compiled.run([image.tobytes()]), truth([image])
            found = np.frombuffer(got, np.float32).reshape(want.shape)
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4 * float(np.abs(want).max()))
