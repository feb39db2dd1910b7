"""Fills in the facts of a report from nouns: the model's, the plan's, and those of a refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stowplan.build.facts import Facts, PortFact, StageFact
from stowplan.build.rows import Form, Layout
from stowplan.errors import DoesNotFit, StowplanError
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import NONE, Schedule, slow_traffic
from stowplan.flow.target import FAST, SLOW, Pool, Target
from stowplan.nouns import replace
from stowplan.plugins.host import Host
from stowplan.plugins.kinds import Metrics, ScheduleOptions

BASELINE = "greedy"
"""The scheduler that plans like TFLite Micro: the report's first row."""


def model_facts(model: Model, graph: Graph, target: Target, plugins: Host) -> Facts:
    """Return what is known before anything is scheduled."""
    activations = [*graph.inputs, *(o for op in graph.operators for o in op.outputs)]
    largest = max(activations, key=lambda t: graph.tensors[t].size_bytes, default=None)
    baseline = _baseline(graph, plugins)
    return Facts(
        file=model.name,
        name=graph.name,
        dtype=_dtype(graph, activations),
        operators=len(graph.operators),
        inputs=tuple(_port(graph, t) for t in graph.entries),
        outputs=tuple(_port(graph, t) for t in graph.exits),
        notes=graph.notes,
        fast_budget_bytes=target.fast.size_bytes,
        slow_budget_bytes=target.slow.size_bytes if target.slow else None,
        has_slow=target.slow is not None,
        flash_budget_bytes=target.flash_bytes,
        tflite_micro_bytes=baseline.pool_bytes[FAST] if baseline else None,
        unscheduled_bytes=baseline.live_peak_bytes[FAST] if baseline else 0,
        largest_tensor_bytes=graph.tensors[largest].size_bytes if largest is not None else 0,
        largest_tensor_shape=graph.tensors[largest].shape if largest is not None else (),
        weight_bytes=sum(len(data) for data in graph.constants.values()),
    )


def streamed_facts(facts: Facts, layout: Layout, streamed: Sequence[int]) -> Facts:
    """Return the facts with how the rows of streamed inputs come; the graph may have them as the model has not."""
    graph = layout.graph
    ports = zip(facts.inputs, graph.entries, strict=True)
    inputs = tuple(
        replace(_arriving(port, layout.form(t)), shape=graph.tensors[t].shape) if t in streamed else port
        for port, t in ports
    )
    return replace(facts, inputs=inputs, notes=graph.notes)


def _arriving(port: PortFact, form: Form, turns: int = 1) -> PortFact:
    return replace(port, streamed=True, rows=form.rows, row_bytes=form.row_bytes, turns=turns)


def plan_facts(facts: Facts, plan: Plan, data: bytes) -> Facts:
    """Return the facts with what a plan says: memory, stages, flash."""
    schedule = plan.schedule
    arrivals = [schedule.buffers[node.output] for node in schedule.nodes if node.is_arrival]
    forms = {buffer.tensor: Form(buffer.rows, buffer.row_bytes) for buffer in arrivals}
    numbers = Counter(lowered.params["input"] for lowered in plan.lowered if lowered.kind == "receive")
    turns = {tensor: numbers[number] for number, tensor in enumerate(plan.graph.entries)}
    ports = zip(facts.inputs, plan.graph.entries, strict=True)
    return replace(
        facts,
        inputs=tuple(
            _arriving(port, forms[tensor], turns[tensor]) if tensor in forms else port for port, tensor in ports
        ),
        fits=True,
        fast_bytes=schedule.pool_bytes[FAST],
        live_peak_bytes=schedule.live_peak_bytes[FAST],
        lower_bound_bytes=schedule.lower_bound_bytes,
        certificate=schedule.certificate,
        slow_bytes=schedule.pool_bytes[SLOW] if len(schedule.pool_bytes) > 1 else 0,
        reserved_bytes=schedule.weights_reserved_bytes,
        stages=len(schedule.regions),
        tiled=sum(region.tiled for region in schedule.regions),
        plan_bytes=len(data),
        weight_bytes=plan.weight_bytes,  # of the model's, what is left: channels that nobody reads are not stored
        stage_table=stage_table(plan),
    )


def refused(facts: Facts, error: DoesNotFit) -> Facts:
    return replace(facts, fits=False, cause=error.cause)


def proof_line(runs: Sequence[Metrics]) -> str:
    """Say how the plan was proven, or that it was not."""
    if not runs:
        return "not proven (--no-prove)"
    return f"equal to the untiled schedule, bit for bit, on {len(runs)} random inputs in arenas of exactly this size"


def stage_table(plan: Plan) -> tuple[StageFact, ...]:
    """Return one row per stage: what runs in it, what it needs, and what it moves to and from slow memory."""
    return tuple(_stage(plan, index) for index in range(len(plan.schedule.regions)))


def _stage(plan: Plan, index: int) -> StageFact:
    schedule, graph = plan.schedule, plan.graph
    region = schedule.regions[index]
    numbers = dict.fromkeys(f.node for f in schedule.firings[region.first : region.last])
    nodes = [schedule.nodes[n] for n in numbers]
    operators = tuple(n.operator for n in nodes if n.operator is not None)
    peak, bound_by = _peak(schedule, graph, region.first, region.last)
    constants = {t for o in operators for t in graph.operators[o].inputs if t >= 0 and not graph.is_activation(t)}
    return StageFact(
        index=index,
        operators=operators,
        kinds=tuple(graph.operators[o].kind for o in operators),
        tiled=region.tiled,
        firings=region.last - region.first,
        peak_bytes=peak,
        bound_by=bound_by,
        reload_bytes=sum(slow_traffic(schedule, n)[0] for n in nodes),
        spill_bytes=sum(slow_traffic(schedule, n)[1] for n in nodes),
        weight_bytes=sum(graph.tensors[t].size_bytes for t in constants),
    )


def _peak(schedule: Schedule, graph: Graph, first: int, last: int) -> tuple[int, str]:
    """Return how high the stage's segments reach in the fast pool, and the operator whose segment is the highest."""
    height, name = 0, ""
    for firing in schedule.firings[first:last]:
        node = schedule.nodes[firing.node]
        for index in (*node.inputs, node.output, node.accumulator):
            if index == NONE or schedule.buffers[index].pool != FAST:
                continue
            buffer = schedule.buffers[index]
            end = max(buffer.offsets) + buffer.row_bytes
            if end > height:
                height, name = end, graph.tensors[buffer.tensor].name
    return height, name


def _baseline(graph: Graph, plugins: Host) -> Schedule | None:
    """Schedule like TFLite Micro with no budget; None when no plugin offers that."""
    if BASELINE not in plugins.schedulers():
        return None
    unlimited = Target(pools=(Pool(name="fast", size_bytes=None),))
    try:
        return plugins.schedulers()[BASELINE].schedule(graph, unlimited, ScheduleOptions())
    except StowplanError:
        return None  # a row of the report, no reason to refuse the model


def _dtype(graph: Graph, activations: Sequence[int]) -> str:
    """Name the type most activation bytes have, and the others."""
    sizes: Counter[str] = Counter()
    for tensor in activations:
        sizes[graph.tensors[tensor].dtype] += graph.tensors[tensor].size_bytes
    return "+".join(dtype for dtype, _ in sizes.most_common())


def _port(graph: Graph, tensor: int) -> PortFact:
    found = graph.tensors[tensor]
    return PortFact(name=found.name, shape=found.shape, dtype=found.dtype)
