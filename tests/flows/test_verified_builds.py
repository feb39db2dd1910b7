"""`--verify`: what the cache has is compiled again and compared, and what cannot be made again is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cache_commands import Bench
from cache_models import small_model
from stowplan.build.artifact import PLAN
from stowplan.cache.entry import Entry
from stowplan.cache.store import Store
from stowplan.planfile.layout import HEADER
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import digest_of

COMPILE = ("compile", "m.tflite", "-m", "4K", "-o", "m.stow", "--json")
PROJECT = """
models = {one = "one.tflite", two = "two.tflite"}
targets = {small = {memory = "4K"}}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.model(small_model())
    return made


@pytest.fixture
def plain(bench: Bench) -> bytes:
    """The plan that a compilation without any cache gives."""
    bench.done(*COMPILE, "--no-cache")
    return (bench.work / "m.stow").read_bytes()


def test_verify_compiles_again_and_says_that_the_file_equals_the_cached_one(bench: Bench, plain: bytes) -> None:
    first = bench.done(*COMPILE, "--verify")
    assert (first.status, first.json["cache"]["layer"]) == ("verified", ""), "nothing was cached: compiled twice"
    assert bench.done(*COMPILE).status == "hit"
    text = bench.done("compile", "m.tflite", "-m", "4K", "-o", "m.stow", "--verify", "--trace", "t.json").out
    assert text.splitlines()[-1] == "verified: m.stow equals the cached one"
    assert (bench.work / "m.stow").read_bytes() == plain
    names = {event["name"] for event in json.loads((bench.work / "t.json").read_text())["traceEvents"]}
    assert {"hit", "parse", "schedule", "prove", "verify"} <= names, "the work was done again"


def test_verify_answers_nothing_from_a_note(bench: Bench) -> None:
    for _ in range(3):
        bench.done(*COMPILE)
    assert bench.done(*COMPILE, "--verify").status == "verified"


@pytest.mark.parametrize(
    ("planted", "difference"),
    [
        ("names", "header, flags: 2 -> 6"),
        ("weights", "header, model_digest: "),
        ("bytes", "section weights, byte 0 of "),
        ("no plan", "the cached file: is not a plan file"),
        ("facts", "report, fast_bytes: 1 -> "),
    ],
)
def test_verify_refuses_a_plan_that_cannot_be_made_again_and_overwrites_nothing(
    bench: Bench, planted: str, difference: str
) -> None:
    """Somebody wrote another plan under the key, digests and all: only building again can tell."""
    keep = (*COMPILE, "--keep-names")
    key = bench.done(*keep).json["cache"]["key"]
    entry = plant(bench, key, planted)
    (bench.work / "m.stow").write_bytes(b"what was there")
    outcome = bench.run(*keep, "--verify")
    error = outcome.json["error"]
    assert (outcome.code, error["code"], outcome.err) == (3, "internal", "")
    assert error["message"].startswith(f"m.tflite: compiled anew, the plan is not the cached one: {difference}")
    assert f"(cache entry {key[:12]}...)" in error["message"]
    assert (bench.work / "m.stow").read_bytes() == b"what was there"
    assert Store(bench.cache).get(key) == entry, "the entry is as it was"
    assert bench.done(*keep, "--recache").status == "miss"
    assert bench.done(*keep, "--verify").status == "verified"


def plant(bench: Bench, key: str, planted: str) -> Entry:
    """Put another result under a key, as a program that gives different bytes each time would, and return it."""
    store = Store(bench.cache)
    entry = store.get(key)
    assert entry is not None
    data = bytearray(entry.files[PLAN])
    if planted == "facts":
        entry = replace(entry, meta={**entry.meta, "facts": {**entry.meta["facts"], "fast_bytes": 1}})
    elif planted == "bytes":
        start, _, _ = read_plan(bytes(data)).sections["weights"]
        data[start] ^= 1
        at = HEADER.offset_of("digest")
        data[at : at + 32] = digest_of(bytes(data))
    elif planted == "no plan":
        data[:4] = b"PLAN"
    else:
        bench.model(small_model(2 if planted == "weights" else 0), "other/m.tflite")
        options = ["--keep-names"] if planted == "weights" else []
        bench.done("compile", "other/m.tflite", "-m", "4K", "-o", "other.stow", "--no-cache", *options)
        data = bytearray((bench.work / "other.stow").read_bytes())
    assert store.put(replace(entry, files={PLAN: bytes(data)}))
    found = store.get(key)
    assert found is not None
    return found


def test_verify_and_other_ways_to_use_the_cache_are_alternatives(bench: Bench) -> None:
    for other in ("--no-cache", "--recache"):
        outcome = bench.run(*COMPILE[:-1], "--verify", other)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err == f"Error: {other} and --verify: choose one (see stowplan compile --help)\n"


UNSTEADY = """import os
        from stowplan_scheduler_greedy import GreedyScheduler
        found = GreedyScheduler().schedule(graph, target, options)
        more = int(os.environ.get('MORE', 0)) + 16
        os.environ['MORE'] = str(more)
        {edit}
        return replace(found, pool_bytes=(found.pool_bytes[0] + more, *found.pool_bytes[1:]))"""


def test_verify_finds_a_scheduler_that_gives_another_plan_each_time(bench: Bench) -> None:
    bench.install(before=UNSTEADY.format(edit="pass"))
    outcome = bench.run(*COMPILE, "--scheduler", "acme", "--verify")
    assert outcome.code == 3
    assert ": header, fast_bytes: " in outcome.json["error"]["message"]
    assert not (bench.work / "m.stow").exists()


def test_a_tool_that_is_edited_while_a_plan_is_verified_is_no_fault_of_ours(bench: Bench) -> None:
    bench.install(before=UNSTEADY.format(edit="open(__file__, 'a').write('# edited')"))
    outcome = bench.run(*COMPILE, "--scheduler", "acme", "--verify")
    assert outcome.code == 1
    assert outcome.json["error"]["message"] == "m.tflite: a tool changed while the plan was verified; run it again"


def test_build_verifies_every_plan_and_fails_where_one_differs(bench: Bench) -> None:
    for number, name in enumerate(("one", "two")):
        bench.model(small_model(number), f"{name}.tflite")
    (bench.work / "stowplan.toml").write_text(PROJECT)
    bench.done("build")
    out = bench.done("build", "--verify").out
    assert "verified (disk)   one@small   one.stow equals the cached one\n" in out
    assert out.splitlines()[-1].startswith("2 verified in ")
    plans = bench.done("build", "--json").json["plans"]
    assert {plan["status"] for plan in plans} == {"unchanged"}
    plant(bench, plans[0]["key"], "bytes")
    before = (bench.work / "build/small/one.stow").read_bytes()
    outcome = bench.run("build", "--verify", "--keep-going")
    assert outcome.code == 3
    assert outcome.err.startswith(
        "Error: one@small: one.tflite: compiled anew, the plan is not the cached one: section "
    )
    assert outcome.err.count("\n") == 1
    assert outcome.out.splitlines()[-1].startswith("1 verified, 1 failed in ")
    assert (bench.work / "build/small/one.stow").read_bytes() == before


@pytest.mark.parametrize("other", ["--dry-run", "--watch"])
def test_build_verifies_only_what_it_builds_once(bench: Bench, other: str) -> None:
    outcome = bench.run("build", "--verify", other)
    assert (outcome.code, outcome.err) == (2, "Error: --verify: goes with neither --dry-run nor --watch\n")
