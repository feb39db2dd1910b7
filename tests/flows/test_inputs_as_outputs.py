"""Inputs that are outputs as well: they stay where they are, streamed or not, and the run does not touch them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from oracles import open_litert_reference, random_inputs
from stowplan.build.least import Asker
from stowplan.build.pipeline import CompileRequest, Session, compile_model
from stowplan.flow.plan import Plan
from stowplan.planfile.writer import write_plan
from stowplan_backend_c import CBackend
from tflite_builder import ModelBuilder
from tflite_import import shared_models

SHAPE = (1, 6, 4, 2)
STREAMED = [(), ("x",), ("u",), ("x", "u")]


def passing_on() -> bytes:
    """x -> pool -> + u -> z; x and u come out as they went in."""
    model = ModelBuilder()
    x, u = model.input("x", SHAPE, "float32"), model.input("u", SHAPE, "float32")
    y, z = model.tensor("y", SHAPE, "float32"), model.tensor("z", SHAPE, "float32")
    options = dict(padding="SAME", stride_h=1, stride_w=1, filter_height=3, filter_width=3)
    model.operator("MAX_POOL_2D", [x], [y], options="Pool2DOptions", **options)
    model.operator("ADD", [y, u], [z])
    return model.outputs(x, z, u).build()


def same_as_litert(model: bytes, plan: bytes) -> None:
    truth = open_litert_reference(model)
    with closing(CBackend().compile(plan)) as compiled:
        for seed in range(3):
            inputs = random_inputs(model, seed)
            got = compiled.run([array.tobytes() for array in inputs])
            assert got == [array.tobytes() for array in truth(inputs)]


@pytest.mark.parametrize("streamed", STREAMED)
@pytest.mark.parametrize("pools", [(), (("fast", 200), ("slow", 2048)), (("fast", 300), ("slow", 2048))])
def test_they_come_out_as_they_went_in(
    streamed: tuple[str, ...], pools: tuple[tuple[str, int], ...], tmp_path: Path
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(passing_on())
    plan = compile_model(CompileRequest(model_path=path, pools=pools, stream_inputs=streamed)).data
    same_as_litert(passing_on(), plan)


@pytest.mark.parametrize("streamed", STREAMED)
def test_least_memory_with_arithmetic_done_twice(streamed: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(passing_on())
    asker = Asker(Session(CompileRequest(model_path=path, stream_inputs=streamed, recompute=2.0)))
    plans: list[Plan] = [asker.least(slow=slow) for slow in (False, True)]
    for plan in plans:
        same_as_litert(passing_on(), write_plan(plan))


def test_a_real_model_of_that_kind_needs_no_more_than_tflite_micro(tmp_path: Path) -> None:
    paths = shared_models("op-tflite/mp_feedback_tensor_with_state_copy_model.tflite")
    if not paths:
        pytest.skip("the model is absent")
    session = Session(CompileRequest(model_path=paths[0]))
    assert session.facts.tflite_micro_bytes == 48
    plan = Asker(session).least(slow=False)
    assert plan.schedule.pool_bytes[0] <= 48
    same_as_litert(paths[0].read_bytes(), write_plan(plan))
