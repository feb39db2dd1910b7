"""`analyze --minimum` and `--pareto`: plans that ran, bounds that hold, and budgets below them that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stowplan.errors import InternalFault

KINDS = ("one_pool", "fast", "streamed_input")


@pytest.fixture
def minimum(stowplan, digits: Path) -> dict[str, dict]:
    code, out, err = stowplan("analyze", digits, "--minimum", "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["minimum"]


def test_each_minimum_has_its_bytes_bound_and_proof(minimum) -> None:
    assert tuple(minimum) == KINDS
    for kind in KINDS:
        assert 0 < minimum[kind]["lower_bound_bytes"] <= minimum[kind]["bytes"]
        assert (minimum[kind]["recompute"], minimum[kind]["proven"]) == (1.0, True)
    assert minimum["fast"]["bytes"] <= minimum["one_pool"]["bytes"]
    assert minimum["streamed_input"]["bytes"] <= minimum["one_pool"]["bytes"]


@pytest.mark.parametrize(
    ("kind", "options"), [("one_pool", ()), ("fast", ("-m", "1M")), ("streamed_input", ("--stream-input", "image"))]
)
def test_below_the_lower_bound_nothing_fits(
    stowplan, digits: Path, minimum, kind: str, options: tuple[str, ...]
) -> None:
    below = minimum[kind]["lower_bound_bytes"] - 1
    code, _, err = stowplan("compile", digits, "-m", below, *options)
    assert code == 1
    assert "exceed" in err


def test_the_report_says_what_is_proven_least(stowplan, digits: Path) -> None:
    out = stowplan("analyze", digits, "--minimum").out
    block = out.split("\nminimum\n")[1].split("\n\n")[0].splitlines()
    assert [line.split("   ")[0].strip() for line in block] == ["one memory", "fast memory", "streamed input"]
    assert all("least" in line for line in block)


def test_a_scheduler_that_looks_for_no_bound_is_said_to_know_none(stowplan, digits: Path) -> None:
    code, out, _ = stowplan("analyze", digits, "--minimum", "--scheduler", "greedy")
    assert code == 0
    assert "one memory       1.25 KiB (1280)   no lower bound known" in out
    assert "streamed input   -                 scheduler greedy keeps whole tensors, it cannot stream inputs" in out


def test_a_minimum_whose_plan_fails_its_proof_is_a_fault(stowplan, digits: Path, monkeypatch) -> None:
    from stowplan.build.pipeline import Session

    def broken(self: Session, data: bytes) -> tuple:
        raise InternalFault("the plan failed its proof")

    monkeypatch.setattr(Session, "prove", broken)
    code, out, err = stowplan("analyze", digits, "--minimum")
    assert (code, out, err) == (3, "", "Error: the plan failed its proof\n")


def test_the_curve_falls_and_its_traffic_is_that_of_the_same_budget(stowplan, digits: Path, minimum) -> None:
    points = json.loads(stowplan("analyze", digits, "--pareto", "--json").out)["pareto"]
    fast = [point["fast_bytes"] for point in points]
    traffic = [point["slow_read_bytes"] + point["slow_written_bytes"] for point in points]
    assert fast == sorted(set(fast))
    assert traffic == sorted(set(traffic), reverse=True)
    assert (fast[0], fast[-1], traffic[-1]) == (minimum["fast"]["bytes"], minimum["one_pool"]["bytes"], 0)
    for size, moved in list(zip(fast, traffic, strict=True))[1:-1]:
        assert sum(json.loads(stowplan("analyze", digits, "-m", f"{size}+1M", "--json").out)["traffic"]) == moved


def test_a_streamed_input_never_lies_in_memory_on_the_curve(stowplan, digits: Path, minimum) -> None:
    out = stowplan("analyze", digits, "--pareto", "--stream-input", "image", "--json").out
    last = json.loads(out)["pareto"][-1]
    assert (last["fast_bytes"], last["slow_bytes"]) == (minimum["streamed_input"]["bytes"], 0)


def test_the_table_of_the_curve_has_a_line_for_each_point(stowplan, digits: Path) -> None:
    out = stowplan("analyze", digits, "--pareto").out
    block = out.split("fast memory against slow traffic of one inference\n")[1].split("\n\n")[0].splitlines()
    points = json.loads(stowplan("analyze", digits, "--pareto", "--json").out)["pareto"]
    assert block[0].split() == ["fast", "slow", "traffic", "read", "written", "slow", "memory", "stages", "tiled"]
    assert [line.split()[0] for line in block[1:]] == [str(point["fast_bytes"]) for point in points]


def test_with_pareto_the_plot_is_the_curve(stowplan, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"
    document = json.loads(stowplan("analyze", digits, "--pareto", "--plot", path, "--json").out)
    dots = list(ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}circle"))
    assert document["plot_written"] == str(path)
    assert len(dots) == len(document["pareto"]) > 2
    for axis, falls in (("cx", False), ("cy", False)):  # a larger pool lies right, less traffic lower down the page
        places = [float(dot.attrib[axis]) for dot in dots]
        assert places == sorted(places, reverse=falls)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", "86401", ""])
def test_a_time_limit_that_is_no_time_is_refused(stowplan, digits: Path, value: str) -> None:
    code, out, err = stowplan("analyze", digits, "--minimum", f"--time-limit={value}")
    assert (code, out) == (2, "")
    assert err == f"Error: --time-limit {value}: write seconds, more than 0 and at most 86400\n"


def test_the_time_limit_reaches_the_scheduler(stowplan, digits: Path, monkeypatch) -> None:
    from stowplan_scheduler_stream import StreamScheduler

    seen = []
    original = StreamScheduler.schedule

    def watched(self, graph, target, options):
        seen.append((options.thorough, options.time_limit_s))
        return original(self, graph, target, options)

    monkeypatch.setattr(StreamScheduler, "schedule", watched)
    assert stowplan("analyze", digits, "--minimum", "--time-limit", "2.5").code == 0
    assert seen.count((True, 2.5)) == 3
