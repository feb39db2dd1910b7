"""What every profiler has to hold, on a network that takes a millisecond or so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stowplan.build.prove import random_bytes
from stowplan.errors import RuntimeFailure, StowplanError
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Compiled, LoadOptions, Metrics
from stowplan.testing import samples
from stowplan.testing.builder import GraphBuilder
from stowplan.testing.conformance import Conformance
from stowplan.testing.faults import Fault, skip

RUNS = 5
METHODS = ("resume", "pause", "pending", "events", "reset", "by_kind", "by_operator")


def busy() -> Graph:
    """64x32x8 -> conv 16 -> conv 8: long enough that a clock sees it, and who counts micro- for nanoseconds."""
    b = GraphBuilder(seed=3)
    return b.graph(b.conv(b.conv(b.input(1, 64, 32, 8), 16), 8), name="busy")


class ProfilerConformance(Conformance):
    """`backend` runs what is recorded: plans, or the file `model` where the backend compiles models itself.

    Such a model is compiled for `accelerators`, or else for the CPU, or for what the backend names first.
    `supports_estimates`: whether it is code for another machine, of which the profiler shows what its compiler expects;
    nothing is run then, and nothing recorded.
    """

    kind = "profiler"
    backend: str = ""
    model: str = ""
    accelerators: tuple[str, ...] = ()
    supports_estimates: bool | None = None

    def runner(self) -> Any:
        """Return the backend: the one that was set, that of the profiler's name if it takes models, or else `c`."""
        backends, own = host().backends(), self.record.name
        if not self.backend and own in backends and callable(getattr(backends[own], "load_model", None)):
            return backends[own]
        name = self.backend or "c"
        if name not in backends:
            skip(f"needs the backend {name}")
        return backends[name]

    @contextmanager
    def opened(self) -> Iterator[Compiled]:
        backend = self.runner()
        if not backend.available().ok:
            skip(backend.available().why)
        if self.model and callable(getattr(backend, "load_model", None)):
            options = LoadOptions(accelerators=self.accelerators or _usual(backend), profile=True)
            compiled = backend.load_model(Model.read(self.model), options)
        elif callable(getattr(backend, "load_model", None)):
            skip("needs a model: set `model` in the test class, or give --model FILE")
        else:
            compiled = backend.compile(samples.plan_of(busy()))
        try:
            self.check_kind(compiled)
            yield compiled
        finally:
            compiled.close()

    def check_kind(self, compiled: Compiled) -> None:
        if self.supports_estimates is not None and self.supports_estimates != (_estimate(compiled) is not None):
            has = "an" if _estimate(compiled) else "no"
            raise Fault(f"the loaded model has {has} estimate. supports_estimates is {self.supports_estimates}.")

    def skip_estimates(self, compiled: Compiled) -> None:
        if _estimate(compiled) is not None:
            skip("the loaded model has an estimate in place of runs")

    def attached(self, compiled: Compiled) -> Any:
        found = self.ask("attach(compiled)", self.record.attach, compiled, allow=(RuntimeFailure,))
        missing = [name for name in METHODS if not callable(getattr(found, name, None))]
        if missing:
            raise Fault(
                f"attach() returned {type(found).__name__} without {missing[0]}(). See stowplan.plugins.kinds.Profile."
            )
        if not isinstance(getattr(found, "note", None), str):
            raise Fault('the recording has no note. Say what it cannot tell, or "".')
        return found

    @contextmanager
    def recorded(self) -> Iterator[tuple[Any, list[int]]]:
        """Record some runs; yield the recording and how long each run took, in ns: of estimates, the one expected."""
        with self.opened() as compiled:
            recording, estimate = self.attached(compiled), _estimate(compiled)
            if estimate is not None:
                yield recording, [estimate.duration_ns]
                return
            inputs = _inputs(compiled)
            for _ in range(RUNS):  # a backend may prepare itself in its first runs
                compiled.run(inputs)
            self.ask("resume()", recording.resume)
            times = []
            for _ in range(RUNS):
                began = time.perf_counter_ns()
                compiled.run(inputs)
                times.append(time.perf_counter_ns() - began)
            self.ask("pause()", recording.pause)
            yield recording, times

    def test_states_what_recording_costs(self) -> None:
        found = self.ask("cost_bytes", lambda: self.record.cost_bytes)
        if type(found) is not int or found < 0:
            raise Fault(f"cost_bytes is {found!r:.100}. State the memory that recording takes, in bytes.")

    def test_is_paused_until_resumed_and_after_a_pause(self) -> None:
        with self.opened() as compiled:
            self.skip_estimates(compiled)
            recording, inputs = self.attached(compiled), _inputs(compiled)
            compiled.run(inputs)
            if self.ask("pending()", recording.pending):
                raise Fault("it records before resume(). attach() returns a paused recording.")
            recording.resume()
            compiled.run(inputs)
            recording.pause()
            seen = self.ask("pending()", recording.pending)
            if not seen:
                raise Fault("after resume(), a run and pause() nothing is pending().")
            compiled.run(inputs)
            if self.ask("pending()", recording.pending) != seen:
                raise Fault("it records after pause().")

    def test_a_recorded_run_computes_the_same(self) -> None:
        with self.opened() as compiled:
            self.skip_estimates(compiled)
            inputs = _inputs(compiled)
            before = compiled.run(inputs)
            recording = self.attached(compiled)
            recording.resume()
            if compiled.run(inputs) != before:
                raise Fault("a recorded run gives other bytes. Look at runs, and leave them alone.")
            recording.pause()
            if compiled.run(inputs) != before:
                raise Fault("a run after pause() gives other bytes.")

    def test_gives_nanoseconds(self) -> None:
        with self.recorded() as (recording, times):
            least, most = len(times) * min(times), sum(times)  # a busy machine makes some runs long
            floor = least // 400  # who counts micro- for nanoseconds stays below a thousandth
            for name in ("by_kind", "by_operator"):
                totals = self.ask(f"{name}()", getattr(recording, name))
                if not totals:
                    raise Fault(f"{name}() is empty after {RUNS} runs.")
                if any(
                    type(total.duration_ns) is not int or total.duration_ns < 0 or total.count < 1 for total in totals
                ):
                    raise Fault(f"{name}() has a count below 1, or a duration that is no whole number of nanoseconds.")
                spent = sum(total.duration_ns for total in totals)
                if spent > 2 * most or spent < floor:
                    raise Fault(
                        f"{name}() adds up to {spent} ns, where {len(times)} runs took {most} ns. Give nanoseconds."
                    )

    def test_totals_come_slowest_first_and_operators_in_order(self) -> None:
        with self.recorded() as (recording, _):
            durations = [total.duration_ns for total in recording.by_kind()]
            if durations != sorted(durations, reverse=True):
                raise Fault("by_kind() is not sorted, slowest first.")
            orders = [total.order for total in recording.by_operator()]
            if orders != sorted(orders):
                raise Fault("by_operator() is not in the order of a run.")

    def test_events_are_the_most_recent_and_as_many_as_asked(self) -> None:
        with self.recorded() as (recording, _):
            everything = list(self.ask("events(0)", recording.events, 0))
            if not 0 < len(everything) <= recording.pending():
                raise Fault(
                    f"events(0) has {len(everything)}, pending() says {recording.pending()}. Give all that are kept."
                )
            last = list(self.ask("events(1)", recording.events, 1))
            if len(last) != 1:
                raise Fault(f"events(1) has {len(last)}.")
            if (last[0].name, last[0].duration_ns) != (everything[-1].name, everything[-1].duration_ns):
                raise Fault("events(1) is not the most recent one.")
            starts = [event.start_ns for event in everything]
            if starts[0] != 0 or starts != sorted(starts):
                raise Fault("events(0) does not begin at 0, or goes back in time. Starts count from the first event.")

    def test_estimates_are_there_at_once_and_stay(self) -> None:
        with self.opened() as compiled:
            if _estimate(compiled) is None:
                skip("the loaded model runs here")
            recording = self.attached(compiled)
            before = list(self.ask("events(0)", recording.events, 0))
            if not before or not all(event.estimated for event in before):
                raise Fault("events(0) of a model with an estimate is empty, or an event is not marked estimated.")
            for name in ("resume", "pause", "reset"):
                self.ask(f"{name}()", getattr(recording, name))
                if list(recording.events(0)) != before or recording.pending() != len(before):
                    raise Fault(f"{name}() changes estimates. They are not recorded, so it does nothing to them.")

    def test_reset_forgets(self) -> None:
        with self.opened() as compiled:
            self.skip_estimates(compiled)
        with self.recorded() as (recording, _):
            self.ask("reset()", recording.reset)
            if recording.pending() or any(total.count for total in recording.by_operator()):
                raise Fault("something is left after reset().")

    def test_two_recordings_do_not_share(self) -> None:
        with self.opened() as compiled:
            self.skip_estimates(compiled)
        with self.recorded() as (recording, _), self.opened() as other:
            if self.attached(other).pending():
                raise Fault("a second recording begins with the events of the first. Keep them in the recording.")
            assert recording.pending()

    def test_refuses_what_it_cannot_record(self) -> None:
        try:
            self.ask("attach(something else)", self.record.attach, object(), allow=(RuntimeFailure,))
        except StowplanError:
            return
        raise Fault(
            "attach() takes an object that is no compiled model. Raise RuntimeFailure that says what you can record."
        )


def _usual(backend: Any) -> tuple[str, ...]:
    names = tuple(backend.accelerators())
    return ("cpu",) if "cpu" in names else names[:1]


def _estimate(compiled: Compiled) -> Metrics | None:
    found: Metrics | None = getattr(compiled, "estimate", None)
    return found


def _inputs(compiled: Compiled) -> list[bytes]:
    import random

    rng = random.Random(1)
    return [random_bytes(port, rng) for port in compiled.inputs]
