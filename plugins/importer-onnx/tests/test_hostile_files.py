"""Damaged files end in one clear error, soon; never in a traceback, a hang or a graph with missing bytes."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_models import model_of, network, small_cnn
from stowplan.build.planning import Lowering
from stowplan.errors import ModelError, StowplanError, UnsupportedError, UsageError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph
from stowplan_importer_onnx import OnnxImporter

REFUSALS = (ModelError, UnsupportedError, UsageError)
MODELS = Path(__file__).parents[4] / "shared" / "models"
SMALL = 2 << 20


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Return the file with bits flipped, bytes overwritten, a part moved, or its end cut off."""
    changed = bytearray(data)
    kind = chance.choice(["flip", "flip", "flip", "byte", "splice", "truncate"])
    if kind == "truncate":
        return bytes(changed[: chance.randrange(len(changed))])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(changed) - 8)
        if kind == "flip":
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == "byte":
            changed[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.getrandbits(8)])
        else:
            source, length = chance.randrange(len(data)), chance.randint(1, 64)
            part = data[source : source + length]
            changed[at : at + len(part)] = part
    return bytes(changed)


def check_sound(graph: Graph) -> None:
    """A graph that came through must be whole, whatever the file said."""
    for index, tensor in enumerate(graph.tensors):
        assert all(size > 0 for size in tensor.shape)
        if tensor.constant is not None:
            assert len(graph.constant_bytes(index)) == tensor.elements * SIZE_BYTES[tensor.dtype]
    written = set(graph.inputs)
    for operator in graph.operators:
        assert all(t in written for t in operator.inputs if graph.is_activation(t))
        written.update(operator.outputs)
    assert written.issuperset(graph.outputs)


def seeds() -> list[bytes]:
    """Return files to damage: made here, and small real ones where they are."""
    found = [small_cnn().SerializeToString()]
    if MODELS.is_dir():
        names = ("kws/mlonmcu_micro_kws_m_static_qdq", "kws/mlonmcu_micro_kws_m_static_qoperator_emx",
                 "wakeword/espdl_streaming_model", "gesture/pinto_keypoint_classifier")  # fmt: skip
        found += [(MODELS / f"{name}.onnx").read_bytes() for name in names]
    return found


@pytest.mark.slow
def test_two_thousand_mutations_end_in_a_graph_or_one_refusal() -> None:
    chance, files = random.Random(3), seeds()
    ends: Counter[str] = Counter()
    texts: list[str] = []
    slowest = 0.0
    for number in range(2000):
        model = model_of(mutate(files[number % len(files)], chance))
        began = time.process_time()
        try:
            OnnxImporter().describe(model)
            graph = OnnxImporter().load(model, {})
            check_sound(graph)
            Lowering(graph)
            ends["graph"] += 1
        except REFUSALS as err:
            ends[type(err).__name__] += 1
            texts.append(str(err))
        slowest = max(slowest, time.process_time() - began)
    print(f"{dict(ends)}, slowest {slowest * 1000:.0f} ms of CPU time")
    assert not [text for text in texts if "\n" in text or len(text) > 8000]
    assert slowest < 5
    assert len(ends) == 3


def tensor_of(shape: list[int], location: str = "", **facts: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape)
    if location:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **facts}.items():
            tensor.external_data.add(key=key, value=value)
    return tensor


def with_weights(tensor: onnx.TensorProto) -> onnx.ModelProto:
    model = network([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, ["y"], {})
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize(
    ("shape", "said"), [([1 << 40, 1 << 40], "of shape"), ([4, 4], "does not fill|says otherwise|reshape")]
)
def test_weights_without_their_bytes_are_refused(shape: list[int], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        OnnxImporter().load(model_of(with_weights(tensor_of(shape))), {})


TERABYTE = np.array([1 << 20, 1 << 20], np.int64)


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (helper.make_node("ConstantOfShape", ["n"], ["y"]), {"n": TERABYTE}),
        (helper.make_node("Expand", ["x", "n"], ["y"]), {"n": TERABYTE}),
        (helper.make_node("Tile", ["x", "n"], ["y"]), {"n": TERABYTE}),
        (helper.make_node("Pad", ["x", "p"], ["y"]), {"p": np.array([0, 0, 1 << 40, 1 << 40], np.int64)}),
        (helper.make_node("Resize", ["x", "", "", "n"], ["y"]), {"n": TERABYTE}),
        (helper.make_node("OneHot", ["i", "d", "v"], ["y"]),
         {"i": np.array([0]), "d": np.array(1 << 50), "v": np.array([0.0, 1.0], np.float32)}),
        (helper.make_node("Range", ["a", "b", "c"], ["y"]),
         {"a": np.array(0), "b": np.array(1 << 60), "c": np.array(1)}),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)  # fmt: skip
def test_a_terabyte_that_a_file_declares_is_refused_and_not_allocated(node: onnx.NodeProto, constants: dict) -> None:
    model = network([node], {"x": [1, 4]}, ["y"], constants)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StowplanError) as refused:
        OnnxImporter().load(model_of(model), {})
    assert "\n" not in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_a_loop_of_a_billion_turns_is_refused() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Relu", ["v"], ["w"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", 9, []),
         helper.make_tensor_value_info("v", 1, None)],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("w", 1, None)],
    )  # fmt: skip
    node = helper.make_node("Loop", ["n", "go", "x"], ["y"], body=body)
    model = network([node], {"x": [1, 4]}, ["y"], {"n": np.array(10**9), "go": np.array(True)})
    with pytest.raises(UnsupportedError, match="more than 1024 turns"):
        OnnxImporter().load(model_of(model), {})


def test_millions_of_empty_parts_are_counted_before_they_are_built() -> None:
    with pytest.raises(ModelError, match="more than 2000000 parts"):
        OnnxImporter().load(model_of(b"\x3a\x80\x89\x7a" + b"\x0a\x00" * 1_000_000 + b"\x08\x08" * 1_100_000), {})


@pytest.mark.parametrize("data", [b"\x08", b"\xff" * 40, b"no model at all, but text", b"\x3a\x05\x0a\x09abc"])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"damaged|holds no graph"):
        OnnxImporter().load(model_of(data), {})


@pytest.mark.parametrize(
    ("location", "said"),
    [("../w.bin", "own folder"), ("/etc/passwd", "own folder"), ("link.bin", "is a link to a place outside"),
     ("none.bin", "no such file"), ("short.bin", "ends before"), ("folder", "no such file")],
)  # fmt: skip
def test_external_data_stays_in_the_models_folder(location: str, said: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(bytes(64))
    (home / "short.bin").write_bytes(bytes(10))
    (home / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=said):
        OnnxImporter().load(model_of(with_weights(tensor_of([4, 4], location)), home), {})


def test_external_data_is_read_and_watched(tmp_path: Path) -> None:
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    (tmp_path / "w.bin").write_bytes(bytes(8) + weights.tobytes())
    model = model_of(with_weights(tensor_of([4, 4], "w.bin", offset="8", length="64")), tmp_path)
    graph = OnnxImporter().load(model, {})
    assert weights.T.tobytes() in graph.constants.values()
    assert OnnxImporter().external_files(model) == [(tmp_path / "w.bin").resolve()]
    inside = model_of(with_weights(numpy_helper.from_array(weights, "w")), tmp_path)
    assert OnnxImporter().load(inside, {}).digest == graph.digest


def test_a_damaged_file_is_one_line_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small_cnn().SerializeToString()[:300])
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", "compile", str(path), "-m", "64K"], capture_output=True, text=True
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr and "model.onnx" in done.stderr
