"""Whole ONNX files as users have them: a stock export with a free batch dimension, and real networks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_models import model_of, network, random_inputs, run_onnxruntime, run_plan, small_cnn
from onnx_stepwise import pieces
from stowplan.errors import ModelError, UnsupportedError, UsageError
from stowplan_importer_onnx import OnnxImporter

MODELS = Path(__file__).parents[4] / "shared" / "models"
KWS = MODELS / "kws"


def stowplan(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "stowplan", *arguments], capture_output=True, text=True)


def test_an_export_with_a_free_batch_works_with_one_image_and_says_so(tmp_path: Path) -> None:
    model = small_cnn("batch")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    graph = OnnxImporter().load(model_of(model), {})
    assert graph.notes == ('input "image": free dimension 0 (batch) bound to 1',)
    inputs = random_inputs(model)
    np.testing.assert_allclose(run_plan(path, inputs, prove=True)[0], run_onnxruntime(model, inputs)[0], atol=1e-4)


def test_an_export_with_a_free_batch_works_with_the_batch_that_is_asked_for(tmp_path: Path) -> None:
    model = small_cnn("batch")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    inputs = random_inputs(model, sizes={"batch": 3})
    found = run_plan(path, inputs, prove=True, input_shapes={"image": (3, 3, 8, 8)})[0]
    assert found.shape == (3, 5)
    np.testing.assert_allclose(found, run_onnxruntime(model, inputs)[0], atol=1e-4)


def test_a_network_of_convolutions_keeps_two_transpositions_at_its_ends() -> None:
    """One for the image, one for what is flattened in the model's order; its shape arithmetic is gone."""
    kinds = [operator.kind for operator in OnnxImporter().load(model_of(small_cnn()), {}).operators]
    assert kinds == ["rearrange", "conv_2d", "depthwise_conv_2d", "rearrange", "reshape", "fully_connected"]


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"picture": (1, 3, 8, 8)}, 'no input is called "picture"; there is "image"'),
        ({"image": (3, 8, 8)}, "has 3 dimensions, the model's .* 4"),
        ({"image": (0, 3, 8, 8)}, "a dimension below 1 or far too large"),
    ],
)
def test_a_shape_that_does_not_fit_an_input_is_a_usage_error(shapes: dict[str, tuple[int, ...]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        OnnxImporter().load(model_of(small_cnn()), shapes)


def test_everything_unsupported_is_named_at_once() -> None:
    nodes = [helper.make_node("Det", ["x"], ["a"]), helper.make_node("Unique", ["x"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["y"])]  # fmt: skip
    with pytest.raises(UnsupportedError) as refused:
        OnnxImporter().load(model_of(network(nodes, {"x": [1, 2, 2]}, ["y"], {})), {})
    assert refused.value.reasons == (
        'operator 0 (Det "a"): not a supported operator',
        'operator 1 (Unique "b"): not a supported operator',
    )


def test_what_no_output_needs_may_be_unsupported() -> None:
    nodes = [helper.make_node("Unique", ["x"], ["b"]), helper.make_node("Relu", ["x"], ["y"])]
    graph = OnnxImporter().load(model_of(network(nodes, {"x": [1, 2, 2]}, ["y"], {})), {})
    assert [operator.kind for operator in graph.operators] == ["relu"]


def test_branches_and_loops_with_constant_conditions_are_put_in_place(tmp_path: Path) -> None:
    def value(name: str, kind: int = TensorProto.FLOAT):  # type: ignore[no-untyped-def]
        return helper.make_tensor_value_info(name, kind, None)

    then = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("Unique", ["x"], ["e"])], "else", [], [value("e")])
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "x"], ["w"]), helper.make_node("Identity", ["c"], ["d"])], "body",
        [value("i", TensorProto.INT64), value("c", TensorProto.BOOL), value("v")],
        [value("d", TensorProto.BOOL), value("w"), value("s")],
    )  # fmt: skip
    body.node.append(helper.make_node("Neg", ["w"], ["s"]))
    nodes = [
        helper.make_node("If", ["yes"], ["a"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["n", "yes", "a"], ["y", "z"], body=body),
    ]
    constants = {"yes": np.array(True), "n": np.array(3)}
    model = network(nodes, {"x": [2, 3]}, ["y", "z"], constants)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    inputs = random_inputs(model)
    x = inputs["x"]
    found = run_plan(tmp_path / "model.onnx", inputs, prove=True)
    steps = [np.maximum(x, 0) + turn * x for turn in (1, 2, 3)]
    np.testing.assert_allclose(found[0], steps[-1], atol=1e-6)
    np.testing.assert_allclose(found[1], -np.stack(steps), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [("twice", "is made twice"), ("nothing", "is never made"), ("late", "which nothing makes before")],
)
def test_files_whose_names_do_not_add_up_are_refused(change: str, said: str) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    if change == "twice":
        nodes.append(helper.make_node("Neg", ["x"], ["y"]))
    if change == "late":
        nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])]
    model = network(nodes, {"x": [1, 2]}, ["z" if change == "nothing" else "y"], {})
    with pytest.raises((ModelError, UnsupportedError), match=said):
        OnnxImporter().load(model_of(model), {})


def test_inspect_shows_operators_weights_and_what_does_not_convert(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small_cnn("batch").SerializeToString())
    shown = json.loads(stowplan("inspect", str(path), "--json").stdout)
    assert shown["format"] == "onnx" and shown["version"] == "opset 17" and shown["converts"]
    by_kind = {fact["kind"]: fact for fact in shown["operators"]}
    assert by_kind["Gemm"]["macs"] == 5 * 128 and by_kind["Gemm"]["weight_bytes"] == 4 * (5 * 128 + 5)
    assert shown["inputs"][0] == ["image", [-1, 3, 8, 8], "float32"]
    path.write_bytes(network([helper.make_node("Det", ["x"], ["y"])], {"x": [1, 2, 2]}, ["y"], {}).SerializeToString())
    told = stowplan("inspect", str(path))
    assert told.returncode == 0 and "operator 0 (Det): not a supported operator" in told.stdout


def test_verify_compares_with_onnxruntime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    path = tmp_path / "model.onnx"
    path.write_bytes(small_cnn("batch").SerializeToString())
    for shape in ((), ("--input-shape", "image:4x3x8x8")):
        done = stowplan("verify", str(path), "--json", *shape)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)["outputs"][0]
        assert found["oracle"] == "onnxruntime" and found["verdict"] in ("equal", "close")
        assert found["elements"] == 5 * 5 * (4 if shape else 1)


def test_a_refusal_says_how_to_set_free_dimensions_that_became_one() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    model = network([pool], {"x": ["batch", 3, "height", "width"]}, ["y"], {})
    advice = "Free dimensions became 1; give their sizes with --input-shape x:batchx3xheightxwidth[.] "
    with pytest.raises(UnsupportedError, match=advice):
        OnnxImporter().load(model_of(model), {})
    assert OnnxImporter().load(model_of(model), {"x": (1, 3, 8, 6)}).operators
    with pytest.raises(UnsupportedError) as refused:
        OnnxImporter().load(model_of(model), {"x": (1, 3, 1, 6)})
    assert "became 1" not in str(refused.value)


needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="needs the models in ../shared/models")


@needs_models
@pytest.mark.parametrize(("name", "tolerance"), [("fp32", 1e-4), ("qdq", 1.01 / 256), ("qoperator_emx", 1.01 / 256)])
def test_one_network_in_three_onnx_files_gives_each_files_own_answers(name: str, tolerance: float) -> None:
    """Of the quantized ones within one step of the output, which int8 counts as 1/256."""
    path = KWS / f"mlonmcu_micro_kws_m_static_{name}.onnx"
    entry = onnx.load(str(path)).graph.input[0].name
    chance = np.random.default_rng(1)
    for _ in range(5):
        inputs = {entry: chance.uniform(-1, 26, (1, 1960)).astype(np.float32)}
        expected = run_onnxruntime(path.read_bytes(), inputs)[0]
        np.testing.assert_allclose(run_plan(path, inputs)[0], expected, rtol=0, atol=tolerance)


@needs_models
def test_quantized_operators_are_at_most_one_step_off() -> None:
    model = onnx.load(str(MODELS / "derived" / "st_yamnet_qdq_s8s8pc.onnx"))
    found = pieces(model, random_inputs(model, 4))
    assert len(found) > 10
    assert max(piece.steps for piece in found) <= 1
    assert sum(piece.differing for piece in found) < 0.01 * sum(piece.elements for piece in found)
