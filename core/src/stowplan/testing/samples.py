"""Bytes, plans and words that several checks need: made here once, the same in every process."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.schedule import Schedule
from stowplan.flow.text import graph_lines

LENGTHS = (0, 1, 2, 3, 4, 7, 15, 16, 17, 63, 255, 256, 257, 1000, 4096, 70_001)


def blocks() -> dict[str, bytes]:
    """Return data to pack, by what it is: of every length, of noise, of runs, and like weights."""
    rng = random.Random(7)
    found = {f"noise of {size} bytes": rng.randbytes(size) for size in LENGTHS}
    found |= {f"zeros of {size} bytes": bytes(size) for size in LENGTHS}
    found["two bytes in turn"] = b"\x00\xff" * 3000
    found["every byte"] = bytes(range(256)) * 5
    found["int8 weights"] = bytes(max(-128, min(127, round(rng.gauss(0, 20)))) & 255 for _ in range(9000))
    found["runs of weights"] = b"".join(bytes([rng.randrange(256)]) * rng.randrange(1, 400) for _ in range(90))
    return found


def model_of(data: bytes, path: Path) -> Model:
    return Model(path=path, data=data, digest=hashlib.sha256(data).hexdigest())


def plan_of(graph: Graph, schedule: Schedule | None = None) -> bytes:
    """Return the plan file of a graph: with a schedule, or with every tensor in memory of its own."""
    from stowplan.build.planning import Lowering, PlanOptions, make_plan
    from stowplan.build.prove import separate_schedule
    from stowplan.planfile.writer import write_plan

    model = model_of(graph.name.encode(), Path(f"{graph.name}.kit"))
    plan = make_plan(model, Lowering(graph), schedule or separate_schedule(graph), PlanOptions())
    return write_plan(plan)


def snapshot(graph: Graph) -> str:
    """Return all of a graph, its numbering and names too, as one word."""
    text = "\n".join([*graph_lines(graph), *(f"{key} {data.hex()}" for key, data in sorted(graph.constants.items()))])
    order = [[list(op.attributes.items()), op.inputs, op.outputs] for op in graph.operators]
    return digest(f"{text}\n{order}\n{graph.tensors}".encode())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
