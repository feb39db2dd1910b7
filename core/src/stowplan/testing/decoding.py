"""Whether the C runtime unpacks what a compressor packs: a plan of a small network, run with it and without."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from stowplan.errors import StowplanError
from stowplan.testing.faults import skip
from stowplan.testing.graphs import small_cnn
from stowplan.testing.samples import model_of, plan_of


def decoded_by_runtime(compressor: Any) -> bool:
    """Run a plan with packed weights. Says no where the runtime refuses it or computes something else."""
    from stowplan.plugins.host import host

    if "c" not in host().backends() or not host().backends()["c"].available().ok:
        skip("needs the backend c and a C compiler: pip install stowplan-backend-c")
    backend = host().backends()["c"]
    with closing(backend.compile(plan_of(small_cnn()))) as truth:
        inputs = [bytes(range(port.size_bytes % 256)) * 9 for port in truth.inputs]
        inputs = [
            (data + bytes(port.size_bytes))[: port.size_bytes] for data, port in zip(inputs, truth.inputs, strict=True)
        ]
        expected = truth.run(inputs)
    try:
        with closing(backend.compile(_packed_plan(compressor))) as candidate:
            return list(candidate.run(inputs)) == list(expected)
    except StowplanError:
        return False


def _packed_plan(compressor: Any) -> bytes:
    from pathlib import Path

    from stowplan.build.planning import Lowering, PlanOptions, plan_compressed
    from stowplan.flow.target import Pool, Target
    from stowplan.planfile.writer import write_plan
    from stowplan.plugins.host import host

    graph = small_cnn()
    if "stream" not in host().schedulers():
        skip("needs the scheduler stream: pip install stowplan-scheduler-stream")
    target = Target(pools=(Pool(name="fast", size_bytes=1 << 20),))
    model = model_of(b"kit", Path("kit"))
    scheduler = host().schedulers()["stream"]
    return write_plan(plan_compressed(model, Lowering(graph), target, scheduler, PlanOptions(), compressor))
