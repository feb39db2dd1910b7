"""What ten bad plugins cost: commands with them and without, in turn, as ratios of medians; and the first look at all.

    python tests/benchmarks/plugins.py [--quick] [--json]

A warm `compile` decides before plugins are looked at, `plugins list` reads the index of all of them. The bad ones
raise, hang, leave, print and more (`tests/support/bad_plugins.py`). Modules imported are counted too: they do not
depend on how busy the machine is.
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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from bad_plugins import BAD, install_bad

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
PATIENCE_SECONDS = 1
WARM = {
    "compile, unchanged": ("compile", "digits.tflite", "-m", "2K", "-o", "digits.stow"),
    "plugins list": ("plugins", "list"),
    "--version": ("--version",),
}
COUNT = "import sys; from stowplan.cli.entry import main; main(sys.argv[1:]); print(len(sys.modules), file=sys.stderr)"


class Place:
    """A folder to work in, with a cache of its own and plugins beside the bundled ones."""

    def __init__(self, folder: Path, bad: bool) -> None:
        self.work, self.site = folder / "work", folder / "site"
        for made in (self.work, self.site, folder / "cache"):
            made.mkdir(parents=True)
        if bad:
            install_bad(self.site)
        shutil.copy(DIGITS, self.work / "digits.tflite")
        own = {"PYTHONPATH": str(self.site), "STOWPLAN_CACHE_DIR": str(folder / "cache")}
        self.environment = {**os.environ, **own, "STOWPLAN_PLUGINS_SECONDS": str(PATIENCE_SECONDS)}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, *command: str) -> float:
        """Return how many milliseconds a command took."""
        began = time.perf_counter()
        self._done([sys.executable, "-m", "stowplan", *command])
        return (time.perf_counter() - began) * 1e3

    def modules(self, *command: str) -> int:
        return int(self._done([sys.executable, "-c", COUNT, *command]).stderr.split()[-1])

    def _done(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="within a minute: 7 rounds instead of 31")
    parser.add_argument("--json", action="store_true", help="one object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stowplan-bench-") as folder:
        found = measure(Path(folder), 7 if arguments.quick else 31)
    print(json.dumps(found, indent=2)) if arguments.json else show(found)
    return 0


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    places = {"without": Place(folder / "without", bad=False), "with": Place(folder / "with", bad=True)}
    first = {name: place.run("plugins", "list") for name, place in places.items()}
    found: dict[str, Any] = {"bad_plugins": len(BAD), "rounds": rounds, "first_look_ms": first, "warm": {}}
    found["patience_s"] = PATIENCE_SECONDS
    for label, command in WARM.items():
        for place in places.values():
            place.run(*command)
            place.run(*command)
        times: dict[str, list[float]] = {name: [] for name in places}
        for _ in range(rounds):
            for name, place in places.items():
                times[name].append(place.run(*command))
        medians = {name: statistics.median(seen) for name, seen in times.items()}
        modules = {name: place.modules(*command) for name, place in places.items()}
        ratio = medians["with"] / medians["without"]
        found["warm"][label] = {"median_ms": medians, "ratio": ratio, "modules": modules}
    return found


def show(found: dict[str, Any]) -> None:
    first = found["first_look_ms"]
    print(f"{found['bad_plugins']} bad plugins, medians of {found['rounds']} runs in turn")
    print(f"first look: {first['without']:.0f} ms without, {first['with']:.0f} ms with them", end=" ")
    print(f"(one hangs and is given {found['patience_s']} s)")
    for label, row in found["warm"].items():
        times, modules = row["median_ms"], row["modules"]
        medians = f"{times['without']:7.1f} ms without, {times['with']:7.1f} ms with"
        print(f"{label:<20} {medians}: ratio {row['ratio']:.3f}, modules {modules['without']} and {modules['with']}")


if __name__ == "__main__":
    sys.exit(main())
