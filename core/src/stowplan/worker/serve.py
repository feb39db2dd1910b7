"""Serves requests until standard input ends, each in a child forked from a process that has everything imported.

A child costs milliseconds, and cannot hurt the next one: it may crash, eat memory or be killed when it is not wanted
any more. No thread takes part, so that forking is safe; any number of children run at once.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from stowplan.errors import InternalFault, StowplanError, UsageError
from stowplan.nouns import dataclass
from stowplan.worker.command import Done, own_cache, run
from stowplan.worker.protocol import Codec, ProtocolError, Request, Response, codec

PIECE_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1
WARM = ("stowplan.cli.compile_command", "stowplan.cli.codegen_command", "stowplan.build.incremental")


@dataclass(frozen=True)
class Child:
    """A process that runs one request; `result` is where its answer arrives."""

    pid: int
    result: int
    request: Request


def serve(protocol: str) -> int:
    """Answer on standard output until standard input ends, and return 0; 2 when what comes is no request."""
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever prints from now on must not reach the one who reads answers
    sys.stdout = sys.stderr
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the folder goes, too
    with own_cache():
        return _Server(codec(protocol), answers).run()


class _Server:
    def __init__(self, codec: Codec, answers: int) -> None:
        self._codec = codec
        self._answers = answers
        self._children: dict[int, Child] = {}
        self._results: dict[int, bytes] = {}
        self._cancelled: set[int] = set()
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        _warm_up()
        self._selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                data = os.read(key.fd, PIECE_BYTES)
                if key.fd != 0:
                    self._hear(key.fd, data)
                elif not data:
                    return self._end(0)
                elif not self._take(data):
                    return self._end(UsageError.exit_code)

    def _take(self, data: bytes) -> bool:
        """Start or give up what requests ask for; say whether there were only requests."""
        try:
            for request in self._codec.feed(data):
                if request.cancel:
                    self._give_up(request.id)
                else:
                    self._start(request)
        except ProtocolError as err:
            print(f"Error: worker: standard input has {err}; is --protocol right?", file=sys.stderr)
            return False
        return True

    def _start(self, request: Request) -> None:
        result, answer = os.pipe()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _work(request, answer)
        os.close(answer)
        self._children[result] = Child(pid, result, request)
        self._results[result] = b""
        self._selector.register(result, selectors.EVENT_READ)

    def _hear(self, result: int, data: bytes) -> None:
        if data:
            self._results[result] += data
            return
        self._selector.unregister(result)
        os.close(result)
        child, said = self._children.pop(result), self._results.pop(result)
        _, status = os.waitpid(child.pid, 0)
        self._answer(child.request, said, status)

    def _answer(self, request: Request, said: bytes, status: int) -> None:
        if request.id in self._cancelled:
            self._cancelled.discard(request.id)
            self._send(Response(id=request.id, was_cancelled=True))
            return
        try:
            found = json.loads(said)
        except ValueError:
            fault = InternalFault(_ended(request, status))
            self._send(Response(fault.exit_code, f"Error: {fault}\n", request.id))
            return
        self._send(Response(found["exit_code"], found["output"], request.id))
        _import(found["modules"])

    def _send(self, response: Response) -> None:
        data = self._codec.encode(response)
        while data:
            data = data[os.write(self._answers, data) :]

    def _give_up(self, number: int) -> None:
        """Kill what runs under a number; the answer follows when it has ended and touches no file any more."""
        for child in self._children.values():
            if child.request.id == number:
                self._cancelled.add(number)
                os.kill(child.pid, signal.SIGKILL)

    def _end(self, code: int) -> int:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        return code


def _work(request: Request, answer: int) -> NoReturn:
    """Run a request in a child, answer, and leave without what the parent has to do at its end."""
    _die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    before = set(sys.modules)
    done = _moved(request)
    found = dict(exit_code=done.exit_code, output=done.output, modules=sorted(set(sys.modules) - before))
    with os.fdopen(answer, "wb") as file:
        file.write(json.dumps(found).encode("ascii"))
    sys.stderr.flush()
    os._exit(0)


def _moved(request: Request) -> Done:
    try:
        if request.sandbox:
            os.chdir(request.sandbox)
    except OSError as err:
        return Done(UsageError.exit_code, f"Error: {request.sandbox}: no folder to work in: {err.strerror or err}\n")
    try:
        return run(request.arguments)
    except SystemExit as err:  # `--help` ends so
        return Done(err.code if isinstance(err.code, int) else 0, "")


def _warm_up() -> None:
    """Import what requests will need; what is wrong with a plugin is for the request that needs it to say."""
    from stowplan.plugins.host import host

    _import(WARM)
    with suppress(StowplanError):
        host().importers()
    gc.collect()
    gc.freeze()


def _import(names: Iterable[str]) -> None:
    """Import what a child had to, so that the next one finds it."""
    for name in names:
        if name not in sys.modules and name != "__main__":
            with suppress(Exception):  # the child that needs it will say what is wrong with it
                import_module(name)
    gc.freeze()


def _die_with_parent() -> None:
    """Make the kernel end this child when the worker is killed: a later attempt must not meet its files."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _ended(request: Request, status: int) -> str:
    command = " ".join(request.arguments[:2])
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = f"was ended by signal {number} ({signal.Signals(number).name})"
        hint = "; was there enough memory?" if number == signal.SIGKILL else ""
    else:
        why, hint = f"ended with {os.WEXITSTATUS(status)} and no answer", ""
    return f"internal fault: the process of `{command}` {why}{hint}. Please report this with the command and the model"
