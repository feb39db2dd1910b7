"""What happened in profiled runs: events in bounded memory, or whole runs where an accelerator records none."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from stowplan.nouns import dataclass
from stowplan_backend_litert import layouts
from stowplan_backend_litert.calls import ask, call

TYPES = {
    1: "default", 2: "operator", 4: "delegate_operator", 8: "delegate_profiled", 16: "runtime_instrumentation",
    32: "telemetry", 64: "telemetry_report_settings", 128: "telemetry_delegate",
    256: "telemetry_delegate_report_settings",
}  # fmt: skip
OPERATORS = ("operator", "delegate_operator", "delegate_profiled")
"""The types that a summary folds in. The others enclose these, and would count them twice."""
SOURCES = {0: "litert", 1: "tflite_interpreter", 2: "tflite_delegate"}
DRAIN_RUNS = 256
RING_EVENTS = 524_288
MOST_EVENTS = 16_384
RING_BYTES = 68 * 1024 * 1024
"""What a model compiled for profiling costs at once: LiteRT allocates its ring when it compiles, whatever is asked."""


@dataclass(frozen=True)
class Event:
    """One profiling event. `type` and `source` are numbers where this version has no name for them.

    `start_us` is on LiteRT's clock. The delegates that report their operators in one go leave it out; then it is the
    sum of what went before in the same run, and `start_estimated` says so. `node` numbers operators within a
    subgraph, or within what a delegate took.
    """

    tag: str
    us: int
    type: str | int
    source: str | int
    start_us: int = 0
    start_estimated: bool = False
    node: int = -1
    subgraph: int = 0


@dataclass(frozen=True)
class SummaryEntry:
    """Total of all operators of one kind and name, in microseconds."""

    tag: str
    kind: str
    count: int
    us: int


@dataclass(frozen=True)
class NodeEntry:
    """Total of one operator: the `order`-th of each run."""

    order: int
    tag: str
    kind: str
    node: int
    subgraph: int
    count: int
    us: int


class Recorder(Protocol):
    """What a compiled model knows of its runs."""

    note: str

    def before_run(self) -> None: ...
    def after_run(self, duration_ns: int) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def pending(self) -> int: ...
    def events(self, limit: int) -> list[Event]: ...
    def reset(self) -> None: ...
    def summary(self) -> list[SummaryEntry]: ...
    def nodes(self) -> list[NodeEntry]: ...


class Totals:
    """Sums by kind and by place in the run, so that memory does not grow with the runs."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], list[int]] = {}
        self._nodes: dict[tuple[int, str, str, int, int], list[int]] = {}
        self._order = 0

    def next_run(self) -> None:
        self._order = 0

    def add(self, event: Event) -> None:
        if not isinstance(event.type, str) or event.type not in OPERATORS:
            return
        place = (self._order, event.tag, event.type, event.node, event.subgraph)
        self._order += 1
        for total in (
            self._kinds.setdefault((event.tag, event.type), [0, 0]),
            self._nodes.setdefault(place, [0, 0]),
        ):
            total[0] += 1
            total[1] += event.us

    def summary(self) -> list[SummaryEntry]:
        entries = [SummaryEntry(tag, kind, count, us) for (tag, kind), (count, us) in self._kinds.items()]
        return sorted(entries, key=lambda entry: (-entry.us, entry.tag))

    def nodes(self) -> list[NodeEntry]:
        return [NodeEntry(*place, count, us) for place, (count, us) in sorted(self._nodes.items())]


class OperatorRecorder:
    """LiteRT's profiler, drained every few hundred runs: its ring overwrites what nobody has read, without a word."""

    def __init__(self, model: int) -> None:
        self.note = ""
        self._profiler: int = ask("CompiledModelGetProfiler", model)
        self._on = False
        self._runs = 0
        self._forget()
        self.resume()

    def before_run(self) -> None:
        if self._on and self._runs >= DRAIN_RUNS:
            self._drain()

    def after_run(self, duration_ns: int) -> None:
        self._runs += 1

    def pause(self) -> None:
        if self._on:
            call("StopProfiler", self._profiler)
            self._on = False

    def resume(self) -> None:
        if not self._on:
            call("StartProfiler", self._profiler)
            self._on = True

    def pending(self) -> int:
        return self._waiting() + len(self._kept)

    def events(self, limit: int) -> list[Event]:
        self._drain()
        kept = list(self._kept)
        return kept[-limit:] if limit else kept

    def reset(self) -> None:
        self._restart()
        self._forget()

    def summary(self) -> list[SummaryEntry]:
        self._drain()
        return self._totals.summary()

    def nodes(self) -> list[NodeEntry]:
        self._drain()
        return self._totals.nodes()

    def _forget(self) -> None:
        self._kept: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._totals = Totals()

    def _waiting(self) -> int:
        count: int = ask("GetNumProfilerEvents", self._profiler, kind=ctypes.c_int)
        return count

    def _drain(self) -> None:
        """Move LiteRT's events to ours and empty the ring, so that the next copy is small."""
        count = self._waiting()
        if count <= 0:
            self._runs = 0
            return
        raw = (layouts.ProfilerEvent * count)()
        call("GetProfilerEvents", self._profiler, count, raw)
        for event in _translated(raw):
            if event.tag.startswith("LiteRT::Run[buffer registration"):
                self._totals.next_run()
            self._totals.add(event)
            self._kept.append(event)
        self._restart()

    def _restart(self) -> None:
        call("ResetProfiler", self._profiler)
        self._runs = 0
        if self._on:  # a reset stops it
            call("StartProfiler", self._profiler)


class RunRecorder:
    """Times whole runs, for accelerators that cannot say more."""

    TAG = "run"

    def __init__(self, note: str) -> None:
        self.note = note
        self._on = True
        self.reset()

    def before_run(self) -> None:
        """Nothing to prepare."""

    def after_run(self, duration_ns: int) -> None:
        if not self._on:
            return
        us = duration_ns // 1000
        self._kept.append(Event(self.TAG, us, "default", "litert", start_us=self._clock_us))
        self._clock_us += us
        self._count += 1
        self._total_us += us

    def pause(self) -> None:
        self._on = False

    def resume(self) -> None:
        self._on = True

    def pending(self) -> int:
        return len(self._kept)

    def events(self, limit: int) -> list[Event]:
        kept = list(self._kept)
        return kept[-limit:] if limit else kept

    def reset(self) -> None:
        self._kept: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._clock_us = self._count = self._total_us = 0

    def summary(self) -> list[SummaryEntry]:
        """Return nothing: a whole run is no operator, and `note` says why there are none."""
        return []

    def nodes(self) -> list[NodeEntry]:
        return []


def _translated(raw: Iterable[layouts.ProfilerEvent]) -> list[Event]:
    """Return events with names, and with starts where a delegate gave none."""
    events = []
    clock = 0
    for record in raw:
        kind: str | int = TYPES.get(record.type, int(record.type))
        duration = min(int(record.duration_us), 2**53)
        estimated = record.start_us == 0 and kind == "delegate_profiled"
        start = clock if estimated else int(record.start_us)
        if kind in OPERATORS:
            clock = start + duration
        elif record.start_us:
            clock = start
        node = int(record.node) if record.node < 2**31 else -1
        tag = (record.tag or b"").decode("utf-8", "replace")
        events.append(
            Event(tag, duration, kind, _source(record.source, kind), start, estimated, node, int(record.subgraph))
        )
    return events


def _source(number: int, kind: str | int) -> str | int:
    # What a delegate reports is stored without a source, which reads as 0, "litert".
    if kind in ("delegate_profiled", "delegate_operator"):
        return "tflite_delegate"
    return SOURCES.get(number, number)
