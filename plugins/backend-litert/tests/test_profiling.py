"""The profiler: operators by kind and by place, bounded memory, recording only when asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import litert_models
from stowplan.errors import RuntimeFailure
from stowplan_backend_litert import CompiledModel, Environment, LiteRtProfiler
from stowplan_backend_litert.errors import OptionError
from stowplan_backend_litert.recorder import (
    DRAIN_RUNS,
    MOST_EVENTS,
    OPERATORS,
    Event,
    RunRecorder,
    Totals,
)

X8 = [bytes(32)]


@pytest.fixture
def model(env: Environment):  # type: ignore[no-untyped-def]
    with CompiledModel(env, litert_models.through_int64(), profile=True) as made:
        yield made


def test_every_operator_of_every_run_is_counted_slowest_kind_first(model: CompiledModel) -> None:
    for _ in range(7):
        model.run(X8)
    summary = model.summarise_profile()
    assert {entry.kind for entry in summary} <= set(OPERATORS)
    (casts,) = [entry for entry in summary if entry.tag == "CAST"]
    assert (casts.kind, casts.count) == ("operator", 14)
    assert [entry.us for entry in summary] == sorted((entry.us for entry in summary), reverse=True)


def test_operators_are_told_apart_by_their_place_in_the_run(model: CompiledModel) -> None:
    for _ in range(5):
        model.run(X8)
    nodes = model.profile_nodes()
    assert [entry.order for entry in nodes] == list(range(len(nodes)))
    assert [entry.node for entry in nodes if entry.tag == "CAST"] == [1, 2]
    assert all(entry.count == 5 for entry in nodes)
    assert sum(entry.us for entry in nodes) == sum(entry.us for entry in model.summarise_profile())


def test_the_summary_leaves_out_what_encloses_the_operators(model: CompiledModel) -> None:
    model.run(X8)
    tags = {event.tag for event in model.profile()}
    assert "Invoke" in tags
    assert "Invoke" not in {entry.tag for entry in model.summarise_profile()}


def test_events_have_starts_in_order_within_the_run_and_a_source(model: CompiledModel) -> None:
    model.run(X8)
    events = [event for event in model.profile() if event.type in OPERATORS]
    starts = [event.start_us for event in events]
    assert starts == sorted(starts) and starts[0] > 0
    assert {event.start_estimated for event in events if event.type == "operator"} == {False}
    assert {event.source for event in events if event.type == "delegate_profiled"} == {"tflite_delegate"}


def test_a_limit_returns_the_most_recent_events(model: CompiledModel) -> None:
    for _ in range(3):
        model.run(X8)
    everything = model.profile()
    assert model.profile(4) == everything[-4:]
    assert model.profile(0) == everything == model.profile(10**6)
    with pytest.raises(OptionError, match="limit is -1"):
        model.profile(-1)


def test_pending_events_are_what_profile_returns(model: CompiledModel) -> None:
    assert model.pending_events() == 0
    model.run(X8)
    pending = model.pending_events()
    assert pending == len(model.profile()) > 0


def test_a_reset_forgets_and_goes_on_recording(model: CompiledModel) -> None:
    model.run(X8)
    model.reset_profile()
    assert (model.profile(), model.summarise_profile(), model.pending_events()) == ([], [], 0)
    model.run(X8)
    assert model.summarise_profile()


def test_nothing_is_recorded_while_paused(model: CompiledModel) -> None:
    model.pause_profile()
    model.run(X8)
    assert model.summarise_profile() == []
    model.resume_profile()
    model.run(X8)
    assert {entry.count for entry in model.profile_nodes()} == {1}


def test_a_model_without_profiling_has_no_events_and_says_so_when_asked_to_reset(env: Environment) -> None:
    with CompiledModel(env, litert_models.through_int64()) as model:
        model.run(X8)
        assert (model.profile(), model.pending_events(), model.summarise_profile()) == ([], 0, [])
        for change in (model.reset_profile, model.pause_profile, model.resume_profile):
            with pytest.raises(OptionError, match="compiled without profile=True; it records nothing"):
                change()


def test_many_runs_keep_their_totals_and_a_bounded_number_of_events(model: CompiledModel) -> None:
    runs = 10 * DRAIN_RUNS + 17
    for _ in range(runs):
        model.run(X8)
    assert {entry.count for entry in model.profile_nodes()} == {runs}
    assert len(model.profile()) <= MOST_EVENTS


@pytest.mark.slow
def test_more_runs_than_the_ring_holds_lose_no_operator(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits, profile=True) as model:
        model.run([bytes(64)])
        per_run = model.pending_events()
        runs = 524_288 // per_run + 500
        for _ in range(runs - 1):
            model.run([bytes(64)])
        assert {entry.count for entry in model.profile_nodes()} == {runs}


def test_totals_count_a_delegate_s_second_part_as_operators_of_their_own() -> None:
    totals = Totals()
    for _ in range(3):
        totals.next_run()
        for node in (0, 1, 0):
            totals.add(Event("conv", 5, "delegate_profiled", "tflite_delegate", node=node))
        totals.add(Event("Invoke", 99, "default", "litert"))
        totals.add(Event("new", 99, 4096, 7))
    assert [(entry.order, entry.node, entry.us) for entry in totals.nodes()] == [(0, 0, 15), (1, 1, 15), (2, 0, 15)]
    assert [(entry.tag, entry.count, entry.us) for entry in totals.summary()] == [("conv", 9, 45)]


def test_whole_runs_are_recorded_where_operators_cannot_be() -> None:
    recorder = RunRecorder("because")
    recorder.after_run(5_000_000)
    recorder.pause()
    recorder.after_run(7_000_000)
    recorder.resume()
    recorder.after_run(6_000_000)
    assert [(event.tag, event.us, event.start_us) for event in recorder.events(0)] == [
        ("run", 5000, 0),
        ("run", 6000, 5000),
    ]
    assert recorder.events(1)[0].us == 6000
    assert (recorder.pending(), recorder.summary(), recorder.nodes()) == (2, [], [])
    recorder.reset()
    assert recorder.pending() == 0


def test_the_profiler_records_between_resume_and_pause(env: Environment) -> None:
    with CompiledModel(env, litert_models.through_int64(), profile=True) as model:
        model.run(X8)
        profile = LiteRtProfiler().attach(model)
        model.run(X8)
        profile.resume()
        model.run(X8)
        profile.pause()
        model.run(X8)
        assert {total.count for total in profile.by_operator()} == {1}
        assert [total.name for total in profile.by_operator()].count("CAST") == 2
        events = profile.events(0)
        assert min(event.start_ns for event in events) == 0
        assert all(event.duration_ns < 10**9 for event in events)
        assert profile.by_kind() and profile.pending() and profile.note == ""
        profile.reset()
        assert profile.pending() == 0


def test_the_profiler_refuses_another_backend_s_model(raised: Callable[..., str]) -> None:
    assert "records LiteRT's models, not a object" in raised(RuntimeFailure, LiteRtProfiler().attach, object())


@pytest.fixture
def raised() -> Callable[..., str]:
    def text(kind: type[Exception], call: Callable[..., object], *arguments: object) -> str:
        with pytest.raises(kind) as caught:
            call(*arguments)
        return str(caught.value)

    return text
