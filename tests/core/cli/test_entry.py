"""The entry: dispatch, exit codes, and errors that are one line whatever happens."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.cli import entry
from stowplan.cli.entry import main
from stowplan.errors import DoesNotFit, InternalFault, ModelError, StowplanError, UsageError

HEAVY = ("pluggy", "numpy", "rich", "importlib.metadata", "argparse", "flatbuffers", "lz4")


def modules_after(*arguments: str) -> set[str]:
    """Return the modules that a command imported, from a process of its own."""
    code = (
        "import sys; from stowplan.cli.entry import main\n"
        f"main({list(arguments)!r})\n"
        "print('\\nMODULES', *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_plugin_and_nothing_heavy(option: str) -> None:
    loaded = modules_after(option)
    assert not loaded & set(HEAVY)
    assert not [name for name in loaded if name.startswith("stowplan_")]


def test_the_version_is_printed(stowplan) -> None:
    assert stowplan("--version") == (0, "stowplan 0.1.0\n", "")


@pytest.mark.parametrize("thread", [False, True])
def test_leaving_tells_who_asked_and_waits_for_threads(thread: bool) -> None:
    code = (
        "import atexit, sys, threading, time\n"
        "from stowplan.cli.entry import run\n"
        "atexit.register(print, 'told')\n"
        f"if {thread}: threading.Thread(target=lambda: (time.sleep(0.3), print('waited for'))).start()\n"
        "sys.argv = ['stowplan', 'compil']\n"
        "run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ("waited for\ntold\n" if thread else "told\n")
    assert done.stderr.startswith("Error: ")


def test_no_command_prints_the_overview_and_is_a_usage_error(stowplan) -> None:
    code, out, _ = stowplan()
    assert code == 2
    assert all(f"  {name} " in out for name in entry.COMMANDS)


@pytest.mark.parametrize(
    ("word", "hint"), [("compil", "did you mean compile?"), ("frobnicate", "commands are"), ("--verion", "no option")]
)
def test_an_unknown_command_is_one_line_with_what_there_is(stowplan, word: str, hint: str) -> None:
    code, out, err = stowplan(word)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert hint in err


@pytest.mark.parametrize("command", list(entry.COMMANDS))
def test_every_command_explains_itself(shell, command: str) -> None:
    code, out, err = shell(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: stowplan {command}")


@pytest.mark.parametrize(
    "arguments",
    [["compile"], ["compile", "x.tflite"], ["run"], ["codegen"], ["inspect"],
     ["compile", "x", "-m", "1K", "--nonsense"], ["plugins", "frob"], ["codegen", "x.stow", "--format", "elf"]],
)  # fmt: skip
def test_wrong_arguments_are_one_line_and_exit_2(stowplan, arguments: list[str]) -> None:
    code, out, err = stowplan(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("Error: ")
    assert "--help)" in err


def test_a_refusal_with_json_is_an_object_on_standard_output(stowplan) -> None:
    code, out, err = stowplan("compile", "absent.tflite", "-m", "abc", "--json")
    assert (code, err) == (2, "")
    assert json.loads(out)["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelError("m"), 1),
        (DoesNotFit("d"), 1),
        (UsageError("u"), 2),
        (InternalFault("i"), 3),
        (StowplanError("s"), 1),
    ],
)
def test_each_error_has_its_exit_code(stowplan, monkeypatch, error: StowplanError, code: int) -> None:
    monkeypatch.setattr(entry, "_dispatch", raiser(error))
    assert stowplan("inspect") == (code, "", f"Error: {error}\n")


def test_an_unexpected_exception_is_exit_3_and_one_line_that_asks_for_a_report(stowplan, monkeypatch) -> None:
    monkeypatch.setattr(entry, "_dispatch", raiser(KeyError("x")))
    monkeypatch.delenv("STOWPLAN_DEBUG", raising=False)
    code, out, err = stowplan("inspect")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "Please report this" in err


def test_the_traceback_is_there_for_those_who_ask(stowplan, monkeypatch) -> None:
    monkeypatch.setattr(entry, "_dispatch", raiser(KeyError("x")))
    monkeypatch.setenv("STOWPLAN_DEBUG", "1")
    assert "Traceback" in stowplan("inspect").err


def test_an_interrupt_and_a_lack_of_memory_are_one_line_too(stowplan, monkeypatch) -> None:
    monkeypatch.setattr(entry, "_dispatch", raiser(KeyboardInterrupt()))
    assert stowplan("inspect") == (130, "", "Interrupted\n")
    monkeypatch.setattr(entry, "_dispatch", raiser(MemoryError()))
    code, _, err = stowplan("inspect")
    assert (code, err.count("\n")) == (1, 1)


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", "--help"], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (entry.BROKEN_PIPE, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_an_error_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stowplan", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "standard output cannot be written" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("budget", "code"), [("800", 0), ("1", 1)])
def test_streams_that_a_shell_closed_change_no_plan_and_no_exit_code(
    digits: Path, closed: str, budget: str, code: int
) -> None:
    command = f"{shlex.quote(sys.executable)} -m stowplan compile {shlex.quote(str(digits))} -m {budget} --no-cache"
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    plan = digits.with_suffix(".stow")
    assert plan.exists() == (code == 0)
    if code == 0:
        assert main(["inspect", str(plan)]) == 0


def test_a_name_that_the_terminal_cannot_show_is_escaped(shell) -> None:
    code, _, err = shell("inspect", "modèle-\N{SNOWMAN}.tflite", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert code == 1
    assert err.isascii()


def test_control_characters_in_a_name_do_not_reach_the_terminal(stowplan) -> None:
    _, _, err = stowplan("inspect", "evil\x1b[2J\n.tflite")
    assert err == "Error: evil\\x1b[2J\\n.tflite: no such file\n"


def raiser(error: BaseException):
    def raises(*_: object) -> int:
        raise error

    return raises
