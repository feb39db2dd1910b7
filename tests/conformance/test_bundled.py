"""The conformance kit on every bundled plugin, so that kit and plugins cannot drift apart."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import stowplan.testing as kit
from litert_models import convolving, slow
from stowplan.plugins.known import BUNDLED
from stowplan.testing import (
    BackendConformance,
    CompressorConformance,
    ImporterConformance,
    ProfilerConformance,
    SchedulerConformance,
)

DIGITS = str(Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite")


class TestTflite(ImporterConformance):
    plugin = "importer-tflite"
    models = (DIGITS,)


class TestOnnx(ImporterConformance):
    plugin = "importer-onnx"

    @pytest.fixture(autouse=True)
    def _models(self, tmp_path: Path) -> None:
        pytest.importorskip("onnx", reason="needs onnx to write a model")
        self.models = (str(written(tmp_path)),)


def written(folder: Path) -> Path:
    """Write a model of a convolution, a relu and a sum, and return its file."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    weights = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
        helper.make_node("Add", ["y", "z"], ["sum"], name="add"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in PORTS]
    graph = helper.make_graph(nodes, "kit", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
    path = folder / "kit.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


PORTS = (("x", [1, 3, 8, 6]), ("sum", [1, 4, 8, 6]))


class TestStream(SchedulerConformance):
    plugin = "scheduler-stream"
    supports_streamed_inputs = True


class TestGreedy(SchedulerConformance):
    plugin = "scheduler-greedy"
    supports_streamed_inputs = False


class TestLz4(CompressorConformance):
    plugin = "compressor-lz4"
    supports_c_decoder = True


class TestRange(CompressorConformance):
    plugin = "compressor-range"


class TestEthosU(BackendConformance):
    plugin = "backend-ethosu"


class TestEthosUProfiler(ProfilerConformance):
    plugin = "backend-ethosu"
    model = DIGITS
    accelerators = ("ethos-u55-128",)
    supports_estimates = True


class TestMlir(BackendConformance):
    plugin = "backend-mlir"
    supports_plans = False
    supports_sources = False


class TestMlirProfiler(ProfilerConformance):
    """On a model that takes a while: it runs in another process, and the way there takes longer than the digits."""

    plugin = "backend-mlir"
    supports_estimates = False

    @pytest.fixture(autouse=True)
    def _model(self, tmp_path: Path) -> None:
        file = tmp_path / "convolving.tflite"
        file.write_bytes(convolving())
        self.model = str(file)


class TestC(BackendConformance):
    plugin = "backend-c"
    supports_plans = True
    supports_sources = True


class TestLiteRt(BackendConformance):
    plugin = "backend-litert"
    name = "litert"
    supports_plans = False


class TestLiteRtProfiler(ProfilerConformance):
    """On a model that takes a while: LiteRT counts whole microseconds, and a run of the digits takes few."""

    plugin = "backend-litert"
    name = "litert"
    supports_estimates = False

    @pytest.fixture(autouse=True)
    def _model(self, tmp_path: Path) -> None:
        file = tmp_path / "slow.tflite"
        file.write_bytes(slow(operators=20, count=20_000))
        self.model = str(file)


class TestHostProfiler(ProfilerConformance):
    plugin = "profiler-host"
    backend = "c"


@pytest.mark.slow
class TestQemu(BackendConformance):
    plugin = "profiler-qemu"
    seconds = 120.0


def test_every_bundled_plugin_has_its_class() -> None:
    found = {cls.plugin for cls in globals().values() if inspect.isclass(cls) and issubclass(cls, kit.Conformance)}
    assert found - {""} == BUNDLED
