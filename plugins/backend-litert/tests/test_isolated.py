"""A model in a process of its own: the same answers, and whatever happens there is an error here."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import litert_models
from stowplan_backend_litert import CompiledModel, Environment, Isolated
from stowplan_backend_litert.errors import (
    CancelledError,
    ClosedError,
    CompileFailedError,
    InputError,
    ModelRefusedError,
    OptionError,
    TimedOutError,
    WorkerDiedError,
)
from stowplan_backend_litert.isolated import Cancellation


def test_it_answers_as_the_model_itself(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as here, Isolated(digits) as there:
        assert (there.inputs, there.outputs, there.io_sizes()) == (here.inputs, here.outputs, here.io_sizes())
        assert (there.signature, there.signatures()) == (here.signature, here.signatures())
        assert there.acceleration == here.acceleration
        for value in range(5):
            assert there.run([bytes([value] * 64)]) == here.run([bytes([value] * 64)])
        assert there.run_with_metrics([bytes(64)])[0] == here.run([bytes(64)])


def test_it_profiles(digits: Path) -> None:
    with Isolated(digits, profile=True) as model:
        model.run([bytes(64)])
        assert model.pending_events() == len(model.profile())
        assert model.summarise_profile()
        assert model.profile_nodes()[0].order == 0
        model.pause_profile()
        model.reset_profile()
        model.run([bytes(64)])
        assert model.pending_events() == 0
        model.resume_profile()
        model.run([bytes(64)])
        assert model.profile(1)


def test_errors_come_across_with_their_types_and_leave_it_usable(digits: Path, tmp_path: Path) -> None:
    for kind, source, options in (
        (ModelRefusedError, tmp_path / "absent.tflite", {}),
        (ModelRefusedError, b"no model", {}),
        (CompileFailedError, litert_models.custom(), {}),
        (OptionError, digits, {"precision": "int4"}),
        (OptionError, digits, {"colour": object()}),
    ):
        with pytest.raises(kind):
            Isolated(source, **options)
    with Isolated(digits) as model:
        with pytest.raises(InputError, match="63 bytes given"):
            model.run([bytes(63)])
        with pytest.raises(OptionError, match="timeout is 0"):
            model.run([bytes(64)], timeout=0)
        with pytest.raises(OptionError, match="without profile=True"):
            model.reset_profile()
        assert len(model.run([bytes(64)])) == 1


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_crash_is_an_error_that_names_the_signal(digits: Path, number: signal.Signals) -> None:
    with Isolated(digits) as model:
        os.kill(model.pid, number)
        with pytest.raises(WorkerDiedError, match=rf"died \(signal {number.name}\); this request is lost"):
            model.run([bytes(64)])
        with pytest.raises(WorkerDiedError, match="died"):
            model.run([bytes(64)])
        assert not model.alive


def test_a_crash_in_the_middle_of_a_run_is_told_to_its_caller() -> None:
    with Isolated(litert_models.slow()) as model:
        threading.Timer(0.01, os.kill, (model.pid, signal.SIGKILL)).start()
        with pytest.raises(WorkerDiedError, match="SIGKILL"):
            run_many(model)


def test_a_run_that_takes_too_long_stops_and_the_process_lives() -> None:
    with Isolated(litert_models.slow()) as model:
        inputs = [bytes(model.io_sizes()[0][0])]
        with pytest.raises(TimedOutError, match=r"took longer than 0\.005 s and was stopped"):
            model.run(inputs, timeout=0.005)
        assert model.alive
        assert len(model.run(inputs)) == 1


def test_a_run_that_cannot_be_stopped_ends_with_its_process(digits: Path) -> None:
    with Isolated(digits) as model:
        os.kill(model.pid, signal.SIGSTOP)
        with pytest.raises(TimedOutError):
            model.run([bytes(64)], timeout=0.05)
        assert not model.alive
        with pytest.raises(WorkerDiedError, match="was ended: a run took longer"):
            model.run([bytes(64)])


def test_a_run_is_cancelled_from_another_thread() -> None:
    with Isolated(litert_models.slow()) as model:
        inputs, token = [bytes(model.io_sizes()[0][0])], Cancellation()
        threading.Timer(0.005, token.cancel).start()
        with pytest.raises(CancelledError, match="the run was cancelled"):
            run_many(model, cancel=token)
        assert len(model.run(inputs)) == 1


def test_a_process_that_does_not_start_in_time_is_ended(digits: Path) -> None:
    with pytest.raises(TimedOutError, match=r"was not compiled within 0\.001 s"):
        Isolated(digits, start_timeout=0.001)


def test_threads_wait_for_their_turn(digits: Path) -> None:
    with Isolated(digits) as model:
        expected = model.run([bytes(64)])
        results: list[list[bytes]] = []
        threads = [
            threading.Thread(target=lambda: results.extend(model.run([bytes(64)]) for _ in range(50))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [expected] * 200


def test_an_interrupted_request_never_becomes_the_answer_to_the_next(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stowplan_backend_litert import wire

    def interrupt(connection: object) -> None:
        raise KeyboardInterrupt

    with Isolated(digits) as model:
        with monkeypatch.context() as patch:
            patch.setattr(wire, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model.run([bytes([1] * 64)])
        with pytest.raises(WorkerDiedError, match="a request was interrupted"):
            model.run([bytes(64)])


def test_closing_ends_the_process_and_refuses_what_follows(digits: Path) -> None:
    model = Isolated(digits)
    pid = model.pid
    model.close()
    model.close()
    with pytest.raises(ClosedError, match="closed"):
        model.run([bytes(64)])
    with pytest.raises(ClosedError, match="closed"):
        model.summarise_profile()
    assert not exists(pid)


def test_the_process_ends_when_its_parent_dies(digits: Path) -> None:
    import subprocess
    import sys

    code = (
        "import os, stowplan_backend_litert as s\n"
        f"m = s.Isolated({str(digits)!r}); print(m.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    deadline = time.monotonic() + 5
    while exists(int(out)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not exists(int(out))


def run_many(model: Isolated, cancel: Cancellation | None = None) -> None:
    for _ in range(5_000):
        model.run([bytes(model.io_sizes()[0][0])], cancel=cancel)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
