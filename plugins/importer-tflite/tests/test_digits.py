"""The shipped digits model is what its README says: small, representative, accurate, and the same in TFLite Micro."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracles import open_tflm, run_tflm
from tflite_import import import_bytes

FOLDER = Path(__file__).parents[3] / "examples" / "digits"
MODEL = FOLDER / "digits_int8.tflite"
TEST_IMAGES, SEED = 500, 7  # as in train.py


def test_it_has_the_operators_of_a_typical_network() -> None:
    graph = import_bytes(MODEL.read_bytes())
    assert [operator.kind for operator in graph.operators] == [
        "conv_2d", "depthwise_conv_2d", "conv_2d", "average_pool_2d", "reshape", "fully_connected", "softmax",
    ]  # fmt: skip
    assert graph.notes == ()


def test_it_names_the_sample_in_tflite_micro() -> None:
    sample = np.load(FOLDER / "sample.npy")
    assert (sample.shape, str(sample.dtype)) == ((1, 8, 8, 1), "int8")
    assert run_tflm(MODEL.read_bytes(), [sample])[0].argmax() == 2


def test_it_is_right_on_96_percent_of_the_held_out_images() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="needs the package scikit-learn")
    digits = datasets.load_digits()
    chosen = np.random.default_rng(SEED).permutation(len(digits.images))[:TEST_IMAGES]
    run = open_tflm(MODEL.read_bytes())
    images = digits.images[chosen].astype(np.int8)[:, None, :, :, None]
    right = [run([image])[0].argmax() == label for image, label in zip(images, digits.target[chosen], strict=True)]
    assert np.mean(right) >= 0.96
