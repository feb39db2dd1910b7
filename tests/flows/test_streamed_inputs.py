"""Streamed inputs through the whole tool: real models against TFLite Micro, random networks, and the cache."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from fitting import NO_FILE, fit, prove_plan, target_of
from graphs import random_graph
from oracles import open_tflm
from stowplan.build.incremental import compile_incremental
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.cache.store import Store
from stowplan.errors import DoesNotFit
from stowplan.planfile.reader import read_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from tflite_builder import ModelBuilder

MODELS = Path(__file__).parents[3] / "shared" / "models"
REAL = [
    "vww-person/mlperf_vww_int8",
    "kws/mlperf_kws_dscnn_int8",
    "image-cls/mlperf_resnet8_int8",
    "anomaly/mlperf_ad01_int8",
    "wakeword/mlperf_streaming_ww_int8",
    "vww-person/tflm_person_detect_int8",
]
SLOW_BYTES = 4 << 20


@pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not beside this checkout")
@pytest.mark.parametrize("name", REAL, ids=[Path(n).name for n in REAL])
def test_real_models_with_their_input_streamed_equal_tflite_micro(name: str) -> None:
    path = MODELS / f"{name}.tflite"
    whole = compile_model(CompileRequest(model_path=path, prove=False))
    names = tuple(whole.graph.tensors[tensor].name for tensor in whole.graph.inputs)
    (port,) = read_plan(whole.data).inputs
    random, reference = np.random.default_rng(99), open_tflm(path.read_bytes())
    inputs = [random.integers(-128, 128, port.shape, dtype=np.int8) for _ in range(5)]
    expected = [[output.tobytes() for output in reference([x])] for x in inputs]
    tight = (whole.facts.fast_bytes or 0) // 2
    for pools in ((), (("fast", max(tight, 800)), ("slow", SLOW_BYTES))):
        result = compile_model(CompileRequest(model_path=path, pools=pools, stream_inputs=names))
        assert len(result.runs) == 3, "proven"
        with closing(host().backends()["c"].compile(result.data)) as model:
            assert model.inputs[0].streamed
            assert [model.run([x.tobytes()]) for x in inputs] == expected


@pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not beside this checkout")
def test_what_runs_leave_to_each_other_is_kept_when_inputs_are_streamed() -> None:
    path = MODELS / "wakeword" / "esphome_v2_okay_nabu.tflite"
    whole = compile_model(CompileRequest(model_path=path))
    names = tuple(whole.graph.tensors[tensor].name for tensor in whole.graph.entries)
    streamed = compile_model(CompileRequest(model_path=path, stream_inputs=names))
    assert whole.graph.states
    random, backend = np.random.default_rng(5), host().backends()["c"]
    with closing(backend.compile(whole.data)) as first, closing(backend.compile(streamed.data)) as second:
        outputs = set()
        for _ in range(40):
            data = [random.integers(-128, 128, first.inputs[0].shape, dtype=np.int8).tobytes()]
            expected = first.run(data)
            assert second.run(data) == expected
            outputs.add(expected[0])
    assert len(outputs) > 1


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_with_streamed_inputs_are_proven_at_every_budget_they_fit(seed: int) -> None:
    graph = random_graph(1000 + seed)
    options = PlanOptions(schedule=ScheduleOptions(streamed_inputs=graph.inputs))
    whole = fit(graph, None).schedule.pool_bytes[0]
    proven = 0
    for share in (6, 4, 3, 2):
        for sizes in ((whole * share // 6,), (whole * share // 6, SLOW_BYTES)):
            with suppress(DoesNotFit):
                schedule = host().schedulers()["stream"].schedule(graph, target_of(*sizes), options.schedule)
                prove_plan(make_plan(NO_FILE, Lowering(graph), schedule, options), samples=1)
                proven += 1
    assert proven > 0


def two_inputs(first: str, second: str) -> bytes:
    """The sum of two images: the same graph, whatever the names of its inputs."""
    model = ModelBuilder()
    inputs = [model.input(name, (1, 4, 4, 2), scale=0.5) for name in (first, second)]
    total = model.tensor("sum", (1, 4, 4, 2), scale=0.7)
    model.operator("ADD", inputs, [total])
    return model.outputs(total).build()


def test_a_name_that_went_to_another_input_is_no_reason_to_stream_the_old_one(tmp_path: Path) -> None:
    """Equal graphs share a schedule in the cache, but not one in which another input is streamed."""
    store = Store(tmp_path / "cache")
    streamed = []
    for names in (("a", "b"), ("b", "a")):
        path = tmp_path / "model.tflite"
        path.write_bytes(two_inputs(*names))
        for wanted in ("a", "b"):
            request = CompileRequest(model_path=path, pools=(("fast", 4096),), stream_inputs=(wanted,))
            artifact = compile_incremental(request, store)
            ports = read_plan(artifact.data).inputs
            assert [port.name for port in ports if port.streamed] == [wanted]
            streamed.append(artifact.cache)
    assert streamed == ["miss"] * 4
