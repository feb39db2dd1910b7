"""Vela through our command beside its own: a process that compiles for an Ethos-U55, and one that finds it compiled."""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from measure import MODELS, STANDARD, arguments, in_turn, process, show

ACCELERATOR = "ethos-u55-128"


def main() -> None:
    options = arguments(__doc__ or "")
    vela = shutil.which("vela")
    if vela is None or not MODELS.is_dir():
        raise SystemExit(f"vela is not on PATH (pip install ethos-u-vela), or the models are not at {MODELS}")
    rows: list[list[object]] = []
    facts: dict[str, object] = {}
    for name in ("vww", "resnet8", "ad01"):
        with tempfile.TemporaryDirectory() as folder:
            model = str(MODELS / STANDARD[name])
            ours = [sys.executable, "-m", "stowplan", "accelerate", model, "-b", "ethosu", "--aot", ACCELERATOR,
                    "-o", str(Path(folder) / "npu.tflite")]  # fmt: skip
            kept = [*ours, "--cache-dir", str(Path(folder) / "cache")]
            commands = {
                "vela": [vela, model, "--accelerator-config", ACCELERATOR, "--output-dir", folder],
                "ours": [*ours, "--no-cache"],
                "again": kept,
            }
            process(kept)
            costs = in_turn({key: partial(process, command) for key, command in commands.items()},
                            5 if options.quick else 21)  # fmt: skip
        base = costs["vela"]
        facts[name] = found = {
            **{key: vars(cost) for key, cost in costs.items()},
            **{f"{key}_more_ms": costs[key].wall_ms - base.wall_ms for key in ("ours", "again")},
            **{f"{key}_ratio": costs[key].wall_ms / base.wall_ms for key in ("ours", "again")},
            **{f"{key}_cpu_ratio": costs[key].cpu_ms / base.cpu_ms for key in ("ours", "again")},
        }
        walls = [f"{costs[key].wall_ms:.0f}" for key in costs]
        ratios = [f"{found[f'{key}_{what}']:.2f}" for what in ("ratio", "cpu_ratio") for key in ("ours", "again")]
        rows.append([name, *walls, *ratios])
    headings = ["ms a process", "vela", "ours", "ours again", "x vela", "again x", "cpu x vela", "cpu again x"]
    show(options, headings, rows, facts)


if __name__ == "__main__":
    main()
