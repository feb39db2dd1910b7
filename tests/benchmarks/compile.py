"""Compile time and peak memory beside `tigris compile`: fresh processes in turn, no cache, proof included on our side.

The host library of the C runtime is built beforehand: it is made once per machine, not once per model.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import MODELS, STANDARD, arguments, in_turn, process, show

KINDS = ("wall", "cpu", "memory")


def main() -> None:
    options = arguments(__doc__ or "")
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command, tigris = (shutil.which(name, path=here) for name in ("stowplan", "tigris"))
    if command is None or tigris is None:
        raise SystemExit("both have to be installed here: pip install stowplan tigris-ml")
    if not MODELS.is_dir():
        raise SystemExit(f"the models are not at {MODELS}")
    rows, facts = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, file in STANDARD.items():
            common = ["compile", str(MODELS / file), "-m", "64K", "-m", "1M", "-o", f"{folder}/{name}"]
            ours = [command, *common, "--no-cache"]
            process(ours)  # builds the host library, if this is the first run on the machine
            costs = in_turn(
                {"stowplan": partial(process, ours), "tigris": partial(process, [tigris, *common])},
                3 if options.quick else 15,
            )
            mine, theirs = costs["stowplan"], costs["tigris"]
            ratios = (mine.wall_ms / theirs.wall_ms, mine.cpu_ms / theirs.cpu_ms, mine.peak_mib / theirs.peak_mib)
            facts[name] = {
                "ours": vars(mine),
                "tigris": vars(theirs),
                "wall": ratios[0],
                "cpu": ratios[1],
                "memory": ratios[2],
            }
            pairs = [(mine.wall_ms, theirs.wall_ms), (mine.cpu_ms, theirs.cpu_ms), (mine.peak_mib, theirs.peak_mib)]
            rows.append([name, *(f"{a:.0f} / {b:.0f}" for a, b in pairs), *(f"{r:.2f}" for r in ratios)])
    medians = [statistics.median(facts[n][k] for n in facts) for k in KINDS]
    rows.append(["median", "", "", "", *(f"{m:.2f}" for m in medians)])
    show(options, ["model", "wall ms", "CPU ms", "peak MiB", "wall x", "CPU x", "memory x"], rows, facts)


if __name__ == "__main__":
    main()
