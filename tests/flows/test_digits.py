"""The shipped model from .tflite to a C program, command by command, with TFLite Micro as the judge of its outputs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits"
MODEL = EXAMPLE / "digits_int8.tflite"
REPORT = re.compile(
    r"digits_int8\.tflite   int8, 7 operators\n"
    r"  input    image           1x8x8x1 int8\n"
    r"  output   probabilities   1x10 int8\n"
    r"fits 800 B fast memory, \d+ stages?, \d+ tiled\n\n"
    r"memory\n"
    r"  TFLite Micro tensors   1\.25 KiB +its planner; kernel scratch excluded\n"
    r"  unscheduled            \S+ \S+\n"
    r"  largest tensor         1\.00 KiB +1x8x8x16\n"
    r"  this plan              \d+ B +\d+ B headroom\n"
    r"  all memory             \d+ B +fast and slow together, inputs and outputs included\n\n"
    r"flash\n"
    r"  plan   \S+ KiB   weights \S+ KiB, overhead \S+ KiB\n\n"
    r"proof   equal to the untiled schedule.*\n\n"
    r"wrote .*digits\.stow   \S+ KiB\n"
)


@pytest.fixture
def plan(stowplan, tmp_path: Path) -> Path:
    path = tmp_path / "digits.stow"
    stowplan("compile", MODEL, "-m", "800", "-o", path)
    return path


@pytest.fixture
def inputs() -> np.ndarray:
    """Random images: (count, bytes of one)."""
    return np.random.default_rng(5).integers(-128, 128, (20, 64), dtype=np.int8)


def expected(inputs: np.ndarray) -> list[np.ndarray]:
    oracles = pytest.importorskip("oracles", reason="needs tflite-micro")
    run = oracles.open_tflm(MODEL.read_bytes())
    return [run([image.reshape(1, 8, 8, 1)])[0] for image in inputs]


def test_the_report_has_every_row(stowplan, tmp_path: Path) -> None:
    assert REPORT.fullmatch(stowplan("compile", MODEL, "-m", "800", "-o", tmp_path / "digits.stow"))


def test_the_same_model_and_budget_give_the_same_file(stowplan, plan: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.stow"
    stowplan("compile", MODEL, "-m", "800", "-o", again)
    assert again.read_bytes() == plan.read_bytes()


def test_the_default_output_lies_beside_the_model_and_is_the_only_new_file(stowplan, tmp_path: Path) -> None:
    shutil.copy(MODEL, tmp_path / "m.tflite")
    stowplan("compile", tmp_path / "m.tflite", "-m", "4K")
    assert {p.name for p in tmp_path.iterdir()} == {"m.tflite", "m.stow"}


@pytest.mark.parametrize(
    "options",
    [["-m", "700"], ["-m", "4K"], ["-m", "512+64K"], ["-m", "16K", "-c", "lz4"], ["-m", "16K", "-c", "range"],
     ["-m", "2K", "--xip"]],
)  # fmt: skip
def test_runs_equal_tflite_micro_byte_for_byte(stowplan, tmp_path: Path, inputs, options: list[str]) -> None:
    plan, image, result = tmp_path / "d.stow", tmp_path / "x.npy", tmp_path / "y.npy"
    stowplan("compile", MODEL, *options, "-o", plan)
    for pixels, wanted in list(zip(inputs, expected(inputs), strict=True))[:5]:
        np.save(image, pixels.reshape(1, 8, 8, 1))
        stowplan("run", plan, "--input", image, "--output", f"probabilities={result}")
        assert np.array_equal(np.load(result), wanted)


def test_run_prints_values_and_json_has_them_with_their_digest(stowplan, plan: Path) -> None:
    out = stowplan("run", plan, "--input", EXAMPLE / "sample.npy")
    values = json.loads(stowplan("run", plan, "--input", EXAMPLE / "sample.npy", "--json"))["outputs"][0]["values"]
    assert " ".join(map(str, values)) in out
    assert max(range(10), key=values.__getitem__) == 2


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")
def test_the_generated_program_prints_the_same_bytes(stowplan, plan: Path, tmp_path: Path, inputs) -> None:
    source, program = tmp_path / "digits.c", tmp_path / "digits"
    stowplan("codegen", plan, "-b", "c", "--format", "app", "-o", source)
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    subprocess.run(["cc", *flags, str(source), "-o", str(program), "-lm"], check=True)
    for pixels, wanted in zip(inputs, expected(inputs), strict=True):
        done = subprocess.run([str(program), "--raw"], input=pixels.tobytes(), capture_output=True, check=True)
        assert done.stdout == wanted.tobytes()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")
def test_two_cores_link_into_one_program(stowplan, plan: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        stowplan("codegen", plan, "--format", "core", "--name", name, "-o", tmp_path / f"{name}.c")
    (tmp_path / "main.c").write_text('#include "first.h"\n#include "second.h"\nint main(void) { return 0; }\n')
    sources = [str(tmp_path / f"{name}.c") for name in ("main", "first", "second")]
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *sources, "-o", str(tmp_path / "m"), "-lm"], check=True
    )
    subprocess.run([str(tmp_path / "m")], check=True)


def test_analyze_adds_other_budgets_traffic_compression_and_stages(stowplan, tmp_path: Path) -> None:
    out = stowplan("analyze", MODEL, "-m", "700", "-v")
    assert "does not fit at" in out or "also fits at" in out
    assert "slow traffic" in out
    assert "\nstages\n" in out
    document = json.loads(stowplan("analyze", MODEL, "-m", "700", "--json"))
    assert document["trials"]
    assert document["total_bytes"] == document["fast_bytes"]
    assert not list(tmp_path.iterdir())


def test_analyze_without_a_budget_gives_figures_only(stowplan) -> None:
    out = stowplan("analyze", MODEL)
    assert "no budget given; memory figures only" in out
    assert "headroom" not in out


def test_compile_as_json_has_the_facts_and_the_file(stowplan, tmp_path: Path) -> None:
    path = tmp_path / "d.stow"
    document = json.loads(stowplan("compile", MODEL, "-m", "800", "-o", path, "--json"))
    assert document["plan_bytes"] == path.stat().st_size
    assert document["file_written"] == str(path)
    assert document["fast_bytes"] <= 800


def test_the_last_line_says_what_compression_takes_of_the_fast_memory(stowplan, tmp_path: Path) -> None:
    out = stowplan("compile", MODEL, "-m", "16K", "-c", "lz4", "-o", tmp_path / "d.stow")
    last = out.splitlines()[-1]
    assert re.fullmatch(
        r"wrote .*d\.stow   \S+ KiB, LZ4, \S+ \w+ of the 16\.00 KiB fast memory holds decompressed weights", last
    )


def test_inspect_reads_model_and_plan_back(stowplan, plan: Path) -> None:
    model = stowplan("inspect", MODEL, "-v")
    assert "CONV_2D" in model
    assert re.search(r"converts +yes", model)
    assert json.loads(stowplan("inspect", MODEL, "--json"))["converts"] is True
    out = stowplan("inspect", plan, "-v")
    assert "proven" in out
    assert "stowplan-scheduler-stream 0.1.0" in out
    document = json.loads(stowplan("inspect", plan, "--json"))
    assert document["size_bytes"] == plan.stat().st_size
    assert "conv_2d_s8" in {node["kind"] for node in document["nodes"]}


def test_the_text_forms_are_complete_and_stable(stowplan, plan: Path) -> None:
    model, text = stowplan("inspect", MODEL, "--text"), stowplan("inspect", plan, "--text")
    assert model == stowplan("inspect", MODEL, "--text")
    assert model.count("\noperator ") == 7
    assert text.startswith("plan 1.3 'digits_int8'\n")
    assert re.search(r"^  fire node 0 units 0\.\.\d+$", text, re.MULTILINE)


def test_keep_names_keeps_names_for_inspect(stowplan, tmp_path: Path) -> None:
    plain, named = tmp_path / "plain.stow", tmp_path / "named.stow"
    stowplan("compile", MODEL, "-m", "800", "-o", plain)
    stowplan("compile", MODEL, "-m", "800", "-o", named, "--keep-names")
    assert "depthwise" in stowplan("inspect", named, "-v").partition("nodes")[2].replace("depthwise_conv", "")
    assert plain.stat().st_size < named.stat().st_size


def test_an_unproven_plan_says_so(stowplan, tmp_path: Path) -> None:
    path = tmp_path / "d.stow"
    assert "not proven (--no-prove)" in stowplan("compile", MODEL, "-m", "800", "-o", path, "--no-prove")
    assert "not proven" in stowplan("inspect", path)


def test_the_baseline_scheduler_reproduces_tflite_micros_row(stowplan, tmp_path: Path) -> None:
    command = ["compile", MODEL, "-m", "4K", "-o", tmp_path / "d.stow", "--scheduler", "greedy", "--json"]
    document = json.loads(stowplan(*command))
    assert document["fast_bytes"] == document["tflite_micro_bytes"]
