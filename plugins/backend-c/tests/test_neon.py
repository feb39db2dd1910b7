"""The kernels of 64-bit Arm, run under emulation: TFLite Micro's bytes at every size, and with rows anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from more_operator_models import wide_matmul
from operator_models import MAKERS, WideSampler
from oracles import open_tflm, random_inputs, run_tflm
from scattered import plan_of, scattered_schedule
from standard_models import STANDARD, in_both_ways, standard_model, standard_plan
from stowplan.build.prove import separate_schedule
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import read_plan
from stowplan_backend_c.library import LIBRARY
from tflite_import import import_bytes

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
BUILDS = {
    "neon": ("-O2", "-march=armv8-a"),
    "dotprod": ("-O2", "-march=armv8.2-a+dotprod"),  # one instruction for four products
    "neon sanitized": ("-O1", "-march=armv8-a", *SANITIZERS),
    "dotprod sanitized": ("-O1", "-march=armv8.2-a+dotprod", *SANITIZERS),
}
DRIVER = Path(__file__).parent / "host_driver.c"
KINDS = ["conv_2d", "depthwise_conv_2d", "fully_connected", "add"]
MODELS = 40
"""Random models of each operator."""
INPUTS = 3
NEEDED = (
    "conv_2d_s8",
    "depthwise_conv_2d_s8",
    "fully_connected_s8",
    "add_s8",
    "average_pool_2d_s8",
    "softmax_s8",
    "batch_matmul_int",
    "copy",
)

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None, reason=f"needs {COMPILER} and {EMULATOR}"
)


@pytest.fixture(scope="module", params=BUILDS)
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that runs a plan on inputs from a file, built in one way; any warning is an error."""
    folder = tmp_path_factory.mktemp(request.param)
    sources = [str(path) for path in LIBRARY.sources() if path.suffix == ".c"]
    includes = [word for place in LIBRARY.folders for word in ("-I", str(place))]
    absent = [f"-DSTOW_WITH_{kind.upper()}=0" for kind in NODE_KINDS if kind not in NEEDED]
    flags = [*STRICT, *LIBRARY.flags, *BUILDS[request.param], *absent]
    command = [COMPILER, *flags, *includes, *sources, str(DRIVER), "-o", "driver"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    if done.returncode != 0 and "asan" in done.stderr:
        pytest.skip(f"needs the sanitizers of {COMPILER}")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "driver"


@cache
def libraries() -> str:
    """Return the folder in which the emulator finds `lib`, of the compiler's processor."""
    asked = [COMPILER, "-print-file-name=libc.so.6"]
    return str(Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()).parents[1])


def run(driver: Path, plan: bytes, inputs: Sequence[bytes], folder: Path) -> bytes:
    (folder / "plan").write_bytes(plan)
    (folder / "inputs").write_bytes(b"".join(inputs))
    command = [EMULATOR, "-L", libraries(), driver, "plan", "inputs", "plain"]
    leaks = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # looking for them needs what an emulator has not
    done = subprocess.run(command, cwd=folder, env=leaks, capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def as_bytes(arrays: Sequence[np.ndarray]) -> list[bytes]:
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_are_those_that_tflite_micro_computes(kind: str, driver: Path, tmp_path: Path) -> None:
    for seed in range(MODELS // 10 if "sanitized" in str(driver) else MODELS):
        model = MAKERS[kind](WideSampler("int8", seed))
        inputs = random_inputs(model, seed)
        wanted, given = b"".join(as_bytes(run_tflm(model, inputs))), as_bytes(inputs)
        graph = import_bytes(model)
        whole = plan_of(model, graph, separate_schedule(graph))
        assert run(driver, whole, given, tmp_path) == wanted, f"{kind}, model {seed}"
        scattered = plan_of(model, graph, scattered_schedule(graph, seed))
        assert run(driver, scattered, given, tmp_path) == wanted, f"{kind}, model {seed}, rows anywhere"


@pytest.mark.slow
def test_products_of_matrices_are_tflite_micros_too(driver: Path, tmp_path: Path) -> None:
    for seed in range(4 if "sanitized" in str(driver) else 20):
        model = wide_matmul(seed)
        inputs, graph = random_inputs(model, seed), import_bytes(model)
        wanted = b"".join(as_bytes(run_tflm(model, inputs)))
        for schedule in (separate_schedule(graph), scattered_schedule(graph, seed)):
            assert run(driver, plan_of(model, graph, schedule), as_bytes(inputs), tmp_path) == wanted, seed


@pytest.mark.slow
@in_both_ways
@pytest.mark.parametrize("name", STANDARD)
def test_the_standard_models_give_tflite_micros_bytes(name: str, least: bool, driver: Path, tmp_path: Path) -> None:
    reference, plan = open_tflm(standard_model(name)), standard_plan(name, least)
    random = np.random.default_rng(1234)
    shape = read_plan(plan).inputs[0].shape
    inputs = [random.integers(-128, 128, shape, dtype=np.int8) for _ in range(INPUTS)]
    wanted = b"".join(b"".join(as_bytes(reference([x]))) for x in inputs)
    assert run(driver, plan, as_bytes(inputs), tmp_path) == wanted
