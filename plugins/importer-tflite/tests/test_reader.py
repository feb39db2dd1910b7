"""Our reader says the same as the schema's generated one, on built models and on all models at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import ModelError
from stowplan.flow.model import Model
from stowplan_importer_tflite.flatbuffer import UNFOLDING
from stowplan_importer_tflite.parse import FileModel, parse
from stowplan_importer_tflite.schema import OPERATORS, TENSOR_TYPES
from tflite_builder import ModelBuilder
from tflite_import import model_of, shared_models

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.tflite"


def compare(data: bytes, ours: FileModel) -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the package ai-edge-litert")
    theirs = schema.Model.GetRootAs(data, 0)
    assert theirs.SubgraphsLength() == len(ours.subgraphs)
    assert [s.SignatureKey().decode() for s in map(theirs.SignatureDefs, range(theirs.SignatureDefsLength()))] == [
        signature.key for signature in ours.signatures
    ]
    for index, subgraph in enumerate(ours.subgraphs):
        graph = theirs.Subgraphs(index)
        assert [graph.Inputs(i) for i in range(graph.InputsLength())] == list(subgraph.inputs)
        assert [graph.Outputs(i) for i in range(graph.OutputsLength())] == list(subgraph.outputs)
        assert graph.TensorsLength() == len(subgraph.tensors)
        for i, tensor in enumerate(subgraph.tensors):
            compare_tensor(theirs, graph.Tensors(i), tensor)
        assert graph.OperatorsLength() == len(subgraph.operators)
        for i, operator in enumerate(subgraph.operators):
            other = graph.Operators(i)
            code = theirs.OperatorCodes(other.OpcodeIndex())
            number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            assert operator.kind.split(":")[0] == OPERATORS[number]
            assert [other.Inputs(k) for k in range(other.InputsLength())] == list(operator.inputs)
            assert [other.Outputs(k) for k in range(other.OutputsLength())] == list(operator.outputs)
            assert other.BuiltinOptionsType() == operator.options_type
            assert (other.BuiltinOptions() is None) == (operator.options is None)


def compare_tensor(model: Any, theirs: Any, ours: Any) -> None:
    assert (theirs.Name() or b"").decode("utf-8", "replace") == ours.name
    assert [theirs.Shape(k) for k in range(theirs.ShapeLength())] == list(ours.shape)
    assert [theirs.ShapeSignature(k) for k in range(theirs.ShapeSignatureLength())] == list(ours.signature)
    assert TENSOR_TYPES[theirs.Type()] == ours.dtype
    assert theirs.IsVariable() == ours.variable
    data = model.Buffers(theirs.Buffer()).DataAsNumpy()
    assert (b"" if isinstance(data, int) else data.tobytes()) == bytes(ours.data or b"")
    quantization = theirs.Quantization()
    if quantization is not None:
        found = ours.quantization
        assert [quantization.Scale(k) for k in range(quantization.ScaleLength())] == list(found.scales)
        assert [quantization.ZeroPoint(k) for k in range(quantization.ZeroPointLength())] == list(found.zero_points)
        assert quantization.QuantizedDimension() == found.axis


def test_the_reader_agrees_with_the_schemas_own_on_a_built_model() -> None:
    data = DIGITS.read_bytes()
    compare(data, parse(model_of(data)))


def test_the_reader_agrees_with_the_schemas_own_on_every_model_at_hand() -> None:
    compared = 0
    for path in shared_models():
        model = Model.read(path)
        try:
            ours = parse(model)
        except ModelError:
            continue
        compare(model.data, ours)
        compared += 1
    print(f"{compared} models compared")
    assert compared > 100


def test_the_reader_agrees_with_the_tflite_package_on_tensors_and_operands() -> None:
    """Not on kinds: tflite 2.18 takes an operator's old code where the new one is below 127, though it may be unset."""
    tflite = pytest.importorskip("tflite", reason="needs the package tflite")
    data = DIGITS.read_bytes()
    theirs, ours = tflite.Model.GetRootAs(data, 0), parse(model_of(data)).subgraphs[0]
    graph = theirs.Subgraphs(0)
    for i, tensor in enumerate(ours.tensors):
        compare_tensor(theirs, graph.Tensors(i), tensor)
    assert [graph.Operators(i).InputsAsNumpy().tolist() for i in range(graph.OperatorsLength())] == [
        list(operator.inputs) for operator in ours.operators
    ]


def test_every_operator_of_the_schema_has_its_number() -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the package ai-edge-litert")
    numbers = {name: number for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    assert {name: OPERATORS.index(name) for name in OPERATORS} == numbers


def test_weights_behind_the_flatbuffer_are_read_and_checked() -> None:
    model = ModelBuilder()
    x, y = model.input("x", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    c = model.tensor("c", (1, 4), "float32", data=b"")
    model.operator("ADD", [x, c], [y])
    buffer = model.model.buffers[-1]
    buffer.data, buffer.offset, buffer.size = None, 2, 16
    place = len(model.outputs(y).build())
    buffer.offset = place
    data = model.build() + bytes(range(16))
    assert bytes(parse(model_of(data)).subgraphs[0].tensors[c].data or b"") == bytes(range(16))
    with pytest.raises(ModelError, match=f"damaged: byte {place}: 16 bytes are needed there"):
        parse(model_of(data[:-1]))


def test_a_file_that_unfolds_the_same_bytes_again_and_again_is_refused() -> None:
    model = ModelBuilder()
    big = model.buffer(bytes(1 << 20))
    x = model.input("x", (1, 4), "float32")
    model.outputs(x)
    data = bytearray(model.build())
    # Point every entry of a long list of buffers at the big one.
    model.model.buffers += [model.model.buffers[big]] * 2
    assert len(model.build()) < 5 << 20  # the builder does not share, so nothing is refused
    parse(model_of(bytes(data)))
    shared = _with_shared_buffers(entries=UNFOLDING + 2)
    with pytest.raises(ModelError, match="the same bytes are used over and over"):
        parse(model_of(shared))


def _with_shared_buffers(entries: int) -> bytes:
    """Write a model by hand whose list of buffers names one table of 1 MiB many times."""
    flatbuffers = pytest.importorskip("flatbuffers", reason="needs the package flatbuffers")
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the package ai-edge-litert")
    builder = flatbuffers.Builder(1024)
    vector = builder.CreateByteVector(bytes(1 << 20))
    schema.BufferStart(builder)
    schema.BufferAddData(builder, vector)
    buffer = schema.BufferEnd(builder)
    schema.ModelStartBuffersVector(builder, entries)
    for _ in range(entries):
        builder.PrependUOffsetTRelative(buffer)
    buffers = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddBuffers(builder, buffers)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())
