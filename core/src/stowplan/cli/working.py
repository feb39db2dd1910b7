"""A sign of life on a terminal for work that takes over a second; silent everywhere else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY_SECONDS = 1.0


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show `what` with a spinner on standard error while the block runs, if that is a terminal and it takes long.

    The block may say what it is at: it is given a function that takes a few words.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    spinner = _Spinner(what)
    timer = threading.Timer(DELAY_SECONDS, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield spinner.say
    finally:
        timer.cancel()
        spinner.stop()


class _Spinner:
    """Starts in the timer's thread and stops in the caller's, in either order."""

    def __init__(self, what: str) -> None:
        self._what = self._shown = what
        self._lock = threading.Lock()
        self._over = False
        self._status: Any = None

    def start(self) -> None:
        from rich.console import Console  # heavy, and only a terminal that waits needs it
        from rich.markup import escape

        with self._lock:
            if not self._over:
                self._status = Console(stderr=True).status(escape(self._shown))
                self._status.start()

    def say(self, words: str) -> None:
        with self._lock:
            self._shown = f"{self._what}: {words}"
            if self._status is not None and not self._over:
                from rich.markup import escape  # imported already: there is a status

                self._status.update(escape(self._shown))

    def stop(self) -> None:
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()
