"""The recording of one plan: memory that the C runtime writes times into, and what they say."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from statistics import median

from stowplan.errors import RuntimeFailure
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.layout import NOTHING_16
from stowplan.plugins.kinds import Compiled, ProfileEvent, ProfileTotal
from stowplan_backend_c.host import HostCompiled


class Total(ctypes.Structure):
    """As `stow_record_total` in the backend's native/stow_record.c; so are the two below."""

    _fields_ = (("duration_ns", ctypes.c_uint64), ("firings", ctypes.c_uint64))


class Event(ctypes.Structure):
    _fields_ = (
        ("start_ns", ctypes.c_uint64),
        ("duration_ns", ctypes.c_uint64),
        ("node", ctypes.c_uint32),
        ("units", ctypes.c_uint32),
    )


class Record(ctypes.Structure):
    _fields_ = (
        ("totals", ctypes.c_void_p),
        ("events", ctypes.c_void_p),
        ("capacity", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("began_ns", ctypes.c_uint64),
    )


class Recording:
    """See `stowplan.plugins.kinds.Profile`. Belongs to the thread that runs the plan.

    Totals are what typical runs add up to: for each firing of a run the median of its times, times the runs. A sum
    would say more of whatever else the machine did meanwhile.
    """

    def __init__(self, compiled: HostCompiled, capacity: int) -> None:
        view = compiled.view
        nodes, buffers, tensors = view.records("nodes"), view.records("buffers"), view.records("tensors")
        self._kinds = [view.node_kind(node["kind"]) for node in nodes]
        self._operators = [-1 if node["operator"] == NOTHING_16 else node["operator"] for node in nodes]
        made = [buffers[node["output"]]["tensor"] for node in nodes]
        self._labels = [
            f"{kind} {view.string(tensors[tensor]['name']) if tensor < len(tensors) else ''}".rstrip()
            for kind, tensor in zip(self._kinds, made, strict=True)
        ]
        self._totals = (Total * len(nodes))()
        self._events = (Event * capacity)()
        self._record = Record(ctypes.addressof(self._totals), ctypes.addressof(self._events), capacity, 0, 0)
        self._compiled = compiled
        receive = NODE_KINDS["receive"].code
        self._run = sum(nodes[firing["node"]]["kind"] != receive for firing in view.records("firings"))
        self.note = f"each firing costs about {compiled.clock_ns} ns more while it is recorded"

    @classmethod
    def of(cls, compiled: Compiled, capacity: int) -> Recording:
        if not isinstance(compiled, HostCompiled):
            raise RuntimeFailure(f"profiler host records plans on this machine, not a {type(compiled).__name__}")
        return cls(compiled, capacity)

    def resume(self) -> None:
        self._compiled.watch(ctypes.addressof(self._record))

    def pause(self) -> None:
        self._compiled.watch(None)

    def pending(self) -> int:
        return int(min(self._record.count, self._record.capacity))

    def events(self, limit: int) -> Sequence[ProfileEvent]:
        kept = self.pending() if limit == 0 else min(limit, self.pending())
        numbers = range(self._record.count - kept, self._record.count)
        found = [self._events[number % self._record.capacity] for number in numbers]
        first = found[0].start_ns if found else 0
        return [
            ProfileEvent(
                name=f"{self._labels[event.node]} ({event.units})", kind="firing", start_ns=event.start_ns - first,
                duration_ns=event.duration_ns, index=self._operators[event.node],
            )
            for event in found
        ]  # fmt: skip

    def reset(self) -> None:
        ctypes.memset(self._totals, 0, ctypes.sizeof(self._totals))
        self._record.count = 0

    def by_kind(self) -> Sequence[ProfileTotal]:
        found: dict[str, list[int]] = {}
        for kind, (firings, duration) in zip(self._kinds, self._typical(), strict=True):
            sums = found.setdefault(kind, [0, 0])
            sums[0] += firings
            sums[1] += duration
        totals = [
            ProfileTotal(name=kind, kind="operator", count=count, duration_ns=duration)
            for kind, (count, duration) in found.items()
            if count
        ]
        return sorted(totals, key=lambda total: -total.duration_ns)

    def by_operator(self) -> Sequence[ProfileTotal]:
        return [
            ProfileTotal(
                name=label, kind="operator", count=firings, duration_ns=duration, order=order, index=operator
            )
            for order, (label, operator, (firings, duration)) in enumerate(
                zip(self._labels, self._operators, self._typical(), strict=True)
            )
            if firings
        ]  # fmt: skip

    def _typical(self) -> list[tuple[int, int]]:
        """Return for each node how often it fired, and how long that takes when nothing else disturbs."""
        count = int(self._record.count)
        runs = count // self._run if self._run else 0
        kept = min(runs, self._record.capacity // self._run) if runs else 0
        if kept == 0:  # not one whole run is left to look at
            return [(total.firings, total.duration_ns) for total in self._totals]
        times = [0.0] * len(self._kinds)
        for position in range(self._run):
            numbers = range(count - kept * self._run + position, count, self._run)
            events = [self._events[number % self._record.capacity] for number in numbers]
            times[events[0].node] += median(event.duration_ns for event in events)
        return [(total.firings, round(time * runs)) for total, time in zip(self._totals, times, strict=True)]
