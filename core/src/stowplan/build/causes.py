"""What bounds each stage of a plan, and what stands in the way of a budget: tensors alive at a peak."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from stowplan.build.facts import AliveFact, Facts, ShrinkFact
from stowplan.build.least import UNLIMITED, Asker
from stowplan.build.memory_map import memory_map
from stowplan.build.pipeline import CompileResult, Proven, Session, compile_session
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.plan import Plan
from stowplan.flow.target import FAST, SLOW
from stowplan.nouns import replace

_NAMED = 5
SECONDS = 10.0
"""How long a refusal may look for the least memory there is."""


def with_causes(facts: Facts, plan: Plan) -> Facts:
    """Return the facts with what is alive at each stage's peak in fast memory."""
    memory = memory_map(plan.graph, plan.schedule)
    peaks = memory.fast.peaks(memory.stages)
    alive = memory.fast.alive([peak.step for peak in peaks])
    table = (
        replace(stage, live_peak_bytes=peak.size_bytes, alive=_largest(plan.graph, sizes))
        for stage, peak, sizes in zip(facts.stage_table, peaks, alive, strict=True)
    )
    return replace(facts, stage_table=tuple(table))


def compile_explaining(session: Session, known: Proven | None = None) -> CompileResult:
    """Compile what a session holds; a refusal says what stands in the way. Raises as `compile_session`."""
    try:
        return compile_session(session, known)
    except DoesNotFit as err:
        if err.facts is not None and err.facts.fast_bytes is None:  # else there is a plan, and the flash is too small
            err.facts = replace(err.facts, shrink=find_shrink(Asker(session, SECONDS)))
        raise


def find_shrink(asker: Asker) -> ShrinkFact | None:
    """Say which tensors keep the model from its budget; None where memory for tensors is not what is missing."""
    target = asker.session.request.target
    if target.fast.size_bytes is None:
        return None
    if target.slow is not None and target.slow.size_bytes is not None:
        with suppress(DoesNotFit):  # then it is the fast memory
            plan = asker.plan(target.fast.size_bytes, UNLIMITED)
            return _shrink(plan, SLOW, target.slow.size_bytes)
    return _shrink(asker.least(slow=target.slow is not None), FAST, target.fast.size_bytes)


def _shrink(plan: Plan, number: int, budget_bytes: int) -> ShrinkFact | None:
    schedule, graph = plan.schedule, plan.graph
    if schedule.pool_bytes[number] <= budget_bytes:
        return None
    pool = memory_map(graph, schedule).pools[number]
    step = pool.peak(0, len(schedule.firings)).step
    node = schedule.nodes[schedule.firings[step].node]
    output = schedule.buffers[node.output].tensor
    operator = graph.operators[node.operator].source if node.operator is not None else graph.tensors[output].name
    return ShrinkFact(
        pool=pool.name,
        operator=operator,
        least_bytes=pool.size_bytes,
        over_bytes=pool.size_bytes - budget_bytes,
        alive=_largest(graph, pool.alive([step])[0]),
    )


def _largest(graph: Graph, sizes: Mapping[int, int]) -> tuple[AliveFact, ...]:
    largest = list(sizes.items())[:_NAMED]
    return tuple(
        AliveFact(tensor=graph.tensors[tensor].name, shape=graph.tensors[tensor].shape, size_bytes=size)
        for tensor, size in largest
    )
