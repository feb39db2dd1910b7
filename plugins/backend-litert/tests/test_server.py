"""A server: one model, many callers, a bounded queue in order of arrival, and a process that may die."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import litert_models
from stowplan_backend_litert import Client, Server
from stowplan_backend_litert.errors import (
    CancelledError,
    ClosedError,
    InputError,
    LiteRtError,
    NotOwnerError,
    OptionError,
    QueueFullError,
    TimedOutError,
    WorkerDiedError,
)
from stowplan_backend_litert.isolated import Cancellation

X = [bytes(64)]


def in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture
def slow_server():  # type: ignore[no-untyped-def]
    with Server(litert_models.slow(), max_queue=2) as server:
        yield server


def slow_inputs(server: Server) -> list[bytes]:
    return [bytes(server.inputs[0].size_bytes)]


@pytest.mark.slow
def test_eight_threads_get_a_thousand_right_answers_each(digits: Path) -> None:
    inputs = [[bytes([value] * 64)] for value in range(8)]
    with Server(digits) as server:
        expected = [server.run(x) for x in inputs]
        wrong: list[object] = []

        def work(number: int) -> None:
            for step in range(1000):
                which = (number + step) % 8
                try:
                    result = server.run(inputs[which])
                except LiteRtError as err:
                    wrong.append(err)
                else:
                    if result != expected[which]:
                        wrong.append(which)

        in_threads(work, 8)
        assert wrong == []
        stats = server.stats()
        assert (stats.requests, stats.succeeded, stats.queued) == (8008, 8008, 0)
        assert 0 < stats.total_p50_us <= stats.total_p99_us
        assert stats.wait_p50_us <= stats.total_p50_us


def test_a_death_costs_the_request_it_meets_and_no_other(digits: Path) -> None:
    with Server(digits) as server:
        expected = server.run(X)
        lost: list[LiteRtError] = []
        wrong: list[object] = []

        def work(_: int) -> None:
            for _ in range(300):
                try:
                    if server.run(X) != expected:
                        wrong.append("other bytes")
                except WorkerDiedError as err:
                    lost.append(err)

        def kill() -> None:
            for _ in range(3):
                time.sleep(0.1)
                with contextlib.suppress(ProcessLookupError):  # dead, and not started again yet
                    os.kill(server.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        in_threads(work, 6)
        killer.join()
        assert wrong == []
        assert len(lost) <= 3
        assert server.run(X) == expected
        assert 1 <= server.stats().restarts <= 3


def test_a_server_whose_process_dies_again_and_again_gives_up(digits: Path) -> None:
    with Server(digits) as server:
        for _ in range(6):
            os.kill(server.pid, signal.SIGKILL)
            with contextlib.suppress(WorkerDiedError):  # or it is found dead before the request
                server.run(X)
            with contextlib.suppress(WorkerDiedError):
                server.run(X)
        with pytest.raises(WorkerDiedError, match="died 5 times within a minute; the server gave up"):
            server.run(X)
        assert server.stats().restarts == 5


def test_more_requests_than_may_wait_are_refused(slow_server: Server) -> None:
    outcomes: list[str] = []

    def work(_: int) -> None:
        try:
            slow_server.run(slow_inputs(slow_server))
            outcomes.append("ran")
        except QueueFullError as err:
            assert str(err) == "2 requests wait already; try again later"
            outcomes.append("refused")

    in_threads(work, 8)
    assert outcomes.count("refused") >= 1
    assert outcomes.count("ran") >= 3
    assert slow_server.stats().refused == outcomes.count("refused")
    assert slow_server.stats().most_queued == 2


def test_requests_run_in_order_of_arrival(digits: Path) -> None:
    with Server(litert_models.slow(), max_queue=8) as server:
        order: list[int] = []

        def work(number: int) -> None:
            server.run(slow_inputs(server))
            order.append(number)

        threads = []
        for number in range(5):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            threads.append(thread)
            deadline = time.monotonic() + 5
            while number and server.stats().queued < min(number, 5 - len(order) - 1) and time.monotonic() < deadline:
                time.sleep(0.001)
        for thread in threads:
            thread.join()
        assert order == sorted(order)


def test_a_request_that_waits_too_long_leaves_the_queue(slow_server: Server) -> None:
    busy = threading.Thread(target=slow_server.run, args=(slow_inputs(slow_server),))
    busy.start()
    wait_until_busy(slow_server)
    with pytest.raises(TimedOutError, match=r"no turn within 0\.002 s|took longer than"):
        slow_server.run(slow_inputs(slow_server), timeout=0.002)
    busy.join()
    assert slow_server.stats().queued == 0
    assert len(slow_server.run(slow_inputs(slow_server))) == 1


def test_a_waiting_and_a_running_request_can_be_cancelled(slow_server: Server) -> None:
    running, waiting = Cancellation(), Cancellation()
    told: list[str] = []

    def work(token: Cancellation) -> None:
        try:
            for _ in range(200):
                slow_server.run(slow_inputs(slow_server), cancel=token)
        except CancelledError as err:
            told.append(str(err))

    threads = [threading.Thread(target=work, args=(token,)) for token in (running, waiting)]
    for thread in threads:
        thread.start()
    wait_until_busy(slow_server)
    waiting.cancel()
    running.cancel()
    for thread in threads:
        thread.join()
    assert len(told) == 2
    with pytest.raises(CancelledError, match="cancelled before it ran"):
        slow_server.run(slow_inputs(slow_server), cancel=waiting)
    assert len(slow_server.run(slow_inputs(slow_server))) == 1


def test_wrong_requests_are_refused_and_counted(digits: Path) -> None:
    with Server(digits) as server:
        with pytest.raises(InputError, match="63 bytes given"):
            server.run([bytes(63)])
        with pytest.raises(OptionError, match="timeout is -1"):
            server.run(X, timeout=-1)
        assert server.stats().failed == 2
    with pytest.raises(OptionError, match="max_queue is -1"):
        Server(digits, max_queue=-1)


def test_a_closed_server_refuses_those_who_wait_too(slow_server: Server) -> None:
    told: list[str] = []

    def work(_: int) -> None:
        try:
            for _ in range(100):
                slow_server.run(slow_inputs(slow_server))
        except (ClosedError, WorkerDiedError) as err:
            told.append(str(err))

    closer = threading.Timer(0.05, slow_server.close)
    closer.start()
    in_threads(work, 2)
    closer.join()
    assert len(told) == 2
    with pytest.raises(ClosedError, match="this server was closed"):
        slow_server.run(slow_inputs(slow_server))
    with pytest.raises(ClosedError, match="this server was closed"):
        slow_server.listen()


def test_a_server_belongs_to_whom_it_was_given(digits: Path) -> None:
    stop = threading.Event()
    owner = threading.Thread(target=stop.wait, name="owner")
    owner.start()
    with Server(digits) as server:
        server.controlling_process(owner)
        with pytest.raises(NotOwnerError, match="thread owner"):
            server.run(X)
        stop.set()
        owner.join()
        assert len(server.run(X)) == 1


CLIENTS = """
import sys
from stowplan_backend_litert import Client
from stowplan_backend_litert.errors import InputError
with Client(sys.argv[1]) as client:
    for step in range(200):
        value = step % 8
        print(value, client.run([bytes([value] * 64)])[0].hex())
    try:
        client.run([b""])
    except InputError as err:
        print(err)
"""


def test_other_processes_get_right_answers_through_a_socket(digits: Path) -> None:
    with Server(digits) as server:
        expected = {value: server.run([bytes([value] * 64)])[0].hex() for value in range(8)}
        address = server.listen()
        assert server.listen() == address
        command = [sys.executable, "-c", CLIENTS, address]
        clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        for client in clients:
            *lines, last = client.communicate(timeout=60)[0].splitlines()
            assert [line.split()[1] for line in lines] == [expected[step % 8] for step in range(200)]
            assert last.startswith("input ") and "0 bytes given" in last
    assert not Path(address).exists()


def test_a_client_s_process_can_own_the_server_and_loses_it_when_killed(digits: Path) -> None:
    code = (
        "import sys, time\nfrom stowplan_backend_litert import Client\n"
        "c = Client(sys.argv[1]); sys.stdin.readline(); print(len(c.run([bytes(64)])), flush=True); time.sleep(60)"
    )
    with Server(digits) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", code, server.listen()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        server.controlling_process(process)
        with pytest.raises(NotOwnerError):
            server.run(X)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n"
        process.kill()
        process.communicate()
        assert len(server.run(X)) == 1


def test_a_client_is_told_when_there_is_no_server(digits: Path, tmp_path: Path) -> None:
    with pytest.raises(ClosedError, match="no server answers there"):
        Client(str(tmp_path / "nobody"))
    with Server(digits) as server:
        with pytest.raises(OptionError, match="no server can listen there"):
            server.listen(str(tmp_path / "no" / "folder"))
        client = Client(server.listen())
        assert len(client.run(X)) == 1
    with pytest.raises(WorkerDiedError, match="the server is gone; this request is lost"):
        client.run(X)
    client.close()
    client.close()
    with pytest.raises(ClosedError, match="this client was closed"):
        client.run(X)


def test_an_interrupted_request_costs_no_other_its_turn(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stowplan_backend_litert import wire

    real, interrupted = wire.receive, []

    def interrupt_once(connection: object) -> object:
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return real(connection)  # type: ignore[arg-type]

    with Server(digits) as server:
        expected = [server.run([bytes([value] * 64)]) for value in range(2)]
        assert expected[0] != expected[1]
        monkeypatch.setattr(wire, "receive", interrupt_once)
        with pytest.raises(KeyboardInterrupt):
            server.run([bytes([1] * 64)])
        assert server.run([bytes(64)]) == expected[0]
        assert server.stats().restarts == 1


def test_a_wait_that_is_interrupted_leaves_the_queue(slow_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    busy = threading.Thread(target=slow_server.run, args=(slow_inputs(slow_server),))
    busy.start()
    wait_until_busy(slow_server)
    from stowplan_backend_litert import server as module

    turn = module._Waiter(slow_server._queue, None, None)
    turn._signal = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        turn.__enter__()
    busy.join()
    assert slow_server.stats().queued == 0
    assert len(slow_server.run(slow_inputs(slow_server), timeout=30)) == 1


def test_a_client_that_talks_nonsense_harms_nobody(digits: Path) -> None:
    import socket

    with Server(digits) as server:
        for nonsense in (b"", b"\xff" * 100, b"R\x02\x00\x00\x00[]", b"R\xff\xff\xff\xff"):
            with socket.socket(socket.AF_UNIX) as rude:
                rude.connect(server.listen())
                rude.sendall(nonsense)
        with Client(server.listen()) as client:
            assert client.run(X) == server.run(X)


def wait_until_busy(server: Server) -> None:
    deadline = time.monotonic() + 5
    while not server._queue._busy and time.monotonic() < deadline:
        time.sleep(0.001)
