"""Products of computed int8 matrices: TFLite Micro's bytes at sizes of attention, in place and with rows anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from more_operator_models import wide_matmul
from oracles import random_inputs, run_tflm
from scattered import run_scattered, run_whole


@pytest.mark.parametrize("seed", range(40))
def test_products_of_matrices_equal_tflite_micro(seed: int) -> None:
    model = wide_matmul(seed)
    inputs = random_inputs(model, seed)
    given = [array.tobytes() for array in inputs]
    wanted = [np.ascontiguousarray(array).tobytes() for array in run_tflm(model, inputs)]
    assert run_whole(model, given) == wanted
    assert run_scattered(model, given, seed) == wanted
