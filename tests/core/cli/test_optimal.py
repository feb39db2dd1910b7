"""`--optimal` and `--time-limit`: the least memory with its certificate, and plans that a clock cut short."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from graphs import random_graph
from stowplan.build.codec import schedule_document, schedule_of
from stowplan.build.pareto import traffic_of
from stowplan.build.pipeline import CompileRequest, Session
from stowplan.build.verify import verify
from stowplan.errors import DoesNotFit
from stowplan.flow.target import Pool, Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler, packing, search

ONE = Target(pools=(Pool(name="fast", size_bytes=None),))


def test_optimal_needs_no_more_memory_and_says_what_is_proven(stowplan, digits: Path) -> None:
    plain = json.loads(stowplan("compile", digits, "-m", "2K", "--json").out)
    best = json.loads(stowplan("compile", digits, "-m", "2K", "--optimal", "--json").out)
    assert plain["certificate"] == ""
    assert best["fast_bytes"] < plain["fast_bytes"]
    assert best["fast_bytes"] == best["lower_bound_bytes"]
    assert best["certificate"].startswith("proven least")
    assert f"\nbound   {best['certificate']}\n" in stowplan("compile", digits, "-m", "2K", "--optimal").out


def test_optimal_refuses_a_budget_below_the_least(stowplan, digits: Path) -> None:
    least = json.loads(stowplan("compile", digits, "-m", "2K", "--optimal", "--json").out)["fast_bytes"]
    assert stowplan("compile", digits, "-m", least, "--optimal").code == 0
    code, _, err = stowplan("compile", digits, "-m", least - 1, "--optimal")
    assert code == 1
    assert "1 stage exceeds it" in err


def test_a_refusal_that_a_longer_search_would_spare_says_so(stowplan, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")
    from state_models import Program

    program = Program(1)
    program.shift(7, True)
    program.pool(5)
    for pair in ((1, 7), (1, 4), (4, 0)):
        program.add(*pair)
    program.assign(0, 9)
    path = tmp_path / "model.tflite"
    path.write_bytes(program.finish(1))
    least = json.loads(stowplan("analyze", path, "--minimum", "--json").out)["minimum"]["one_pool"]["bytes"]
    code, _, err = stowplan("compile", path, "-m", least)
    assert (code, err.count("\n")) == (1, 1)
    assert err.endswith(f". A longer search finds a plan of {least} B: add --optimal\n")
    assert stowplan("compile", path, "-m", least, "--optimal").code == 0
    assert "--optimal" not in stowplan("compile", path, "-m", least - 400).err


def test_optimal_with_packed_weights_is_refused(stowplan, digits: Path) -> None:
    code, _, err = stowplan("compile", digits, "-m", "2K", "--optimal", "-c", "lz4")
    assert (code, err) == (
        2,
        "Error: --optimal: leaves no room for -c lz4 to choose stages in; give one of the two\n",
    )


def test_slow_traffic_is_called_least_exactly_where_only_inputs_and_outputs_move() -> None:
    said = set()
    for seed in range(12):
        graph = random_graph(seed)
        whole = StreamScheduler().schedule(graph, ONE, ScheduleOptions(thorough=True)).pool_bytes[0]
        compulsory = sum(graph.tensors[tensor].size_bytes for tensor in (*graph.inputs, *graph.outputs))
        for percent in (60, 75, 90):
            pools = (Pool(name="fast", size_bytes=whole * percent // 100), Pool(name="slow", size_bytes=None))
            try:
                found = StreamScheduler().schedule(graph, Target(pools=pools), ScheduleOptions())
            except DoesNotFit:
                continue
            assert (found.certificate != "") == (0 < traffic_of(found) <= compulsory)
            said.add(found.certificate)
    assert len(said) == 2


def test_a_plan_that_the_clock_cut_short_is_not_kept(stowplan, digits: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "cache"))
    original = StreamScheduler.schedule
    words = ("compile", digits, "-m", "2K", "--optimal", "--time-limit", "5", "--json")
    with monkeypatch.context() as patched:
        patched.setattr(
            StreamScheduler, "schedule", lambda self, *asked: replace(original(self, *asked), cut_short=True)
        )
        for _ in range(2):
            code, out, err = stowplan(*words)
            assert code == 0
            assert json.loads(out)["cache"]["status"] == "off"
            assert json.loads(out)["proof"].startswith("equal to the untiled schedule")
            assert "Warning: the time limit ended the search" in err
    assert json.loads(stowplan(*words).out)["cache"]["status"] == "miss"
    without = (*words[:5], "--json")
    assert json.loads(stowplan(*without).out)["cache"]["status"] == "hit", "a limit not reached changes nothing"


def test_a_search_that_the_clock_ends_says_so_and_is_right() -> None:
    graph = random_graph(0)
    found = StreamScheduler().schedule(graph, ONE, ScheduleOptions(thorough=True, optimal=True, time_limit_s=0.001))
    assert found.cut_short
    assert found.certificate.startswith("at most")
    verify(graph, found)


def test_without_a_compiled_search_nothing_is_said_about_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (search, packing):
        monkeypatch.setattr(module, "library" if module is search else "packer", lambda: None)
    graph = random_graph(1)
    found = StreamScheduler().schedule(graph, ONE, ScheduleOptions(thorough=True))
    verify(graph, found)
    assert found.certificate.startswith("how near this is to the least among orders of whole rows")
    assert found.certificate.endswith("is not known")


@pytest.mark.parametrize("seed", range(6))
def test_equal_inputs_give_equal_schedules(seed: int) -> None:
    graph = random_graph(seed)
    for options in (ScheduleOptions(thorough=True), ScheduleOptions()):
        first, second = (StreamScheduler().schedule(graph, ONE, options) for _ in range(2))
        assert first == second
        assert schedule_of(schedule_document(first), ONE) == first, "the cache keeps bound and certificate"


def test_a_limit_that_is_not_reached_changes_no_schedule(digits: Path) -> None:
    graph = Session(CompileRequest(model_path=digits)).graph
    free, limited = (
        StreamScheduler().schedule(graph, ONE, ScheduleOptions(thorough=True, time_limit_s=limit))
        for limit in (None, 3600.0)
    )
    assert free == limited
    assert not limited.cut_short
