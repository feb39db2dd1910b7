"""What a build reports while it runs: named events with monotonic durations, to callbacks, plugins and trace files.

Events are `lookup`, `hit`, `miss`, `failure`, `parse`, `pass`, `schedule`, `prove`, `serialize`, `emit`, `load`,
`execution`, `compile`. Each comes with plain facts; timed ones with `start_ns` (the clock of `time.monotonic_ns`,
which all processes of a machine share on the usual systems) and `duration_ns`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stowplan.nouns import dataclass

Observer = Callable[[str, Mapping[str, Any]], object]


@dataclass(frozen=True)
class Event:
    """One event as a trace keeps it; `process` and `thread` say where it happened."""

    name: str
    facts: Mapping[str, Any]
    process: int
    thread: int


class Telemetry:
    """Sends events to observers. One that raises is reported once and left out from then on: it has no say.

    `labels` are the caller's own facts, added to every event; what an event says itself wins.
    """

    def __init__(self, *observers: Observer, labels: Mapping[str, Any] | None = None) -> None:
        self._labels = dict(labels or {})
        self._observers = list(observers)
        self._lock = threading.Lock()
        self.durations_ns: dict[str, int] = {}

    def event(self, name: str, **facts: Any) -> None:
        """Tell all observers."""
        for observer in tuple(self._observers):
            try:
                observer(name, {**self._labels, **facts})
            except Exception as err:  # an observer must not decide whether a model compiles
                with self._lock:
                    if observer in self._observers:
                        self._observers.remove(observer)
                print(f"Warning: an observer failed on {name} and is left out: {_one_line(err)}", file=sys.stderr)

    @contextmanager
    def span(self, name: str, **facts: Any) -> Iterator[dict[str, Any]]:
        """Time the block and send one event after it; what the block puts into the yielded dict becomes facts.

        A block that raises sends the event, too, with `error`: a trace that ends before the fault helps nobody.
        """
        start = time.monotonic_ns()
        more: dict[str, Any] = {}
        try:
            yield more
        except BaseException as err:
            more["error"] = type(err).__name__
            raise
        finally:
            duration = time.monotonic_ns() - start
            self.durations_ns[name] = self.durations_ns.get(name, 0) + duration
            self.event(name, start_ns=start, duration_ns=duration, **facts, **more)


class Recorder:
    """An observer that keeps all events, for a trace file or for sending them to another process."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, name: str, facts: Mapping[str, Any]) -> None:
        self.events.append(Event(name, dict(facts), os.getpid(), threading.get_ident() & 0x7FFFFFFF))


def trace_document(events: Sequence[Event]) -> dict[str, Any]:
    """Return events in Chrome's trace format, which Perfetto and chrome://tracing open; times in microseconds."""
    return {"displayTimeUnit": "ms", "traceEvents": [_trace_event(event) for event in events]}


def write_trace(path: Path, events: Sequence[Event]) -> None:
    """Write a trace file. Raises `OutputError`."""
    import json

    from stowplan.cli.output import check_output, plain, write_file

    check_output(path)
    write_file(path, json.dumps(plain(trace_document(events)), indent=1).encode())


def _trace_event(event: Event) -> dict[str, Any]:
    facts = dict(event.facts)
    start, duration = facts.pop("start_ns", None), facts.pop("duration_ns", None)
    form: dict[str, Any] = {"name": event.name, "cat": "stowplan", "pid": event.process, "tid": event.thread}
    if start is None:
        return {**form, "ph": "i", "s": "t", "ts": facts.pop("time_ns", time.monotonic_ns()) / 1000, "args": facts}
    return {**form, "ph": "X", "ts": start / 1000, "dur": duration / 1000, "args": facts}


def _one_line(err: Exception) -> str:
    text = " ".join(f"{type(err).__name__}: {err}".split())
    return text if len(text) <= 200 else text[:197] + "..."
