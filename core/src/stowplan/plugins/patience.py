"""How long a plugin may take to answer: a limit in seconds that ends an endless loop or a long sleep."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from stowplan.errors import UsageError

VARIABLE = "STOWPLAN_PLUGINS_SECONDS"
USUAL_SECONDS = 30.0


class TookTooLongError(BaseException):
    """A limit has passed. No `Exception`, or a plugin that catches those would go on."""


def import_seconds() -> float:
    """Return how long the import of one plugin may take. Raises `UsageError` for a variable that is no time."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else USUAL_SECONDS
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 86400:
        raise UsageError(f"{VARIABLE}={text[:40]}: write seconds, more than 0 and at most 86400")
    return seconds


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise `TookTooLongError` in the block after `seconds`.

    By the interval timer, which only the main thread of a POSIX process has: elsewhere there is no limit. Python code
    ends at its next step, a call into C when it returns.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(number: int, frame: FrameType | None) -> None:
        raise TookTooLongError

    former = signal.signal(signal.SIGALRM, expired)
    began, (rest, interval) = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
        if rest:  # somebody around us counts too
            signal.setitimer(signal.ITIMER_REAL, max(rest - (time.monotonic() - began), 0.001), interval)
