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
from stowplan.units import format_size

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
        if err.facts is None or err.facts.fast_bytes is not None:  # there is a plan, and the flash is too small
            raise
        nearest = _nearest(Asker(session, SECONDS))
        if nearest is None:
            raise
        plan, pool, budget_bytes = nearest
        err.facts = replace(err.facts, shrink=_shrink(plan, pool, budget_bytes))
        if err.facts.shrink is None and session.request.target.slow is None and session.request.compressor == "none":
            raise _with_way_out(err, session, plan) from err  # elsewhere --optimal does not look for the least memory
        raise


def _nearest(asker: Asker) -> tuple[Plan, int, int] | None:
    """Return the plan that misses the budget by least, the pool that is too small for it, and that pool's bytes."""
    target = asker.session.request.target
    if target.fast.size_bytes is None:
        return None
    if target.slow is not None and target.slow.size_bytes is not None:
        with suppress(DoesNotFit):  # then it is the fast memory
            return asker.plan(target.fast.size_bytes, UNLIMITED), SLOW, target.slow.size_bytes
    return asker.least(slow=target.slow is not None), FAST, target.fast.size_bytes


def _with_way_out(err: DoesNotFit, session: Session, plan: Plan) -> DoesNotFit:
    """Return a refusal that says how to get the plan which a longer search than was asked for has found."""
    way = "allow more with --time-limit" if session.request.optimal else "add --optimal"
    better = DoesNotFit(
        f"{err.cause}. A longer search finds a plan of {format_size(plan.schedule.pool_bytes[FAST])}: {way}",
        needed_bytes=err.needed_bytes,
        budget_bytes=err.budget_bytes,
    )
    better.facts = err.facts
    return better


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
