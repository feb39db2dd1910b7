"""Shell completion in the shells themselves: what they offer after some words."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.cli.completion_command import commands
from stowplan.cli.entry import COMMANDS


@pytest.fixture
def offered(tmp_path: Path):
    """Return what a shell offers for a line whose last word is being typed."""
    (tmp_path / "a model.tflite").write_text("")
    (tmp_path / "model.stow").write_text("")

    def ask(shell: str, *words: str) -> set[str]:
        program = shutil.which(shell)
        if program is None:
            pytest.skip(f"needs {shell}")
        made = [sys.executable, "-m", "stowplan", "completion", shell]
        script = tmp_path / "completion"
        script.write_text(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
        done = subprocess.run(
            [program, *ASKED[shell](script, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return {line.split("\t")[0].strip() for line in done.stdout.splitlines() if line.strip()}

    return ask


def in_bash(script: Path, words: tuple[str, ...]) -> list[str]:
    line = " ".join(f"'{word}'" for word in ("stowplan", *words))
    ask = f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _stowplan"
    return ["--norc", "-c", ask + "; printf '%s\\n' \"${COMPREPLY[@]}\""]


def in_fish(script: Path, words: tuple[str, ...]) -> list[str]:
    return ["--no-config", "-c", f"source '{script}'; complete -C 'stowplan {' '.join(words)}'"]


ASKED = {"bash": in_bash, "fish": in_fish}


@pytest.mark.parametrize("shell", list(ASKED))
def test_commands_options_values_and_files_are_offered(offered, shell: str) -> None:
    assert {"compile", "codegen", "cache", "completion"} <= offered(shell, "c")
    assert "run" not in offered(shell, "c")
    assert {"--no-prove", "--name"} <= offered(shell, "compile", "--n")
    assert "--json" not in offered(shell, "compile", "--n")
    assert offered(shell, "codegen", "--format", "") == {"app", "core"}
    assert {"greedy", "stream"} <= offered(shell, "compile", "--scheduler", "")
    assert {"list", "check", "new"} <= offered(shell, "plugins", "")
    assert "model.stow" in offered(shell, "run", "model")


def test_names_with_blanks_stay_whole_in_bash(offered) -> None:
    assert offered("bash", "compile", "a") == {"a model.tflite"}


def test_the_script_for_zsh_is_read_by_zsh_and_completes(tmp_path: Path) -> None:
    program = shutil.which("zsh")
    if program is None:
        pytest.skip("needs zsh")
    made = [sys.executable, "-m", "stowplan", "completion", "zsh"]
    script = tmp_path / "completion"
    script.write_text(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
    # compsys needs a terminal; its two primitives are replaced by ones that print what they are given.
    code = (
        "_describe() { print -l ${(P)2} }; _arguments() { print -l -- $@ }; compdef() { : }; "
        f"source '{script}'; words=(stowplan c); CURRENT=2; _stowplan; "
        "words=(stowplan codegen --format ''); CURRENT=4; _stowplan"
    )
    done = subprocess.run([program, "-f", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "compile:fit a model into memory, prove the plan, write it" in done.stdout
    assert any(
        line.startswith("*--format[") and line.endswith(":value:(app core)") for line in done.stdout.splitlines()
    )


def test_every_command_is_completed_with_its_options() -> None:
    found = {command.name: command for command in commands()}
    assert set(found) == set(COMMANDS)
    assert all(any("--help" in option.flags for option in command.options) for command in found.values())


def test_an_unknown_shell_is_a_usage_error(stowplan) -> None:
    code, out, err = stowplan("completion", "tcsh")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "bash" in err
