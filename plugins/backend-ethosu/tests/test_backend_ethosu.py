"""Vela as a backend: the same bytes and figures as its own command, in every system, and refusals in one line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import ModelError, StowplanError, UnsupportedError, UsageError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import LoadOptions
from stowplan_backend_ethosu import EthosuBackend, EthosuProfiler
from stowplan_backend_ethosu.installation import default_config
from stowplan_backend_ethosu.machine import ACCELERATORS, DEFAULTS, machine

pytest.importorskip("ethosu.regor", reason="Vela is not installed: pip install 'stowplan-backend-ethosu[vela]'")

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
MODELS = ROOT.parent / "shared" / "models"
BACKEND = EthosuBackend()
SYSTEMS = {
    "ethos-u55-64": ["Ethos_U55_Deep_Embedded", "Ethos_U55_High_End_Embedded"],
    "ethos-u65-512": [f"Ethos_U65_{name}" for name in ("Embedded", "Mid_End", "High_End", "Client_Server")],
    "ethos-u85-256": [f"Ethos_U85_SYS_{name}" for name in ("Flash_Low", "Flash_High", "DRAM_Low", "DRAM_Mid",
                                                           "DRAM_High")],
}  # fmt: skip
MODES = ["Sram_Only", "Shared_Sram", *(f"Dedicated_Sram{size}" for size in ("", "_256KB", "_384KB", "_512KB"))]
VELA = """
import json, sys
from ethosu.vela.vela import main
for words, folder in json.load(sys.stdin):
    try:
        main([sys.argv[1], "--output-dir", folder, *words])
    except Exception as err:
        print(err, file=sys.stderr)
"""
"""Vela's own command, many times in one process: most of its time goes into its imports."""


def models(*parts: str) -> Model:
    path = MODELS.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    return Model.read(path)


@pytest.fixture(scope="module")
def digits() -> Model:
    return Model.read(DIGITS)


def own_command(model: Path, folder: Path, runs: Mapping[str, list[str]]) -> None:
    jobs = [[words, str(folder / name)] for name, words in runs.items()]
    subprocess.run([sys.executable, "-c", VELA, str(model)], input=json.dumps(jobs), text=True, check=True,
                   capture_output=True)  # fmt: skip


def found(folder: Path) -> tuple[bytes, dict[str, str]] | None:
    """Return what Vela's command left: the model and its summary; None when it refused."""
    if not any(folder.glob("*_vela.tflite")):
        return None
    with next(folder.glob("*.csv")).open(encoding="utf-8") as file:
        return next(folder.glob("*_vela.tflite")).read_bytes(), next(csv.DictReader(file))


def same_as_own(model: Model, name: str, theirs: tuple[bytes, dict[str, str]] | None) -> None:
    if theirs is None:
        with pytest.raises(UsageError, match="puts the arena into OffChipFlash"):
            machine(name)
        return
    data, row = theirs
    assert BACKEND.precompile(model, name, LoadOptions()).data == data
    loaded: Any = BACKEND.load_model(model, LoadOptions(accelerators=(name,)))
    counters = loaded.estimate.counters
    used = {key.replace("_", ""): float(value) for key, value in row.items() if key.endswith("_memory_used")}
    ours = {key.replace("_bytes", "memoryused"): value / 1024 for key, value in counters.items() if
            key in ("sram_bytes", "dram_bytes", "onchipflash_bytes", "offchipflash_bytes")}  # fmt: skip
    assert {key: size for key, size in used.items() if size} == {key: size for key, size in ours.items() if size}
    assert loaded.estimate.duration_ns == pytest.approx(float(row["inference_time"]) * 1e9, abs=1)
    assert (counters["macs"], counters["npu_cycles"]) == (int(row["nn_macs"]), int(row["cycles_npu"]))


@pytest.mark.slow
def test_every_system_and_memory_mode_gives_the_bytes_and_figures_of_vela_s_own_command(
    digits: Model, tmp_path: Path
) -> None:
    jobs = {f"{accelerator}:system={system}:memory={mode}": [
        "--accelerator-config", accelerator, "--system-config", system, "--memory-mode", mode,
        "--config", "Arm/vela.ini",
    ] for accelerator, systems in SYSTEMS.items() for system in systems for mode in MODES}  # fmt: skip
    own_command(DIGITS, tmp_path, jobs)
    theirs = {name: found(tmp_path / name) for name in jobs}
    assert sum(one is not None for one in theirs.values()) == 46
    for name, one in theirs.items():
        same_as_own(digits, name, one)


def test_every_accelerator_with_its_defaults_gives_the_bytes_of_vela_s_own_command(
    digits: Model, tmp_path: Path
) -> None:
    jobs = {name: ["--accelerator-config", name] for name in ACCELERATORS}
    jobs["ethos-u55-128:optimise=size:arena=1K"] = ["--accelerator-config", "ethos-u55-128", "--optimise", "Size",
                                                    "--arena-cache-size", "1024"]  # fmt: skip
    jobs["ethos-u55-32:allocator=Greedy:alignment=64:cop=COP2"] = [
        "--accelerator-config", "ethos-u55-32", "--tensor-allocator", "Greedy", "--cpu-tensor-alignment", "64",
        "--cop-format", "COP2",
    ]  # fmt: skip
    jobs["ethos-u65-256:ignore=SOFTMAX+conv_2d"] = ["--accelerator-config", "ethos-u65-256", "--ignore-ops",
                                                    "SOFTMAX,CONV_2D"]  # fmt: skip
    own_command(DIGITS, tmp_path, jobs)
    for name in jobs:
        one = found(tmp_path / name)
        assert one is not None
        same_as_own(digits, name, one)


def test_the_defaults_are_those_of_vela() -> None:
    code = """if True:
        import json
        from ethosu.vela.architecture_features import Accelerator, create_default_arch
        print("\\n" + json.dumps({one.value: [(arch := create_default_arch(one)).system_config, arch.memory_mode,
            arch.arena_cache_size, arch.num_macs_per_cycle, arch.ncores, arch.core_clock] for one in Accelerator}))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    theirs = json.loads(out.splitlines()[-1])
    ours = {name: [(one := machine(name)).system, one.memory, one.arena_bytes, *ACCELERATORS[name], one.core_clock_hz]
            for name in ACCELERATORS}  # fmt: skip
    assert ours == theirs


def test_the_defaults_are_in_the_key_and_the_configuration_file_is_there_by_content(tmp_path: Path) -> None:
    system, memory = DEFAULTS["ethos-u55"]
    plain = BACKEND.toolchain("ethos-u55-128")
    assert plain == BACKEND.toolchain(f"ethos-u55-128:memory={memory}:system={system}:optimise=performance")
    assert (plain["system"], plain["memory"], plain["arena_bytes"]) == (system, memory, str(1 << 32))
    copy = tmp_path / "board.ini"
    name = f"ethos-u55-128:config={copy}:system={system}:memory={memory}"
    copy.write_bytes(default_config().read_bytes())
    assert BACKEND.toolchain(name) == plain
    copy.write_bytes(default_config().read_bytes() + b"\n# another board\n")
    assert BACKEND.toolchain(name) != plain


def test_operators_left_to_the_cpu_are_counted_and_named() -> None:
    model = models("image-cls", "mlonmcu_catdog_cnn_int8.tflite")
    loaded: Any = BACKEND.load_model(model, LoadOptions(accelerators=("ethos-u55-256",)))
    found = loaded.acceleration
    assert (found.operators, found.taken, found.fully) == (11, 9, False)
    assert found.shares[0].why == "left to the CPU: Quantize, Dequantize"
    profile = EthosuProfiler().attach(loaded)
    assert profile.note == "2 operators stay on the CPU, of which Vela estimates nothing"
    assert [total.index for total in profile.by_operator()] == list(range(1, 10))
    assert profile.by_kind()[0].name in ("FullyConnected", "Conv2D")
    assert sum(total.duration_ns for total in profile.by_kind()) == pytest.approx(loaded.estimate.duration_ns, rel=0.05)


def test_a_float_model_of_which_the_npu_takes_nothing_is_refused_with_the_reasons() -> None:
    model = models("image-cls", "mlperf_resnet8_fp32.tflite")
    for refuse in (BACKEND.partition, BACKEND.precompile):
        with pytest.raises(UnsupportedError, match=r"takes none of 16 operators: .*Float32.*quantize the model") as err:
            refuse(model, "ethos-u55-128", LoadOptions())
        assert len(err.value.reasons) > 3
    with pytest.raises(UnsupportedError, match="ethos-u85-128 takes none"):
        BACKEND.load_model(model, LoadOptions(accelerators=("ethos-u55-128", "ethos-u85-128")))


@pytest.mark.parametrize(("damage", "message"), [
    (lambda data: data[: len(data) // 3], "Vela cannot read it: "),
    (lambda data: b"\0" * 100, "is no TFLite model"),
])  # fmt: skip
def test_a_damaged_model_is_refused_although_vela_crashes(
    digits: Model, damage: Callable[[bytes], bytes], message: str
) -> None:
    model = Model(path=Path("bad.tflite"), data=damage(digits.data), digest="")
    with pytest.raises(ModelError, match=f"^bad.tflite: {message}") as err:
        BACKEND.precompile(model, "ethos-u55-128", LoadOptions())
    assert "\n" not in str(err.value)


@pytest.mark.slow
def test_models_with_any_byte_changed_are_compiled_or_refused_in_one_line(digits: Model) -> None:
    for seed in range(40):
        data = bytearray(digits.data)
        data[seed * 7919 % len(data)] ^= 1 << seed % 8
        model = Model(path=Path("mutant.tflite"), data=bytes(data), digest="")
        try:
            assert BACKEND.precompile(model, "ethos-u55-128", LoadOptions()).data
        except StowplanError as err:
            assert "\n" not in str(err) and err.exit_code == 1


def test_an_operator_that_vela_s_reader_refuses_is_unsupported_and_a_crash_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="does not take such an operator: IFM must be INT8 or INT16"):
        BACKEND.partition(models("image-cls", "tflm_mnist_lstm_fp32.tflite"), "ethos-u55-128", LoadOptions())
    with pytest.raises(StowplanError, match=r"Vela failed \(SIG\w+\): .*; try another release"):
        BACKEND.partition(models("derived", "conv_fc_mnist_dynamic_w4.tflite"), "ethos-u55-128", LoadOptions())


@pytest.mark.parametrize(("name", "message"), [
    ("npu", "npu: is no Ethos-U; name one with --on or --aot: ethos-u55-32, "),
    ("ethos-u55-128:fast", "ethos-u55-128:fast: write OPTION=VALUE, where OPTION is system, "),
    ("ethos-u55-128:memory=", "write OPTION=VALUE"),
    ("ethos-u55-128:memory=Sram_Only:memory=Sram_Only", "memory is there twice"),
    ("ethos-u55-128:memory=Shared", "has no section Memory_Mode.Shared; did you mean Shared_Sram"),
    ("ethos-u55-128:system=zzz", "has no section System_Config.zzz; known are "),
    ("ethos-u55-128:system=Ethos_U85_SYS_DRAM_Mid", "is a system of another Ethos-U"),
    ("ethos-u55-128:memory=Dedicated_Sram", "puts the arena into OffChipFlash of Ethos_U55_High_End_Embedded"),
    ("ethos-u55-128:optimise=speed", "optimise=speed: write Performance or Size"),
    ("ethos-u55-128:arena=5G", "arena=5368709120: this Ethos-U has addresses for 4294967296 bytes"),
    ("ethos-u55-128:arena=much", "arena"),
    ("ethos-u55-128:alignment=24", "alignment=24: write a power of two from 16"),
    ("ethos-u55-128:ignore=SOFT,MAX", "ignore=SOFT,MAX: write kinds of operators with"),
    ("ethos-u55-128:config=none.ini", "its defaults are unknown; add system=NAME and memory=NAME"),
    ("ethos-u55-128:config=none.ini:system=A:memory=B", "none.ini: cannot be read: No such file"),
])  # fmt: skip
def test_a_name_that_means_nothing_is_a_usage_error(name: str, message: str) -> None:
    with pytest.raises(UsageError) as err:
        machine(name)
    assert message in str(err.value)


@pytest.mark.parametrize(("text", "message"), [
    ("no section", "is no configuration of Vela"),
    ("[System_Config.A]\ninherit=System_Config.A\n[Memory_Mode.B]\n", "System_Config.A: cannot inherit from"),
    ("[System_Config.A]\n[Memory_Mode.B]\narena_cache_size=big\n", "arena_cache_size='big' is no number"),
    ("[System_Config.A]\naxi1_port=Dram\n[Memory_Mode.B]\narena_mem_area=Axi1\n", "puts constants into Sram of A"),
])  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_a_usage_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.ini"
    path.write_text(text)
    with pytest.raises(UsageError) as err:
        machine(f"ethos-u55-128:config={path}:system=A:memory=B")
    assert message in str(err.value)


def stowplan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_commands_compile_once_estimate_and_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "digits_npu.tflite"
    ahead = ["accelerate", str(DIGITS), "-b", "ethosu", "--aot", "ethos-u55-128", "--json", "-o", str(out)]
    first, first_bytes = json.loads(stowplan(*ahead).stdout), out.read_bytes()
    second = json.loads(stowplan(*ahead).stdout)
    assert (first["cached"], second["cached"], first["fully"]) == (False, True, True)
    assert out.read_bytes() == first_bytes and b"ethos-u" in first_bytes
    seen = stowplan("accelerate", str(DIGITS), "-b", "ethosu", "--on", "ethos-u55-128", "--require", "full")
    assert seen.returncode == 0 and "ms a run on ethos-u55-128" in seen.stdout
    profile = json.loads(stowplan("profile", str(DIGITS), "-b", "ethosu", "--on", "ethos-u55-64", "--json").stdout)
    assert profile["estimate"]["counters"]["macs"] == 21524 and profile["recorded_run_us"] is None
    refused = stowplan("accelerate", str(DIGITS), "-b", "ethosu")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_the_output_does_not_depend_on_the_model_s_name(digits: Model) -> None:
    other = Model(path=Path("other.tflite"), data=digits.data, digest=digits.digest)
    datas = {BACKEND.precompile(model, "ethos-u85-2048", LoadOptions()).data for model in (digits, other, digits)}
    assert len(datas) == 1


def test_models_for_a_board_do_not_run_here_and_say_so(digits: Model) -> None:
    loaded: Any = BACKEND.load_model(digits, LoadOptions(accelerators=("ethos-u55-32",)))
    for run in (loaded.run, loaded.run_with_metrics):
        with pytest.raises(StowplanError, match="does not run here; stowplan accelerate --aot ethos-u55-32"):
            run([])
    with pytest.raises(UnsupportedError, match="compiles models, not plans"):
        BACKEND.compile(b"")
    with pytest.raises(StowplanError, match="knows Vela's models, not a object"):
        EthosuProfiler().attach(object())  # type: ignore[arg-type]


def test_without_vela_the_command_says_what_to_install() -> None:
    folders = [str(ROOT / "core" / "src"), str(ROOT / "plugins" / "backend-ethosu" / "src")]
    code = f"""if True:
        import sys
        sys.path[:0] = {folders!r}
        from stowplan_backend_ethosu import EthosuBackend
        print(EthosuBackend().available())"""
    out = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert "ok=False" in out and "Vela is not installed: pip install 'stowplan-backend-ethosu[vela]'" in out


def test_neither_vela_nor_numpy_is_imported(digits: Model) -> None:
    code = f"""if True:
        import sys
        from stowplan.flow.model import Model
        from stowplan.plugins.kinds import LoadOptions
        from stowplan_backend_ethosu import EthosuBackend
        EthosuBackend().precompile(Model.read({str(DIGITS)!r}), "ethos-u55-128", LoadOptions())
        print([name for name in sys.modules if name.partition(".")[0] in ("ethosu", "numpy", "pluggy")])"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_reference_names_every_option_and_accelerator() -> None:
    from stowplan_backend_ethosu.machine import OPTIONS

    text = (Path(__file__).parents[1] / "REFERENCE.md").read_text(encoding="utf-8")
    for word in (*OPTIONS, *ACCELERATORS, *MODES, *(system for names in SYSTEMS.values() for system in names)):
        assert f"`{word}`" in text, word
