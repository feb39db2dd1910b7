"""Many commands in one process do what each does alone, and what a build tool needs of one compilation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stowplan.cli import batch_command, entry


def written(path: Path, *commands: list[object]) -> Path:
    path.write_text("".join("\n".join(map(str, command)) + "\n\n" for command in commands), "utf-8")
    return path


def compiling(digits: Path, name: str, memory: str = "800") -> list[object]:
    folder = digits.parent
    plan, source, rule = (folder / f"{name}{suffix}" for suffix in (".stow", ".c", ".d"))
    return ["compile", digits, "-m", memory, "-q", "-o", plan, "--codegen", source, "--depfile", rule]


def test_a_batch_writes_the_bytes_that_each_command_writes_alone(stowplan, shell, digits: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "batch", compiling(digits, "one"), compiling(digits, "two", "2K"))
    assert stowplan("batch", str(file)) == (0, "", "")
    for name, memory in (("one", "800"), ("two", "2K")):
        alone = tmp_path / "alone"
        alone.mkdir(exist_ok=True)
        shell("compile", str(digits), "-m", memory, "-o", str(alone / f"{name}.stow"))
        shell("codegen", str(alone / f"{name}.stow"), "-o", str(alone / f"{name}.c"))
        for suffix in (".stow", ".c", ".h"):
            assert (tmp_path / f"{name}{suffix}").read_bytes() == (alone / f"{name}{suffix}").read_bytes()


def test_all_commands_are_run_and_the_worst_code_is_returned(stowplan, digits: Path, tmp_path: Path) -> None:
    commands = [compiling(digits, "one", "8"), ["compile", "absent.tflite", "-m", "8"], compiling(digits, "two", "8Q")]
    file = written(tmp_path / "batch", *commands, compiling(digits, "last"))
    code, out, err = stowplan("batch", str(file))
    assert (code, out, err.count("Error: ")) == (2, "", 3)
    assert f"\n{file}: that was command 2: compile absent.tflite -m 8\n" in err
    assert "no plan written" in err and "absent.tflite: no such file" in err and "-m 8Q" in err
    assert (tmp_path / "last.c").is_file() and not (tmp_path / "one.c").exists()


def test_the_rules_of_all_commands_are_put_into_one_file(stowplan, digits: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "batch", compiling(digits, "one"), [*compiling(digits, "two"), "--depfile-target", "t"])
    assert stowplan("batch", str(file), "--depfile", str(tmp_path / "all.d")).code == 0
    rules = (tmp_path / "all.d").read_text()
    assert rules == (tmp_path / "one.d").read_text() + (tmp_path / "two.d").read_text()
    assert rules.startswith(f"{tmp_path / 'one.stow'}: \\\n") and "\nt: \\\n" in rules


def test_a_failed_batch_writes_no_rules(stowplan, digits: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "batch", compiling(digits, "one"), compiling(digits, "two", "8"))
    assert stowplan("batch", str(file), "--depfile", str(tmp_path / "all.d")).code == 1
    assert not (tmp_path / "all.d").exists()


def test_a_command_leaves_the_environment_as_it_was(stowplan, digits: Path, tmp_path: Path) -> None:
    before = dict(os.environ)
    file = written(tmp_path / "batch", [*compiling(digits, "one"), "--cache-dir", tmp_path / "elsewhere"])
    assert stowplan("batch", str(file)).code == 0
    assert (tmp_path / "elsewhere").is_dir() and dict(os.environ) == before


def test_help_within_a_batch_does_not_end_it(stowplan, digits: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "batch", ["compile", "--help"], compiling(digits, "one"))
    assert stowplan("batch", str(file)).code == 0
    assert (tmp_path / "one.c").is_file()


def test_an_interrupted_command_is_the_last(stowplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(batch_command, "main", lambda words: begun.append(words[0]) or entry.INTERRUPTED)
    assert stowplan("batch", str(written(tmp_path / "batch", ["a"], ["b"]))).code == entry.INTERRUPTED
    assert begun == ["a"]


@pytest.mark.parametrize("word", batch_command.REFUSED)
def test_commands_with_processes_of_their_own_are_refused(stowplan, tmp_path: Path, word: str) -> None:
    code, _, err = stowplan("batch", str(written(tmp_path / "batch", ["inspect", "x"], [word])))
    assert code == 2 and f"command 2: {word} cannot be one of many; run it on its own" in err


def test_a_batch_that_cannot_be_read_is_one_line(stowplan, tmp_path: Path) -> None:
    code, _, err = stowplan("batch", str(tmp_path / "absent"))
    assert (code, err) == (2, f"Error: {tmp_path / 'absent'}: cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-q", "--json"], "-q: goes not with --json"),
        (["--depfile-target", "t"], "--depfile-target: goes with --depfile FILE"),
        (["--name", "n"], "--name: goes with --codegen FILE.c"),
        (["--codegen", "d.c", "--name", ""], "--name: is empty"),
        (["--codegen", "d.c", "--name", "a b"], "--name a b: is no C identifier"),
        (["--codegen", "d.txt"], "d.txt: write a name that ends in .c"),
        (["-o", "d.h", "--codegen", "d.c"], "two outputs cannot be one file"),
        (["--codegen", "absent/d.c"], "absent/d.c: the folder absent does not exist"),
    ],
)
def test_what_compile_cannot_write_beside_a_plan_is_refused(
    stowplan, digits: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(digits.parent)
    code, out, err = stowplan("compile", digits.name, "-m", "800", *words)
    assert code in (1, 2) and said in out + err and "" in (out, err)
    assert sorted(path.name for path in digits.parent.iterdir() if path.is_file()) == [digits.name]


def test_a_quiet_compilation_says_nothing_also_when_nothing_is_to_be_done(stowplan, digits: Path) -> None:
    command = ("compile", str(digits), "-m", "800", "-q")
    assert stowplan(*command) == stowplan(*command) == (0, "", "")
    code, out, err = stowplan("compile", str(digits), "-m", "8", "-q")
    assert (code, out) == (1, "") and err.startswith("Error: no plan written: ") and err.count("\n") == 1


def test_what_would_be_written_again_keeps_its_time(stowplan, digits: Path) -> None:
    command = compiling(digits, "one")
    assert stowplan(*map(str, command)).code == 0
    outputs = [digits.with_name(name) for name in ("one.stow", "one.c", "one.h", "one.d")]
    for path in outputs:
        os.utime(path, (1e9, 1e9))
    assert stowplan(*map(str, command)).code == 0
    assert {path.stat().st_mtime for path in outputs} == {1e9}


def test_the_report_names_the_source(stowplan, digits: Path) -> None:
    source = digits.with_suffix(".c")
    out = stowplan("compile", str(digits), "-m", "800", "--codegen", str(source)).out
    assert f"wrote {source}   C source, its header beside it\n" in out
