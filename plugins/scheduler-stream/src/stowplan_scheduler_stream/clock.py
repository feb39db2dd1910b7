"""The scheduler's only clock, `--time-limit`: all other limits count steps, so that equal inputs give equal plans."""

from __future__ import annotations

import time


class Clock:
    """Counts down from when it is made; without a limit it never strikes. Remembers whether anything was cut short."""

    def __init__(self, seconds: float | None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self.cut_short = False

    def left(self, share: float = 1.0) -> float | None:
        """Return the seconds of a share of what is left; None without a limit."""
        return None if self._deadline is None else max(0.0, (self._deadline - time.monotonic()) * share)

    def part(self, share: float) -> Clock:
        """Return a clock of its own for a share of what is left."""
        return Clock(self.left(share))

    def is_over(self) -> bool:
        """Say whether the time is up, not only a share of it; whoever asks cuts short what it does."""
        over = self.left() == 0.0
        self.cut_short |= over
        return over

    def note(self, cut_short: bool) -> None:
        """Take down that a search was cut short."""
        self.cut_short |= cut_short
