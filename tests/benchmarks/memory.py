"""Memory beside TFLite Micro and tigris, every plan of ours proven: the standard models, or with --all every model.

The first table is one line per standard model: what TFLite Micro's planner needs (our greedy scheduler, which must
equal the arena measured with TFLite Micro where the manifest has one), the smallest sum of fast and slow memory that
tigris is known to reach (it is run at that budget), our three minima beside the goals, and the least with a tenth more
arithmetic. The second is slow traffic per inference. `--all` puts our smallest single memory beside TFLite Micro's
arena for all models that import. What a model keeps from run to run lies in our memory but not in TFLite Micro's head,
so its bytes are added there, once.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import MODELS, STANDARD, arguments, show

TRAFFIC_BUDGETS = (4096, 8192, 16384)
AMPLE = "256M"
AGAIN = 1.1
HEADING = (
    "model", "TFLM head", "tigris f+s", "one pool", "goal", "bound", "streamed", "goal", "bound",
    "+10 %", "goal", "x", "fast+slow", "s",
)  # fmt: skip


@dataclass(frozen=True)
class Standard:
    """A model, the fast budget at which tigris reaches its least sum, and the goals in bytes.

    The goals are one memory with everything in it, streamed input, and streamed input with a tenth more arithmetic.
    """

    file: str
    tigris_budget: int
    goals: tuple[int, int, int]


MODELS_SHOWN = {
    "vww": Standard(STANDARD["vww"], 8960, (28032, 9888, 7168)),
    "person": Standard(STANDARD["person"], 6848, (12288, 9696, 6900)),
    "kws": Standard(STANDARD["kws"], 16000, (3872, 3552, 3552)),
    "resnet8": Standard(STANDARD["resnet8"], 640, (10304, 9152, 9152)),
    "strww": Standard(STANDARD["strww"], 2048, (2960, 2512, 2512)),
    "ad01": Standard(STANDARD["ad01"], 768, (768, 768, 768)),
    "mobilenetv2": Standard("image-cls/xtensa_mobilenet_v2_nchw_int8.tflite", 87040, (190624, 107520, 42000)),
}


def main() -> None:
    options = arguments(__doc__ or "", _more)
    if options.one:
        print(json.dumps(_measured(Path(options.one), options.time_limit, options.only_one_pool)))
        return
    if not MODELS.is_dir():
        raise SystemExit(f"the models are not at {MODELS}")
    if options.all:
        _sweep(options)
    else:
        _standard(options)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="every model that imports, one memory only")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds per search (default: the scheduler's)")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a child process measures
    parser.add_argument("--only-one-pool", action="store_true", help=argparse.SUPPRESS)


# One model, in a process of its own: a model that takes too long or too much is one line, not the end.


def _child(file: Path, seconds: float | None, timeout_s: float, *, only_one_pool: bool = False) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", str(file)]
    command += [] if seconds is None else ["--time-limit", str(seconds)]
    command += ["--only-one-pool"] if only_one_pool else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {"why": f"not done within {timeout_s:.0f} s"}
    if done.returncode != 0:
        return {"why": (done.stderr.strip().splitlines() or ["it failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _measured(file: Path, seconds: float | None, only_one_pool: bool) -> dict[str, Any]:
    from stowplan.build.least import Asker
    from stowplan.build.minimum import find_minimum
    from stowplan.build.pipeline import CompileRequest, Session
    from stowplan.cli.output import plain
    from stowplan.errors import ModelError, PluginError, UnsupportedError

    start = time.monotonic()
    try:
        session = Session(CompileRequest(model_path=file))
    except (ModelError, UnsupportedError, PluginError) as err:
        return {"why": str(err), "imports": False}
    asker = Asker(session, seconds)
    kept = sum(session.graph.tensors[state.before].size_bytes for state in session.graph.states)
    found: dict[str, Any] = {"head": session.facts.tflite_micro_bytes, "kept": kept}
    if only_one_pool:
        plan = asker.least(slow=False)
        asker.prove(plan)
        schedule = plan.schedule
        found.update(bytes=schedule.pool_bytes[0], lower_bound_bytes=schedule.lower_bound_bytes)
    else:
        minimum, _ = find_minimum(asker, lambda _: None)
        found.update(minimum=plain(minimum), traffic=_traffic(asker), again=_again(asker))
    return {**found, "seconds": time.monotonic() - start}


def _again(asker: Any) -> dict[str, Any]:
    """Return the least memory with streamed input and up to a tenth more arithmetic."""
    plan = asker.least(slow=False, streamed_inputs=asker.session.graph.entries, recompute=AGAIN)
    asker.prove(plan)
    return {"bytes": plan.schedule.pool_bytes[0], "recompute": asker.recompute(plan)}


def _traffic(asker: Any) -> dict[int, int | None]:
    from stowplan.errors import DoesNotFit

    found: dict[int, int | None] = {}
    for budget in TRAFFIC_BUDGETS:
        try:
            run = asker.prove(asker.plan(budget, None))[0]
        except DoesNotFit:
            found[budget] = None
        else:
            found[budget] = run.slow_read_bytes + run.slow_written_bytes
    return found


# The standard models, beside tigris.


def _standard(options: argparse.Namespace) -> None:
    heads, facts = _heads(), {}
    seconds = 2.0 if options.quick and options.time_limit is None else options.time_limit
    for name, model in MODELS_SHOWN.items():
        if options.quick and name == "mobilenetv2":
            continue
        ours = _child(MODELS / model.file, seconds, 900)
        if "why" in ours:
            print(f"{name} is left out: {ours['why'][:160]}", file=sys.stderr)
            continue
        if heads.get(model.file, ours["head"]) != ours["head"]:
            print(f"{name}: our baseline {ours['head']}, TFLite Micro {heads[model.file]}", file=sys.stderr)
        budgets = (model.tigris_budget, *(TRAFFIC_BUDGETS if not options.quick else TRAFFIC_BUDGETS[:1]))
        rival = {budget: _tigris(MODELS / model.file, budget) for budget in budgets}
        facts[name] = {**ours, "tflite_micro": heads.get(model.file), "tigris": rival, "goals": model.goals}
    rows = [_memory_row(name, fact) for name, fact in facts.items()]
    if options.json:
        print(json.dumps(facts))
        return
    show(options, HEADING, rows, facts)
    print("\nslow traffic per inference: ours / tigris = ratio, at a fast memory of")
    show(options, ["model", *map(str, TRAFFIC_BUDGETS)], [_traffic_row(n, f) for n, f in facts.items()], facts)


def _heads() -> dict[str, int]:
    """Return TFLite Micro's arena head per file, as measured with TFLite Micro, where it runs the model."""
    with (MODELS / "MANIFEST.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {row["path"]: int(row["tflm_arena_head"]) for row in rows if row["tflm_arena_head"].isdigit()}


def _tigris(file: Path, budget: int) -> dict[str, int] | None:
    """Return what tigris says of a model at a fast budget with ample slow memory; None where it has no plan."""
    command = shutil.which("tigris", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if command is None:
        return None
    words = [command, "analyze", str(file), "-m", str(budget), "-m", AMPLE, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    said = json.loads(done.stdout)
    moved = said["slow"].get("traffic")
    if said["fast"]["infeasible"] or said["fast"]["blocking_stages"] or not moved:
        return None
    fast, slow = said["fast"]["scheduled_peak_bytes"], said["slow"]["peak_bytes"]
    return {"total": fast + slow, "traffic": moved["read"] + moved["written"]}


def _memory_row(name: str, fact: dict[str, Any]) -> list[object]:
    least, goals = fact["minimum"], fact["goals"]
    total = next(iter(fact["tigris"].values()))
    cells: list[object] = [name, f"{fact['head']:,}", f"{total['total']:,}" if total else "-"]
    for kind, goal in (("one_pool", goals[0]), ("streamed_input", goals[1])):
        cells += [_proven(least[kind]), f"{goal:,}", _bound(least[kind])]
    again = fact["again"]
    cells += [f"{again['bytes']:,}", f"{goals[2]:,}", f"{again['recompute']:.2f}"]
    return [*cells, _proven(least["fast"]), f"{fact['seconds']:.0f}"]


def _proven(minimum: dict[str, Any]) -> str:
    if minimum["bytes"] is None:
        return "-"
    return f"{minimum['bytes']:,}" + ("" if minimum["proven"] else " (not run)")


def _bound(minimum: dict[str, Any]) -> str:
    if minimum["bytes"] is None or not minimum["lower_bound_bytes"]:
        return "-"
    gap = (minimum["bytes"] / minimum["lower_bound_bytes"] - 1) * 100
    return "least" if gap == 0 else f"+{gap:.1f} %"


def _traffic_row(name: str, fact: dict[str, Any]) -> list[object]:
    cells: list[object] = [name]
    for budget in TRAFFIC_BUDGETS:
        ours, theirs = fact["traffic"].get(str(budget)), fact["tigris"].get(budget)
        ratio = f" = {ours / theirs['traffic']:.2f}" if ours is not None and theirs and theirs["traffic"] else ""
        words = (f"{value:,}" if value is not None else "-" for value in (ours, theirs["traffic"] if theirs else None))
        cells.append(" / ".join(words) + ratio)
    return cells


# Every model that imports.


def _sweep(options: argparse.Namespace) -> None:
    heads, facts, rows = _heads(), {}, []
    seconds = options.time_limit if options.time_limit is not None else 1.0 if options.quick else 5.0
    files = sorted(p for p in MODELS.rglob("*") if p.suffix in (".tflite", ".onnx") and "negative" not in p.parts)
    deadline = time.monotonic() + 50 if options.quick else float("inf")
    for file in files:
        if time.monotonic() > deadline:
            print("stopped after 50 s: go on without --quick", file=sys.stderr)
            break
        name = str(file.relative_to(MODELS))
        found = _child(file, seconds, 30 if options.quick else 600, only_one_pool=True)
        if found.get("imports") is False:
            continue
        head = heads.get(name, found.get("head"))
        if "why" in found or not head:
            facts[name] = found
            rows.append([name, "-", "", "-", "-", found.get("why", "no baseline")[:60]])
            continue
        # A baseline of our own holds the state already, before and after.
        kept, source = (found["kept"], "measured") if name in heads else (0, "its planner")
        ratio = found["bytes"] / (head + kept)
        facts[name] = {**found, "tflite_micro": head, "source": source, "ratio": ratio}
        rows.append([name, f"{head:,}", f"{kept:,}" if kept else "", f"{found['bytes']:,}", f"{ratio:.3f}", source])
    large = [f["ratio"] for f in facts.values() if f.get("tflite_micro", 0) > 4096]
    above = [name for name, fact in facts.items() if fact.get("ratio", 0) > 1]
    median = statistics.median(large) if large else float("nan")
    summary = {"models": facts, "median_above_4096": median, "count_above_4096": len(large), "worse": above}
    show(options, ["model", "TFLM head", "+ kept", "one pool", "ratio", "head is"], rows, summary)
    if not options.json:
        words = ", ".join(above) or "none"
        print(f"\nmedian ratio of {len(large)} models above 4,096 bytes: {median:.3f}; above 1: {words}")


if __name__ == "__main__":
    main()
