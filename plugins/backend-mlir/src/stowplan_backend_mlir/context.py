"""MLIR in a process of its own: what crashes or hangs in there costs one request, and the caller gets an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from stowplan.errors import ModelError, RuntimeFailure, StowplanError, UnsupportedError, UsageError
from stowplan_backend_mlir import wire
from stowplan_backend_mlir.installation import require

MOST_SECONDS = 600.0
"""What one request may take: a conversion, a pipeline, code generation, a run."""
COMMAND = ("-m", "stowplan_backend_mlir.worker")
_ERRORS = {"bad-model": ModelError, "usage": UsageError, "run": RuntimeFailure}


class Context:
    """A process that has MLIR loaded. Many compilations and models may share one, one request at a time.

    After a crash it starts anew with the next compilation; models that it held are gone.
    `timeout` bounds each request in seconds.
    """

    def __init__(self, *, timeout: float = MOST_SECONDS) -> None:
        require("torch_mlir")
        self.timeout = timeout
        self.generation = 0
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the processes that write to it
        self._closed = False
        self._late = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def call(
        self, name: str, facts: Mapping[str, Any], blocks: Sequence[bytes] = (), *, where: str = "module"
    ) -> tuple[Any, list[bytes]]:
        """Ask the process for something and return what it answers; `where` begins the text of an error."""
        with self._lock:
            process = self._running(where)
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(self.timeout, self._give_up, (process,))
            timer.start()
            try:
                wire.send(process.stdin, {"name": name, **facts}, blocks)
                answer, results = wire.receive(process.stdout)
            except (EOFError, OSError, ValueError):
                raise self._died(where) from None
            except BaseException:  # Ctrl-C: the answer that is still to come must not become the next request's
                self._end()
                raise
            finally:
                timer.cancel()
        if "error" in answer:
            raise _error(answer["error"], where)
        return answer, results

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads' requests out between two that belong together."""
        with self._lock:
            yield

    def close(self) -> None:
        """End the process; a second call does nothing."""
        self._closed = True
        self._end()
        self._noise.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_noise") and not self._closed:
            self.close()

    def _running(self, where: str) -> subprocess.Popen[bytes]:
        if self._closed:
            raise RuntimeFailure(f"{where}: its context was closed")
        if self._process is None:
            # The package and its callers' passes are found through whatever made them importable here.
            variables = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            try:
                self._process = subprocess.Popen(
                    [sys.executable, *COMMAND], env=variables, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=self._noise,
                )  # fmt: skip
            except OSError as err:
                raise RuntimeFailure(f"{where}: the process for MLIR cannot be started: {err}") from err
            self.generation += 1
            self._late = False
        return self._process

    def _give_up(self, process: subprocess.Popen[bytes]) -> None:
        self._late = True
        process.kill()

    def _died(self, where: str) -> StowplanError:
        process, late = self._process, self._late
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        code = process.returncode
        words = self._last_words()
        self._end()
        if late:
            return RuntimeFailure(f"{where}: MLIR did not end within {self.timeout:g} s; its process was ended")
        how = _signal(-code) if code is not None and code < 0 else f"exit code {code}"
        return RuntimeFailure(f"{where}: MLIR's process died ({how}){words and ': '}{words}; this request is lost")

    def _last_words(self) -> str:
        """Return the last line that says something; most of what a crash prints is addresses."""
        self._noise.seek(max(self._noise.seek(0, os.SEEK_END) - (1 << 16), 0))
        lines = self._noise.read().decode("utf-8", "replace").splitlines()
        telling = [line.strip() for line in lines if any(word in line for word in ("rror", "ssert", "LLVM ERROR"))]
        return " ".join(telling[-1].split())[:200] if telling else ""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


@contextmanager
def context_or(given: Context | None) -> Iterator[Context]:
    """Yield the caller's context, or one for the time of the block."""
    if given is not None:
        yield given
        return
    with Context() as own:
        yield own


def _error(found: Mapping[str, Any], where: str) -> StowplanError:
    message = f"{where}: {found['message']}"
    if found["code"] == "unsupported":
        return UnsupportedError(message, found["reasons"])
    return _ERRORS.get(found["code"], RuntimeFailure)(message)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
