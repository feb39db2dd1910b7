"""Takes a graph built in a test through the pipeline: schedule, check, lower, write, prove; without a model file."""

from __future__ import annotations

from pathlib import Path

from stowplan.build.planning import Lowering, PlanOptions, make_plan, plan_compressed
from stowplan.build.prove import prove, separate_schedule
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Plan
from stowplan.flow.target import Pool, Target
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions

NO_FILE = Model(path=Path("test.tflite"), data=b"", digest="0" * 64)


def target_of(*sizes: int | None) -> Target:
    """Return a target with a fast pool and, for a second size, a slow one."""
    return Target(pools=tuple(Pool(name=n, size_bytes=s) for n, s in zip(("fast", "slow"), sizes, strict=False)))


def fit(
    graph: Graph,
    *sizes: int | None,
    scheduler: str = "stream",
    compressor: str = "none",
    options: ScheduleOptions | None = None,
) -> Plan:
    """Return a checked plan. Raises `DoesNotFit`."""
    chosen, lowering = host().schedulers()[scheduler], Lowering(graph)
    if compressor != "none":
        packer = host().compressors()[compressor]
        return plan_compressed(NO_FILE, lowering, target_of(*sizes), chosen, PlanOptions(), packer)
    asked = options or ScheduleOptions()
    schedule = chosen.schedule(graph, target_of(*sizes), asked)
    return make_plan(NO_FILE, lowering, schedule, PlanOptions(schedule=asked))


def prove_plan(plan: Plan, samples: int = 2, graph: Graph | None = None) -> bytes:
    """Prove a plan against its graph as it was before it was cut into tiles; return its file. Raises `ProofFailed`."""
    data, truth = write_plan(plan), graph or plan.graph
    untiled = make_plan(NO_FILE, Lowering(truth), separate_schedule(truth), PlanOptions())
    prove(host().backends()["c"], data, write_plan(untiled), seed=truth.digest, samples=samples)
    return data


def fit_and_prove(graph: Graph, budgets: int = 8, slow_bytes: int = 1 << 24) -> tuple[int, int]:
    """Plan a graph at budgets from whole tensors downwards and return (proven, refused).

    With one memory, with slow memory, and with one memory, input that is streamed, and arithmetic done twice.
    """
    whole = fit(graph, None)
    prove_plan(whole)
    again = ScheduleOptions(recompute=2.0, streamed_inputs=graph.entries)
    proven, refused = 1, 0
    for step in range(budgets):
        budget = max(16, whole.schedule.pool_bytes[0] * (budgets - step) // (budgets + 1))
        for sizes, options in (((budget,), None), ((budget, slow_bytes), None), ((budget,), again)):
            try:
                plan = fit(graph, *sizes, options=options)
            except DoesNotFit:
                refused += 1
                continue
            prove_plan(plan, samples=1, graph=graph)
            proven += 1
    return proven, refused
