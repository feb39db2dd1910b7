"""One model for many threads and processes: a bounded queue, first come first served, a process that may die.

with Server("vww.tflite", accelerators=("gpu", "cpu")) as server:
    scores = server.run([image], timeout=0.5)          # from any thread
    address = server.listen()                          # and Client(address).run([image]) from any process
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

from stowplan.nouns import dataclass
from stowplan.plugins.records import Acceleration, Port
from stowplan_backend_litert.errors import (
    CancelledError,
    ClosedError,
    LiteRtError,
    OptionError,
    QueueFullError,
    TimedOutError,
    WorkerDiedError,
)
from stowplan_backend_litert.isolated import Cancellation, Isolated, check_cancelled
from stowplan_backend_litert.listening import Client, Listener
from stowplan_backend_litert.modelfile import Source
from stowplan_backend_litert.ownership import Claim, Owner
from stowplan_backend_litert.recorder import SummaryEntry

__all__ = ["Client", "Server", "ServerStats"]
KEPT_TIMES = 4096
MOST_DEATHS = 5
DEATH_SECONDS = 60.0
_KEEP = object()


@dataclass(frozen=True, kw_only=True)
class ServerStats:
    """What a server did. Times are of the last few thousand requests: the wait for a turn, and the whole."""

    requests: int
    succeeded: int
    failed: int
    refused: int
    timed_out: int
    cancelled: int
    restarts: int
    queued: int
    most_queued: int
    wait_p50_us: float
    wait_p99_us: float
    total_p50_us: float
    total_p99_us: float


class Server:
    """A model in a process of its own, shared by any number of callers.

    At most `max_queue` requests wait; one more is refused with `QueueFullError`. `timeout` (seconds, wait included)
    is the default for requests. When the process dies, the request in it fails with `WorkerDiedError`, the others go
    on in a new process; after five deaths within a minute the server gives up. Options are `CompiledModel`'s.
    """

    def __init__(
        self, source: Source, *, max_queue: int = 64, timeout: float | None = 30.0,
        environment: Mapping[str, str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        if type(max_queue) is not int or not 0 <= max_queue <= 1_000_000:
            raise OptionError(f"max_queue is {max_queue!r}: give a whole number of at least 0")
        self._make: Callable[[], Isolated] = partial(Isolated, source, environment=environment, **options)
        self._timeout = timeout
        self._queue = _Queue(max_queue)
        self._counts = _Counts()
        self._deaths: deque[float] = deque(maxlen=MOST_DEATHS)
        self._claim = Claim()
        self._closed = False
        self._listener: Listener | None = None
        self._model = self._make()

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._model.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._model.outputs

    @property
    def acceleration(self) -> Acceleration:
        return self._model.acceleration

    @property
    def pid(self) -> int:
        """The number of the process that holds the model at present."""
        return self._model.pid

    def run(
        self, inputs: Sequence[Any] | Mapping[str, Any], *, timeout: float | None = None,
        cancel: Cancellation | None = None, caller: Owner | None = None,
    ) -> list[bytes]:  # fmt: skip
        """Wait for a turn, run once, return the outputs' bytes.

        Raises what `CompiledModel.run` raises, `QueueFullError`, `TimedOutError` and `WorkerDiedError`.
        """
        limit = self._timeout if timeout is None else timeout
        start = time.perf_counter()
        try:
            self._claim.check(caller)
            check_cancelled(cancel)
            results, waited = self._run_in_turn(inputs, limit, cancel)
        except LiteRtError as err:
            self._counts.failed(err)
            raise
        self._counts.succeeded(waited, time.perf_counter() - start)
        return results

    def summarise_profile(self) -> list[SummaryEntry]:
        """Return the totals of a model compiled with `profile=True`; they begin anew with a new process."""
        with self._queue.turn(self._timeout, None):
            return self._alive().summarise_profile()

    def controlling_process(self, owner: Any = _KEEP) -> Owner | None:
        """Return or set whose requests are answered, as `CompiledModel.controlling_process` does."""
        if owner is not _KEEP:
            self._claim.give(owner)
        return self._claim.owner()

    def stats(self) -> ServerStats:
        return self._counts.stats(len(self._queue), self._queue.most)

    def listen(self, path: str | None = None) -> str:
        """Take requests from other processes at a Unix socket, and return its path for `Client`."""
        self._check_open()
        if self._listener is None:
            self._listener = Listener(self, path)
        return self._listener.path

    def close(self) -> None:
        """Refuse what waits, end the process; a second call does nothing."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()
        self._queue.close()
        if hasattr(self, "_model"):
            self._model.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_in_turn(
        self, inputs: Sequence[Any] | Mapping[str, Any], limit: float | None, cancel: Cancellation | None
    ) -> tuple[list[bytes], float]:
        if limit is not None and not (isinstance(limit, (int, float)) and 0 < limit < 2**31):
            raise OptionError(f"timeout is {limit!r}: give seconds, more than 0")
        start = time.perf_counter()
        with self._queue.turn(limit, cancel):
            waited = time.perf_counter() - start
            left = None if limit is None else max(limit - waited, 0.001)
            return self._alive().run(inputs, timeout=left, cancel=cancel), waited

    def _alive(self) -> Isolated:
        """Return the model, in a new process when the last one died; called by whoever has the turn."""
        self._check_open()
        if self._model.alive:
            return self._model
        recent = [moment for moment in self._deaths if time.monotonic() - moment < DEATH_SECONDS]
        if len(recent) >= MOST_DEATHS:
            raise WorkerDiedError(f"the model's process died {len(recent)} times within a minute; the server gave up")
        self._deaths.append(time.monotonic())
        self._model.close()
        self._model = self._make()
        self._counts.restarts += 1
        return self._model

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this server was closed")


class _Queue:
    """Turns in order of arrival. Each waiter has a lock of its own, so that only the next one wakes."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._busy = False
        self._closed = False
        self.most = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def turn(self, timeout: float | None, cancel: Cancellation | None) -> _Waiter:
        return _Waiter(self, timeout, cancel)

    def enter(self, waiter: _Waiter) -> bool:
        """Return whether the turn is the waiter's at once; else it waits in line."""
        with self._lock:
            if self._closed:
                raise ClosedError("this server was closed")
            if not self._busy:
                self._busy = True
                return True
            if len(self._waiting) >= self._most_waiting:
                raise QueueFullError(f"{self._most_waiting} requests wait already; try again later")
            self._waiting.append(waiter)
            self.most = max(self.most, len(self._waiting))
            return False

    def leave(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().admit()
            else:
                self._busy = False

    def withdraw(self, waiter: _Waiter) -> bool:
        """Take a waiter out of the line; False when its turn has come meanwhile."""
        with self._lock, suppress(ValueError):
            self._waiting.remove(waiter)
            return True
        return False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._waiting:
                self._waiting.popleft().refuse()


class _Waiter:
    """One request's place in the line, as a context manager."""

    def __init__(self, queue: _Queue, timeout: float | None, cancel: Cancellation | None) -> None:
        self._queue = queue
        self._timeout = timeout
        self._cancel = cancel
        self._signal = threading.Event()
        self._refused = False

    def admit(self) -> None:
        self._signal.set()

    def refuse(self) -> None:
        self._refused = True
        self._signal.set()

    def __enter__(self) -> None:
        if self._queue.enter(self):
            return
        wake = self._signal.set
        if self._cancel is not None:
            self._cancel.attach(wake)
        try:
            came = self._signal.wait(self._timeout)
        except BaseException:  # Ctrl-C: nobody would pass the turn on
            self._give_up()
            raise
        finally:
            if self._cancel is not None:
                self._cancel.detach(wake)
        if self._refused:
            raise ClosedError("this server was closed")
        cancelled = self._cancel is not None and self._cancel.cancelled
        if came and not cancelled:
            return
        self._give_up()
        if cancelled:
            raise CancelledError("the request was cancelled while it waited", status=100)
        raise TimedOutError(f"no turn within {self._timeout:g} s: the model is busy", status=7)

    def __exit__(self, *_: object) -> None:
        self._queue.leave()

    def _give_up(self) -> None:
        if not self._queue.withdraw(self) and not self._refused:  # the turn came in the same moment: pass it on
            self._queue.leave()


class _Counts:
    """Counters and the latest times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: deque[float] = deque(maxlen=KEPT_TIMES)
        self._totals: deque[float] = deque(maxlen=KEPT_TIMES)
        self._kinds: dict[str, int] = {}
        self._successes = 0
        self.restarts = 0

    def succeeded(self, wait: float, total: float) -> None:
        with self._lock:
            self._successes += 1
            self._waits.append(wait)
            self._totals.append(total)

    def failed(self, err: LiteRtError) -> None:
        with self._lock:
            self._kinds[err.code] = self._kinds.get(err.code, 0) + 1

    def stats(self, queued: int, most_queued: int) -> ServerStats:
        with self._lock:
            kinds, waits, totals = dict(self._kinds), sorted(self._waits), sorted(self._totals)
            successes = self._successes
        refused, timed_out, cancelled = (kinds.pop(code, 0) for code in ("queue-full", "timed-out", "cancelled"))
        failed = sum(kinds.values())
        return ServerStats(
            requests=successes + failed + refused + timed_out + cancelled, succeeded=successes, failed=failed,
            refused=refused, timed_out=timed_out, cancelled=cancelled, restarts=self.restarts, queued=queued,
            most_queued=most_queued, wait_p50_us=_quantile(waits, 0.5), wait_p99_us=_quantile(waits, 0.99),
            total_p50_us=_quantile(totals, 0.5), total_p99_us=_quantile(totals, 0.99),
        )  # fmt: skip


def _quantile(ordered: Sequence[float], part: float) -> float:
    return round(ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1e6, 1) if ordered else 0.0
