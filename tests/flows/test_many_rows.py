"""Tensors of more rows than one firing in a plan file can name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import PlanError
from stowplan.planfile.reader import read_plan
from stowplan_backend_c import CBackend
from tflite_builder import ModelBuilder

ROWS = 70_000
SHAPE = (1, ROWS, 1, 2)


def test_a_firing_of_more_units_than_the_file_can_name_is_written_in_parts(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, y, z = (model.input("x", SHAPE, "float32"), *(model.tensor(name, SHAPE, "float32") for name in "yz"))
    model.operator("RELU", [x], [y])
    model.operator("ABS", [x], [z])
    path = tmp_path / "long.tflite"
    path.write_bytes(model.outputs(y, z).build())
    plan = compile_model(CompileRequest(model_path=path)).data
    view = read_plan(plan)
    assert sum(firing["count"] for firing in view.records("firings")) == 2 * ROWS
    assert sum(stage["firing_count"] for stage in view.records("stages")) == len(view.records("firings")) > 2
    data = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with closing(CBackend().compile(plan)) as compiled:
        relu, absolute = compiled.run([data.tobytes()])
    assert relu == np.maximum(data, 0).tobytes()
    assert absolute == np.abs(data).tobytes()


def test_a_sum_of_more_rows_at_once_is_refused_by_name(tmp_path: Path) -> None:
    model = ModelBuilder()
    x, y = model.input("x", SHAPE, "float32"), model.tensor("y", (1, 2), "float32")
    model.operator("MEAN", [x, model.constant("axes", np.array([1, 2], np.int32))], [y], keep_dims=False)
    path = tmp_path / "long.tflite"
    path.write_bytes(model.outputs(y).build())
    with pytest.raises(PlanError, match=r"MEAN.* sums 70000 rows of its input at once; up to 65535 are supported"):
        compile_model(CompileRequest(model_path=path))
