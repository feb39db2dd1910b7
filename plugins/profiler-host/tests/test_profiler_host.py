"""Plans are timed firing by firing: every node that ran is there, as often as it fired, with times that add up."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import pairwise

import pytest

from fitting import NO_FILE, fit
from graphs import small_cnn
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.errors import RuntimeFailure
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Profile
from stowplan_backend_c.host import HostCompiled
from stowplan_profiler_host.recording import Recording

RUNS = 20


@pytest.fixture(scope="module")
def plan() -> bytes:
    """Little memory, so that nodes fire many times in a run."""
    graph = small_cnn()
    return write_plan(make_plan(NO_FILE, Lowering(graph), fit(graph, 620).schedule, PlanOptions()))


def recorded(compiled: HostCompiled, recording: Profile, runs: int = RUNS) -> list[int]:
    inputs = [bytes(port.size_bytes) for port in compiled.inputs]
    recording.resume()
    times = [compiled.run_with_metrics(inputs)[1].duration_ns for _ in range(runs)]
    recording.pause()
    return times


def test_each_node_is_counted_as_often_as_the_plan_fires_it(plan: bytes) -> None:
    view = read_plan(plan)
    with closing(HostCompiled(plan)) as compiled:
        recording = host().profilers()["host"].attach(compiled)
        recorded(compiled, recording)
        found = {total.order: total.count for total in recording.by_operator()}
        kinds = {total.name: total.count for total in recording.by_kind()}
    fired = [firing["node"] for firing in view.records("firings")]
    assert found == {node: RUNS * fired.count(node) for node in set(fired)}
    names = [view.node_kind(view.records("nodes")[node]["kind"]) for node in fired]
    assert kinds == {name: RUNS * names.count(name) for name in set(names)}


def test_times_are_within_those_of_the_runs_and_events_follow_each_other(plan: bytes) -> None:
    with closing(HostCompiled(plan)) as compiled:
        recording = host().profilers()["host"].attach(compiled)
        runs = recorded(compiled, recording)
        total = sum(each.duration_ns for each in recording.by_operator())
        assert 0 < total <= 2 * sum(runs)  # of medians, whose sum is no median
        events = recording.events(0)
        assert len(events) == recording.pending() == RUNS * len(read_plan(plan).records("firings"))
        assert [event.start_ns for event in events] == sorted(event.start_ns for event in events)
        assert all(a.start_ns + a.duration_ns <= b.start_ns for a, b in pairwise(events))
        assert [event.duration_ns for event in recording.events(7)] == [event.duration_ns for event in events[-7:]]


def test_only_the_last_events_are_kept_and_totals_count_them_all(plan: bytes) -> None:
    firings = len(read_plan(plan).records("firings"))
    with closing(HostCompiled(plan)) as compiled:
        for capacity in (3, firings + 1, 3 * firings):
            recording = Recording.of(compiled, capacity)
            recorded(compiled, recording, 5)
            assert recording.pending() == min(capacity, 5 * firings)
            assert sum(total.count for total in recording.by_operator()) == 5 * firings
            assert sum(total.duration_ns for total in recording.by_operator()) > 0


def test_nothing_is_recorded_before_it_is_resumed_after_it_is_paused_or_once_it_is_reset(plan: bytes) -> None:
    with closing(HostCompiled(plan)) as compiled:
        recording = host().profilers()["host"].attach(compiled)
        inputs = [bytes(port.size_bytes) for port in compiled.inputs]
        compiled.run(inputs)
        assert recording.pending() == 0
        recorded(compiled, recording, 1)
        before = recording.pending()
        compiled.run(inputs)
        assert recording.pending() == before > 0
        recording.reset()
        assert recording.pending() == 0
        assert list(recording.by_kind()) == []


def test_recording_changes_no_byte_of_the_outputs(plan: bytes) -> None:
    with closing(HostCompiled(plan)) as compiled:
        inputs = [bytes(range(256)) * 2 for _ in compiled.inputs]
        inputs = [data[: port.size_bytes] for data, port in zip(inputs, compiled.inputs, strict=True)]
        plain = compiled.run(inputs)
        recording = host().profilers()["host"].attach(compiled)
        recording.resume()
        assert compiled.run(inputs) == plain


def test_what_is_no_plan_on_this_machine_is_refused(plan: bytes) -> None:
    class Other:
        pass

    with pytest.raises(RuntimeFailure, match="profiler host records plans on this machine, not a Other"):
        host().profilers()["host"].attach(Other())  # type: ignore[arg-type]
    compiled = HostCompiled(plan)
    recording = host().profilers()["host"].attach(compiled)
    compiled.close()
    with pytest.raises(RuntimeFailure, match="was closed"):
        recording.resume()


def test_a_recording_can_be_told_as_json(plan: bytes) -> None:
    from stowplan.cli.output import plain

    with closing(HostCompiled(plan)) as compiled:
        recording = host().profilers()["host"].attach(compiled)
        recorded(compiled, recording, 2)
        assert json.loads(json.dumps(plain(list(recording.by_operator()))))[0]["kind"] == "operator"
        assert "ns more" in recording.note
