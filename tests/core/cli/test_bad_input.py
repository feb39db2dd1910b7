"""Bad input of every kind: one line, the right exit code, no traceback, and no file left behind."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from stowplan.planfile.writer import sealed


def refused(outcome, code: int, *words: str) -> None:
    """Assert that a command refused in one line that says `words`."""
    assert outcome.code == code, outcome
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("Error: ")
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("command", ["compile", "analyze"])
@pytest.mark.parametrize(
    ("budget", "words"),
    [("abc", ["-m abc", "no size"]), ("0", ["at least one byte"]), ("-1K", ["-m"]), ("1K+1K+1K", ["two memories"])],
)
def test_a_budget_that_is_no_size_is_a_usage_error(stowplan, digits, command, budget, words) -> None:
    refused(stowplan(command, digits, f"-m={budget}" if budget[0] == "-" else "-m", budget), 2)
    refused(stowplan(command, digits, f"--mem={budget}"), 2, *words[1:])
    assert files(digits.parent) == {"digits.tflite"}


def test_flash_compressor_scheduler_and_shape_are_checked_before_any_work(stowplan, digits) -> None:
    refused(stowplan("compile", digits, "-m", "4K", "-f", "lots"), 2, "-f lots")
    refused(stowplan("compile", digits, "-m", "4K", "-c", "zip"), 2, "-c zip: compressors are none, lz4")
    refused(stowplan("compile", digits, "-m", "4K", "--scheduler", "straem"), 1, "Did you mean stream?")
    refused(stowplan("compile", digits, "-m", "4K", "--input-shape", "1x8"), 2, "--input-shape")
    refused(stowplan("compile", digits, "-m", "4K", "--input-shape", "nobody:1x8x8x1"), 2, "nobody")
    refused(stowplan("compile", digits, "-m", "4K", "--input-shape", "image:1x8"), 2, "image")
    assert files(digits.parent) == {"digits.tflite"}


@pytest.mark.parametrize("command", [["compile", "-m", "4K"], ["analyze"], ["inspect"]])
def test_models_that_are_none_are_refused(stowplan, tmp_path: Path, digits: Path, command: list[str]) -> None:
    cases = {
        "empty.tflite": b"",
        "text.tflite": b"this is no model at all, however long it may be",
        "zeros.tflite": bytes(1000),
        "huge-offsets.tflite": b"\xff\xff\xff\x7fTFL3" + b"\xff" * 100,
        "digits.tfl": digits.read_bytes(),
        "model": digits.read_bytes(),
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        refused(stowplan(*command, tmp_path / name), 1, name)
    (tmp_path / "folder.tflite").mkdir()
    refused(stowplan(*command, tmp_path / "folder.tflite"), 1, "is a directory")
    refused(stowplan(*command, tmp_path / "absent.tflite"), 1, "no such file")
    assert not list(tmp_path.glob("*.stow"))


def test_a_file_larger_than_any_model_is_refused_unread(stowplan, tmp_path: Path) -> None:
    path = tmp_path / "huge.tflite"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    refused(stowplan("compile", path, "-m", "4K"), 1, "more than a model may have")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(stowplan, digits: Path) -> None:
    digits.chmod(0)
    refused(stowplan("compile", digits, "-m", "4K"), 1, "cannot be read")


def test_truncated_models_are_refused_at_any_length(stowplan, digits: Path, tmp_path: Path) -> None:
    data = digits.read_bytes()
    path = tmp_path / "cut.tflite"
    for size in (1, 7, 8, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        outcome = stowplan("compile", path, "-m", "4K", "--no-prove")
        if outcome.code:  # the last bytes of a file may be padding that nobody needs
            refused(outcome, 1)
    assert not (tmp_path / "cut.stow").exists() or outcome.code == 0


def test_models_with_flipped_bits_are_refused_or_compiled_but_never_crash(stowplan, digits: Path, tmp_path) -> None:
    data, generator, path = digits.read_bytes(), random.Random(1), tmp_path / "flip.tflite"
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(generator.randrange(1, 4)):
            changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        outcome = stowplan("compile", path, "-m", "4K", "--no-prove", "-o", tmp_path / "flip.stow")
        assert outcome.code in (0, 1), outcome
        if outcome.code:
            assert outcome.err.startswith("Error: ")
            assert "internal" not in outcome.err


def test_a_model_that_declares_more_rows_than_can_be_followed_is_refused_at_once(stowplan, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")
    from tflite_builder import ModelBuilder

    model = ModelBuilder()
    x, y = model.input("x", (1 << 26, 1), "float32"), model.tensor("y", (1 << 26, 1), "float32")
    model.operator("ABS", [x], [y])
    path = tmp_path / "long.tflite"
    path.write_bytes(model.outputs(y).build())
    refused(stowplan("compile", path, "-m", "1G"), 1, 'tensor "x" (67108864x1) has 67108864 rows', "another shape")


def test_a_budget_below_any_plan_prints_the_report_and_the_cause_and_writes_nothing(stowplan, digits: Path) -> None:
    code, out, err = stowplan("compile", digits, "-m", "100")
    assert (code, err.count("\n")) == (1, 1)
    assert "does not fit 100 B fast memory: " in out
    assert "TFLite Micro tensors" in out
    assert err.startswith("Error: no plan written: ")
    assert files(digits.parent) == {"digits.tflite"}
    code, out, err = stowplan("analyze", digits, "-m", "100")
    assert (code, err.count("\n")) == (1, 1)
    assert "does not fit 100 B fast memory: " in out


def test_a_plan_larger_than_the_flash_is_not_written(stowplan, digits: Path) -> None:
    code, out, err = stowplan("compile", digits, "-m", "4K", "-f", "1K")
    assert code == 1
    assert "budget 1.00 KiB" in out
    assert "Error: no plan written: the plan is" in err
    assert "the flash budget is 1.00 KiB" in err
    assert files(digits.parent) == {"digits.tflite"}


def test_a_refusal_as_json_has_the_error_and_the_report_as_far_as_it_goes(stowplan, digits: Path) -> None:
    code, out, err = stowplan("compile", digits, "-m", "100", "--json")
    document = json.loads(out)
    assert (code, err, document["error"]["code"]) == (1, "", "does-not-fit")
    assert document["fits"] is False
    assert document["tflite_micro_bytes"] > 0
    code, out, err = stowplan("analyze", digits, "-m", "100", "--json")
    assert (code, err, json.loads(out)["error"]["code"]) == (1, "", "does-not-fit")


def test_an_output_that_cannot_be_is_refused_before_the_model_is_read(stowplan, digits: Path, tmp_path: Path) -> None:
    refused(stowplan("compile", digits, "-m", "4K", "-o", tmp_path / "no" / "x.stow"), 1, "does not exist")
    refused(stowplan("compile", digits, "-m", "4K", "-o", tmp_path), 1, "is a directory")
    refused(stowplan("compile", digits, "-m", "4K", "-o", digits), 1, "is the file that is read")
    refused(stowplan("compile", digits, "-m", "4K", "-o", os.devnull), 1, "not a regular file")
    assert files(digits.parent) == {"digits.tflite"}


@pytest.fixture
def plan(stowplan, digits: Path) -> Path:
    assert stowplan("compile", digits, "-m", "4K").code == 0
    return digits.with_suffix(".stow")


@pytest.mark.parametrize(
    "options",
    [
        ["--depfile", "digits.stow"],
        ["--trace", "digits.stow"],
        ["--plot", "x", "--depfile", "x"],
        ["--plot", "x", "--trace", "x"],
        ["--depfile", "x", "--trace", "x"],
        ["--codegen", "x.c", "--trace", "x.c"],
        ["--codegen", "x.c", "--depfile", "x.h"],
        ["--codegen", "x.c", "--plot", "x.h"],
    ],
)
def test_no_two_outputs_of_a_compilation_can_be_one_file(
    stowplan, digits: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(digits.parent)
    refused(stowplan("compile", "digits.tflite", "-m", "800", *options), 1, "two outputs cannot be one file")
    assert not [path for path in digits.parent.iterdir() if path.is_file() and path.suffix not in (".tflite", "")]


@pytest.mark.parametrize(
    "command",
    ["compile -m 800", "analyze", "inspect", "run", "codegen", "codegen --package cmake", "report", "profile"],
)
@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_are_no_file_names_are_refused(stowplan, command: str, name: str) -> None:
    refused(stowplan(*command.split(), name), 1, "is a directory")


def test_a_name_with_a_zero_byte_which_only_files_and_programs_can_write_is_refused(stowplan, tmp_path: Path) -> None:
    refused(stowplan("inspect", "a\0b"), 1, "is no file name")
    batch = tmp_path / "batch"
    batch.write_bytes(b"run\nplan.stow\n--input\na\0.npy\n")
    refused(stowplan("batch", batch), 2, "zero byte")


def test_two_forms_of_one_answer_are_a_usage_error(stowplan, plan: Path, digits: Path) -> None:
    for file in (plan, digits):
        outcome = stowplan("inspect", file, "--text", "--json")
        assert (outcome.code, json.loads(outcome.out)["error"]["code"]) == (2, "usage")


def test_no_accelerator_at_all_is_a_usage_error(stowplan, digits: Path) -> None:
    for command in ("profile", "accelerate"):
        refused(stowplan(command, digits, "--on", ""), 2, "write accelerators with commas between")


@pytest.mark.parametrize("command", ["run", "codegen", "inspect"])
def test_plans_that_are_damaged_are_refused_and_nothing_is_written(stowplan, plan: Path, command: str) -> None:
    data = plan.read_bytes()
    before = files(plan.parent)
    generator = random.Random(2)
    cases = [data[:-1], data[:10], data[:144], data + b"x", b"STOW", bytes(len(data))]
    cases += [bytes(b ^ (i == at) for i, b in enumerate(data)) for at in generator.sample(range(len(data)), 10)]
    for case in cases:
        plan.write_bytes(case)
        refused(stowplan(command, plan), 1, plan.name)
    assert files(plan.parent) == before


@pytest.mark.parametrize("command", ["compile -m 800 -o x", "analyze", "verify"])
def test_a_plan_where_a_model_is_wanted_is_answered_with_the_commands_that_take_one(stowplan, plan, command) -> None:
    refused(stowplan(*command.split(), plan), 1, "is a plan, not a model: stowplan inspect, report and run take it")


@pytest.mark.parametrize("command", ["run", "codegen"])
def test_a_model_where_a_plan_is_wanted_is_answered_with_the_command_that_makes_one(stowplan, digits, command) -> None:
    refused(stowplan(command, digits), 2, "compile it first: stowplan compile")


def test_inputs_that_are_missing_unknown_or_given_twice_are_usage_errors(stowplan, plan: Path, sample: Path) -> None:
    refused(stowplan("run", plan), 2, "no file for input image (1x8x8x1 int8)", "--input image=FILE")
    refused(stowplan("run", plan, "--input", f"nobody={sample}"), 2, 'no input "nobody"', "image")
    refused(stowplan("run", plan, "--input", sample, "--input", f"image={sample}"), 2, "given twice")
    refused(stowplan("run", plan, "--input", "sample.txt"), 2, ".npy or .bin")
    refused(stowplan("run", plan, "--input", sample, "--output", "x.txt"), 2, ".npy or .bin")


def test_inputs_of_the_wrong_size_are_refused(stowplan, plan: Path, tmp_path: Path) -> None:
    for size in (0, 63, 65, 1 << 20):
        path = tmp_path / "x.bin"
        path.write_bytes(bytes(size))
        refused(stowplan("run", plan, "--input", path), 1)


def test_an_unknown_backend_is_answered_with_those_there_are(stowplan, plan: Path, sample: Path) -> None:
    refused(stowplan("run", plan, "--input", sample, "-b", "d"), 1, 'no backend "d"')
    refused(stowplan("codegen", plan, "-b", "d"), 1, 'no backend "d"')


def test_names_that_are_none_in_c_are_usage_errors(stowplan, plan: Path, tmp_path: Path) -> None:
    for name in ("", "1x", "a-b", "stow_x", "ü", "a b", "x" * 100):
        refused(stowplan("codegen", plan, "--name", name, "-o", tmp_path / "x.c"), 2)
    refused(stowplan("codegen", plan, "-o", tmp_path / "x.txt"), 1, "ends in .c")
    refused(stowplan("codegen", plan, "-o", tmp_path / "no" / "x.c"), 1, "does not exist")
    assert not list(tmp_path.glob("*.[ch]"))


@pytest.mark.parametrize("option", ["-v", "--text", "--json"])
def test_inspect_survives_plans_damaged_on_purpose_with_their_digest_made_right(stowplan, plan: Path, option) -> None:
    data, generator = plan.read_bytes(), random.Random(3)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(generator.randrange(1, 5)):
            changed[generator.randrange(8, min(len(data), 2500))] = generator.choice((0, 1, 127, 255))
        plan.write_bytes(sealed(bytes(changed)))
        outcome = stowplan("inspect", plan, option)
        assert outcome.code in (0, 1), outcome


@pytest.mark.parametrize("specialize", ["none", "all"])
def test_codegen_refuses_or_writes_plans_damaged_on_purpose_also_without_a_self_test(
    stowplan, plan: Path, specialize: str
) -> None:
    data, generator, refusals = plan.read_bytes(), random.Random(5), 0
    for _ in range(100):
        changed = bytearray(data)
        for _ in range(generator.randrange(1, 5)):
            changed[generator.randrange(8, 2500)] = generator.choice((0, 1, 127, 255))
        plan.write_bytes(sealed(bytes(changed)))
        outcome = stowplan("codegen", plan, "--no-selftest", "--specialize", specialize, "--name", "net")
        assert outcome.code in (0, 1), outcome
        refusals += outcome.code
    assert refusals


def test_a_package_is_written_as_a_folder_and_refused_where_none_can_be(stowplan, plan: Path, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    outcome = stowplan("codegen", plan, "--package", "cmake", "--name", "net", "-o", folder)
    assert outcome.code == 0
    assert {path.name for path in folder.rglob("*.*")} >= {"CMakeLists.txt", "net.c", "net.h", "selftest.c"}
    assert stowplan("codegen", plan, "--package", "cmake", "--name", "net", "-o", folder).code == 0
    (tmp_path / "file").write_bytes(b"")
    refused(
        stowplan("codegen", plan, "--package", "cmake", "-o", tmp_path / "file"), 1, "is no folder; a package is one"
    )
    refused(stowplan("codegen", plan, "--package", "cmake", "-o", tmp_path / "no" / "net"), 1, "does not exist")
    refused(stowplan("codegen", plan, "--package", "yocto", "-o", folder), 2, "--package yocto", "zephyr")
    (folder / "src").rename(tmp_path / "moved")
    (folder / "src").write_bytes(b"")
    refused(stowplan("codegen", plan, "--package", "cmake", "--name", "net", "-o", folder), 1, "cannot become a folder")


def test_options_of_generated_code_that_do_not_exist_are_usage_errors(stowplan, plan: Path, tmp_path: Path) -> None:
    for option in ("--weights", "--specialize", "--kernels"):
        refused(
            stowplan("codegen", plan, option, "x", "-o", tmp_path / "x.c"), 2, f"{option} x: there is no such choice"
        )
    assert not list(tmp_path.glob("*.[ch]"))


def test_profile_takes_plans_and_models_and_refuses_options_that_would_change_nothing(
    stowplan, plan: Path, digits: Path, tmp_path: Path
) -> None:
    for file in (plan, digits):
        outcome = stowplan("profile", file, "--runs", "3", "--each", "--trace", tmp_path / "t.json")
        assert outcome.code == 0
        assert "3 runs on cpu" in outcome.out
        assert "conv_2d_s8" in outcome.out
    for option in ("--threads", "--precision", "--signature", "--device"):
        refused(stowplan("profile", plan, option, "2"), 2, f"{option}: means nothing to the C kernels; add --on cpu")
    refused(stowplan("profile", plan, "--on", "cpu"), 2, "is a plan, which runs with the C kernels")
    plan.write_bytes(plan.read_bytes()[:-1])
    refused(stowplan("profile", plan), 1, plan.name)
