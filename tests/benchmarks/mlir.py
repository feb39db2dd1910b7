"""MLIR's compilation runtime: what a hit saves by bytes and by structure, and a run beside LiteRT's on one thread.

    python tests/benchmarks/mlir.py [--quick] [--json]

Compilations share one process with MLIR loaded, so that its start is in none of them; each is made with an empty cache,
found by its bytes, and found by its structure under another name. Runs are in turn, medians.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from statistics import median
from typing import Any

from measure import MODELS, STANDARD, arguments, show

from stowplan.build.prove import random_bytes
from stowplan.cache.layers import Memory
from stowplan.flow.model import Model
from stowplan.plugins.kinds import LoadOptions
from stowplan_backend_litert import LiteRtBackend
from stowplan_backend_mlir import Context, MlirBackend, compile, jit  # noqa: A004


def renamed(data: bytes) -> bytes:
    """Return a model with other bytes and the same meaning: its description is spelled otherwise."""
    at = data.find(b"MLIR Converted")
    return data if at < 0 else data[:at] + b"mlir converted" + data[at + 14 :]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = call()
    return (time.perf_counter() - started) * 1000, found


def compilations(data: bytes, context: Context, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {"miss": [], "structure": [], "hit": []}
    for _ in range(rounds):
        cache = Memory()
        for wanted, source in (("miss", data), ("structure", renamed(data)), ("hit", data)):
            spent, artifact = timed(lambda source=source, cache=cache: compile(source, cache=cache, context=context))
            assert artifact.cache == wanted
            times[wanted].append(spent)
    return {f"{name}_ms": median(found) for name, found in times.items()}


def runs(model: Model, context: Context, rounds: int) -> dict[str, float]:
    artifact = compile(model, cache="off", context=context)
    codegen, code = timed(lambda: jit(artifact, context=context))
    with closing(LiteRtBackend().load_model(model, LoadOptions())) as litert, code:
        inputs = [random_bytes(port, random.Random(1)) for port in litert.inputs]
        times: tuple[list[int], list[int]] = ([], [])
        for _ in range(rounds):
            times[0].append(code.timed(inputs)[1])
            times[1].append(litert.run_with_metrics(inputs)[1].duration_ns)
    ours, theirs = (median(found[3:]) / 1000 for found in times)
    return {"codegen_ms": codegen, "run_us": ours, "litert_us": theirs, "ratio": ours / theirs}


def main() -> None:
    options = arguments(__doc__ or "")
    available = MlirBackend().available()
    if not available.ok or not MODELS.is_dir():
        raise SystemExit(available.why or f"the models are not at {MODELS}")
    rows, facts = [], {}
    with Context() as context:
        for name in ("ad01", "kws", "resnet8") if options.quick else ("ad01", "kws", "resnet8", "vww"):
            model = Model.read(MODELS / STANDARD[name])
            facts[name] = found = {
                **compilations(model.data, context, 3 if options.quick else 11),
                **runs(model, context, 20 if options.quick else 200),
            }
            rows.append([name, *(f"{value:.1f}" for value in found.values())])
    headings = ["", "ms compiled", "same structure", "same bytes", "ms code", "us a run", "us LiteRT", "x LiteRT"]
    show(options, headings, rows, facts)


if __name__ == "__main__":
    main()
