"""Input shapes, outputs that no operator makes, dead operators, names and signatures."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.errors import UnsupportedError, UsageError
from stowplan_importer_tflite import TfliteImporter
from tflite_builder import ModelBuilder
from tflite_import import import_bytes, model_of


def pooled(fixed_reshape: bool = False) -> bytes:
    """x[?,8,8,2] -> 2x2 max pool -> y[?,4,4,2], and on request -> reshape to 1x32."""
    model = ModelBuilder()
    x = model.input("x:0", (1, 8, 8, 2), "float32", shape_signature=(-1, 8, 8, 2))
    y = model.tensor("y", (1, 4, 4, 2), "float32", shape_signature=(-1, 4, 4, 2))
    model.operator("MAX_POOL_2D", [x], [y], padding="VALID", filter_height=2, filter_width=2, stride_h=2, stride_w=2)
    if fixed_reshape:
        z = model.tensor("z", (1, 32), "float32")
        model.operator("RESHAPE", [y, model.constant("shape", np.array([1, 32], np.int32))], [z])
        y = z
    return model.outputs(y).signature("serving_default", {"image": x}, {"result": y}).build()


def test_a_free_dimension_is_bound_to_one_and_noted() -> None:
    graph = import_bytes(pooled())
    assert graph.tensors[graph.inputs[0]].shape == (1, 8, 8, 2)
    assert graph.notes == ('input "x:0": free dimension 0 bound to 1',)


@pytest.mark.parametrize("name", ["x:0", "image"])
def test_an_input_shape_goes_by_the_tensor_or_the_argument_and_reaches_every_operator(name: str) -> None:
    graph = import_bytes(pooled(), **{name: (3, 6, 8, 2)})
    assert graph.tensors[graph.outputs[0]].shape == (3, 3, 4, 2)
    assert graph.notes == ('input "x:0": ?x8x8x2 set to 3x6x8x2',)


def test_a_fixed_reshape_refuses_another_batch() -> None:
    assert import_bytes(pooled(fixed_reshape=True)).tensors[-1].shape == (1, 32)
    with pytest.raises(UnsupportedError, match="do not fill 1x32; a shape fixed in the model allows no other batch"):
        import_bytes(pooled(fixed_reshape=True), image=(2, 8, 8, 2))


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("y", (1, 8, 8, 2), 'model.tflite: no input is called "y"; there is "x:0"'),
        ("x:0", (8, 8, 2), 'model.tflite: input "x:0": 8x8x2 has 3 dimensions, the model\'s ?x8x8x2 4'),
        ("x:0", (0, 8, 8, 2), 'model.tflite: input "x:0": 0x8x8x2 has a dimension below 1 or far too large'),
    ],
)
def test_a_wrong_input_shape_is_a_usage_error(name: str, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        import_bytes(pooled(), **{name: shape})
    assert str(caught.value) == text


def test_a_refusal_says_how_to_set_free_dimensions_that_became_one() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 1, 1, 2), "float32", shape_signature=(-1, -1, -1, 2))
    y = model.tensor("y", (1, 1, 1, 2), "float32")
    model.operator("MAX_POOL_2D", [x], [y], padding="VALID", filter_height=2, filter_width=2, stride_h=2, stride_w=2)
    data = model.outputs(y).build()
    advice = "Free dimensions became 1; give their sizes with --input-shape x:[?]x[?]x[?]x2[.] "
    with pytest.raises(UnsupportedError, match=advice):
        import_bytes(data)
    assert import_bytes(data, x=(1, 8, 6, 2)).operators
    with pytest.raises(UnsupportedError) as caught:
        import_bytes(data, x=(1, 1, 6, 2))
    assert "became 1" not in str(caught.value)


def test_a_huge_input_shape_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="takes 2 GiB or more"):
        import_bytes(pooled(), image=(2**31 - 1, 2**31 - 1, 2**31 - 1, 2))


def test_outputs_that_are_constants_or_outputs_already_become_copies() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    c = model.constant("c", np.arange(4, dtype=np.float32))
    y = model.tensor("y", (1, 4), "float32")
    model.operator("RELU", [x], [y])
    model.signature("s", {"x": x}, {"same": x, "made": y})
    graph = import_bytes(model.outputs(x, c, y, y).build())
    assert [operator.kind for operator in graph.operators] == ["relu", "copy", "copy"]
    assert len(set(graph.outputs)) == 4
    assert graph.signatures[0].outputs == (("same", graph.outputs[0]), ("made", graph.outputs[2]))
    assert set(graph.outputs) & set(graph.inputs) == {graph.outputs[0]}
    assert all(graph.is_activation(tensor) for tensor in graph.outputs)


def test_operators_whose_results_nobody_uses_are_dropped_with_their_tensors() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    dead, y = model.tensor("dead", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    model.operator("RELU", [x], [dead])
    model.operator("RELU6", [x], [y])
    graph = import_bytes(model.outputs(y).build())
    assert [tensor.name for tensor in graph.tensors] == ["x", "y"]


def test_tensors_without_a_name_or_with_a_used_one_get_names_of_their_own() -> None:
    model = ModelBuilder()
    x = model.input("", (1, 4), "float32")
    a, y = model.tensor("a", (1, 4), "float32"), model.tensor("a", (1, 4), "float32")
    model.operator("RELU", [x], [a])
    model.operator("RELU", [a], [y])
    names = [tensor.name for tensor in import_bytes(model.outputs(y).build()).tensors]
    assert names == ["tensor_0", "a", "a_2"]


def test_constants_that_share_a_buffer_are_stored_once() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    a, b = (model.constant(name, np.ones((1, 4), np.float32)) for name in "ab")
    model.current.tensors[b].buffer = model.current.tensors[a].buffer
    y, z = model.tensor("y", (1, 4), "float32"), model.tensor("z", (1, 4), "float32")
    model.operator("ADD", [x, a], [y])
    model.operator("ADD", [y, b], [z])
    assert len(import_bytes(model.outputs(z).build()).constants) == 1


def test_a_signature_that_fits_no_more_is_left_out_with_a_note() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    a, y = model.tensor("a", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    model.operator("RELU", [x], [a])
    model.operator("RELU", [a], [y])
    graph = import_bytes(model.outputs(y).signature("old", {"a": a}, {"y": y}).build())
    assert graph.signatures == ()
    assert graph.notes == ('signature "old" left out: it names tensors that are no inputs or outputs',)


def test_describe_counts_and_gives_reasons_where_load_refuses() -> None:
    model = ModelBuilder()
    x = model.input("x", (1, 4, 4, 1), "int8", scale=0.5, shape_signature=(-1, 4, 4, 1))
    w = model.constant("w", np.ones((2, 3, 3, 1), np.int8), scale=[0.1, 0.2])
    y = model.tensor("y", (1, 4, 4, 2), "int8", scale=0.5)
    z = model.tensor("z", (1, 4, 4, 2), "int8", scale=0.5)
    model.operator("CONV_2D", [x, w], [y])
    model.operator("CUMSUM", [y], [z])
    found = TfliteImporter().describe(model_of(model.outputs(z).build()))
    assert found.inputs == (("x", (-1, 4, 4, 1), "int8"),)
    assert [(fact.kind, fact.macs, fact.weight_bytes, fact.reason) for fact in found.operators] == [
        ("CONV_2D", 4 * 4 * 2 * 9, 18, ""),
        ("CUMSUM", 0, 0, "not a supported operator"),
    ]
    assert found.weight_bytes == 18
    assert dict(found.quantization) == {"int8 per tensor": 3, "int8 per channel": 1}
