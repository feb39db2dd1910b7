"""The recording of one compiled model: when each run began, and how long it took."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from stowplan.errors import RuntimeFailure
from stowplan.plugins.kinds import ProfileEvent, ProfileTotal

CALLS = ("run", "run_with_metrics")


class Recording:
    """See `stowplan.plugins.kinds.Profile`. Stands before the model's own `run` and `run_with_metrics`."""

    note = "whole runs only: it does not see operators"

    def __init__(self, compiled: Any, capacity: int) -> None:
        self._recording = self._inside = False
        self._runs: deque[tuple[int, int]] = deque(maxlen=capacity)
        self._total_ns = self._count = 0
        for name in CALLS:
            original = getattr(compiled, name, None)
            try:
                if not callable(original):
                    raise AttributeError(name)
                setattr(compiled, name, self._timed(original))
            except (AttributeError, TypeError):
                what = type(compiled).__name__
                raise RuntimeFailure(f"profiler acme records compiled models, not a {what}") from None

    def resume(self) -> None:
        self._recording = True

    def pause(self) -> None:
        self._recording = False

    def pending(self) -> int:
        return len(self._runs)

    def events(self, limit: int) -> Sequence[ProfileEvent]:
        kept = list(self._runs)[-limit:] if limit else list(self._runs)
        first = kept[0][0] if kept else 0
        return [ProfileEvent(name="run", kind="run", start_ns=a - first, duration_ns=b - a) for a, b in kept]

    def reset(self) -> None:
        self._runs.clear()
        self._total_ns = self._count = 0

    def by_kind(self) -> Sequence[ProfileTotal]:
        return self._totals(order=-1)

    def by_operator(self) -> Sequence[ProfileTotal]:
        return self._totals(order=0)

    def _totals(self, order: int) -> Sequence[ProfileTotal]:
        if not self._count:
            return []
        return [ProfileTotal(name="run", kind="run", count=self._count, duration_ns=self._total_ns, order=order)]

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            if not self._recording or self._inside:  # one of the two may call the other
                return call(*arguments)
            self._inside, began = True, time.perf_counter_ns()
            try:
                return call(*arguments)
            finally:
                ended, self._inside = time.perf_counter_ns(), False
                self._runs.append((began, ended))
                self._total_ns += ended - began
                self._count += 1

        return timed
