"""A sign of life on a terminal for work that takes over a second; silent everywhere else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DELAY_SECONDS = 1.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show `what` with a spinner on standard error while the block runs, if that is a terminal and it takes long."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = _Spinner(what)
    timer = threading.Timer(DELAY_SECONDS, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        spinner.stop()


class _Spinner:
    """Starts in the timer's thread and stops in the caller's, in either order."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._over = False
        self._status: Any = None

    def start(self) -> None:
        from rich.console import Console  # heavy, and only a terminal that waits needs it
        from rich.markup import escape

        with self._lock:
            if not self._over:
                self._status = Console(stderr=True).status(escape(self._what))
                self._status.start()

    def stop(self) -> None:
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()
