"""One caller at a time, and a model belongs to whom it was given until that thread or process ends."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import litert_models
from stowplan_backend_litert import CompiledModel, Environment
from stowplan_backend_litert.errors import InUseError, NotOwnerError, OptionError

X = [bytes(64)]
pytestmark = pytest.mark.usefixtures("way")


def test_a_second_caller_is_refused_at_once(env: Environment) -> None:
    with CompiledModel(env, litert_models.slow()) as model:
        inputs = [bytes(model.io_sizes()[0][0])]
        expected = model.run(inputs)
        refusals = 0
        results: list[list[bytes]] = []
        thread = threading.Thread(target=lambda: results.extend(model.run(inputs) for _ in range(5)))
        thread.start()
        while thread.is_alive():
            try:
                results.append(model.run(inputs))
            except InUseError as err:
                assert str(err) == "compiled model is in use by another caller"
                refusals += 1
                break
        thread.join()
        assert refusals or len(results) >= 5
        assert all(result == expected for result in results)


@pytest.mark.slow
def test_eight_threads_on_a_bare_model_are_refused_and_never_answered_wrongly(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        inputs = [[bytes([value] * 64)] for value in range(8)]
        expected = [model.run(x) for x in inputs]
        wrong: list[int] = []
        counts = {"ran": 0, "refused": 0}

        def work(number: int) -> None:
            for step in range(1000):
                which = (number + step) % 8
                try:
                    if model.run(inputs[which]) != expected[which]:
                        wrong.append(which)
                    counts["ran"] += 1
                except InUseError:
                    counts["refused"] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert counts["ran"] > 0


def test_a_model_belongs_to_nobody_until_it_is_given(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        assert model.controlling_process() is None
        model.controlling_process(threading.current_thread())
        assert "MainThread" in str(model.controlling_process())
        assert len(model.run(X)) == 1
        model.controlling_process(None)
        assert model.controlling_process() is None


def test_another_thread_s_model_is_refused_until_that_thread_ends(env: Environment, digits: Path) -> None:
    stop = threading.Event()
    owner = threading.Thread(target=stop.wait, name="owner")
    owner.start()
    with CompiledModel(env, digits) as model:
        model.controlling_process(owner)
        with pytest.raises(NotOwnerError, match=r"belongs to another caller \(thread owner\); it can hand it over"):
            model.run(X)
        with pytest.raises(NotOwnerError):
            model.controlling_process(None)
        stop.set()
        owner.join()
        assert model.controlling_process() is None
        assert len(model.run(X)) == 1


def test_a_killed_process_loses_its_claim(env: Environment, digits: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with CompiledModel(env, digits) as model:
        model.controlling_process(process)
        assert str(model.controlling_process()) == f"process {process.pid}"
        with pytest.raises(NotOwnerError):
            model.run(X)
        process.kill()
        process.wait()
        assert model.controlling_process() is None
        assert len(model.run(X)) == 1
        model.controlling_process(os.getpid())
        assert len(model.run(X)) == 1


def test_an_owner_must_be_alive_and_be_one(env: Environment, digits: Path) -> None:
    gone = threading.Thread(target=lambda: None)
    gone.start()
    gone.join()
    with CompiledModel(env, digits) as model:
        with pytest.raises(NotOwnerError, match="is not alive; a model cannot be handed to it"):
            model.controlling_process(gone)
        with pytest.raises(OptionError, match="give a thread, a process"):
            model.controlling_process("me")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_may_not_use_its_parent_s_model(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        reader, writer = multiprocessing.Pipe()
        pid = os.fork()
        if pid == 0:
            try:
                model.run(X)
                writer.send("ran")
            except NotOwnerError as err:
                writer.send(str(err))
            os._exit(0)
        os.waitpid(pid, 0)
        assert reader.recv() == "compiled model was made by another process; make it anew after a fork"
        reader.close()
        writer.close()
