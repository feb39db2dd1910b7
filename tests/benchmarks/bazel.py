"""What a worker saves: 40 models under Bazel by warm workers, by cold ones, and by a process each in a sandbox.

    python tests/benchmarks/bazel.py [--quick] [--json]

Each round changes every model, so that each is fitted and its C written anew. Kinds run in turn, medians count.
Where other work shares the processors, the processor's time of the workers says more than seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bazel_workspace import Workspace, why_not

MODELS = 40
KINDS = ("StowplanCompile", "StowplanCodegen")
STRATEGIES = {"warm worker": "worker", "process in a sandbox": "sandboxed", "process": "local"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="one round of each kind but the slow ones, three of workers"
    )
    parser.add_argument("--json", action="store_true", help="one object")
    arguments = parser.parse_args()
    if why_not():
        print(why_not(), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="stowplan-bench-") as folder:
        workspace = many(Path(folder, "checkout"))
        try:
            found = measured(workspace, rounds=3 if arguments.quick else 5, slow_rounds=1 if arguments.quick else 3)
        finally:
            workspace.close()
    print(json.dumps(found, indent=2)) if arguments.json else report(found)
    return 0


def many(folder: Path) -> Workspace:
    """Return the example with 40 models."""
    workspace = Workspace(folder)
    names = [f"m{index}" for index in range(MODELS)]
    rows = [f'stowplan_model(name = "{name}", model = "models/{name}.tflite")' for name in names]
    change(workspace)
    workspace.add("\n".join([*rows, f'filegroup(name = "many", srcs = {json.dumps(names)})']))
    workspace.built("//:digits")
    return workspace


def measured(workspace: Workspace, rounds: int, slow_rounds: int) -> dict[str, Any]:
    """Return seconds for each model, by kind; the first round of workers is the cold one."""
    workspace.close()  # the workers of the build before
    workspace.built("//:digits")
    for pid in worker_processes(workspace):
        os.kill(pid, 9)
    cold = timed(workspace, "worker")
    seconds: dict[str, list[float]] = {kind: [] for kind in STRATEGIES}
    used: list[float] = []
    for turn in range(rounds):
        for kind, strategy in STRATEGIES.items():
            if kind == "warm worker":
                before = processor_seconds(workspace)
                seconds[kind].append(timed(workspace, strategy))
                used.append((processor_seconds(workspace) - before) / MODELS)
            elif turn < slow_rounds:
                seconds[kind].append(timed(workspace, strategy))
    medians = {kind: statistics.median(values) for kind, values in seconds.items()}
    return dict(
        models=MODELS,
        load=os.getloadavg()[0],
        warm_worker_processor_ms=round(1000 * statistics.median(used), 1),
        cold_worker_ms=round(1000 * cold, 1),
        **{f"{kind.replace(' ', '_')}_ms": round(1000 * value, 1) for kind, value in medians.items()},
        sandbox_to_warm=round(medians["process in a sandbox"] / medians["warm worker"], 1),
        process_to_warm=round(medians["process"] / medians["warm worker"], 1),
    )


def worker_processes(workspace: Workspace) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = str(workspace.folder.parent) in os.readlink(path.with_name("cwd"))
            if ours and b"--persistent_worker" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def change(workspace: Workspace) -> None:
    """Give all models other bytes than ever before: some behind the end, which mean nothing."""
    models = workspace.folder / "models"
    for index in range(MODELS):
        (models / f"m{index}.tflite").write_bytes((models / "digits_int8.tflite").read_bytes() + os.urandom(16))


def processor_seconds(workspace: Workspace) -> float:
    """Return what the workers used of the processors so far, with the children that they waited for."""
    ticks = 0
    for pid in worker_processes(workspace):
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(workspace: Workspace, strategy: str) -> float:
    """Return the seconds that a model takes: compile and codegen of all of them, divided."""
    change(workspace)
    options = [f"--strategy={kind}={strategy}" for kind in KINDS]
    start = time.monotonic()
    build = workspace.built("//:many", *options)
    seconds = time.monotonic() - start
    assert build.ran == 2 * MODELS, build.text
    return seconds / MODELS


def report(found: dict[str, Any]) -> None:
    print(f"{found['models']} models, compile and codegen each, --jobs=2, load {found['load']:.1f}; ms for each model")
    for key in (
        "warm_worker_ms",
        "warm_worker_processor_ms",
        "cold_worker_ms",
        "process_ms",
        "process_in_a_sandbox_ms",
    ):
        print(f"  {key[:-3].replace('_', ' '):<26} {found[key]:>8}")
    print(f"a warm worker is {found['sandbox_to_warm']} times as fast as a process in a sandbox")


if __name__ == "__main__":
    sys.exit(main())
