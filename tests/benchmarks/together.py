"""Forty small models, plan and C, as build systems make them: in a process each, and in one (`stowplan batch`).

    python tests/benchmarks/together.py [--quick] [--json]

Cold is an empty cache but for the library that proves plans, warm is everything known. The two ways run in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits_int8.tflite"
STOWPLAN = [sys.executable, "-m", "stowplan"]
COUNT = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute: one round instead of five")
    parser.add_argument("--json", action="store_true", help="one object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stowplan-bench-") as folder:
        os.environ["STOWPLAN_CACHE_DIR"] = str(Path(folder, "cache"))
        found = measured(Path(folder), 1 if arguments.quick else 5)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        for name, row in found.items():
            print(f"{name:<5} {row['apart_ms']:6.0f} ms a model apart, {row['together_ms']:6.0f} together, "
                  f"{row['ratio']:.1f} times")  # fmt: skip
    return 0


def measured(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return CPU milliseconds a model: on a machine that has other work, wall clock says little."""
    run([*STOWPLAN, *command(folder, 0, 0)])  # compiles the library that proves plans
    times: dict[str, list[float]] = {}
    for number in range(1, rounds + 1):
        for name in ("cold", "warm"):
            ways: list[tuple[str, Callable[[], None]]] = [
                ("apart", lambda number=number: apart(folder, 2 * number)),
                ("together", lambda number=number: together(folder, 2 * number + 1)),
            ]
            for way, work in ways:
                times.setdefault(f"{name} {way}", []).append(cpu_ms(work) / COUNT)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        name: {
            "apart_ms": medians[f"{name} apart"],
            "together_ms": medians[f"{name} together"],
            "ratio": medians[f"{name} apart"] / medians[f"{name} together"],
        }
        for name in ("cold", "warm")
    }


def command(folder: Path, series: int, index: int) -> list[str]:
    """Return one of forty compilations; another series has other budgets, so that the cache knows none of them."""
    stem = str(folder / f"m{series}_{index}")
    size = str(1024 + 4000 * series + 64 * index)
    return [
        "compile",
        str(MODEL),
        "-q",
        "-m",
        size,
        "-o",
        f"{stem}.stow",
        "--codegen",
        f"{stem}.c",
        "--depfile",
        f"{stem}.d",
    ]


def apart(folder: Path, series: int) -> None:
    for index in range(COUNT):
        run([*STOWPLAN, *command(folder, series, index)])


def together(folder: Path, series: int) -> None:
    file = folder / "commands"
    file.write_text("".join("\n".join(command(folder, series, index)) + "\n\n" for index in range(COUNT)))
    run([*STOWPLAN, "batch", str(file)])


def cpu_ms(work: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
