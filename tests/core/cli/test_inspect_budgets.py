"""`stowplan inspect PLAN -m SIZE -f SIZE`: what a plan may take, checked without compiling anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def plan(stowplan, digits: Path, tmp_path: Path) -> Path:
    """The shipped model in 640 bytes of one memory, 4.78 KiB of flash or more."""
    path = tmp_path / "digits.stow"
    assert stowplan("compile", str(digits), "-m", "800", "-o", str(path)).code == 0
    return path


def test_a_plan_within_its_budgets_is_shown_as_ever(stowplan, plan: Path) -> None:
    assert stowplan("inspect", str(plan), "-m", "640", "-f", "64K") == stowplan("inspect", str(plan))


def test_a_plan_that_needs_more_is_refused_with_everything_that_is_over(stowplan, plan: Path) -> None:
    code, out, err = stowplan("inspect", str(plan), "-m", "600", "-f", "1K")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("Error: digits.stow: fast memory needs 640 B, 600 B allowed (40 B over); flash needs ")
    assert err.endswith("Compile the model with these budgets, or allow more\n")


def test_one_size_means_that_there_is_no_slow_memory(stowplan, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "spilled.stow"
    assert stowplan("compile", str(digits), "-m", "500", "-m", "2K", "-o", str(path)).code == 0
    needs = json.loads(stowplan("inspect", str(path), "--json").out)["slow_bytes"]
    assert needs > 0
    assert stowplan("inspect", str(path), "-m", "500+2K").code == 0
    code, _, err = stowplan("inspect", str(path), "-m", "500")
    assert code == 1
    assert f"slow memory needs {needs} B, 0 B allowed" in err
    assert stowplan("inspect", str(path), "-f", "64K").code == 0  # what is not named has no limit


def test_the_refusal_is_an_object_with_json(stowplan, plan: Path) -> None:
    code, out, err = stowplan("inspect", str(plan), "-m", "600", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "does-not-fit"


def test_a_model_has_no_sizes_to_check(stowplan, digits: Path) -> None:
    code, _, err = stowplan("inspect", str(digits), "-m", "600")
    assert (code, err.count("\n")) == (2, 1)
    assert "digits.tflite is a model, and only plans have sizes to check" in err
