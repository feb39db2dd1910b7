"""`stowplan verify -v` on ONNX models: every node beside onnxruntime, and the first that differs is the one changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")

from stowplan.build.agreement import trace
from stowplan.cli.arrays import values
from stowplan.cli.entry import main
from stowplan.flow.model import Model
from stowplan_importer_onnx import OnnxImporter
from stowplan_importer_onnx.witnesses import WITNESSES

SHAPE = (1, 3, 8, 6)
NAMES = ("first", "second", "third")


def chain(changed: str = "") -> bytes:
    """Three convolutions with an activation behind each; the weights of one may be changed."""
    random = np.random.default_rng(0)
    nodes, weights, x, channels = [], [], "x", SHAPE[1]
    for name in NAMES:
        w = random.standard_normal((4, channels, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(w + (0.5 if name == changed else 0), f"{name}_w"))
        nodes.append(helper.make_node("Conv", [x, f"{name}_w"], [f"{name}_y"], name, pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"{name}_y"], [f"{name}_z"], f"{name}_relu"))
        x, channels = f"{name}_z", 4
    nodes.append(helper.make_node("Transpose", [x], ["out"], "turned", perm=[0, 2, 3, 1]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", SHAPE), ("out", (1, 8, 6, 4)))]  # fmt: skip
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def exposed(data: bytes) -> Model:
    return OnnxImporter().exposed(Model(path=Path("chain.onnx"), data=data, digest="0" * 64))


def test_all_values_are_compared_in_the_models_own_order_of_axes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain())
    assert main(["verify", str(path), "-v", "--json", "--samples", "2"]) == 0
    operators = json.loads(capsys.readouterr().out)["operators"]
    assert operators["compared"] == 7
    assert operators["equal"] + operators["close"] == 7
    assert operators["first_differing"] is None


@pytest.mark.parametrize("name", NAMES)
def test_the_first_node_that_differs_is_the_one_that_was_changed(name: str) -> None:
    mine, theirs = exposed(chain()), exposed(chain(changed=name))
    graph = OnnxImporter().load(mine, {})
    (package, opener), = WITNESSES  # fmt: skip
    data = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32).tobytes()
    found = trace(mine, graph, package, opener(theirs), [[data]], values, complete=False)
    assert found.first_differing is not None
    assert found.first_differing[0] == f'Conv "{name}"'


def test_what_is_shown_keeps_the_models_own_outputs() -> None:
    proto = onnx.load_model_from_string(exposed(chain()).data)
    made = [output for node in proto.graph.node for output in node.output]
    assert [value.name for value in proto.graph.output] == made
    assert proto.graph.output[-1].type.tensor_type.elem_type == TensorProto.FLOAT


def test_a_value_that_only_showing_it_asks_for_may_be_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's output does not depend on `Unique`, so it compiles; with all values shown it does not."""
    nodes = [helper.make_node("Relu", ["x"], ["out"]), helper.make_node("Unique", ["x"], ["few"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in ("x", "out")]
    graph = helper.make_graph(nodes, "unread", ports[:1], ports[1:])
    path = tmp_path / "unread.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    assert main(["verify", str(path), "-v", "--samples", "1"]) == 0
    out = capsys.readouterr().out
    assert "operators left out: with all that is between them shown: unread.onnx: operator 1 (Unique" in out
