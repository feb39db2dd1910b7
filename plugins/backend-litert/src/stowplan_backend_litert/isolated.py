"""A compiled model in a process of its own: whatever crashes in there, the caller gets an error and lives on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from stowplan.flow.model import Model
from stowplan.plugins.records import Acceleration, Metrics, Port, Share
from stowplan_backend_litert import wire
from stowplan_backend_litert.arrays import arranged, flat
from stowplan_backend_litert.errors import (
    CancelledError,
    ClosedError,
    CompileFailedError,
    LiteRtError,
    OptionError,
    TimedOutError,
    WorkerDiedError,
)
from stowplan_backend_litert.modelfile import Source, read
from stowplan_backend_litert.recorder import Event, NodeEntry, SummaryEntry

START_SECONDS = 120.0
GRACE_SECONDS = 0.25
"""How long a run that was told to stop has to reach its next operator before its process is ended."""


class Cancellation:
    """A token to call off one request from another thread, while it waits or while it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: list[Any] = []
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            for action in self._actions:
                action()

    def attach(self, action: Any) -> None:
        """Have `action` called on cancellation, at once if that was before."""
        with self._lock:
            self._actions.append(action)
            if self.cancelled:
                action()

    def detach(self, action: Any) -> None:
        with self._lock:
            self._actions.remove(action)


class Isolated:
    """`CompiledModel` in a process of its own; the options are the same. Threads wait for their turn.

    A crash ends the process and the request in it with `WorkerDiedError`; so does every call after that. `Server`
    starts another one by itself. `timeout` in seconds bounds a run: it is told to stop, and a moment later ended.
    """

    def __init__(
        self, source: Source, *, environment: Mapping[str, str] | None = None, start_timeout: float = START_SECONDS,
        **options: Any,
    ) -> None:  # fmt: skip
        wire.require_posix()
        self._lock = threading.Lock()
        self._dead = ""
        self._memory: wire.Memory | None = None
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes to it
        self._connection, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = self._start(theirs, source, environment or {}, options, start_timeout)
            self._receive_facts(start_timeout)
        except BaseException:
            self._end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._dead and self._process.poll() is None

    @property
    def fully_accelerated(self) -> bool:
        return self.acceleration.fully

    def run(
        self, inputs: Sequence[Any] | Mapping[str, Any], *, timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> list[bytes]:  # fmt: skip
        """Run once. Raises what `CompiledModel.run` raises, and `WorkerDiedError`."""
        with self._turn(timeout):
            memory = self._write(inputs)
            self._exchange(wire.RUN, None, timeout, cancel)
            return [bytes(view) for view in memory.outputs]

    def run_with_metrics(
        self, inputs: Sequence[Any] | Mapping[str, Any], detail_level: int = 0, *, timeout: float | None = None
    ) -> tuple[list[bytes], Metrics]:
        with self._turn(timeout):
            memory = self._write(inputs)
            value = self._exchange(wire.RUN, dict(detail_level=detail_level), timeout, None)
            return [bytes(view) for view in memory.outputs], Metrics(**value)

    def io_sizes(self) -> tuple[list[int], list[int]]:
        return [port.size_bytes for port in self.inputs], [port.size_bytes for port in self.outputs]

    def pending_events(self) -> int:
        count: int = self._call("pending_events")
        return count

    def profile(self, limit: int = 0) -> list[Event]:
        return [Event(**fields) for fields in self._call("profile", limit)]

    def summarise_profile(self) -> list[SummaryEntry]:
        return [SummaryEntry(**fields) for fields in self._call("summarise_profile")]

    def profile_nodes(self) -> list[NodeEntry]:
        return [NodeEntry(**fields) for fields in self._call("profile_nodes")]

    def reset_profile(self) -> None:
        self._call("reset_profile")

    def pause_profile(self) -> None:
        self._call("pause_profile")

    def resume_profile(self) -> None:
        self._call("resume_profile")

    def close(self) -> None:
        """End the process and free what it shared; a second call does nothing."""
        self._dead = self._dead or "this isolated model was closed"
        self._end()

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_noise"):
            self._end()

    def _start(
        self, theirs: socket.socket, source: Source, environment: Mapping[str, str], options: Mapping[str, Any],
        timeout: float,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        descriptor = None
        if not isinstance(source, (str, os.PathLike)):
            descriptor = _file_with(read(source)[1])
        passed = [theirs.fileno(), *([] if descriptor is None else [descriptor])]
        # -S -E -s would be quicker, but the package is found through whatever made it importable here.
        command = [sys.executable, "-m", "stowplan_backend_litert.worker", str(theirs.fileno())]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        try:
            process = subprocess.Popen(
                command, pass_fds=passed, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=self._noise,
            )  # fmt: skip
        except OSError as err:
            raise WorkerDiedError(f"the process for the model cannot be started: {err}") from err
        finally:
            if descriptor is not None:
                os.close(descriptor)
        name = source.name if isinstance(source, Model) else "model"
        path = None if descriptor is not None else str(Path(os.fspath(source)).absolute())  # type: ignore[arg-type]
        self._connection.settimeout(timeout)
        try:
            wire.send(self._connection, wire.CALL, dict(path=path, descriptor=descriptor, name=name,
                      environment=dict(environment), options=_plain(options)))  # fmt: skip
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    def _receive_facts(self, timeout: float) -> None:
        try:
            kind, value = wire.receive(self._connection)
        except TimeoutError:
            raise TimedOutError(f"the model was not compiled within {timeout:g} s; its process was ended") from None
        except (EOFError, OSError) as err:
            raise CompileFailedError(f"the process died while it compiled the model ({self._how()})") from err
        if kind == wire.FAILED:
            raise wire.raised(value)
        self.inputs: tuple[Port, ...] = wire.ports_from_json(value["inputs"])
        self.outputs: tuple[Port, ...] = wire.ports_from_json(value["outputs"])
        self.acceleration = _acceleration(value["acceleration"])
        self.cpu_delegated: bool = value["cpu_delegated"]
        self.profile_note: str = value["note"]
        self.signature: str = value["signature"]
        self._signatures: list[str] = value["signatures"]
        self._memory = wire.Memory(self.inputs, self.outputs)
        socket.send_fds(self._connection, [wire.MEMORY], [self._memory.descriptor])

    def signatures(self) -> list[str]:
        return list(self._signatures)

    def _turn(self, timeout: float | None) -> _Turn:
        if timeout is not None and not (isinstance(timeout, (int, float)) and 0 < timeout < 2**31):
            raise OptionError(f"timeout is {timeout!r}: give seconds, more than 0")
        return _Turn(self._lock, timeout)

    def _write(self, inputs: Sequence[Any] | Mapping[str, Any]) -> wire.Memory:
        if self._dead or self._memory is None:
            raise (ClosedError if "closed" in self._dead else WorkerDiedError)(self._dead or "the process is gone")
        data = [flat(item, port) for item, port in zip(arranged(inputs, self.inputs), self.inputs, strict=True)]
        for view, item in zip(self._memory.inputs, data, strict=True):
            view[:] = item
        return self._memory

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._turn(None):
            if self._dead:
                raise (ClosedError if "closed" in self._dead else WorkerDiedError)(self._dead)
            return self._exchange(wire.CALL, dict(name=name, arguments=arguments), None, None)

    def _exchange(self, kind: bytes, value: Any, timeout: float | None, cancel: Cancellation | None) -> Any:
        """Send a request and return the answer's value; a request that takes too long ends with the process."""
        assert self._memory is not None
        stop = self._memory.stop
        try:
            self._connection.settimeout(timeout)
            wire.send(self._connection, kind, value)
            if cancel is not None:
                cancel.attach(stop)
            try:
                answer, result = self._answer(timeout)
            finally:
                if cancel is not None:
                    cancel.detach(stop)
        except LiteRtError:
            raise
        except (EOFError, OSError, ValueError) as err:
            self._dead = f"the process of the model died ({self._how()})"
            raise WorkerDiedError(f"{self._dead}; this request is lost") from err
        except BaseException:  # Ctrl-C: the answer that is still to come must not become the next request's
            self._dead = "the process of the model was ended: a request was interrupted"
            self._kill()
            raise
        if answer == wire.FAILED:
            raise wire.raised(result)
        return result

    def _answer(self, timeout: float | None) -> tuple[bytes, Any]:
        try:
            return wire.receive(self._connection)
        except TimeoutError:
            pass
        assert self._memory is not None
        self._memory.stop()
        self._connection.settimeout(GRACE_SECONDS)
        try:
            wire.receive(self._connection)
        except TimeoutError:
            self._kill()
            self._dead = f"the process of the model was ended: a run took longer than {timeout:g} s"
        raise TimedOutError(f"the run took longer than {timeout:g} s and was stopped", status=7)

    def _how(self) -> str:
        """Say how the process ended: a signal's name, or its exit code, and the last it printed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        code = self._process.returncode
        if code is None:
            self._kill()
            return "it stopped answering"
        if code < 0:
            with suppress(ValueError):
                return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}{self._last_words()}"

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            self._noise.seek(0)
            lines = self._noise.read(1 << 20).decode("utf-8", "replace").strip().splitlines()
            return f": {lines[-1][:200]}" if lines else ""
        return ""

    def _kill(self) -> None:
        with suppress(OSError):
            self._process.kill()
        self._process.wait()

    def _end(self) -> None:
        self._connection.close()
        if hasattr(self, "_process") and self._process.returncode is None:
            try:
                self._process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                self._kill()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        self._noise.close()


class _Turn:
    """Waits for a lock, at most `timeout` seconds."""

    def __init__(self, lock: threading.Lock, timeout: float | None) -> None:
        self._lock = lock
        self._timeout = timeout

    def __enter__(self) -> None:
        start = time.monotonic()
        if not self._lock.acquire(timeout=-1 if self._timeout is None else self._timeout):
            raise TimedOutError(f"no turn within {time.monotonic() - start:.3g} s: the model is busy", status=7)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def check_cancelled(cancel: Cancellation | None) -> None:
    if cancel is not None and cancel.cancelled:
        raise CancelledError("the request was cancelled before it ran", status=100)


def _acceleration(value: dict[str, Any]) -> Acceleration:
    shares = tuple(Share(**share) for share in value["shares"])
    return Acceleration(**{**value, "asked": tuple(value["asked"]), "shares": shares})


def _file_with(data: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(options)))
    except (TypeError, ValueError) as err:
        raise OptionError(f"an option cannot be sent to another process: {err}") from err
    return found
