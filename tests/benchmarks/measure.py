"""What the benchmarks share: commands measured in turn, as ratios of medians, printed as a table or one JSON object."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODELS = ROOT.parent / "shared" / "models"
STANDARD = {
    "vww": "vww-person/mlperf_vww_int8.tflite",
    "kws": "kws/mlperf_kws_dscnn_int8.tflite",
    "resnet8": "image-cls/mlperf_resnet8_int8.tflite",
    "ad01": "anomaly/mlperf_ad01_int8.tflite",
    "strww": "wakeword/mlperf_streaming_ww_int8.tflite",
    "person": "vww-person/tflm_person_detect_int8.tflite",
}


@dataclass(frozen=True)
class Cost:
    """What one process cost: wall clock and CPU in milliseconds, peak resident memory in MiB."""

    wall_ms: float
    cpu_ms: float
    peak_mib: float


def process(command: Sequence[str]) -> Cost:
    """Run a command to its end and return its cost, with byte code cached as users have it.

    Raises `SystemExit` when it fails.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    wall = (time.perf_counter() - start) * 1e3
    if status != 0:
        assert child.stderr is not None
        raise SystemExit(f"{' '.join(command)} failed: {child.stderr.read().decode()}")
    unit = 1024 if sys.platform == "linux" else 1024 * 1024
    return Cost(wall, (usage.ru_utime + usage.ru_stime) * 1e3, usage.ru_maxrss / unit)


def in_turn(rivals: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, Cost]:
    """Run every rival once per round, so that all see the same machine, and return each one's median cost."""
    seen: dict[str, list[Cost]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            seen[name].append(run())
    return {
        name: Cost(*(statistics.median(getattr(c, f) for c in costs) for f in ("wall_ms", "cpu_ms", "peak_mib")))
        for name, costs in seen.items()
    }


def arguments(description: str, more: Callable[[argparse.ArgumentParser], None] = lambda _: None) -> argparse.Namespace:
    """Return the options that benchmarks share, and those that `more` adds."""
    parser = argparse.ArgumentParser(description=description)
    more(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, within a minute")
    return parser.parse_args()


def show(options: argparse.Namespace, headings: Sequence[str], rows: Sequence[Sequence[object]], facts: object) -> None:
    """Print rows as a table, or the facts as JSON."""
    if options.json:
        print(json.dumps(facts))
        return
    table = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    for row in table:
        print(
            "  ".join(
                cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
        )
