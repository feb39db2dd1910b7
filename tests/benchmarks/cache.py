"""What the cache costs and saves: a warm compile beside a bare interpreter, and 300 models beside ccache's 300 C files.

    python tests/benchmarks/cache.py [--quick] [--json]

Everything runs in a folder of its own with a cache of its own. Commands that are compared run in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from cache_models import small_model
from stowplan.cache.directory import cache_directory

LARGE = dict(channels=128, depth=256)
"""Makes a model of about 300 KB."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute: 40 models and files instead of 300")
    parser.add_argument("--json", action="store_true", help="one object")
    arguments = parser.parse_args()
    count, rounds = (40, 7) if arguments.quick else (300, 15)
    with tempfile.TemporaryDirectory(prefix="stowplan-bench-") as folder:
        found = {"warm": warm(Path(folder, "warm"), rounds), "many": many(Path(folder, "many"), count)}
    print(json.dumps(found, indent=2)) if arguments.json else _print(found, count)
    return 0


def warm(folder: Path, rounds: int) -> dict[str, Any]:
    """Time whole processes, interleaved: a bare interpreter, nothing changed, a file to restore, and no cache.

    "Another checkout" is a folder in which the command was never given.
    """
    folder.mkdir()
    environment = _environment(folder)
    model = folder / "m.tflite"
    model.write_bytes(small_model(**LARGE))
    output = folder / "m.stow"
    script = shutil.which("stowplan", path=str(Path(sys.executable).parent))
    start = [script] if script else [sys.executable, "-m", "stowplan"]
    command = [*start, "compile", "m.tflite", "-m", "8M", "-o", "m.stow"]
    checkouts = iter([_checkout(folder / f"checkout{number}", model) for number in range(rounds)])

    def run(words: Sequence[str], where: Path = folder) -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=where)

    run(command)
    time.sleep(2.2)  # until the files' times are old enough to be trusted
    run(command)
    run(command)
    contests: dict[str, Callable[[], None]] = {
        "bare interpreter": lambda: run([sys.executable, "-c", "pass"]),
        "nothing changed": lambda: run(command),
        "output restored": lambda: (output.unlink(), run(command))[1],
        "another checkout": lambda: run(command, next(checkouts)),
        "no cache": lambda: run([*command, "--no-cache"]),
    }
    times: dict[str, list[float]] = {name: [] for name in contests}
    for _ in range(rounds):
        for name, contest in contests.items():
            times[name].append(_seconds(contest) * 1000)
    medians = {name: statistics.median(values) for name, values in times.items()}
    bare = medians["bare interpreter"]
    return {
        "model_bytes": model.stat().st_size,
        "plan_bytes": output.stat().st_size,
        "median_ms": medians,
        "minimum_ms": {name: min(values) for name, values in times.items()},
        "times_bare": {name: value / bare for name, value in medians.items()},
    }


def _checkout(folder: Path, model: Path) -> Path:
    folder.mkdir()
    shutil.copy(model, folder)
    return folder


def many(folder: Path, count: int) -> dict[str, Any]:
    """Build many models, and as many C files with ccache: cold, warm, with one changed, and restored."""
    found: dict[str, Any] = {"count": count, "stowplan": _project(folder / "models", count)}
    ccache, compiler = shutil.which("ccache"), shutil.which("cc")
    found["ccache"] = _ccache(folder / "c", count, ccache, compiler) if ccache and compiler else None
    return found


def _project(folder: Path, count: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    environment = _environment(folder)
    for number in range(count):
        (folder / f"m{number}.tflite").write_bytes(small_model(number))
    models = "".join(f'm{number} = "m{number}.tflite"\n' for number in range(count))
    (folder / "stowplan.toml").write_text(f'[models]\n{models}\n[targets.t]\nmemory = "4K"\n')

    def build() -> dict[str, Any]:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "stowplan", "build", "--json"],
            check=True, capture_output=True, text=True, env=environment, cwd=folder,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "counts": json.loads(done.stdout)["counts"]}

    results = {"cold": build()}
    time.sleep(2.2)
    build()
    results["warm"] = build()
    (folder / "m0.tflite").write_bytes(small_model(count + 1))
    results["one changed"] = build()
    shutil.rmtree(folder / "build")
    results["restored"] = build()
    return results


def _ccache(folder: Path, count: int, ccache: str, compiler: str) -> dict[str, Any]:
    """One ccache per file, as make would call it: its cost is per process, and that is what it is measured by."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "CCACHE_DIR": str(folder / "cache"), "CCACHE_SLOPPINESS": ""}
    for number in range(count):
        (folder / f"f{number}.c").write_text(
            f"#include <stdio.h>\nint f{number}(int x) {{ return x * {number + 3}; }}\n"
        )

    def build() -> dict[str, Any]:
        before = _ccache_hits(ccache, environment)
        start = time.perf_counter()
        for number in range(count):
            command = [ccache, compiler, "-O2", "-c", f"f{number}.c", "-o", f"f{number}.o"]
            subprocess.run(command, check=True, env=environment, cwd=folder)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "counts": {"hits": _ccache_hits(ccache, environment) - before}}

    results = {"cold": build()}
    time.sleep(2.2)
    results["warm"] = build()
    (folder / "f0.c").write_text("#include <stdio.h>\nint f0(void) { return 99; }\n")
    results["one changed"] = build()
    for path in folder.glob("*.o"):
        path.unlink()
    results["restored"] = build()
    return results


def _ccache_hits(ccache: str, environment: dict[str, str]) -> int:
    done = subprocess.run([ccache, "--print-stats"], capture_output=True, text=True, env=environment, check=True)
    stats = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    return sum(int(stats.get(name, 0)) for name in ("direct_cache_hit", "preprocessed_cache_hit"))


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with its own cache, in which the C runtime is built already: that is no model's cost."""
    native = cache_directory() / "native"
    native.mkdir(mode=0o700, exist_ok=True)
    (folder / "cache").mkdir(mode=0o700)
    (folder / "cache" / "native").symlink_to(native)
    own = {name: value for name, value in os.environ.items() if not name.startswith("STOWPLAN_")}
    return {**own, "STOWPLAN_CACHE_DIR": str(folder / "cache")}


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _print(found: dict[str, Any], count: int) -> None:
    warm_found = found["warm"]
    print(
        f"one model of {warm_found['model_bytes']} bytes, whole processes, median (minimum), times a bare interpreter"
    )
    for name, value in warm_found["median_ms"].items():
        least, ratio = warm_found["minimum_ms"][name], warm_found["times_bare"][name]
        print(f"  {name:<18} {value:8.1f} ms ({least:.1f})   {ratio:.2f}")
    print(f"{count} items: seconds, ms per item")
    for tool in ("stowplan", "ccache"):
        for step, result in (found["many"][tool] or {}).items():
            counts = ", ".join(f"{number} {word}" for word, number in result["counts"].items())
            seconds = result["seconds"]
            print(f"  {tool:<9} {step:<12} {seconds:8.2f} s {1000 * seconds / count:8.2f} ms   {counts}")


if __name__ == "__main__":
    raise SystemExit(main())
