"""Telemetry: the events of a build with their durations, an observer that raises, and traces that tools open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cache_models import small_model
from stowplan.build.compilation import CompilationPlan
from stowplan.build.runtime import CompilationRuntime
from stowplan.build.telemetry import Recorder, Telemetry, write_trace
from stowplan.cache.store import Store
from stowplan.errors import OutputError

TIMED = ("lookup", "parse", "pass", "schedule", "prove", "serialize", "compile")


def test_a_miss_sends_every_stage_with_monotonic_durations(tmp_path: Path) -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []
    runtime = CompilationRuntime(Store(tmp_path), telemetry=lambda name, facts: seen.append((name, facts)))
    plan = CompilationPlan(memory="4K", steps=(("same", "1", lambda graph: graph),))
    artifact = runtime.compile(small_model(), plan)
    names = [name for name, _ in seen]
    assert names == ["lookup", "miss", "parse", "pass", "pass", "pass", "schedule", "serialize", "prove", "compile"]
    facts = dict(seen)
    assert all(facts[name]["duration_ns"] > 0 and facts[name]["start_ns"] > 0 for name in TIMED)
    parts = sum(facts[name]["duration_ns"] for name in ("parse", "pass", "schedule", "serialize", "prove"))
    assert parts <= facts["compile"]["duration_ns"]
    assert artifact.timings_ns["schedule"] == facts["schedule"]["duration_ns"]


def test_an_observer_that_raises_is_reported_once_and_decides_nothing(tmp_path: Path, capsys) -> None:
    def bad(name: str, facts: Mapping[str, Any]) -> None:
        raise RuntimeError("no\nway")

    runtime = CompilationRuntime(Store(tmp_path), telemetry=bad)
    assert runtime.compile(small_model(), memory="4K").cache == "miss"
    err = capsys.readouterr().err
    assert err == "Warning: an observer failed on lookup and is left out: RuntimeError: no way\n"


def test_an_observer_cannot_change_what_others_see() -> None:
    seen: list[Mapping[str, Any]] = []
    telemetry = Telemetry(lambda name, facts: facts.clear(), lambda name, facts: seen.append(facts))  # type: ignore[attr-defined]
    telemetry.event("hit", key="k")
    assert seen == [{"key": "k"}]


def test_a_span_that_fails_is_sent_with_the_error() -> None:
    recorder = Recorder()
    with pytest.raises(KeyError), Telemetry(recorder).span("parse"):
        raise KeyError("x")
    assert recorder.events[0].facts["error"] == "KeyError"


def test_a_trace_is_what_chrome_and_perfetto_read(tmp_path: Path) -> None:
    recorder = Recorder()
    telemetry = Telemetry(recorder)
    with telemetry.span("outer", key="k"), telemetry.span("inner"):
        telemetry.event("hit", path=Path("p"))
    write_trace(tmp_path / "t.json", recorder.events)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [(e["name"], e["ph"]) for e in events] == [("hit", "i"), ("inner", "X"), ("outer", "X")]
    inner, outer = events[1], events[2]
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert all(isinstance(e[name], (int, float)) for e in events for name in ("ts", "pid", "tid"))
    assert outer["args"] == {"key": "k"}
    with pytest.raises(OutputError, match="the folder"):
        write_trace(tmp_path / "no" / "t.json", recorder.events)
