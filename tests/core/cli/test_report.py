"""`stowplan report`: what the page says, of models and of plans, and how it refuses; the map in letters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest


@pytest.fixture
def plan(stowplan, digits: Path) -> Path:
    assert stowplan("compile", digits, "-m", "700", "--keep-names", "-q").code == 0
    return digits.with_suffix(".stow")


def test_a_model_gives_a_page_with_every_part(stowplan, digits: Path) -> None:
    code, out, err = stowplan("report", digits, "-m", "700")
    path = digits.with_suffix(".html")
    assert (code, err) == (0, "")
    assert out == f"fits 700 B fast memory, 1 stage, 1 tiled\nwrote {path}\n"
    text = path.read_text("utf-8")
    for part in ("map", "memory", "budgets", "stages", "costs"):
        assert f'<section id="{part}">' in text
    assert not re.search(r"""(src|href)=["'](?!#)|url\(|@import""", text), "the page needs something from elsewhere"


def test_the_same_question_gives_the_same_page(stowplan, digits: Path) -> None:
    pages = []
    for _ in range(2):
        stowplan("report", digits, "-m", "700")
        pages.append(digits.with_suffix(".html").read_bytes())
    assert pages[0] == pages[1]


def test_without_a_budget_the_least_memory_is_looked_for(stowplan, digits: Path) -> None:
    document = json.loads(stowplan("report", digits, "--json").out)
    text = digits.with_suffix(".html").read_text("utf-8")
    least = document["minimum"]["one_pool"]["bytes"]
    assert f"This is the smallest plan with one memory: {least} B" in text


def test_a_model_that_does_not_fit_gets_a_page_that_says_what_would_help(stowplan, digits: Path) -> None:
    code, out, err = stowplan("report", digits, "-m", "400")
    text = digits.with_suffix(".html").read_text("utf-8")
    assert (code, err.count("\n")) == (1, 1)
    assert out.startswith("does not fit 400 B fast memory")
    assert "Make the tensor conv (1x8x8x16) smaller" in text
    enough = re.search(r"<code>-m (\d+)</code>", text)
    assert enough and stowplan("compile", digits, "-m", enough[1], "-q").code == 0
    assert 'id="chart"' not in text
    assert stowplan("report", digits, "-m", "400", "--minimum").code == 1
    assert 'id="chart"' in digits.with_suffix(".html").read_text("utf-8")


def test_a_plan_is_drawn_without_its_model(stowplan, plan: Path, digits: Path) -> None:
    digits.unlink()
    code, _, err = stowplan("report", plan, "-m", "700")
    assert (code, err) == (0, "")
    text = plan.with_suffix(".html").read_text("utf-8")
    assert "fits 700 B fast memory" in text and "9,216" in text  # 8 * 8 * 16 outputs of 3 * 3 * 1 weights


@pytest.mark.parametrize(("budget", "why"), [("100", "fast memory 640 B needed, 100 B given"), ("1K", "")])
def test_a_plan_is_held_against_a_budget(stowplan, plan: Path, budget: str, why: str) -> None:
    code, out, err = stowplan("report", plan, "-m", budget)
    assert code == (1 if why else 0)
    assert why in err and ("does not fit" if why else "fits 1.00 KiB") in out


def test_a_plan_larger_than_the_flash_is_refused(stowplan, plan: Path) -> None:
    code, _, err = stowplan("report", plan, "-f", "1K")
    assert code == 1
    assert "larger than the flash" in err


@pytest.mark.parametrize("options", [["--minimum"], ["--pareto"], ["--stream-input", "image"], ["--time-limit", "3"]])
def test_what_a_finished_plan_cannot_answer_is_a_usage_error(stowplan, plan: Path, options: list[str]) -> None:
    code, out, err = stowplan("report", plan, *options)
    assert (code, out) == (2, "")
    assert err == f"Error: {options[0]}: digits.stow is a plan, which is fixed; give its model instead\n"


def test_measured_times_stand_beside_the_costs(stowplan, plan: Path) -> None:
    assert stowplan("report", plan, "--runs", "3").code == 0
    assert ">us here</th>" in plan.with_suffix(".html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--runs", "-1"], "--runs -1: give a number from 1 to"),
        (["--ascii", "--json"], "--ascii: a map for people; leave out --json"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(stowplan, digits: Path, options: list[str], words: str) -> None:
    code, out, err = stowplan("report", digits, *options)
    assert code == 2
    assert words in out + err
    assert not digits.with_suffix(".html").exists()


def test_a_damaged_plan_is_refused_in_one_line_and_leaves_no_page(stowplan, plan: Path) -> None:
    plan.write_bytes(plan.read_bytes()[:-7])
    code, out, err = stowplan("report", plan)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert not plan.with_suffix(".html").exists()


def test_the_page_is_not_written_over_its_model(stowplan, digits: Path) -> None:
    code, _, err = stowplan("report", digits, "-o", digits)
    assert (code, err) == (1, f"Error: {digits}: is the file that is read; choose another output\n")


@pytest.mark.parametrize("command", ["analyze", "report"])
def test_the_map_in_letters(stowplan, digits: Path, command: str) -> None:
    out = stowplan(command, digits, "-m", "700", "--ascii").out
    assert "fast memory: 640 B, at most 608 B alive (firing 7 of 20)\n      640 B |" in out
    assert "\n  a   image\n  b   conv\n" in out
    rows = re.findall(r"\|([a-z.]+)$", out, re.MULTILINE)
    assert len({len(row) for row in rows}) == 1 and len(rows) == 16
    assert rows[-1].startswith("a")  # the input lies at the bottom, from the beginning


def test_analyze_does_not_mix_letters_into_json(stowplan, digits: Path) -> None:
    code, out, _ = stowplan("analyze", digits, "-m", "700", "--ascii", "--json")
    assert code == 2 and "leave out --json" in out
