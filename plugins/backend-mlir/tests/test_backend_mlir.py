"""MLIR as a backend: the commands compile once, run and refuse; damaged models cost an error and no crash."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_sources import ADD, SPLIT, shared
from more_operator_models import FLOATS, INT16, MOVES
from operator_models import Sampler
from stowplan.errors import ModelError, StowplanError, UnsupportedError, UsageError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import LoadOptions
from stowplan_backend_mlir import Context, MlirBackend, compile, jit, llvm_revision  # noqa: A004
from stowplan_backend_mlir.installation import REMEDY, processor
from stowplan_backend_mlir.target import FORMS, OPTIONS, target
from stowplan_backend_mlir.vetting import COMPARED, NAMES
from tflite_builder import ModelBuilder

ROOT = Path(__file__).resolve().parents[3]
BACKEND = MlirBackend()


def stowplan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "cache"))


def test_the_commands_compile_once_run_and_refuse(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "digits.o"
    ahead = ["accelerate", str(digits), "-b", "mlir", "--aot", "cpu:name=digits", "--json", "-o", str(out)]
    first, first_bytes = json.loads(stowplan(*ahead).stdout), out.read_bytes()
    out.unlink()
    second = json.loads(stowplan(*ahead).stdout)
    assert (first["cached"], second["cached"], first["taken"], first["operators"]) == (False, True, 7, 7)
    assert out.read_bytes() == first_bytes and first_bytes[:4] == b"\x7fELF"
    for form, start in (("bytecode", b"ML\xefR"), ("llvm", b"; ModuleID"), ("header", b"#ifndef DIGITS_H")):
        done = stowplan(
            "accelerate", str(digits), "-b", "mlir", "--aot", f"cpu:name=digits:emit={form}", "-o", str(out)
        )
        assert done.returncode == 0 and out.read_bytes().startswith(start)
    seen = stowplan("accelerate", str(digits), "-b", "mlir", "--on", "cpu:opt=1,cpu", "--json")
    found = json.loads(seen.stdout)
    assert (found["used"], found["operators"], found["taken"], found["fully"]) == ("cpu:opt=1", 7, 0, False)
    assert found["measured"]["accelerated_us"] > 0 and found["shares"][0]["device"] == "LLVM -O1"
    assert found["shares"][1]["why"] == "the one before it takes every operator"
    for words, message in (
        ([], "Error: npu: backend mlir makes code for this machine's processor"),
        (["--on", "cpu", "--threads", "2"], "--threads: means nothing"),
        (["--on", "cpu", "--precision", "fp16"], "--precision: means nothing"),
        (["--on", "cpu", "--device", "x"], "--device: means nothing"),
        (["--on", "cpu", "--signature", "x"], "has no signature 'x'; it has 1"),
        (["--on", "cpu", "--signature", "3"], "has no signature 3"),
    ):
        refused = stowplan("accelerate", str(digits), "-b", "mlir", *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1) and message in refused.stderr


def test_what_is_not_to_be_cached_is_nowhere_on_disk_and_what_is_can_be_explained(digits: Path, tmp_path: Path) -> None:
    ahead = ["accelerate", str(digits), "-b", "mlir", "--aot", "cpu:emit=bytecode", "-o", str(tmp_path / "a.mlirbc")]
    for words in ([*ahead, "--no-cache"], ["accelerate", str(digits), "-b", "mlir", "--on", "cpu"]):
        assert stowplan(*words).returncode == 0
        assert json.loads(stowplan("cache", "stats", "--json").stdout)["entries"] == 0
    assert stowplan(*ahead).returncode == 0
    (record,) = (tmp_path / "cache" / "store").glob("v1/records/*/*")
    explained = stowplan("cache", "explain", record.name).stdout
    for word in ("toolchain.tools.torch-mlir", "toolchain.tools.llvm", "toolchain.tools.plan", "source.digest"):
        assert word in explained


def test_what_a_key_has_is_the_tools_the_options_and_for_objects_the_processor() -> None:
    plain = BACKEND.toolchain("cpu")
    assert plain == BACKEND.toolchain("cpu:name=model:emit=object:opt=2")
    assert (plain["llvm"], plain["processor"], plain["opt"]) == (llvm_revision(), processor(), "2")
    assert {"torch-mlir", "tosa-converter-for-tflite", "stowplan-backend-mlir", "plan"} <= plain.keys()
    assert "processor" not in BACKEND.toolchain("cpu:emit=llvm")
    assert BACKEND.toolchain("cpu:emit=bytecode") == BACKEND.toolchain("cpu:emit=bytecode:name=other:opt=3")
    assert len({json.dumps(BACKEND.toolchain(f"cpu:{one}")) for one in ("opt=1", "opt=2", "name=a", "emit=llvm")}) == 4


@pytest.mark.parametrize(("name", "message"), [
    ("gpu", "gpu: backend mlir makes code for this machine's processor; write --on or --aot cpu"),
    ("cpu:fast", "cpu:fast: write OPTION=VALUE, where OPTION is opt, emit, name"),
    ("cpu:opt=", "write OPTION=VALUE"), ("cpu:opt=1:opt=2", "opt is there twice"),
    ("cpu:opt=4", "opt=4: write 0, 1, 2 or 3"), ("cpu:emit=exe", "emit=exe: write object, llvm, bytecode or header"),
    ("cpu:name=a-b", "name=a-b: write a C identifier of at most 63 characters"),
])  # fmt: skip
def test_a_name_that_means_nothing_is_a_usage_error(name: str, message: str) -> None:
    with pytest.raises(UsageError) as err:
        target(name)
    assert message in str(err.value)


def test_what_is_loaded_runs_measures_and_closes_twice(digits: Path) -> None:
    loaded: Any = BACKEND.load_model(Model.read(digits), LoadOptions(isolated=True))
    assert [port.name for port in (*loaded.inputs, *loaded.outputs)] == ["image", "probabilities"]
    outputs, metrics = loaded.run_with_metrics([bytes(64)])
    assert outputs == loaded.run([bytes(64)]) and metrics.duration_ns > 0
    assert not loaded.fully_accelerated
    for _ in range(2):
        loaded.close()
    with pytest.raises(StowplanError, match="this model was closed"):
        loaded.run([bytes(64)])


def test_a_model_with_integer_weights_in_float_says_so() -> None:
    loaded: Any = BACKEND.load_model(Model.read(shared("kws", "mlperf_kws_dscnn_hybrid.tflite")), LoadOptions())
    loaded.close()
    assert "operators compute in float with weights that are integers in the file" in loaded.acceleration.shares[0].why


@pytest.fixture
def two_signatures(tmp_path: Path) -> Path:
    """A model whose signatures are a sum and a product."""
    model = ModelBuilder()
    for index, kind in enumerate(("ADD", "MUL")):
        if index:
            model.subgraph(kind)
        x, y = model.input("x", (1, 4), "float32"), model.input("y", (1, 4), "float32")
        z = model.tensor("z", (1, 4), "float32")
        model.operator(kind, [x, y], [z])
        if index:
            model.operator("ABS", [z], [z := model.tensor("positive", (1, 4), "float32")])
        model.outputs(z)
        model.signature(kind.lower(), {"x": x, "y": y}, {"z": z}, subgraph=index)
    path = tmp_path / "two.tflite"
    path.write_bytes(model.build())
    return path


def test_signatures_are_chosen_by_name_and_number(two_signatures: Path, context: Context) -> None:
    import numpy as np

    x, y = np.float32([[1, 2, 3, 4]]), np.float32([[5, 6, 7, 8]])
    for signature, wanted in (("add", x + y), ("mul", x * y), (0, x + y), (1, x * y)):
        artifact = compile(two_signatures, cache="off", context=context, signature=signature)
        assert artifact.operators == (1 if signature in ("add", 0) else 2)
        with jit(artifact, context=context) as code:
            (found,) = code.run([x.tobytes(), y.tobytes()])
        assert np.frombuffer(found, np.float32).tolist() == wanted.ravel().tolist()
    with pytest.raises(UsageError, match="has no signature 'none'; it has 2: 'add', 'mul'"):
        compile(two_signatures, cache="off", context=context, signature="none")


def test_another_signature_is_another_file_and_not_found_in_the_cache(two_signatures: Path, tmp_path: Path) -> None:
    files = []
    for number in ("0", "1"):
        out = tmp_path / f"{number}.mlirbc"
        words = ["--aot", "cpu:emit=bytecode", "--signature", number, "--json", "-o", str(out)]
        done = stowplan("accelerate", str(two_signatures), "-b", "mlir", *words)
        assert json.loads(done.stdout)["cached"] is False
        files.append(out.read_bytes())
    assert files[0] != files[1]


def single(kind: str, shape: tuple[int, ...] = (1, 4, 4, 1), result: str = "float32", **options: Any) -> bytes:
    model = ModelBuilder()
    x, y = model.input("x", shape, "float32"), model.tensor("y", shape, result)
    model.operator(kind, [x], [y], **options)
    return model.outputs(y).build()


POOL = dict(filter_height=1, filter_width=1, stride_h=1, stride_w=1)


@pytest.mark.parametrize(("model", "message"), [
    (single("AVERAGE_POOL_2D", fused_activation_function="RELU", **POOL), "AVERAGE_POOL_2D: the converter drops its"),
    (single("MAX_POOL_2D", fused_activation_function="RELU6", **POOL), "MAX_POOL_2D: the converter drops its fused"),
    (single("CAST", result="int8", options="CastOptions"), "CAST: of float to integers: the converter rounds"),
    (FLOATS["floor_mod"](Sampler("float32", 0)), "FLOOR_MOD: the converter leaves out the product with the divisor"),
    (FLOATS["gelu"](Sampler("float32", 2)), "GELU: the converter approximates it"),
    (single("CUMSUM", options="CumsumOptions"), "CUMSUM (never compared with TFLite's own)"),
    (single("CUSTOM", custom_code="acme\n"), "custom operator acme? (never compared"),
])  # fmt: skip
def test_what_the_converter_gets_wrong_is_refused_with_the_reason(model: bytes, message: str, context: Context) -> None:
    with pytest.raises(UnsupportedError) as err:
        compile(model, cache="off", context=context)
    assert message in str(err.value) and err.value.reasons and "\n" not in str(err.value)
    assert "run it with backend c or litert" in str(err.value)


def converter_alone(model: bytes, monkeypatch: pytest.MonkeyPatch, context: Context) -> Any:
    """Compile without vetting, as the worker would if it trusted the converter with everything."""
    code = """if True:
        import sys
        from stowplan_backend_mlir import vetting, importing
        importing.vet = lambda data: (vetting.Vetted(operators=1, dequantized=0),) * 9
        from stowplan_backend_mlir import worker
        worker.main()"""
    monkeypatch.setattr("stowplan_backend_mlir.context.COMMAND", ("-c", code))
    return compile(model, cache="off", context=context)


@pytest.mark.parametrize("what", ["pool", "cast", "floor_mod", "resize", "strided_slice", "gelu", "softmax"])
def test_the_converter_alone_still_gets_them_wrong(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one of these fails, a newer converter is right, and the operator can be taken from the list of refusals."""
    import numpy as np

    from oracles import open_litert_reference, random_inputs

    strided = ModelBuilder()
    x, y = strided.input("x", (4, 3), "float32"), strided.tensor("y", (4, 3), "float32")
    ends = [strided.constant(name, np.int32(values)) for name, values in (("b", [3, 0]), ("e", [0, 3]), ("s", [-1, 1]))]
    strided.operator("STRIDED_SLICE", [x, *ends], [y], begin_mask=0, end_mask=1)
    model = {
        "pool": single("MAX_POOL_2D", fused_activation_function="RELU", **POOL),
        "cast": single("CAST", result="int8", options="CastOptions"),
        "floor_mod": FLOATS["floor_mod"](Sampler("float32", 0)), "gelu": FLOATS["gelu"](Sampler("float32", 2)),
        "resize": MOVES["resize_nearest_neighbor"](Sampler("float32", 4)),
        "strided_slice": strided.outputs(y).build(), "softmax": INT16["softmax"](Sampler("int16", 0)),
    }[what]  # fmt: skip
    inputs = random_inputs(model, 1)
    (wanted,) = open_litert_reference(model)(inputs)
    with Context() as context:
        artifact = converter_alone(model, monkeypatch, context)
        with jit(artifact, context=context) as code:
            (found,) = code.run([one.tobytes() for one in inputs])
    values = np.frombuffer(found, wanted.dtype)
    assert values.size != wanted.size or not np.allclose(values, wanted.ravel(), rtol=1e-4)


def test_names_of_operators_are_those_of_the_schema() -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    theirs = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    assert {code: name for code, name in enumerate(NAMES) if code != 127} == {
        code: theirs[code] for code in range(len(NAMES)) if code != 127
    }
    assert set(COMPARED) <= set(NAMES)


@pytest.mark.parametrize(("damage", "message"), [
    (lambda data: data[: len(data) // 3], "is damaged: it refers to a place outside of the file"),
    (lambda data: b"\0\0\0\0TFL3" + b"\xff" * 100, "has no subgraph"),
    (lambda data: b"\x08\0\0\0TFL3" + b"\xff" * 100, "is damaged"),
    (lambda data: b"no model at all", "is no TFLite model, and the converter reads no other"),
])  # fmt: skip
def test_a_damaged_model_is_refused(digits: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    model = Model(path=Path("bad.tflite"), data=damage(digits.read_bytes()), digest="")
    with pytest.raises(ModelError, match=f"^bad.tflite: {message}") as err:
        BACKEND.precompile(model, "cpu", LoadOptions())
    assert "\n" not in str(err.value)


def test_a_model_without_a_subgraph_is_refused(context: Context) -> None:
    with pytest.raises(ModelError, match="has no subgraph; export it again"):
        compile(shared("negative", "litert_no_subgraphs.tflite"), cache="off", context=context)


def test_what_crashes_the_converter_is_an_error_that_names_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared("op-tflite", "litert_custom_lstm.tflite").read_bytes()
    with Context() as context, pytest.raises(StowplanError) as err:
        converter_alone(model, monkeypatch, context)
    assert "MLIR's process died (SIGABRT)" in str(err.value) and str(err.value).endswith("this request is lost")
    assert "\n" not in str(err.value)


@pytest.mark.slow
def test_models_with_any_bits_changed_are_compiled_or_refused_in_one_line(digits: Path, context: Context) -> None:
    outcomes = {"compiled": 0, "refused": 0}
    for seed in range(150):
        rng, data = random.Random(seed), bytearray(digits.read_bytes())
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            compile(bytes(data), cache="off", context=context)
            outcomes["compiled"] += 1
        except StowplanError as err:
            outcomes["refused"] += 1
            assert "\n" not in str(err) and err.exit_code in (1, 2)
    assert min(outcomes.values()) > 5


@pytest.mark.slow
def test_bytecode_with_any_bits_changed_is_read_or_refused_in_one_line(digits: Path, context: Context) -> None:
    made = compile(digits, context=context, pipeline=()).bytecode
    for seed in range(100):
        rng, data = random.Random(seed), bytearray(made)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(4, len(data))] ^= 1 << rng.randrange(8)
        try:
            compile(bytes(data), cache="off", context=context, pipeline="canonicalize")
        except StowplanError as err:
            assert "\n" not in str(err) and err.exit_code in (1, 2)


def test_every_model_of_the_collection_is_compiled_or_refused_in_one_line(context: Context) -> None:
    """The small ones; their numbers are in test_running.py."""
    shared("negative", "litert_no_subgraphs.tflite")
    folder = ROOT.parent / "shared" / "models"
    paths = [path for path in sorted(folder.glob("*/*.tflite")) if path.stat().st_size < 20_000]
    assert len(paths) > 40
    for path in paths:
        try:
            compile(path, cache="off", context=context)
        except StowplanError as err:
            assert "\n" not in str(err) and err.exit_code in (1, 2) and str(err).startswith(path.name)


def test_plans_are_refused_by_both_ways() -> None:
    from stowplan.plugins.kinds import SourceOptions

    for call in (lambda: BACKEND.compile(b""), lambda: BACKEND.generate(b"", SourceOptions(name="x"))):
        with pytest.raises(UnsupportedError, match=r"backend mlir compiles models, not plans: .*--aot cpu -o MODEL\.o"):
            call()


def test_without_the_wheels_the_command_says_what_to_install() -> None:
    folders = [str(ROOT / "core" / "src"), str(ROOT / "plugins" / "backend-mlir" / "src")]
    code = f"""if True:
        import sys
        sys.path[:0] = {folders!r}
        from stowplan_backend_mlir import MlirBackend, compile
        from stowplan.errors import RuntimeFailure
        print(MlirBackend().available())
        try:
            compile("module {{}}")
        except RuntimeFailure as err:
            print("refused:", err)"""
    out = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert "ok=False" in out and f"torch-mlir is not installed: {REMEDY}" in out
    assert f"refused: torch-mlir is not installed: {REMEDY}" in out


def test_neither_mlir_nor_numpy_is_imported_into_this_process(digits: Path) -> None:
    code = f"""if True:
        import sys
        from stowplan.flow.model import Model
        from stowplan.plugins.kinds import LoadOptions
        from stowplan_backend_mlir import MlirBackend
        MlirBackend().load_model(Model.read({str(digits)!r}), LoadOptions()).close()
        print([name for name in sys.modules if name.partition(".")[0] in ("torch_mlir", "numpy",
                                                                          "tosa_converter_for_tflite")])"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_reference_names_every_option_and_operator() -> None:
    text = (Path(__file__).parents[1] / "REFERENCE.md").read_text(encoding="utf-8")
    for word in (*OPTIONS, *FORMS, *COMPARED):
        assert f"`{word}`" in text, word


def test_the_commands_and_the_python_of_the_page_do_what_it_says(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vww.tflite").write_bytes(digits.read_bytes())
    commands = [line[2:].split("  #")[0].split() for line in page.splitlines() if line.startswith("$ stowplan")]
    for command in commands:
        done = stowplan(*command[1:])
        assert done.returncode == 0, done.stderr
        assert command[-2:-1] != ["-o"] or (tmp_path / command[-1]).stat().st_size
    assert len(commands) == 5
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"image": bytes(64), "script": SPLIT, "text": ADD, "more": ["canonicalize"]}
    exec(code[1], names)
    assert len(names["scores"]) == 10 and (tmp_path / "vww.h").is_file()
    assert names["tiled"].bytecode != names["artifact"].bytecode and names["folded"].bytecode_version == 5


def test_doctor_says_whether_it_works() -> None:
    found = stowplan("doctor")
    assert "mlir" in found.stdout
