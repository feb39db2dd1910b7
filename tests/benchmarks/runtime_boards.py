"""The boards' half of runtime.py: instructions of the standard models on emulated cores, against a checked-in table.

    python tests/benchmarks/runtime_boards.py [--quick] [--json] [--update]

Counts are exact, so they are compared with `runtime_boards.json`: more than 1 % above it fails. Bytes are compared with
TFLite Micro's on three inputs (one with --quick). `least` is the plan at the smallest single memory, in rings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from measure import MODELS, STANDARD, arguments, show

from oracles import open_tflm, random_inputs
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import DoesNotFit
from stowplan.plugins.host import host
from stowplan.plugins.kinds import BoardOptions
from stowplan_profiler_qemu import tools
from stowplan_profiler_qemu.boards import BOARDS

TABLE = Path(__file__).with_suffix(".json")
NAMES = ("vww", "kws", "resnet8", "ad01")
QUICK = (("vww", "kws", "resnet8", "ad01"), ("cortex-m4", "cortex-m55"))
RIVAL = {
    "cortex-m4": {"vww": 24.2, "kws": 7.71, "resnet8": 31.3, "ad01": 0.585},
    "cortex-m55": {"vww": 6.63, "kws": 1.82, "resnet8": 8.49, "ad01": 0.288},
}
"""Million instructions of CMSIS-NN under TiGrIS's executor (on the M55 with its adapter repaired), measured once."""
GOALS = {
    "cortex-m4": {"vww": 12.3, "kws": 5.9, "resnet8": 22.0, "ad01": 0.54},
    "cortex-m55": {"vww": 4.5, "kws": 1.75, "resnet8": 8.0, "ad01": 0.13},
}
SLACK = 1.01


def main() -> int:
    options = arguments(__doc__.splitlines()[0], _options)
    found = measure(options.quick)
    if options.update:
        _update(found)
    report(found, options)
    return complain(found)


def _known() -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    known: dict[str, dict[str, dict[str, dict[str, int]]]] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    return known


def _update(found: dict[str, dict[str, Any]]) -> None:
    """Write what was measured now to the table; the rest of it stays."""
    known = _known()
    for name, boards in found.items():
        for board, used in boards.items():
            known.setdefault(name, {}).setdefault(board, {}).update(used)
    TABLE.write_text(json.dumps(known, indent=1) + "\n")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--update", action="store_true", help="write the counts to runtime_boards.json")


def measure(quick: bool) -> dict[str, dict[str, Any]]:
    """Return, for each model and board, what a run used; boards whose tools are missing are left out."""
    names, boards = QUICK if quick else (NAMES, tuple(BOARDS))
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        path = MODELS / STANDARD[name]
        plans = {"whole": _plan(path, None)} if quick else {"whole": _plan(path, None), "least": least(path)}
        found[name] = {}
        for board in boards:
            if tools.missing(BOARDS[board]):
                continue
            found[name][board] = {kind: _run(path, plan, board, 1 if quick else 3) for kind, plan in plans.items()}
    return found


def _plan(path: Path, memory_bytes: int | None) -> bytes:
    pools = () if memory_bytes is None else (("fast", memory_bytes),)
    return compile_model(CompileRequest(model_path=path, prove=False, pools=pools)).data


def least(path: Path) -> bytes:
    """Return the plan of the smallest single memory, found by halving."""
    low, high = 16, compile_model(CompileRequest(model_path=path, prove=False)).facts.fast_bytes or 0
    while low < high:
        middle = (low + high) // 2
        try:
            _plan(path, middle)
            high = middle
        except DoesNotFit:
            low = middle + 1
    return _plan(path, high)


def _run(path: Path, plan: bytes, board: str, samples: int) -> dict[str, int]:
    data = path.read_bytes()
    reference = open_tflm(data)
    backend: Any = host().backends()["qemu"]
    with closing(backend.compile_on(plan, BoardOptions(board=board))) as compiled:
        for seed in range(samples):
            arrays = random_inputs(data, seed)
            outputs, report = compiled.measure([array.tobytes() for array in arrays])
            if seed == 0:
                first = report
            if outputs != [out.tobytes() for out in reference(arrays)]:
                raise SystemExit(f"{path.name} on {board}: input {seed} gives other bytes than TFLite Micro")
    return dict(instructions=first.instructions, stack_bytes=first.stack_bytes, arena_bytes=first.fast_used_bytes)


def report(found: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    rows = [_row(name, board, used) for name, boards in found.items() for board, used in boards.items()]
    headings = ("model", "board", "million", "goal", "of CMSIS-NN", "least memory", "stack", "equal")
    show(options, headings, rows, found)


def _row(name: str, board: str, used: dict[str, dict[str, int]]) -> tuple[object, ...]:
    count = used["whole"]["instructions"] / 1e6
    rival, goal = RIVAL.get(board, {}).get(name), GOALS.get(board, {}).get(name)
    least_count = used.get("least", {}).get("instructions")
    return (
        name, board, f"{count:.3f}", goal or "", f"{count / rival:.2f} x" if rival else "",
        f"{least_count / 1e6 / count:.3f} x" if least_count else "", used["whole"]["stack_bytes"], "yes",
    )  # fmt: skip


def complain(found: dict[str, dict[str, Any]]) -> int:
    """Say what takes more than the checked-in table; return the exit code."""
    worse = list(_worse(found))
    print("\n".join(worse), file=sys.stderr, end="\n" if worse else "")
    return 1 if worse else 0


def _worse(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    known = _known()
    for name, boards in found.items():
        for board, used in boards.items():
            for kind, facts in used.items():
                before = known.get(name, {}).get(board, {}).get(kind, {}).get("instructions")
                now = facts["instructions"]
                if before is not None and now > SLACK * before:
                    yield f"{name} on {board} ({kind}): {now:,} instructions, the table has {before:,}"


if __name__ == "__main__":
    raise SystemExit(main())
