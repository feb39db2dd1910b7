"""`--plot`: a map is written only after success, whole or not at all, and the same from the cache."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest


def boxes(path: Path) -> int:
    return len(list(ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}rect")))


def test_compile_writes_the_map_beside_the_plan(stowplan, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    code, out, err = stowplan("compile", digits, "-m", "700", "--plot", path)
    assert (code, err) == (0, "")
    assert out.endswith(f"\nwrote {path}   memory map\n")
    assert boxes(path) > 20
    assert digits.with_suffix(".stow").exists()


def test_the_map_is_the_same_from_the_cache_and_without_one(stowplan, digits: Path, tmp_path: Path) -> None:
    path, drawn = tmp_path / "map.svg", []
    for options in (["--recache"], [], [], ["--no-cache"]):
        assert stowplan("compile", digits, "-m", "700", "--plot", path, *options).code == 0
        drawn.append(path.read_bytes())
        path.unlink()
    assert len(set(drawn)) == 1


def test_analyze_draws_the_plan_at_the_budget_or_the_smallest(stowplan, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    document = json.loads(stowplan("analyze", digits, "-m", "512+64K", "--plot", path, "--json").out)
    assert document["plot_written"] == str(path)
    assert {"pool-fast", "pool-slow"} <= {e.get("id") for e in ElementTree.parse(path).iter()}
    document = json.loads(stowplan("analyze", digits, "--minimum", "--plot", path, "--json").out)
    assert f"the plan needs {document['minimum']['one_pool']['bytes']} B" in path.read_text()


@pytest.mark.parametrize("command", ["compile", "analyze"])
def test_a_model_that_does_not_fit_leaves_no_map(stowplan, digits: Path, tmp_path: Path, command: str) -> None:
    path = tmp_path / "map.svg"
    path.write_text("before")
    assert stowplan(command, digits, "-m", "100", "--plot", path).code == 1
    assert path.read_text() == "before"


@pytest.mark.parametrize("command", ["compile", "analyze"])
def test_a_place_where_no_map_can_be_is_refused_before_any_work(stowplan, digits: Path, command: str) -> None:
    for path, why in ((digits.parent, "is a directory"), (digits, "is the file that is read")):
        code, out, err = stowplan(command, digits, "-m", "4K", "--plot", path)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert why in err


def test_plan_and_map_cannot_be_one_file(stowplan, digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "one"
    code, _, err = stowplan("compile", digits, "-m", "4K", "-o", path, "--plot", path)
    assert (code, err) == (1, f"Error: {path}: two outputs cannot be one file; choose another for one of them\n")
    assert not path.exists()


def test_a_refusal_names_the_tensor_to_shrink_and_by_how_much(stowplan, digits: Path) -> None:
    least = json.loads(stowplan("analyze", digits, "--minimum", "--json").out)["minimum"]["one_pool"]["bytes"]
    for command in ("compile", "analyze"):
        document = json.loads(stowplan(command, digits, "-m", "400", "--json").out)
        shrink = document["shrink"]
        assert (shrink["pool"], shrink["least_bytes"], shrink["over_bytes"]) == ("fast", least, least - 400)
        sizes = [fact["size_bytes"] for fact in shrink["alive"]]
        assert sizes == sorted(sizes, reverse=True) and sum(sizes) <= least
        assert shrink["alive"][0]["tensor"] == "conv"
    out = stowplan("analyze", digits, "-m", "400").out
    assert f"fast memory needs   {least} B   the least found, {least - 400} B over, at DEPTHWISE_CONV_2D" in out
    assert f"conv (1x8x8x16), by {least - 400} B (" in out
    assert "which alone is not enough" in stowplan("analyze", digits, "-m", "100").out


def test_where_slow_memory_is_missing_that_is_what_is_explained(stowplan, digits: Path) -> None:
    shrink = json.loads(stowplan("analyze", digits, "-m", "460+100", "--json").out)["shrink"]
    assert shrink["pool"] == "slow"
    assert shrink["over_bytes"] == shrink["least_bytes"] - 100 > 0


def test_where_flash_is_missing_no_tensor_is_blamed(stowplan, digits: Path) -> None:
    document = json.loads(stowplan("analyze", digits, "-m", "4K", "-f", "1K", "--json").out)
    assert (document["fits"], document["shrink"]) == (False, None)


def test_the_table_of_stages_names_what_is_alive_at_each_peak(stowplan, digits: Path) -> None:
    stages = json.loads(stowplan("analyze", digits, "-m", "512+64K", "-v", "--json").out)["stage_table"]
    out = stowplan("analyze", digits, "-m", "512+64K", "-v").out
    for stage in stages:
        assert sum(fact["size_bytes"] for fact in stage["alive"]) <= stage["live_peak_bytes"] <= stage["peak_bytes"]
        first = stage["alive"][0]
        assert f"{first['tensor']} {first['size_bytes']} B" in out
