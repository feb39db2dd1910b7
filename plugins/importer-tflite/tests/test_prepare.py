"""Models that are brought into shape before they convert: uint8, 4 bits, half floats, composites, shape arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import random_inputs, run_litert_reference, run_tflm
from scattered import run_whole
from stowplan.errors import ModelError, UnsupportedError
from stowplan_importer_tflite import TfliteImporter
from tflite_builder import ModelBuilder
from tflite_import import import_bytes, model_of


def legacy(kind: str, seed: int) -> bytes:
    """One uint8 operator with weights whose zero point is anywhere."""
    rng = np.random.default_rng(seed)
    model = ModelBuilder()
    channels, outputs, k = (int(n) for n in rng.integers(1, 5, 3))
    scale, w_scale = 0.02, 0.01
    x = model.input("x", (1, 6, 5, channels), "uint8", scale=scale, zero_point=int(rng.integers(0, 256)))
    shape = {"CONV_2D": (outputs, k, k, channels), "DEPTHWISE_CONV_2D": (1, k, k, channels)}.get(
        kind, (outputs, channels)
    )
    weights = rng.integers(0, 256, shape).astype(np.uint8)
    w = model.constant("w", weights, scale=w_scale, zero_point=int(rng.integers(1, 256)))
    out = channels if kind == "DEPTHWISE_CONV_2D" else outputs
    bias = rng.integers(-2000, 2000, out).astype(np.int32)
    b = model.constant("b", bias, scale=float(np.float32(scale) * np.float32(w_scale)))
    result = (30, out) if kind == "FULLY_CONNECTED" else (1, 6, 5, out)
    y = model.tensor("y", result, "uint8", scale=0.1, zero_point=int(rng.integers(0, 256)))
    options = {} if kind == "FULLY_CONNECTED" else {"padding": "SAME"}
    model.operator(kind, [x, w, b], [y], fused_activation_function="RELU", **options)
    return model.outputs(y).build()


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_uint8_filters_equal_litert_and_the_border_stays_uint8(kind: str) -> None:
    for seed in range(8):
        model = legacy(kind, seed)
        graph = import_bytes(model)
        assert {graph.tensors[t].dtype for t in (*graph.inputs, *graph.outputs)} == {"uint8"}
        assert {tensor.dtype for tensor in graph.tensors} == {"uint8", "int8", "int32"}
        inputs = random_inputs(model, seed)
        (want,) = run_litert_reference(model, inputs)
        (got,) = run_whole(model, [inputs[0].tobytes()])
        off = np.abs(np.frombuffer(got, np.uint8).reshape(want.shape).astype(int) - want.astype(int))
        # LiteRT's reference rounds fully connected sums in double precision: one step now and then.
        assert off.max() <= (1 if kind == "FULLY_CONNECTED" else 0), seed


def test_signatures_follow_the_border_of_a_uint8_model() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "uint8", scale=0.1, zero_point=3)
    y = model.tensor("y", (1, 4), "uint8", scale=0.1, zero_point=3)
    model.operator("RELU6", [x], [y])
    graph = import_bytes(model.outputs(y).signature("serve", {"in": x}, {"out": y}).build())
    (signature,) = graph.signatures
    assert signature.inputs == (("in", graph.inputs[0]),)
    assert signature.outputs == (("out", graph.outputs[0]),)
    assert [graph.tensors[t].name for t in (graph.inputs[0], graph.outputs[0])] == ["x", "y"]


def half_weights() -> bytes:
    rng = np.random.default_rng(0)
    model = ModelBuilder()
    x = model.input("x", (1, 6), "float32")
    half = model.constant("half", rng.normal(0, 1, (3, 6)).astype(np.float16))
    w, y = model.tensor("w", (3, 6), "float32"), model.tensor("y", (1, 3), "float32")
    model.operator("DEQUANTIZE", [half], [w])
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    return model.outputs(y).build()


def test_half_floats_are_widened_at_compile_time() -> None:
    model = half_weights()
    assert [operator.kind for operator in import_bytes(model).operators] == ["fully_connected"]
    inputs = random_inputs(model, 0)
    (got,) = run_whole(model, [inputs[0].tobytes()])
    np.testing.assert_allclose(
        np.frombuffer(got, np.float32), run_litert_reference(model, inputs)[0].ravel(), rtol=1e-5
    )


def test_weights_dequantized_per_channel_are_right_where_tflite_micro_is_wrong() -> None:
    rng = np.random.default_rng(1)
    model = ModelBuilder()
    x = model.input("x", (1, 6), "float32")
    values = rng.integers(-127, 128, (3, 6)).astype(np.int8)
    scales = [0.01, 0.1, 1.0]
    stored = model.constant("stored", values, scale=scales, axis=0)
    w, y = model.tensor("w", (3, 6), "float32"), model.tensor("y", (1, 3), "float32")
    model.operator("DEQUANTIZE", [stored], [w])
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    data = model.outputs(y).build()
    inputs = random_inputs(data, 0)
    (got,) = run_whole(data, [inputs[0].tobytes()])
    exact = (values * np.float32(scales)[:, None]).astype(np.float32) @ inputs[0].ravel()
    np.testing.assert_allclose(np.frombuffer(got, np.float32), exact, rtol=1e-5)
    assert np.abs(run_tflm(data, inputs)[0].ravel() - exact).max() > 1


def test_hybrid_weights_are_multiplied_as_stored() -> None:
    rng = np.random.default_rng(2)
    model = ModelBuilder()
    x = model.input("x", (1, 5, 4, 3), "float32")
    values = rng.integers(-127, 128, (2, 3, 3, 3)).astype(np.int8)
    w = model.constant("w", values, scale=[0.01, 0.02], axis=0)
    y = model.tensor("y", (1, 5, 4, 2), "float32")
    model.operator("CONV_2D", [x, w, model.constant("b", np.zeros(2, np.float32))], [y], padding="SAME")
    hybrid = model.outputs(y).build()
    plain = ModelBuilder()
    x = plain.input("x", (1, 5, 4, 3), "float32")
    wide = values * np.float32([0.01, 0.02])[:, None, None, None]
    inputs = [x, plain.constant("w", wide.astype(np.float32)), plain.constant("b", np.zeros(2, np.float32))]
    y = plain.tensor("y", (1, 5, 4, 2), "float32")
    plain.operator("CONV_2D", inputs, [y], padding="SAME")
    data = [array.tobytes() for array in random_inputs(hybrid, 0)]
    assert run_whole(hybrid, data) == run_whole(plain.outputs(y).build(), data)


def test_weights_of_four_bits_are_two_to_a_byte_lower_half_first() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 3), "float32")
    w = model.tensor("w", (1, 3), "int4", scale=0.5, data=bytes([0xF1, 0x08]))  # 1, -1, -8
    y = model.tensor("y", (1, 1), "float32")
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    data = model.outputs(y).build()
    (got,) = run_whole(data, [np.array([[100, 10, 1]], np.float32).tobytes()])
    assert np.frombuffer(got, np.float32).tolist() == [0.5 * (100 - 10 - 8)]


def test_a_shape_that_is_computed_from_the_batch_folds_away() -> None:
    """SHAPE -> STRIDED_SLICE -> PACK with a constant -> RESHAPE, as Keras writes it."""
    model = ModelBuilder()
    x = model.input("x", (1, 4, 6), "float32", shape_signature=(-1, 4, 6))
    shape, batch, new = (model.tensor(name, s, "int32") for name, s in (("s", (3,)), ("b", ()), ("n", (2,))))
    ends = [model.constant(name, np.array([v], np.int32)) for name, v in (("from", 0), ("to", 1), ("by", 1))]
    y = model.tensor("y", (1, 24), "float32", shape_signature=(-1, 24))
    model.operator("SHAPE", [x], [shape], options="ShapeOptions", out_type=2)
    model.operator("STRIDED_SLICE", [shape, *ends], [batch], shrink_axis_mask=1)
    model.operator("PACK", [batch, model.constant("rest", np.array(24, np.int32))], [new], values_count=2)
    model.operator("RESHAPE", [x, new], [y])
    data = model.outputs(y).build()
    for asked in (1, 5):
        graph = import_bytes(data, x=(asked, 4, 6))
        assert [operator.kind for operator in graph.operators] == ["reshape"]
        assert graph.tensors[graph.outputs[0]].shape == (asked, 24)


def test_a_composite_is_replaced_by_what_it_stands_for() -> None:
    model = ModelBuilder()
    x, y = model.input("x", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    model.operator("CALL", [x], [y], options="CallOptions", subgraph=1)
    model.outputs(y)
    model.subgraph("inner")
    a = model.input("a", (1, 4), "float32")
    b, c = model.tensor("b", (1, 4), "float32"), model.tensor("c", (1, 4), "float32")
    model.operator("ABS", [a], [b])
    model.operator("NEG", [b], [c])
    model.outputs(c)
    graph = import_bytes(model.build())
    assert [operator.kind for operator in graph.operators] == ["abs", "neg"]


def test_a_composite_that_calls_itself_is_refused() -> None:
    model = ModelBuilder()
    x, y = model.input("x", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    model.operator("CALL", [x], [y], options="CallOptions", subgraph=1)
    model.outputs(y)
    model.subgraph("inner")
    a, b = model.input("a", (1, 4), "float32"), model.tensor("b", (1, 4), "float32")
    model.operator("CALL", [a], [b], options="CallOptions", subgraph=1)
    model.outputs(b)
    with pytest.raises(UnsupportedError, match=r"operator 0 \(CALL .*not a supported operator"):
        import_bytes(model.build())


def test_weights_that_the_model_computes_are_multiplied_as_a_matrix() -> None:
    model = ModelBuilder()
    x, w = model.input("x", (2, 3, 4), "float32"), model.input("w", (5, 4), "float32")
    b = model.constant("b", np.arange(5, dtype=np.float32))
    y = model.tensor("y", (2, 3, 5), "float32")
    model.operator("FULLY_CONNECTED", [x, w, b], [y], keep_num_dims=True, fused_activation_function="RELU")
    data = model.outputs(y).build()
    inputs = random_inputs(data, 0)
    (got,) = run_whole(data, [array.tobytes() for array in inputs])
    want = np.maximum(inputs[0] @ inputs[1].T + np.arange(5), 0)
    np.testing.assert_allclose(np.frombuffer(got, np.float32).reshape(want.shape), want, rtol=1e-5, atol=1e-5)


def test_rows_of_a_table_are_looked_up_at_run_time() -> None:
    model = ModelBuilder()
    i = model.input("i", (3,), "int32")
    table = np.random.default_rng(0).normal(0, 1, (6, 4)).astype(np.float32)
    y = model.tensor("y", (3, 4), "float32")
    model.operator("EMBEDDING_LOOKUP", [i, model.constant("table", table)], [y])
    (got,) = run_whole(model.outputs(y).build(), [np.array([5, 0, 3], np.int32).tobytes()])
    assert (np.frombuffer(got, np.float32).reshape(3, 4) == table[[5, 0, 3]]).all()


def sparse_weights(damage: bool = False) -> bytes:
    """A 2x4 matrix in which a row lists the columns that are not 0: {1: 3, 3: -2} and {0: 7}."""
    from ai_edge_litert import schema_py_generated as schema

    def indices(values: list[int]) -> object:
        vector = schema.Uint8VectorT()
        vector.values = values
        return vector

    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    stored = model.tensor("stored", (2, 4), "float32", data=np.array([3, -2, 7], np.float32).tobytes())
    rows, columns = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    rows.format, rows.denseSize = schema.DimensionType.DENSE, 2
    columns.format = schema.DimensionType.SPARSE_CSR
    columns.arraySegmentsType = columns.arrayIndicesType = schema.SparseIndexVector.Uint8Vector
    columns.arraySegments, columns.arrayIndices = indices([0, 2, 3]), indices([1, 9 if damage else 3, 0])
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.blockMap, sparsity.dimMetadata = [0, 1], [], [rows, columns]
    model.current.tensors[stored].sparsity = sparsity
    w, y = model.tensor("w", (2, 4), "float32"), model.tensor("y", (1, 2), "float32")
    model.operator("DENSIFY", [stored], [w], options="DensifyOptions")
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    return model.outputs(y).build()


def test_sparse_weights_are_filled_up() -> None:
    model = sparse_weights()
    x = np.array([[1, 10, 100, 1000]], np.float32)
    (got,) = run_whole(model, [x.tobytes()])
    assert np.frombuffer(got, np.float32).tolist() == [30 - 2000, 7]
    assert np.frombuffer(got, np.float32).tolist() == run_litert_reference(model, [x])[0].ravel().tolist()


def test_sparse_weights_that_lie_outside_their_tensor_are_damage() -> None:
    with pytest.raises(ModelError, match="damaged: a sparse value lies outside its tensor"):
        import_bytes(sparse_weights(damage=True))


def test_messages_count_operators_as_the_file_does_whatever_stands_at_the_border() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "uint8", scale=0.1, zero_point=3)
    y = model.tensor("y", (1, 4), "uint8", scale=0.1, zero_point=3)
    model.operator("CUMSUM", [x], [y])
    data = model.outputs(y).build()
    with pytest.raises(UnsupportedError, match='operator 0 \\(CUMSUM "y_int8"\\): not a supported operator'):
        import_bytes(data)
    (fact,) = TfliteImporter().describe(model_of(data)).operators
    assert (fact.index, fact.kind) == (0, "CUMSUM")


def test_the_largest_activations_are_named_with_their_bytes() -> None:
    found = TfliteImporter().describe(model_of(half_weights()))
    assert found.largest == (("x", (1, 6), "float32", 24), ("y", (1, 3), "float32", 12))
