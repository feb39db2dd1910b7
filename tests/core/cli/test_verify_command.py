"""`stowplan verify` compares a plan with other runtimes, and says which agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from stowplan.cli.entry import main
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
