"""`stowplan verify` compares a plan with other runtimes, and says which agree."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from stowplan.build.agreement import trace
from stowplan.build.prove import random_bytes
from stowplan.cli.arrays import npy_header, values
from stowplan.cli.entry import main
from stowplan.flow.model import Model
from stowplan.plugins.kinds import Port
from stowplan_importer_tflite import TfliteImporter
from stowplan_importer_tflite.witnesses import WITNESSES
from tflite_builder import ModelBuilder

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.tflite"


def test_an_int8_model_equals_the_runtimes_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tflite_micro", reason="needs the package tflite-micro")
    assert main(["verify", str(DIGITS), "--samples", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 3
    by_runtime = {entry["oracle"]: entry for entry in found["outputs"]}
    assert by_runtime["tflite-micro"]["verdict"] == "equal"
    assert by_runtime["tflite-micro"]["elements"] == 30
    assert main(["verify", str(DIGITS)]) == 0
    assert "5 random inputs, one after another" in capsys.readouterr().out


def test_a_model_on_which_no_runtime_agrees_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Float activations with int8 weights: LiteRT rounds the activations to int8 first, TFLite Micro refuses."""
    import numpy as np

    model = ModelBuilder()
    x = model.input("x", (1, 64), "float32")
    weights = np.random.default_rng(0).integers(-127, 128, (8, 64)).astype(np.int8)
    w = model.constant("w", weights, scale=0.01)
    y = model.tensor("y", (1, 8), "float32")
    model.operator("FULLY_CONNECTED", [x, w, -1], [y])
    path = tmp_path / "hybrid.tflite"
    path.write_bytes(model.outputs(y).build())
    assert main(["verify", str(path)]) == 1
    out = capsys.readouterr().out
    assert "ai-edge-litert" in out
    assert "differs" in out


@pytest.mark.parametrize("samples", ["0", "1001"])
def test_a_number_of_samples_out_of_range_is_a_usage_error(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(DIGITS), "--samples", samples]) == 2
    assert f"--samples {samples}: give 1 to 1000" in capsys.readouterr().err


def test_without_any_runtime_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    for package in ("tflite_micro", "tflite_micro.python.tflite_micro", "ai_edge_litert.interpreter", "ai_edge_litert"):
        monkeypatch.setitem(sys.modules, package, None)
    assert main(["verify", str(DIGITS)]) == 1
    err = capsys.readouterr().err
    assert "nothing to compare with: tflite-micro is not installed (pip install tflite-micro)" in err


def _image(samples: int) -> tuple[Port, bytes]:
    graph = TfliteImporter().load(Model.read(DIGITS), {})
    tensor = graph.tensors[graph.inputs[0]]
    one = Port(name=tensor.name, shape=tensor.shape, dtype="int8", size_bytes=tensor.size_bytes)
    generator = random.Random(4)
    return one, b"".join(random_bytes(one, generator) for _ in range(samples))


def test_inputs_of_the_users_own_are_run_as_many_as_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port, data = _image(4)
    raw, several = tmp_path / "x.bin", tmp_path / "x.npy"
    raw.write_bytes(data)
    several.write_bytes(npy_header(Port(name="", shape=(4, *port.shape[1:]), dtype="int8", size_bytes=0)) + data)
    for arguments, count in (([str(raw)], 4), ([f"{port.name}={several}"], 4), ([str(raw), "--samples", "3"], 3)):
        assert main(["verify", str(DIGITS), "--json", "--inputs", *arguments]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["samples"] == count
        assert {entry["elements"] for entry in found["outputs"]} == {10 * count}
    assert main(["verify", str(DIGITS), "--inputs", str(raw)]) == 0
    assert "4 samples, one after another" in capsys.readouterr().out


def test_inputs_that_do_not_fit_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port, data = _image(2)
    raw = tmp_path / "x.bin"
    raw.write_bytes(data)
    short = tmp_path / "short.bin"
    short.write_bytes(data[:-1])
    wrong = tmp_path / "wrong.npy"
    wrong.write_bytes(npy_header(Port(name="", shape=(2, 7), dtype="int8", size_bytes=0)) + bytes(14))
    cases = (
        ([str(raw), "--samples", "3"], 2, "--samples 3: the files of --inputs hold 2"),
        ([str(short)], 1, f"{len(data) - 1} bytes are no whole samples of {port.size_bytes} bytes"),
        ([str(wrong)], 1, "wrong.npy: holds 2x7, input"),
        ([f"nobody={raw}"], 2, "--inputs nobody="),
        ([str(tmp_path / "x.txt")], 2, "write .npy or .bin at the end"),
        ([str(tmp_path / "none.bin")], 1, "no such file"),
    )
    for arguments, code, text in cases:
        assert main(["verify", str(DIGITS), "--inputs", *arguments]) == code
        error = capsys.readouterr().err
        assert text in error
        assert len(error.strip().splitlines()) == 1


def test_two_inputs_need_a_file_each_with_as_many_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ModelBuilder()
    x, y = (model.input(name, (1, 4), "float32") for name in "xy")
    z = model.tensor("z", (1, 4), "float32")
    model.operator("ADD", [x, y], [z])
    path = tmp_path / "add.tflite"
    path.write_bytes(model.outputs(z).build())
    one, two = tmp_path / "one.bin", tmp_path / "two.bin"
    one.write_bytes(bytes(16))
    two.write_bytes(bytes(32))
    assert main(["verify", str(path), "--inputs", f"x={one}"]) == 2
    assert "no file for input y (1x4 float32): give --inputs y=FILE" in capsys.readouterr().err
    assert main(["verify", str(path), "--inputs", f"x={one}", "--inputs", f"y={two}"]) == 2
    assert "the files hold unlike numbers of samples (x 1, y 2)" in capsys.readouterr().err
    assert main(["verify", str(path), "--inputs", f"x={two}", "--inputs", f"y={two}"]) == 0


@pytest.mark.parametrize("runtime", [name for name, _ in WITNESSES])
def test_the_first_operator_that_differs_is_the_one_that_was_changed(runtime: str) -> None:
    """The witness runs the same model with one weight changed: nothing before that operator may be named."""
    pytest.importorskip(runtime.replace("-", "_"), reason=f"needs the package {runtime}")
    model = Model.read(DIGITS)
    graph = TfliteImporter().load(model, {})
    opener = dict(WITNESSES)[runtime]
    port, data = _image(3)
    samples = [[data[i : i + port.size_bytes]] for i in range(0, len(data), port.size_bytes)]
    same = trace(model, graph, runtime, opener(model), samples, values)
    assert same.compared == len(graph.operators)
    assert same.first_differing is None
    named = 0
    for operator in graph.operators:
        if operator.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
            continue
        weights = graph.constant_bytes(operator.inputs[1])
        assert model.data.count(weights) == 1
        changed = model.data.replace(weights, bytes(byte ^ 0x40 for byte in weights))
        other = Model(path=model.path, data=changed, digest=model.digest)
        found = trace(model, graph, runtime, opener(other), samples, values)
        assert found.first_differing is not None
        assert found.first_differing[0] == operator.source
        named += 1
    assert named > 2


def test_the_first_operator_that_differs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An addition, on which all agree, then int8 weights on float activations, on which nobody does."""
    import numpy as np

    model = ModelBuilder()
    x = model.input("x", (1, 64), "float32")
    doubled = model.tensor("doubled", (1, 64), "float32")
    model.operator("ADD", [x, x], [doubled])
    w = model.constant("w", np.random.default_rng(0).integers(-127, 128, (8, 64)).astype(np.int8), scale=0.01)
    y = model.tensor("y", (1, 8), "float32")
    model.operator("FULLY_CONNECTED", [doubled, w, -1], [y])
    path = tmp_path / "hybrid.tflite"
    path.write_bytes(model.outputs(y).build())
    assert main(["verify", str(path), "-v"]) == 1
    out = capsys.readouterr().out
    assert "2 operators beside ai-edge-litert: 1 equal, 0 close, 1 differ" in out
    assert 'first differing: FULLY_CONNECTED "y": ' in out
    assert main(["verify", str(path), "-v", "--json"]) == 1
    operators = json.loads(capsys.readouterr().out)["operators"]
    assert operators["first_differing"]["operator"] == 'FULLY_CONNECTED "y"'
    assert operators["first_differing"]["verdict"] == "differs"


def test_why_no_operators_are_compared_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from stowplan_importer_tflite import witnesses

    def missing(model: Model) -> None:
        raise ImportError

    monkeypatch.setattr(witnesses, "WITNESSES", (("nobody", missing),))
    assert main(["verify", str(DIGITS), "-v", "--samples", "1"]) == 0
    assert "operators left out: nobody is not installed (pip install nobody)" in capsys.readouterr().out
    assert main(["verify", str(DIGITS), "-v", "--samples", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operators_left_out"] == ["nobody is not installed (pip install nobody)"]
    monkeypatch.delattr(TfliteImporter, "witnesses")
    assert main(["verify", str(DIGITS), "-v", "--samples", "1"]) == 0
    assert "the importer tflite knows no runtime that shows its tensors" in capsys.readouterr().out
