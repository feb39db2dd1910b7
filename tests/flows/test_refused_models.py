"""Every model that was chosen to be refused is, in one line that says why; and `inspect` shows what it can of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from stowplan.cli.entry import main

MODELS = Path(__file__).parents[3] / "shared" / "models"
REASONS = {
    "coral_keras_lstm_mnist_edgetpu.tflite": "a program for an Edge TPU; take the model from before it was compiled",
    "litert_invalid_model.tflite": "not a TensorFlow Lite model (the bytes TFL3 are missing at byte 4)",
    "litert_no_subgraphs.tflite": "damaged: no subgraph, so there is nothing to run",
    "litert_segment_sum_invalid_buffer.tflite": 'operator 0 (SEGMENT_SUM "pyx"): not a supported operator',
    "litert_simple_model_qualcomm_precompiled.tflite": "a program for one vendor's NPU; take the model from before",
    "ort_superres_prepost.onnx": "com.microsoft.extensions::DecodeImage",
    "tfex_planestrike_tf_agents.tflite": "one of TensorFlow itself; convert the model again without SELECT_TF_OPS",
    "tflm_person_detect_vela.tflite": "a program for an Ethos-U; take the model from before it was compiled",
    "tfs_wiki40b_lm_flex.tflite": "one of TensorFlow itself; convert the model again without SELECT_TF_OPS",
}
UNREADABLE = {"litert_invalid_model.tflite", "litert_no_subgraphs.tflite"}


def negatives() -> list[Path]:
    if not MODELS.is_dir():
        return []
    with (MODELS / "MANIFEST.tsv").open(newline="", encoding="utf-8") as file:
        return [MODELS / row["path"] for row in csv.DictReader(file, delimiter="\t") if row["kind"] == "negative"]


@pytest.fixture
def models() -> list[Path]:
    if not MODELS.is_dir():
        pytest.skip("needs the models in ../shared/models")
    return negatives()


def test_there_is_a_reason_for_each(models: list[Path]) -> None:
    assert {path.name for path in models} == set(REASONS)


@pytest.mark.parametrize("name", sorted(REASONS))
def test_a_model_chosen_to_be_refused_is_refused_with_its_reason(
    name: str, models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(path for path in models if path.name == name)
    out = tmp_path / "x.stow"
    assert main(["compile", str(path), "-m", "64M", "-o", str(out)]) == 1
    error = capsys.readouterr().err
    assert REASONS[name] in error
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()
    assert main(["inspect", str(path)]) == (1 if name in UNREADABLE else 0)
    shown = capsys.readouterr()
    assert ("converts   no" in shown.out) is (name not in UNREADABLE)
