"""What `stowplan inspect` counts, against counts that other tools made of the same files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from stowplan.flow.model import Model
from stowplan_importer_tflite import TfliteImporter

MODELS = Path(__file__).parents[4] / "shared" / "models"
OTHERWISE = {
    "misc/aeq_weight_sharing_fcs.tflite": 4096,  # the others count all subgraphs, of which one runs
    "misc/tfs_dilated_conv.tflite": 15552,  # they go by the shapes in the file, which leave rows open
    "segment/mp109_selfie_segmentation.tflite": 58167168 + 128 * 128 * 16 * 4,  # they leave out its own operator
}
RECURRENT = {
    "image-cls/tflm_mnist_lstm_int8.tflite": 5600 + 28 * 4 * 20 * (28 + 20),  # 28 steps, 4 gates of 20
    "audio-denoise/tflm_dtln_int8.tflite": 128 * 257 + 4 * 128 * (257 + 128) + 4 * 128 * (128 + 128),
}
"""Models for which the others leave out what recurrent operators add up."""


def rows() -> list[dict[str, str]]:
    if not MODELS.is_dir():
        pytest.skip("needs the models in ../shared/models")
    with (MODELS / "MANIFEST.tsv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["path"].endswith(".tflite")]


def products(path: str) -> int:
    return sum(operator.macs for operator in TfliteImporter().describe(Model.read(MODELS / path)).operators)


def test_products_are_as_many_as_others_count() -> None:
    checked = 0
    for row in rows():
        recurrent = any(kind in row["op_types"] for kind in ("LSTM", "SVDF"))
        if row["kind"] not in ("model", "derived") or recurrent:
            continue
        assert products(row["path"]) == OTHERWISE.get(row["path"], int(row["macs"])), row["path"]
        checked += 1
    assert checked > 70


@pytest.mark.parametrize("path", sorted(RECURRENT))
def test_recurrent_operators_count_each_step_and_gate(path: str) -> None:
    rows()
    assert products(path) == RECURRENT[path]
