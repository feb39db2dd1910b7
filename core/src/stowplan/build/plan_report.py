"""What a plan file says of itself, as the facts of a report; what only its model could tell is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

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
        stage_table=tuple(map(_Stages(plan, memory).fact, range(len(stages)))),
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


class _Stages:
    """Reads a plan's tables once, and says of each stage what it runs and needs."""

    def __init__(self, plan: PlanView, memory: MemoryMap) -> None:
        self.plan, self.memory = plan, memory
        self.stages, self.nodes, self.buffers = (plan.records(table) for table in ("stages", "nodes", "buffers"))
        self.firings, self.constants = plan.records("firings"), plan.records("constants")
        self.params, self.operands = plan.words("params"), plan.words("operands")

    def fact(self, index: int) -> StageFact:
        first, last = self.memory.stages[index]
        own = [self.nodes[number] for number in dict.fromkeys(f["node"] for f in self.firings[first:last])]
        boxes = [box for box in self.memory.fast.boxes if box.first < last and box.last > first]
        highest = max(boxes, key=lambda box: box.end_bytes, default=None)
        return StageFact(
            index=index,
            operators=tuple(node["operator"] for node in own if node["operator"] != layout.NOTHING_16),
            kinds=tuple(self.plan.node_kind(node["kind"]) for node in own),
            tiled=bool(self.stages[index]["flags"] & layout.STAGE_TILED),
            firings=last - first,
            peak_bytes=highest.end_bytes if highest else 0,
            bound_by=highest.name if highest else "",
            reload_bytes=sum(self._copied(node, SLOW, FAST) for node in own),
            spill_bytes=sum(self._copied(node, FAST, SLOW) for node in own),
            weight_bytes=self._weights(own),
            live_peak_bytes=self.memory.fast.peak(first, last).size_bytes,
        )

    def _weights(self, nodes: Sequence[Mapping[str, int]]) -> int:
        used: set[int] = set()
        for node in nodes:
            words = self.params[node["first_param"] : node["first_param"] + node["param_count"]]
            used.update(constants_of(self.plan.node_kind(node["kind"]), words))
        return sum(self.constants[c]["size_bytes"] for c in used if 0 <= c < len(self.constants))

    def _copied(self, node: Mapping[str, int], source: int, destination: int) -> int:
        if node["operator"] != layout.NOTHING_16 or not node["input_count"]:
            return 0
        start, end = self.buffers[self.operands[node["first_input"]]], self.buffers[node["output"]]
        if (start["pool"], end["pool"]) != (source, destination):
            return 0
        return end["rows"] * end["row_bytes"]
