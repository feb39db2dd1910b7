"""The host's own kernels give TFLite Micro's bytes, and plain floats' bits, at every size and with rows anywhere."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operator_models import ACTIVATIONS, MAKERS, WideSampler
from oracles import open_tflm, random_inputs, run_tflm
from scattered import plan_of, run_scattered, run_whole
from standard_models import STANDARD, in_both_ways, standard_model, standard_plan
from stowplan.build.prove import separate_schedule
from stowplan.errors import RuntimeFailure
from stowplan.native.toolchain import FLAGS, find_compiler
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import read_plan
from stowplan_backend_c.host import KERNELS, SETS, HostCompiled
from stowplan_backend_c.library import LIBRARY
from tflite_builder import ModelBuilder
from tflite_import import import_bytes, shared_models

MODELS = 40
"""Random models of each operator."""
OWN = [name for name in SETS if name != "plain"]
KINDS = ["conv_2d", "depthwise_conv_2d", "fully_connected", "add"]


FLOATS = ["vww-person/mlperf_vww_fp32", "image-cls/mlperf_resnet8_fp32", "anomaly/mlperf_ad01_fp32"]


def as_bytes(arrays: list[np.ndarray]) -> list[bytes]:
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


@pytest.fixture(params=OWN)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A set of kernels that this processor has, asked for."""
    monkeypatch.setenv(KERNELS, request.param)
    try:
        with closing(HostCompiled(_adding())) as compiled:
            assert compiled.kernels == request.param
    except RuntimeFailure as err:
        pytest.skip(str(err))
    return str(request.param)


def _adding() -> bytes:
    model = ModelBuilder()
    quantization = dict(scale=0.5, zero_point=0)
    x, y = (model.input(name, (1, 4, 4, 1), "int8", **quantization) for name in "xy")
    z = model.tensor("z", (1, 4, 4, 1), "int8", **quantization)
    model.operator("ADD", [x, y], [z], fused_activation_function=ACTIVATIONS[0])
    data = model.outputs(z).build()
    graph = import_bytes(data)
    return plan_of(data, graph, separate_schedule(graph))


@pytest.mark.parametrize("kind", KINDS)
def test_each_set_computes_the_bytes_that_tflite_micro_computes(kind: str, kernels: str) -> None:
    for seed in range(MODELS):
        model = MAKERS[kind](WideSampler("int8", seed))
        inputs = random_inputs(model, seed)
        wanted = as_bytes(run_tflm(model, inputs))
        assert run_whole(model, as_bytes(inputs)) == wanted, f"{kind}, model {seed}"
        assert run_scattered(model, as_bytes(inputs), seed) == wanted, f"{kind}, model {seed}, rows anywhere"


SCALES = st.floats(1e-3, 1.0)
ZERO_POINTS = st.integers(-128, 127)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scales=st.tuples(SCALES, SCALES),
    most=st.floats(0.3, 1.3),
    zero_points=st.tuples(ZERO_POINTS, ZERO_POINTS, ZERO_POINTS),
    activation=st.sampled_from(["NONE", "RELU", "RELU6"]),
)
def test_all_pairs_of_bytes_are_added_as_tflite_micro_adds_them(
    kernels: str, scales: tuple[float, float], most: float, zero_points: tuple[int, int, int], activation: str
) -> None:
    """65536 outputs, which is all that an addition can do: by one linear sum where there is one, else step by step."""
    every = np.arange(256, dtype=np.int64) - 128
    a, b = (np.broadcast_to(values, (256, 256)).astype(np.int8) for values in (every[:, None], every[None, :]))
    model = ModelBuilder()
    x, y, z = (
        add(name, (1, 256, 256, 1), "int8", scale=scale, zero_point=zero_point)
        for add, name, scale, zero_point in zip(
            (model.input, model.input, model.tensor), "xyz", (*scales, sum(scales) * most), zero_points, strict=True
        )
    )
    model.operator("ADD", [x, y], [z], fused_activation_function=activation)
    data = model.outputs(z).build()
    inputs = [a.reshape(1, 256, 256, 1), b.reshape(1, 256, 256, 1)]
    assert run_whole(data, as_bytes(inputs)) == as_bytes(run_tflm(data, inputs))


@pytest.mark.parametrize("kind", KINDS[:3])
def test_each_set_computes_the_floats_of_the_plain_kernels_to_the_last_bit(
    kind: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(MODELS):
        model = MAKERS[kind](WideSampler("float32", seed))
        inputs = as_bytes([4 * array for array in random_inputs(model, seed)])
        monkeypatch.setenv(KERNELS, "plain")
        plain = run_whole(model, inputs)
        monkeypatch.setenv(KERNELS, kernels)
        assert run_whole(model, inputs) == plain, f"{kind}, model {seed}"
        assert run_scattered(model, inputs, seed) == plain, f"{kind}, model {seed}, rows anywhere"


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_weight_that_is_no_number_meets_no_padding(odd: float, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.zeros((3, 3, 3, 2), np.float32)
    weights[1, 0, 0, 0] = odd
    model = ModelBuilder()
    x, y = model.input("x", (1, 4, 4, 2), "float32"), model.tensor("y", (1, 4, 4, 3), "float32")
    w, b = model.constant("w", weights), model.constant("b", np.ones(3, np.float32))
    model.operator("CONV_2D", [x, w, b], [y], padding="SAME", stride_h=1, stride_w=1)
    data = model.outputs(y).build()
    inputs = [np.ones((1, 4, 4, 2), np.float32).tobytes()]
    (got,) = run_whole(data, inputs)
    monkeypatch.setenv(KERNELS, "plain")
    (plain,) = run_whole(data, inputs)
    assert got == plain
    assert np.isfinite(np.frombuffer(got, np.float32).reshape(4, 4, 3)[0]).all()  # padding lies under that weight


@pytest.mark.parametrize("kernels", SETS, indirect=True)
@in_both_ways
@pytest.mark.parametrize("name", STANDARD)
def test_the_standard_models_give_tflite_micros_bytes_on_fifty_inputs(name: str, kernels: str, least: bool) -> None:
    reference = open_tflm(standard_model(name))
    random = np.random.default_rng(1234)
    with closing(HostCompiled(standard_plan(name, least))) as compiled:
        for _ in range(50):
            x = random.integers(-128, 128, compiled.inputs[0].shape, dtype=np.int8)
            assert compiled.run([x.tobytes()]) == as_bytes(reference([x]))


def test_a_set_that_does_not_exist_is_refused_with_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNELS, "mmx")
    with pytest.raises(
        RuntimeFailure, match="STOWPLAN_KERNELS=mmx: there is no such set of kernels; choose avx512, avx2"
    ):
        HostCompiled(_adding())


def test_a_set_that_this_processor_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from stowplan_backend_c.binding import runtime

    class Without:
        """The library on a processor with none of the sets."""

        def __getattr__(self, name: str) -> object:
            return (lambda *_: 0) if name == "stow_host_prepare_bytes" else getattr(library, name)

    library, real = runtime().library, runtime()
    monkeypatch.setattr("stowplan_backend_c.host.runtime", lambda: type(real)(Without()))  # type: ignore[arg-type]
    monkeypatch.setenv(KERNELS, "avx512")
    with pytest.raises(RuntimeFailure, match="STOWPLAN_KERNELS=avx512: this processor cannot run it; unset"):
        HostCompiled(_adding())
    monkeypatch.delenv(KERNELS)
    with closing(HostCompiled(_adding())) as compiled:
        assert compiled.kernels == "plain"


DRIVER = Path(__file__).parent / "host_driver.c"


BUILDS = {
    "sanitizers": "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all",
    "as shipped": " ".join(FLAGS[1:2]),
    "avx2": "-O3 -mavx2",  # with which gcc 12 makes wrong code of plain loops over int8
}
NEEDED = (
    "conv_2d_s8",
    "depthwise_conv_2d_s8",
    "fully_connected_s8",
    "add_s8",
    "average_pool_2d_s8",
    "softmax_s8",
    "conv_2d_f32",
    "depthwise_conv_2d_f32",
    "fully_connected_f32",
    "add_f32",
    "average_pool_2d_f32",
    "softmax_f32",
    "copy",
)


@pytest.fixture(scope="module", params=BUILDS)
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with the host library in it, built in one way."""
    folder = tmp_path_factory.mktemp("driver")
    sources = [str(path) for path in LIBRARY.sources() if path.suffix == ".c"]
    includes = [word for place in LIBRARY.folders for word in ("-I", str(place))]
    absent = [f"-DSTOW_WITH_{kind.upper()}=0" for kind in NODE_KINDS if kind not in NEEDED]
    flags = ["-std=c11", *LIBRARY.flags, *BUILDS[request.param].split(), *absent]
    command = [*find_compiler().command, *flags, *includes, *sources, str(DRIVER), "-o", "driver"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    if done.returncode != 0 and request.param == "sanitizers":
        pytest.skip("needs a compiler with sanitizers")
    assert done.returncode == 0, done.stderr
    return folder / "driver"


@pytest.mark.slow
@in_both_ways
@pytest.mark.parametrize("name", STANDARD)
def test_the_bytes_are_the_same_with_sanitizers_and_however_it_is_optimized(
    name: str, least: bool, driver: Path, tmp_path: Path
) -> None:
    """A C program runs the plan with each set on fifty inputs, in arenas that the sanitizer watches the ends of."""
    reference, plan = open_tflm(standard_model(name)), standard_plan(name, least)
    random = np.random.default_rng(1234)
    shape = read_plan(plan).inputs[0].shape
    inputs = [random.integers(-128, 128, shape, dtype=np.int8) for _ in range(50)]
    (tmp_path / "plan").write_bytes(plan)
    (tmp_path / "inputs").write_bytes(b"".join(x.tobytes() for x in inputs))
    wanted = b"".join(b"".join(as_bytes(reference([x]))) for x in inputs)
    for kernels in SETS:
        done = subprocess.run([driver, "plan", "inputs", kernels], cwd=tmp_path, capture_output=True, timeout=600)
        if done.returncode == 77:
            continue  # not on this processor
        assert (done.returncode, done.stderr) == (0, b""), kernels
        assert done.stdout == wanted, kernels


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS, ids=[Path(name).name for name in FLOATS])
def test_floats_are_the_same_with_sanitizers_and_however_they_are_optimized(
    name: str, driver: Path, tmp_path: Path
) -> None:
    """Each set in the driver gives the bits of the plain kernels of the library as it is shipped."""
    (path,) = shared_models(f"{name}.tflite")
    model = path.read_bytes()
    graph = import_bytes(model)
    plan = plan_of(model, graph, separate_schedule(graph))
    random = np.random.default_rng(1234)
    with pytest.MonkeyPatch.context() as patch, closing(_plain(plan, patch)) as compiled:
        inputs = [random.random(compiled.inputs[0].shape, np.float32).tobytes() for _ in range(3)]
        wanted = b"".join(b"".join(compiled.run([x])) for x in inputs)
    (tmp_path / "plan").write_bytes(plan)
    (tmp_path / "inputs").write_bytes(b"".join(inputs))
    for kernels in SETS:
        done = subprocess.run([driver, "plan", "inputs", kernels], cwd=tmp_path, capture_output=True, timeout=600)
        if done.returncode == 77:
            continue  # not on this processor
        assert (done.returncode, done.stderr) == (0, b""), kernels
        assert done.stdout == wanted, kernels


def _plain(plan: bytes, patch: pytest.MonkeyPatch) -> HostCompiled:
    patch.setenv(KERNELS, "plain")
    return HostCompiled(plan)
