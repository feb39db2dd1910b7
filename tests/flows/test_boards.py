"""`run` and `profile` on a board, as users type them; the emulated boards themselves are tested with their plugin."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stowplan.cli.entry import main

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
needs_board = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None,
    reason="needs arm-none-eabi-gcc and qemu-system-arm",
)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "net.stow"
    assert main(["compile", str(DIGITS / "digits_int8.tflite"), "-m", "2K", "-o", str(path)]) == 0
    return path


def told(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = main([str(argument) for argument in arguments])
    return code, *capfd.readouterr()


@needs_board
def test_a_board_gives_the_outputs_of_this_machine(plan: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = ("run", plan, "--input", DIGITS / "sample.npy", "--json")
    _, here, _ = told(capfd, *given)
    code, there, err = told(capfd, *given, "--board", "cortex-m4", "--flash", "256K", "--ram", "64K", "--stack", "2K")
    assert (code, err) == (0, "")
    assert json.loads(there)["outputs"] == json.loads(here)["outputs"]
    board = json.loads(there)["board"]
    assert board["board"] == "cortex-m4" and board["instructions"] > 10_000
    assert board["stack_bytes"] < 2048 and board["fast_used_bytes"] <= json.loads(there)["fast_bytes"]


@needs_board
def test_a_profile_on_a_board_counts_instructions_of_each_operator(
    plan: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = told(capfd, "profile", plan, "--board", "cortex-m4", "--each")
    assert code == 0
    assert "instructions on cortex-m4 (Cortex-M4F, emulated: instructions, not cycles)" in out
    assert out.index("conv_2d_s8") < out.index("depthwise_conv_2d_s8") < out.index("softmax_s8")
    code, out, _ = told(capfd, "profile", DIGITS / "digits_int8.tflite", "--board", "cortex-m4", "--json")
    facts = json.loads(out)
    assert code == 0 and sum(o["instructions"] for o in facts["operators"]) <= facts["instructions"]


@needs_board
def test_a_run_on_a_board_says_what_it_used(plan: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(
        capfd, "run", plan, "--input", DIGITS / "sample.npy", "--board", "cortex-m4", "--optimize", "Os"
    )
    assert code == 0
    assert "memory, on cortex-m4" in out and " B; stack " in out and "of flash" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--flash", "1M"), "--flash is for boards: say which with --board NAME"),
        (("--board", "cortex-m4", "--optimize", "O9"), "--optimize O9: levels are O1, O2, O3, Os"),
        (("--board", "cortex-m4", "--kernels", "avx"), "--kernels avx: kernel sets are own and portable"),
        (("--board", "cortex-m4", "--stack", "1T"), "--stack 1T: is no size"),
        (("--board", "cortex-m4", "--ram", "3G"), "--ram 3G: no board has that much"),
        (("--board", "z80"), "--board z80: there is no such board; boards are cortex-m0plus"),
    ],
)
def test_wrong_words_about_boards_are_refused(
    options: tuple[str, ...], message: str, plan: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capfd, "run", plan, "--input", DIGITS / "sample.npy", *options)
    assert code == 2 and out == "" and message in err and len(err.splitlines()) == 1


def test_instructions_have_no_timeline(plan: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capfd, "profile", plan, "--board", "cortex-m4", "--trace", tmp_path / "t.json")
    assert code == 2 and "--trace does not go with --board" in err
