"""Thousands of damaged plans with repaired digests neither crash nor hang nor touch memory that is not theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.native.toolchain import find_compiler
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import read_plan
from tiny_plans import arriving_plan, averaging_plan, copying_plan

HERE = Path(__file__).parent
RUNTIME = HERE.parent / "src" / "stowplan_backend_c" / "runtime"
DIGITS = HERE.parents[2] / "examples" / "digits" / "digits_int8.tflite"
MODELS = HERE.parents[3] / "shared" / "models"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Less work than a real target's limit: a mutation that multiplies a loop is refused before it costs the test minutes.
FLAGS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-g", "-DSTOW_MAX_WORK=(UINT64_C(1)<<24)", "-DSTOW_COUNTERS=1")
REAL = {
    "kws/mlperf_kws_dscnn_int8": 16384,
    "vww-person/mlperf_vww_int8": 32768,
    "image-cls/mlperf_resnet8_int8": 40960,
    "anomaly/mlperf_ad01_int8": 4096,
}


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzz driver, built with the address and undefined-behaviour sanitizers."""
    if sys.platform == "win32":
        pytest.skip("the sanitizers need a POSIX system")
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_driver"
    sources = [str(path) for path in sorted(RUNTIME.glob("*.c"))]
    command = [*find_compiler().command, *FLAGS, *SANITIZERS, "-I", str(RUNTIME), "-o", str(program)]
    done = subprocess.run(
        [*command, str(HERE / "fuzz_driver.c"), *sources], capture_output=True, text=True, timeout=600
    )
    if "sanitize" in done.stderr or "asan" in done.stderr:
        pytest.skip("this compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return program


def mutated(driver: Path, plan: bytes, folder: Path, seed: int, count: int) -> tuple[int, int]:
    """Return how many of `count` mutations opened and how many ran."""
    file = folder / "plan.stow"
    file.write_bytes(plan)
    done = subprocess.run([driver, file, str(seed), str(count)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    words = done.stdout.split()
    return int(words[0]), int(words[2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sketch", [copying_plan, averaging_plan, arriving_plan])
def test_mutations_of_plans_written_by_hand(sketch: object, seed: int, driver: Path, tmp_path: Path) -> None:
    assert callable(sketch)
    opened, ran = mutated(driver, sketch().file(), tmp_path, seed, 5000)
    assert ran > 300
    assert opened < 5000 - 1000, "most damage to so small a plan must be noticed"


@pytest.mark.parametrize("compressor", ["none", "lz4", "range"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_mutations_of_plans_with_every_kernel(dtype: str, compressor: str, driver: Path, tmp_path: Path) -> None:
    model_of = pytest.importorskip("every_kernel", reason="needs ai-edge-litert and numpy").model_with_every_kernel
    if compressor == "lz4":
        pytest.importorskip("lz4", reason="needs the lz4 package")
    model = tmp_path / "model.tflite"
    model.write_bytes(model_of(dtype))
    pools = (
        (("fast", 3 << 10), ("slow", 64 << 10)) if compressor == "none" else (("fast", 16 << 10), ("slow", 64 << 10))
    )
    request = CompileRequest(model_path=model, pools=pools, compressor=compressor)
    opened, ran = mutated(driver, compile_model(request).data, tmp_path, 7, 2000)
    assert 100 < ran <= opened < 1500


@pytest.mark.parametrize("compressor", ["lz4", "range"])
def test_mutations_of_a_plan_with_streamed_input_and_compressed_weights(
    compressor: str, driver: Path, tmp_path: Path
) -> None:
    if compressor == "lz4":
        pytest.importorskip("lz4", reason="needs the lz4 package")
    request = CompileRequest(
        model_path=DIGITS, pools=(("fast", 2048), ("slow", 8192)), compressor=compressor, stream_inputs=("image",)
    )
    opened, ran = mutated(driver, compile_model(request).data, tmp_path, 5, 1500)
    assert 150 < ran <= opened < 1350


@pytest.mark.parametrize("compressor", ["none", "lz4"])
@pytest.mark.parametrize("family", ["floats", "integers", "recurrent", "raw"])
def test_mutations_of_plans_with_every_other_kernel(family: str, compressor: str, driver: Path, tmp_path: Path) -> None:
    others = pytest.importorskip("every_other_kernel", reason="needs ai-edge-litert and numpy")
    if compressor == "lz4":
        pytest.importorskip("lz4", reason="needs the lz4 package")
    ending, make = others.files()[family]
    model = tmp_path / f"model{ending}"
    model.write_bytes(make())
    request = CompileRequest(model_path=model, pools=(("fast", 16 << 10), ("slow", 64 << 10)), compressor=compressor)
    opened, ran = mutated(driver, compile_model(request).data, tmp_path, 11, 3000)
    assert 150 < ran <= opened < 2400


def test_the_models_with_every_kernel_deserve_their_name(tmp_path: Path) -> None:
    model_of = pytest.importorskip("every_kernel", reason="needs ai-edge-litert and numpy").model_with_every_kernel
    others = pytest.importorskip("every_other_kernel", reason="needs ai-edge-litert and numpy")
    files = [(".tflite", model_of("int8")), (".tflite", model_of("float32"))]
    files += [(ending, make()) for ending, make in others.files().values()]
    used = set()
    for ending, data in files:
        model = tmp_path / f"model{ending}"
        model.write_bytes(data)
        request = CompileRequest(model_path=model, pools=(("fast", 4 << 10), ("slow", 64 << 10)))
        view = read_plan(compile_model(request).data)
        used |= {view.node_kind(node["kind"]) for node in view.records("nodes")}
    assert used == set(NODE_KINDS) - {"receive"}  # which no model makes by itself


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_mutations_of_plans_of_real_models(name: str, driver: Path, tmp_path: Path) -> None:
    model = MODELS / f"{name}.tflite"
    if not model.is_file():
        pytest.skip(f"{model} is absent")
    request = CompileRequest(model_path=model, pools=(("fast", REAL[name]), ("slow", 1 << 20)))
    _, ran = mutated(driver, compile_model(request).data, tmp_path, 3, 500)
    assert ran > 20
