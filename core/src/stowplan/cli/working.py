"""A bar on a terminal for work that takes over a second; silent everywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY_SECONDS = 1.0
TICK_SECONDS = 0.2


@contextmanager
def working(what: str, seconds: float | None = None) -> Iterator[Callable[[str], None]]:
    """Show `what` with a bar on standard error while the block runs, if that is a terminal and it takes long.

    The bar fills up in so many `seconds`; without any it only moves. The block may say what it is at: it is given a
    function that takes a few words.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = _Bar(what, seconds)
    timer = threading.Timer(DELAY_SECONDS, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.say
    finally:
        timer.cancel()
        bar.over.set()
        timer.join()  # the bar is gone before anything else is printed


class _Bar:
    """Is shown by the timer's thread until the caller's says that the work is over."""

    def __init__(self, what: str, seconds: float | None) -> None:
        self._what = self._shown = what
        self._seconds = seconds
        self._begun = time.monotonic()
        self.over = threading.Event()

    def say(self, words: str) -> None:
        self._shown = f"{self._what}: {words}"

    def show(self) -> None:
        from rich.console import Console  # heavy, and only a terminal that waits needs it
        from rich.progress import BarColumn, Progress, TextColumn

        form = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[seconds]:.0f} s"))
        with Progress(*form, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(self._shown, total=self._seconds, seconds=self._passed())
            while not self.over.wait(TICK_SECONDS):
                passed = self._passed()
                progress.update(task, description=self._shown, completed=passed, seconds=passed)

    def _passed(self) -> float:
        return time.monotonic() - self._begun
