"""The worker as a process: answers in order of readiness, survives what its children do, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.cli.entry import main as command
from stowplan.worker.__main__ import main

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker needs a system that can fork")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits"
COMPILE = ("compile", "digits.tflite", "-m", "800", "-o", "digits.stow", "--no-cache")
SLOW = "import time, os, sys\nopen('started', 'w').close()\ntime.sleep(60)\n"


class Worker:
    """A worker that speaks JSON, in a folder with a model."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stowplan.worker", "--protocol=json", "--persistent_worker"],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )  # fmt: skip

    def send(self, *arguments: str, **fields: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(dict(arguments=arguments, **fields)).encode())
        self.process.stdin.flush()

    def hear(self) -> dict:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *arguments: str, **fields: object) -> dict:
        self.send(*arguments, **fields)
        return self.hear()

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the shipped model, and a place for temporary files to be seen in."""
    (tmp_path / "digits.tflite").write_bytes((EXAMPLE / "digits_int8.tflite").read_bytes())
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.fixture
def worker(folder: Path) -> Iterator[Worker]:
    found = Worker(folder, TMPDIR=str(folder / "tmp"))
    yield found
    found.process.kill()
    found.process.communicate()


@pytest.fixture
def misbehaving(folder: Path) -> Iterator[Worker]:
    """A worker whose `inspect` command does what the test wants: sleeps, dies or prints."""
    (folder / "sitecustomize.py").write_text(
        "import sys, types, os\n"
        "def configure(parser): parser.add_argument('code')\n"
        "def run(arguments): exec(arguments.code); return 0\n"
        "module = types.ModuleType('stowplan.cli.inspect_command')\n"
        "module.configure, module.run = configure, run\n"
        "sys.modules['stowplan.cli.inspect_command'] = module\n"
    )
    found = Worker(folder, PYTHONPATH=str(folder), TMPDIR=str(folder / "tmp"))
    yield found
    found.process.kill()
    found.process.communicate()


def until(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_request_writes_the_bytes_that_the_command_writes_and_says_nothing(worker: Worker, folder: Path) -> None:
    assert worker.ask(*COMPILE, requestId=7) == {"exitCode": 0, "output": "", "requestId": 7}
    made = (folder / "digits.stow").read_bytes()
    done = subprocess.run([sys.executable, "-m", "stowplan", *COMPILE], cwd=folder, capture_output=True, check=True)
    assert b"wrote digits.stow" in done.stdout
    assert (folder / "digits.stow").read_bytes() == made


def test_a_refusal_has_the_commands_code_and_words(worker: Worker, folder: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    for words in (("compile", "digits.tflite", "-m", "100", "--no-cache"), ("compile", "absent.tflite", "-m", "1K"),
                  ("compil",), ("codegen", "digits.tflite")):  # fmt: skip
        answer = worker.ask(*words)
        code = command(list(words))
        said = capsys.readouterr()
        assert (answer["exitCode"], answer["output"]) == (code, said.out + said.err)
        assert code in (1, 2)


def test_requests_with_numbers_run_beside_each_other(misbehaving: Worker, folder: Path) -> None:
    misbehaving.send("inspect", SLOW, requestId=1)
    assert misbehaving.ask("inspect", "pass", requestId=2)["requestId"] == 2


def test_a_request_that_is_not_wanted_any_more_is_killed_and_answered(misbehaving: Worker, folder: Path) -> None:
    misbehaving.send("inspect", "open('pid', 'w').write(str(os.getpid()))\n" + SLOW, requestId=5)
    until(folder / "started")
    misbehaving.send(requestId=5, cancel=True)
    assert misbehaving.hear() == {"exitCode": 0, "output": "", "requestId": 5, "wasCancelled": True}
    assert not alive(int((folder / "pid").read_text()))
    misbehaving.send(requestId=5, cancel=True)  # nothing runs under that number any more
    assert misbehaving.ask("inspect", "pass", requestId=5) == {"exitCode": 0, "output": "", "requestId": 5}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("os.kill(os.getpid(), 11)", "was ended by signal 11 (SIGSEGV)"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9 (SIGKILL); was there enough memory?"),
        ("os._exit(4)", "ended with 4 and no answer"),
    ],
)
def test_a_child_that_dies_is_an_internal_fault_and_the_next_request_is_answered(
    misbehaving: Worker, code: str, why: str
) -> None:
    answer = misbehaving.ask("inspect", code, requestId=3)
    assert answer["exitCode"] == 3
    assert why in answer["output"] and answer["output"].count("\n") == 1
    assert "Please report this" in answer["output"]
    assert misbehaving.ask("inspect", "pass", requestId=4)["exitCode"] == 0


def test_what_a_command_prints_past_python_does_not_reach_the_one_who_reads_answers(misbehaving: Worker) -> None:
    answer = misbehaving.ask("inspect", "os.write(1, b'noise'); print('report')")
    assert answer == {"exitCode": 0, "output": "", "requestId": 0}
    assert "noise" in misbehaving.end()[1]


def test_a_sandbox_is_the_folder_that_names_are_looked_up_in(worker: Worker, folder: Path) -> None:
    (folder / "box").mkdir()
    (folder / "digits.tflite").rename(folder / "box" / "digits.tflite")
    assert worker.ask(*COMPILE, sandboxDir="box")["exitCode"] == 0
    assert (folder / "box" / "digits.stow").exists()
    answer = worker.ask(*COMPILE, sandboxDir="nowhere")
    assert (answer["exitCode"], answer["output"].count("\n")) == (2, 1)
    assert "nowhere: no folder to work in" in answer["output"]


def test_the_end_of_standard_input_ends_the_worker_its_children_and_its_files(
    misbehaving: Worker, folder: Path
) -> None:
    misbehaving.send("inspect", "open('pid', 'w').write(str(os.getpid()))\n" + SLOW, requestId=1)
    until(folder / "started")
    assert misbehaving.end()[0] == 0
    assert not alive(int((folder / "pid").read_text()))
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's end")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_is_killed_takes_its_children_along(misbehaving: Worker, folder: Path, number: int) -> None:
    misbehaving.send("inspect", "open('pid', 'w').write(str(os.getpid()))\n" + SLOW, requestId=1)
    until(folder / "started")
    misbehaving.process.send_signal(number)
    misbehaving.process.wait(timeout=60)
    deadline, pid = time.monotonic() + 30, int((folder / "pid").read_text())
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if number == signal.SIGTERM:
        assert list((folder / "tmp").iterdir()) == []


def test_what_is_no_request_ends_the_worker_with_one_line(worker: Worker) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.write(b"compile digits.tflite\n")
    code, err = worker.end()
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("Error: worker: standard input has not a JSON object") and "is --protocol right?" in err


def test_a_warm_worker_imports_nothing_for_a_second_model(misbehaving: Worker, folder: Path) -> None:
    """The child says what it had to import; then its parent has it. Seen from inside a third child."""
    for _ in range(2):
        assert misbehaving.ask(*COMPILE)["exitCode"] == 0
    code = "import sys; open('known', 'w').write(' '.join(sys.modules))"
    assert misbehaving.ask("inspect", code)["exitCode"] == 0
    known = set((folder / "known").read_text().split())
    assert {"stowplan_importer_tflite", "stowplan_backend_c.host", "stowplan_scheduler_stream.scheduler"} <= known


def test_a_single_command_takes_its_arguments_from_a_file_and_is_silent(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    (folder / "more.txt").write_text("-o\ndigits.stow\n--no-cache")
    (folder / "words.txt").write_text("compile\ndigits.tflite\n-m\n800\n@more.txt\n")
    assert main(["--protocol=proto", "@words.txt"]) == 0
    assert capsys.readouterr() == ("", "")
    assert (folder / "digits.stow").exists()


def test_a_report_can_be_kept_in_a_file(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    assert main(["--stdout=report.txt", "inspect", "digits.tflite"]) == 0
    assert (folder / "report.txt").read_text().startswith("digits.tflite   tflite 3")
    assert main(["--stdout=report2.txt", "inspect", "absent.tflite"]) == 1
    assert not (folder / "report2.txt").exists()
    assert capsys.readouterr() == ("", "Error: absent.tflite: no such file\n")
    assert main(["--stdout=absent/report.txt", "inspect", "digits.tflite"]) == 1
    assert "the folder absent does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["@absent.txt"], "@absent.txt: the file of arguments cannot be read: No such file or directory"),
        (["@itself.txt"], "@itself.txt: files of arguments name each other more than 8 deep"),
        (["--protocol=xml"], "--protocol=xml: protocols are proto, json"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(
    folder: Path, monkeypatch, capsys, words: list[str], line: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "itself.txt").write_text("@itself.txt\n")
    assert main(words) == 2
    assert capsys.readouterr().err == f"Error: {line}\n"


def test_without_fork_there_is_no_worker(monkeypatch, capsys) -> None:
    monkeypatch.delattr(os, "fork")
    assert main(["--persistent_worker"]) == 2
    assert "set supports_workers = False on the toolchain" in capsys.readouterr().err


def test_the_command_line_does_not_import_the_worker() -> None:
    code = "import sys; from stowplan.cli.entry import main; main(['--version']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stderr.split() if name.startswith("stowplan.worker")]
