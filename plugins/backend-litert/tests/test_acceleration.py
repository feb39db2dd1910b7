"""Which accelerator took what. The CPU everywhere; a GPU and an NPU where this machine has one, or a stand-in."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import litert_models
from stowplan.errors import StowplanError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import LoadOptions
from stowplan_backend_litert import CompiledModel, Environment, Isolated, LiteRtBackend
from stowplan_backend_litert.errors import CompileFailedError, LibraryUnavailableError, OptionError

NO_DRIVER = {"VK_DRIVER_FILES": "/no/such/driver.json", "VK_ICD_FILENAMES": "/no/such/driver.json"}
ROOT = Path(__file__).parents[3]


@cache
def gpu_missing() -> str:
    """Return why no GPU can be used here, or nothing; in a process of its own, since a driver may crash."""
    try:
        Isolated(litert_models.cast("float32", "float32"), accelerators=("gpu",)).close()
    except StowplanError as err:
        return str(err)
    return ""


@pytest.fixture
def gpu() -> None:
    if why := gpu_missing():
        pytest.skip(f"needs a GPU or Mesa's software Vulkan 23 or later: {why}")


@pytest.fixture
def npu() -> None:
    """Intel's plugin compiles for OpenVINO's CPU device: the whole way of an NPU, without one."""
    if importlib.util.find_spec("openvino") is None or sys.platform != "linux":
        pytest.skip("needs Linux and openvino==2026.3.1")


def loaded(data: bytes, **options: Any) -> Isolated:
    return Isolated(data, **options)


def test_a_model_on_the_cpu_is_not_called_accelerated(env: Environment) -> None:
    with CompiledModel(env, litert_models.two_signatures()) as model:
        found = model.acceleration
        assert (found.used, found.operators, found.taken, found.fully) == ("cpu", 1, 0, False)
        assert model.cpu_delegated  # LiteRT's own answer, which counts the CPU's delegate
        assert not model.fully_accelerated


def test_the_cpu_named_first_is_used_and_the_report_says_so(env: Environment) -> None:
    with CompiledModel(env, litert_models.two_signatures(), accelerators=("cpu", "gpu", "npu")) as model:
        assert [(s.accelerator, s.tried) for s in model.acceleration.shares] == [
            ("cpu", True), ("gpu", False), ("npu", False)
        ]  # fmt: skip
        assert model.acceleration.shares[1].why == "cpu, named before it, takes every operator"


def test_without_a_gpu_the_cpu_is_the_fallback_and_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in NO_DRIVER.items():
        monkeypatch.setenv(key, value)
    with loaded(litert_models.two_signatures(), accelerators=("gpu", "cpu")) as model:
        share = model.acceleration.shares[0]
        assert (share.accelerator, share.tried, share.taken) == ("gpu", True, 0)
        assert "no Vulkan driver was found" in share.why
        assert model.acceleration.used == "cpu"
        assert len(model.run([bytes(16)] * 2)) == 1


def test_without_a_gpu_and_without_leave_to_fall_back_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in NO_DRIVER.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(CompileFailedError, match=r"no accelerator compiles it: gpu: .*no Vulkan driver"):
        loaded(litert_models.two_signatures(), accelerators=("gpu",))


def test_an_npu_without_its_libraries_is_absent(tmp_path: Path, digits: Path) -> None:
    with (
        Environment(dispatch_dir=tmp_path, compiler_dir=tmp_path) as env,
        CompiledModel(env, digits, accelerators=("npu", "cpu")) as model,
    ):
        share = model.acceleration.shares[0]
        assert (share.accelerator, share.present, share.tried) == ("npu", False, False)
        assert "no NPU library could be loaded" in share.why
        assert model.acceleration.used == "cpu"


def test_a_gpu_library_that_is_not_there_is_absent(tmp_path: Path, digits: Path) -> None:
    with Environment(tmp_path) as env, CompiledModel(env, digits, accelerators=("gpu", "cpu")) as model:
        assert model.acceleration.shares[0].present is False
        assert model.acceleration.shares[0].why == "no GPU library could be loaded"


def test_failed_attempts_leave_nothing_open(tmp_path: Path, digits: Path) -> None:
    with Environment(tmp_path, dispatch_dir=tmp_path) as env:
        for _ in range(20):
            with pytest.raises(CompileFailedError):
                CompiledModel(env, litert_models.custom(), accelerators=("npu", "gpu", "cpu"))
        assert env._users == 0


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("precision", ["default", "fp16", "fp32", "fp16_with_fp32_accum"])
def test_a_gpu_takes_a_whole_model_at_every_precision(precision: str) -> None:
    x, y = np.linspace(-1, 1, 4, dtype=np.float32), np.full(4, 0.5, np.float32)
    data = litert_models.two_signatures()
    with loaded(data, accelerators=("gpu", "cpu"), precision=precision, signature="mul") as model:
        found = model.acceleration
        assert (found.used, found.taken, found.fully) == ("gpu", 1, True)
        result = np.frombuffer(model.run([x.tobytes(), y.tobytes()])[0], np.float32)
    assert np.allclose(result, x * y, atol=1e-6 if precision == "fp32" else 2e-3)


@pytest.mark.usefixtures("gpu")
def test_a_gpu_takes_part_of_a_model_and_says_which_operators_it_leaves() -> None:
    with loaded(litert_models.through_int64(), accelerators=("gpu", "cpu")) as model:
        found = model.acceleration
        gpu, cpu = found.shares
        assert (found.used, found.operators, found.taken, found.fully) == ("gpu", 5, 2, False)
        assert (gpu.taken, cpu.taken, cpu.accelerator) == (2, 3, "cpu")
        assert gpu.why.startswith("CAST: Tensor type(INT64) is not supported")
        x = np.arange(8, dtype=np.float32)
        assert np.frombuffer(model.run([x.tobytes()])[0], np.float32).tolist() == [(3 * v) ** 2 for v in range(8)]


@pytest.mark.usefixtures("gpu")
def test_a_gpu_alone_refuses_what_it_cannot_take_and_says_what() -> None:
    with pytest.raises(CompileFailedError, match=r"takes 2 of 5 operators and may not leave any: CAST: Tensor type"):
        loaded(litert_models.through_int64(), accelerators=("gpu",))


@pytest.mark.usefixtures("gpu")
def test_a_gpu_that_takes_nothing_is_not_used() -> None:
    with loaded(litert_models.cast("int64", "float32"), accelerators=("gpu", "cpu")) as model:
        assert model.acceleration.used == "cpu"
        assert "INT64" in model.acceleration.shares[0].why


@pytest.mark.usefixtures("gpu")
def test_a_gpu_s_runs_are_timed_whole_with_a_word_why_and_report_their_memory() -> None:
    with loaded(litert_models.two_signatures(), accelerators=("gpu", "cpu"), profile=True) as model:
        assert "WebGPU accelerator records no operators" in model.profile_note
        model.run([bytes(16)] * 2)
        _, metrics = model.run_with_metrics([bytes(16)] * 2, 2)
        assert [event.tag for event in model.profile()] == ["run", "run"]
        assert model.summarise_profile() == []
        assert {"gpu_intermediate_memory_bytes", "gpu_constant_memory_bytes"} <= set(metrics.counters)


@pytest.mark.usefixtures("npu")
def test_an_npu_s_path_takes_the_whole_model_and_profiles(digits: Path) -> None:
    with Isolated(digits, accelerators=("npu", "cpu"), npu_device="cpu", profile=True) as model:
        found = model.acceleration
        assert (found.used, found.taken, found.fully) == ("npu", found.operators, True)
        assert found.operators > 1  # counted before the NPU's compiler made one of them
        assert found.shares[0].device == "OpenVINO CPU"
        (scores,) = model.run([np.load(ROOT / "examples" / "digits" / "sample.npy")])
        assert np.frombuffer(scores, np.int8).argmax() == 2
        assert [entry.tag for entry in model.summarise_profile()] == ["DELEGATE"]
        assert model.run_with_metrics([bytes(64)], 1)[1].counters == {}


@pytest.mark.usefixtures("npu")
def test_an_npu_that_fails_is_not_called_accelerated_although_litert_says_so() -> None:
    with loaded(litert_models.through_int64(), accelerators=("npu", "cpu"), npu_device="npu") as model:
        if model.acceleration.used == "npu":
            pytest.skip("this machine has an NPU")
        assert not model.fully_accelerated
        assert (model.acceleration.used, model.acceleration.operators) == ("cpu", 5)
        assert model.acceleration.shares[0].why.startswith("its compiler cannot load ")
    with loaded(litert_models.two_signatures(), accelerators=("npu", "cpu"), npu_device="npu") as model:
        assert model.cpu_delegated
        assert not model.fully_accelerated
        assert model.acceleration.shares[0].why == "to_shape was called on a dynamic shape."


@pytest.mark.usefixtures("npu")
def test_a_model_is_compiled_ahead_of_time_and_runs(digits: Path, tmp_path: Path) -> None:
    backend, model, options = LiteRtBackend(), Model.read(digits), LoadOptions(device="cpu")
    counts = backend.partition(model, "intel", options)
    assert counts.taken == counts.operators > 1
    result = backend.precompile(model, "intel", options)
    assert result.counts == counts
    with Isolated(result.data, accelerators=("npu",), npu_device="cpu") as compiled:
        assert compiled.fully_accelerated
        assert len(compiled.run([bytes(64)])) == 1


@pytest.mark.parametrize("vendor", ["qualcomm", "mediatek", "google"])
def test_a_vendor_s_missing_kit_is_named_with_how_to_get_it(digits: Path, vendor: str) -> None:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("compilers ahead of time are for Linux on x86-64")
    if importlib.util.find_spec(f"ai_edge_litert_sdk_{vendor}"):
        pytest.skip(f"the kit of {vendor} is installed")
    with pytest.raises(LibraryUnavailableError, match=rf"^{vendor}'s compiler cannot load .*pip install"):
        LiteRtBackend().precompile(Model.read(digits), vendor, LoadOptions())


def test_an_empty_kit_is_called_empty(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("compilers ahead of time are for Linux on x86-64")
    (tmp_path / "ai_edge_litert_sdk_qualcomm").mkdir()
    (tmp_path / "ai_edge_litert_sdk_qualcomm" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(LibraryUnavailableError, match=r"libQnn\S+ \(the package is there, but empty\)"):
        LiteRtBackend().partition(Model.read(digits), "qualcomm", LoadOptions())


@pytest.mark.parametrize(
    ("vendor", "device", "words"),
    [("acme", "", "no such vendor; known are intel, qualcomm"), ("intel:../x", "", "is no chip's name"),
     ("qualcomm", "cpu", "only intel has devices"), ("intel", "tpu", "only intel has devices")],
)  # fmt: skip
def test_a_vendor_or_device_that_is_none_is_refused(digits: Path, vendor: str, device: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        LiteRtBackend().precompile(Model.read(digits), vendor, LoadOptions(device=device))


def test_the_backend_runs_models_and_refuses_plans(digits: Path) -> None:
    backend = LiteRtBackend()
    assert backend.available().ok
    assert "cpu" in backend.accelerators()
    model = backend.load_model(Model.read(digits), LoadOptions())
    assert len(model.run([bytes(64)])) == 1
    model.close()
    with pytest.raises(StowplanError, match="backend litert runs models, not plans"):
        backend.compile(b"")
    with pytest.raises(StowplanError, match="backend litert runs models, not plans"):
        backend.generate(b"", None)  # type: ignore[arg-type]


EVERY_FUNCTION = """
import sys, threading
from stowplan_backend_litert import CompiledModel, available, environment, platform_support, signatures
data = open(sys.argv[1], "rb").read()
kind = sys.argv[2]
assert available()
with environment() as env:
    assert platform_support(env) and "add" in signatures(env, data)
    with CompiledModel(env, data, accelerators=(kind,), npu_device="cpu", profile=True, precision="fp32",
                       signature="add", max_model_bytes=1 << 20) as model:
        assert model.acceleration.used == kind and model.fully_accelerated == (kind != "cpu")
        assert model.io_sizes() == ([16, 16], [16])
        import struct
        x, y = struct.pack("4f", 1, 2, 3, 4), struct.pack("4f", 4, 3, 2, 1)
        assert struct.unpack("4f", model.run([x, y])[0]) == (5, 5, 5, 5)
        assert model.run_with_metrics([x, y], 1)[1].duration_ns > 0
        assert model.pending_events() == len(model.profile()) > 0
        assert len(model.profile(1)) == 1
        assert bool(model.summarise_profile()) == (kind != "gpu") == (not model.profile_note)
        model.reset_profile()
        assert model.pending_events() == 0
        assert model.controlling_process() is None
        model.controlling_process(threading.current_thread())
        assert len(model.run([x, y])) == 1
print("every function")
"""


@pytest.mark.parametrize("kind", ["cpu", "gpu", "npu"])
def test_every_function_works_on_every_accelerator(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind != "cpu":
        request.getfixturevalue(kind)
    path = tmp_path / "two.tflite"
    path.write_bytes(litert_models.two_signatures(fixed=True))
    command = [sys.executable, "-c", EVERY_FUNCTION, str(path), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "every function\n"), done.stderr
