"""What a plan file says of itself, as the facts of a report; what only its model could tell is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from stowplan.build.costs import constants_of
from stowplan.build.facts import Facts, PortFact, StageFact
from stowplan.build.memory_map import MemoryMap
from stowplan.flow.target import FAST, SLOW
from stowplan.planfile import layout
from stowplan.planfile.reader import PlanView
from stowplan.plugins.records import Port
from stowplan.units import format_size


def facts_of_plan(file: str, plan: PlanView, memory: MemoryMap, pools: Mapping[str, int], flash: int | None) -> Facts:
    """Return the facts of a plan beside budgets (bytes by pool) that need not be those it was made for."""
    cause = _cause(memory, pools, len(plan.data) - flash if flash is not None else 0)
    sizes = Counter({port.dtype: port.size_bytes for port in plan.ports})
    nodes, stages = plan.records("nodes"), plan.records("stages")
    operators = {node["operator"] for node in nodes} - {layout.NOTHING_16}
    return Facts(
        file=file, name=plan.name, dtype="+".join(dtype for dtype, _ in sizes.most_common()), operators=len(operators),
        inputs=tuple(map(_port, plan.inputs)), outputs=tuple(map(_port, plan.outputs)),
        fits=not cause, cause=cause,
        fast_budget_bytes=pools.get("fast"), slow_budget_bytes=pools.get("slow", 0 if pools else None),
        has_slow=plan.slow_bytes > 0, flash_budget_bytes=flash,
        fast_bytes=plan.fast_bytes, slow_bytes=plan.slow_bytes, reserved_bytes=plan.reserved_bytes,
        live_peak_bytes=memory.fast.peak(0, max(1, memory.steps)).size_bytes,
        stages=len(stages), tiled=sum(bool(stage["flags"] & layout.STAGE_TILED) for stage in stages),
        plan_bytes=len(plan.data), weight_bytes=plan.sections["weights"][1],
        compressor="unknown" if plan.flags & layout.FLAG_COMPRESSED else "none",
        xip=bool(plan.flags & layout.FLAG_XIP),
        proof="run and compared when it was compiled" if plan.flags & layout.FLAG_PROVEN else "not proven",
        stage_table=tuple(_stage(plan, memory, index) for index in range(len(stages))),
    )  # fmt: skip


def _cause(memory: MemoryMap, pools: Mapping[str, int], excess_bytes: int) -> str:
    """Say everything that a plan needs more of than it is given; nothing where it fits."""
    needs = [(f"{pool.name} memory", pool.size_bytes, pools.get(pool.name, 0)) for pool in memory.pools if pools]
    over = [
        f"{what} {format_size(need)} needed, {format_size(given)} given" for what, need, given in needs if need > given
    ]
    if excess_bytes > 0:
        over.append(f"the plan is {format_size(excess_bytes)} larger than the flash")
    return "; ".join(over)


def _port(port: Port) -> PortFact:
    return PortFact(
        name=port.name, shape=port.shape, dtype=port.dtype, streamed=port.streamed, rows=port.rows,
        row_bytes=port.row_bytes,
    )  # fmt: skip


def _stage(plan: PlanView, memory: MemoryMap, index: int) -> StageFact:
    stage, nodes, buffers = plan.records("stages")[index], plan.records("nodes"), plan.records("buffers")
    first, last = memory.stages[index]
    numbers = list(dict.fromkeys(firing["node"] for firing in plan.records("firings")[first:last]))
    own = [nodes[number] for number in numbers]
    constants, params = plan.records("constants"), plan.words("params")
    used = {
        constant
        for node in own
        for constant in constants_of(
            plan.node_kind(node["kind"]), params[node["first_param"] : node["first_param"] + node["param_count"]]
        )
        if 0 <= constant < len(constants)
    }
    boxes = [box for box in memory.fast.boxes if box.first < last and box.last > first]
    highest = max(boxes, key=lambda box: box.end_bytes, default=None)
    return StageFact(
        index=index,
        operators=tuple(node["operator"] for node in own if node["operator"] != layout.NOTHING_16),
        kinds=tuple(plan.node_kind(node["kind"]) for node in own),
        tiled=bool(stage["flags"] & layout.STAGE_TILED),
        firings=last - first,
        peak_bytes=highest.end_bytes if highest else 0,
        bound_by=highest.name if highest else "",
        reload_bytes=sum(_copied(plan, node, buffers, SLOW, FAST) for node in own),
        spill_bytes=sum(_copied(plan, node, buffers, FAST, SLOW) for node in own),
        weight_bytes=sum(constants[c]["size_bytes"] for c in used),
        live_peak_bytes=memory.fast.peak(first, last).size_bytes,
    )


def _copied(
    plan: PlanView, node: Mapping[str, int], buffers: list[dict[str, int]], source: int, destination: int
) -> int:
    if node["operator"] != layout.NOTHING_16 or not node["input_count"]:
        return 0
    start, end = buffers[plan.words("operands")[node["first_input"]]], buffers[node["output"]]
    if (start["pool"], end["pool"]) != (source, destination):
        return 0
    return end["rows"] * end["row_bytes"]
