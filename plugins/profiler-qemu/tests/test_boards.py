"""Plans on emulated boards: TFLite Micro's bytes on every core, exact counts, and products that are too small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from more_operator_models import wide_matmul
from operator_models import operator_model
from oracles import open_tflm, random_inputs
from standard_models import LEAST, in_both_ways, standard_model, standard_plan
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import DoesNotFit, PluginError, RuntimeFailure, UsageError
from stowplan.plugins.kinds import BoardOptions
from stowplan_profiler_qemu import QemuBackend, firmware, tools
from stowplan_profiler_qemu.boards import BOARDS
from stowplan_profiler_qemu.compiled import QemuCompiled

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.tflite"
SMALL_STACK = 1536
BOARD_MODELS = ("vww", "kws", "resnet8", "ad01")


def plan_of(path: Path, *memory: int, **options: Any) -> bytes:
    pools = tuple(zip(("fast", "slow"), memory, strict=False))
    return compile_model(CompileRequest(model_path=path, prove=False, pools=pools, **options)).data


def board(name: str) -> str:
    lacking = tools.missing(BOARDS[name])
    if lacking:
        pytest.skip(lacking)
    return name


@pytest.fixture(scope="module")
def digits() -> bytes:
    return plan_of(DIGITS)


@pytest.fixture
def inputs() -> list[bytes]:
    return [array.tobytes() for array in random_inputs(DIGITS.read_bytes(), 3)]


@pytest.fixture
def on_m4(digits: bytes) -> Iterator[QemuCompiled]:
    with QemuCompiled(digits, BoardOptions(board=board("cortex-m4"))) as compiled:
        yield compiled


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_computes_the_bytes_of_tflite_micro(name: str, digits: bytes) -> None:
    model = DIGITS.read_bytes()
    reference = open_tflm(model)
    with QemuCompiled(digits, BoardOptions(board=board(name))) as compiled:
        for seed in range(3):
            arrays = random_inputs(model, seed)
            want = [out.tobytes() for out in reference(arrays)]
            assert compiled.run([a.tobytes() for a in arrays]) == want, seed


@pytest.mark.slow
@in_both_ways
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("model", BOARD_MODELS)
def test_standard_models_equal_tflite_micro_on_boards(model: str, name: str, least: bool) -> None:
    data = standard_model(model)
    reference = open_tflm(data)
    with QemuCompiled(standard_plan(model, least), BoardOptions(board=board(name))) as compiled:
        for seed in range(3):
            arrays = random_inputs(data, seed)
            outputs, report = compiled.measure([a.tobytes() for a in arrays])
            assert outputs == [out.tobytes() for out in reference(arrays)], seed
            assert report.fast_used_bytes <= (LEAST[model] if least else 2**20)
            assert report.stack_bytes < SMALL_STACK


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("kind", ["conv_2d", "depthwise_conv_2d", "fully_connected", "add"])
def test_random_operators_equal_tflite_micro_on_cores_with_kernels_of_their_own(
    kind: str, name: str, tmp_path: Path
) -> None:
    for seed in range(2):
        model = operator_model(kind, "int8", seed)
        (tmp_path / "model.tflite").write_bytes(model)
        arrays = random_inputs(model, seed)
        with QemuCompiled(plan_of(tmp_path / "model.tflite"), BoardOptions(board=board(name))) as compiled:
            assert compiled.run([a.tobytes() for a in arrays]) == [out.tobytes() for out in open_tflm(model)(arrays)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_products_of_matrices_equal_tflite_micro_on_cores_with_kernels_of_their_own(name: str, tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        model = wide_matmul(seed)
        (tmp_path / "model.tflite").write_bytes(model)
        arrays = random_inputs(model, seed)
        with QemuCompiled(plan_of(tmp_path / "model.tflite"), BoardOptions(board=board(name))) as compiled:
            outputs, report = compiled.measure([a.tobytes() for a in arrays])
            assert outputs == [out.tobytes() for out in open_tflm(model)(arrays)], seed
            assert report.stack_bytes < SMALL_STACK + 256


def test_streamed_rows_are_read_as_the_run_needs_them(inputs: list[bytes]) -> None:
    plan = plan_of(DIGITS, stream_inputs=(_input_name(),))
    whole = QemuCompiled(plan_of(DIGITS), BoardOptions(board=board("cortex-m4")))
    with whole, QemuCompiled(plan, BoardOptions(board="cortex-m4")) as streamed:
        assert streamed.run(inputs) == whole.run(inputs)


@pytest.mark.parametrize("name", ["cortex-m4", "rv32"])
def test_an_input_that_is_read_several_times_over_is_rewound(name: str, digits: bytes, inputs: list[bytes]) -> None:
    plan = plan_of(DIGITS, 440, stream_inputs=(_input_name(),), recompute=2.0)
    with (
        QemuCompiled(digits, BoardOptions(board=board(name))) as whole,
        QemuCompiled(plan, BoardOptions(board=name)) as again,
    ):
        assert again.inputs[0].turns > 1
        assert again.run(inputs) == whole.run(inputs)


def _input_name() -> str:
    from stowplan.planfile.reader import read_plan

    return read_plan(plan_of(DIGITS)).inputs[0].name


def test_counts_are_exact_and_the_same_every_time(on_m4: QemuCompiled, inputs: list[bytes]) -> None:
    first, second = on_m4.measure(inputs)[1], on_m4.measure(inputs)[1]
    assert first == second
    marked = on_m4.measure(inputs, each=True)[1]
    counted = sum(operator.instructions for operator in marked.operators)
    assert 0.95 * first.instructions < counted < 1.05 * first.instructions
    assert [operator.kind for operator in marked.operators][:2] == ["conv_2d_s8", "depthwise_conv_2d_s8"]


def test_a_thousand_instructions_count_as_a_thousand(
    digits: bytes, inputs: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts(repeat: int) -> int:
        _replace_run(monkeypatch, f'__asm volatile(".rept {repeat}\\n\\tnop\\n\\t.endr");')
        with QemuCompiled(digits, BoardOptions(board=board("cortex-m4"))) as compiled:
            return compiled.measure(inputs)[1].instructions

    assert counts(1500) - counts(500) == 1000


def _replace_run(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Let the firmware do something before the run."""
    monkeypatch.undo()
    original = firmware._main
    call = "    const int status = run();"
    monkeypatch.setattr(firmware, "_main", lambda view: original(view).replace(call, f"    {statement}\n{call}"))


@pytest.mark.parametrize("name", ["cortex-m3", "cortex-m33", "cortex-m55"])
@pytest.mark.parametrize("where", ["board_fast_end", "board_fast_start - 1", "board_slow_end"])
def test_a_byte_beside_an_arena_cannot_be_written(
    name: str, where: str, digits: bytes, inputs: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _replace_run(monkeypatch, f"*(volatile uint8_t *)((uintptr_t){where}) = 1;")
    with (
        QemuCompiled(digits, BoardOptions(board=board(name))) as compiled,
        pytest.raises(RuntimeFailure, match=f"the run on {name} failed: fault: memory outside its bounds"),
    ):
        compiled.run(inputs)


@pytest.mark.parametrize("name", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_unaligned_access_is_a_fault(
    name: str, digits: bytes, inputs: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _replace_run(monkeypatch, "volatile uintptr_t at = (uintptr_t)fast + 1; (void)*(volatile uint32_t *)at;")
    with (
        QemuCompiled(digits, BoardOptions(board=board(name))) as compiled,
        pytest.raises(RuntimeFailure, match="fault: unaligned access"),
    ):
        compiled.run(inputs)


@pytest.mark.parametrize(("what", "sizes"), [("flash", {"flash_bytes": 8192}), ("RAM", {"ram_bytes": 2048})])
def test_a_product_that_is_too_small_is_refused_with_what_is_missing(
    what: str, sizes: dict[str, int], digits: bytes, inputs: list[bytes]
) -> None:
    with (
        QemuCompiled(digits, BoardOptions(board=board("cortex-m4"), **sizes)) as compiled,
        pytest.raises(DoesNotFit, match=f"of {what}.* on cortex-m4, there are .* over") as caught,
    ):
        compiled.run(inputs)
    assert caught.value.needed_bytes > caught.value.budget_bytes == next(iter(sizes.values()))
    exact = dict.fromkeys(sizes, caught.value.needed_bytes)
    with QemuCompiled(digits, BoardOptions(board="cortex-m4", **exact)) as compiled:
        assert compiled.run(inputs)


def test_more_memory_than_the_board_has_is_refused(digits: bytes) -> None:
    for sizes in ({"flash_bytes": 2**24}, {"ram_bytes": 2**24}):
        with pytest.raises(UsageError, match=r"cortex-m4 has 4.00 MiB of (flash|RAM), 16.00 MiB were asked for"):
            QemuCompiled(digits, BoardOptions(board=board("cortex-m4"), **sizes))


def test_unknown_boards_and_missing_tools_are_said(digits: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--board cortex-m9: there is no such board; boards are cortex-m0plus, "):
        QemuCompiled(digits, BoardOptions(board="cortex-m9"))
    monkeypatch.setattr(tools.shutil, "which", lambda program: None)
    with pytest.raises(
        RuntimeFailure, match=r"--board rv32: riscv64-unknown-elf-gcc is not installed; .*apt-get install"
    ):
        QemuCompiled(digits, BoardOptions(board="rv32"))
    assert not QemuBackend().available().ok
    assert "apt-get install" in QemuBackend().available().why


def test_wrong_inputs_and_closed_models_are_refused(on_m4: QemuCompiled, inputs: list[bytes]) -> None:
    with pytest.raises(RuntimeFailure, match="0 inputs given, the model has 1"):
        on_m4.run([])
    with pytest.raises(RuntimeFailure, match="3 bytes given"):
        on_m4.run([b"abc"])
    on_m4.close()
    on_m4.close()
    with pytest.raises(RuntimeFailure, match="closed"):
        on_m4.run(inputs)


@pytest.mark.parametrize("name", BOARDS)
def test_firmware_has_no_allocator_no_printf_and_no_arithmetic_on_floats(name: str, digits: bytes) -> None:
    with QemuCompiled(digits, BoardOptions(board=board(name), optimize="Os")) as compiled:
        symbols = compiled._image(False).symbols
    unwanted = ("malloc", "free", "printf", "__aeabi_f", "__aeabi_d", "__addsf3", "__mulsf3", "__divsf3", "__floatsisf")
    assert [s for s in symbols if s.startswith(unwanted) and not s.startswith("__aeabi_drsub")] == []


def test_a_plugin_without_boards_is_an_error_that_says_what_to_install(
    digits: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stowplan.cli import boards

    class NoBackends:
        def backends(self) -> dict[str, object]:
            return {}

    monkeypatch.setattr(boards, "host", NoBackends)
    with pytest.raises(
        PluginError, match=r"no plugin has boards\. Install it with: pip install stowplan-profiler-qemu"
    ):
        boards.on_board(digits, BoardOptions(board="cortex-m4"))


def test_the_backend_runs_plans_like_any_other(digits: bytes, inputs: list[bytes]) -> None:
    board("cortex-m4")
    with closing(QemuBackend().compile(digits)) as compiled:
        outputs, metrics = compiled.run_with_metrics(inputs)
    assert metrics.counters["instructions"] > 10_000
    assert np.frombuffer(outputs[0], np.int8).shape == (10,)
