"""The baseline gives TFLite Micro's arena to the byte on the models it was measured on."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from stowplan.errors import StowplanError
from stowplan.flow.model import Model
from stowplan.flow.target import Pool, Target
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_greedy import GreedyScheduler

MODELS = Path(__file__).parents[4] / "shared" / "models"
MEASURED = {
    "vww-person/mlperf_vww_int8.tflite": 73728,
    "vww-person/tflm_person_detect_int8.tflite": 55296,
    "kws/mlperf_kws_dscnn_int8.tflite": 16000,
    "image-cls/mlperf_resnet8_int8.tflite": 49152,
    "anomaly/mlperf_ad01_int8.tflite": 768,
    "wakeword/mlperf_streaming_ww_int8.tflite": 6656,
}
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not beside this checkout")


def arena(path: Path) -> int:
    model = Model.read(path)
    graph = host().importer_for(model).load(model, {})
    target = Target(pools=(Pool(name="fast", size_bytes=None),))
    return GreedyScheduler().schedule(graph, target, ScheduleOptions()).pool_bytes[0]


@needs_models
@pytest.mark.parametrize(("file", "measured"), MEASURED.items(), ids=[Path(f).stem for f in MEASURED])
def test_the_arena_is_what_tflite_micro_allocates(file: str, measured: int) -> None:
    assert arena(MODELS / file) == measured


HIGHER = {"vww-person/cfu_hps_2022_89ops.tflite": 256224}
"""Where ours is higher: a model cut into bands by hand. Which of many equal sizes comes first differs there."""


@needs_models
def test_on_every_model_that_imports_it_is_within_kernel_scratch_of_tflite_micro() -> None:
    """The manifest's arena heads hold kernel scratch too, so ours may be lower but never higher.

    What a model keeps between runs lies elsewhere in TFLite Micro, and single operators may become several here.
    """
    with (MODELS / "MANIFEST.tsv").open() as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t") if r["format"] == "tflite" and r["tflm"] == "ok"]
    equal = compared = 0
    for row in rows:
        try:
            graph = host().importer_for(Model.read(MODELS / row["path"])).load(Model.read(MODELS / row["path"]), {})
            ours = arena(MODELS / row["path"])
        except StowplanError:
            continue
        if graph.states or row["kind"] == "op":
            continue
        compared += 1
        equal += ours == int(row["tflm_arena_head"])
        assert ours <= HIGHER.get(row["path"], int(row["tflm_arena_head"])), row["path"]
    assert compared > 20
    assert equal >= compared * 0.8, f"{equal} of {compared} equal"
