"""What `stowplan inspect` says of a plan: memory, flash, stages, and which plugins made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from stowplan.cli.output import columns, painted, print_json, safe
from stowplan.cli.report import count, streamed
from stowplan.errors import DoesNotFit
from stowplan.flow.model import Model
from stowplan.planfile import layout
from stowplan.planfile.reader import PlanView, read_plan
from stowplan.planfile.text import flags, plan_lines
from stowplan.units import format_shape, format_size

FLAG_TEXTS = {
    "xip": "weights read in place",
    "proven": "proven",
    "names": "all names kept",
    "compressed": "compressed",
    "range": "by the range coder",
    "state": "with state",
    "streamed": "inputs streamed",
}


def show(file: Model, verbose: bool, as_text: bool, as_json: bool) -> int:
    """Print a plan. Raises `PlanError` when it is damaged."""
    plan = read_plan(file.data, file.name)
    if as_text:
        print("\n".join(safe(line) for line in plan_lines(plan)))
    elif as_json:
        print_json(_document(plan, file))
    else:
        blocks = [_heading(plan, file), _memory(plan), _flash(plan), _summary(plan)]
        if verbose:
            blocks[3:3] = [_stages(plan), _nodes(plan)]
        print("\n\n".join("\n".join(block) for block in blocks if block))
    return 0


def check_budgets(file: Model, pools: Mapping[str, int], flash_bytes: int | None) -> None:
    """Raise `DoesNotFit` with everything that a plan needs more of; a memory that is not named has no limit.

    Where only fast memory is named a plan that uses slow memory is refused: there is none.
    """
    plan = read_plan(file.data, file.name)
    budgets = [("fast memory", plan.fast_bytes, pools.get("fast"))]
    budgets.append(("slow memory", plan.slow_bytes, pools.get("slow", 0 if pools else None)))
    budgets.append(("flash", len(plan.data), flash_bytes))
    over = [
        f"{what} needs {format_size(need)}, {format_size(budget)} allowed ({format_size(need - budget)} over)"
        for what, need, budget in budgets
        if budget is not None and need > budget
    ]
    if over:
        raise DoesNotFit(f"{safe(file.name)}: {'; '.join(over)}. Compile the model with these budgets, or allow more")


def _heading(plan: PlanView, file: Model) -> list[str]:
    version = f"plan {plan.number('version_major')}.{plan.number('version_minor')}"
    words = [FLAG_TEXTS[flag] for flag in flags(plan)]
    if "proven" not in words:
        words.insert(0, "not proven")
    ports = [("input", p) for p in plan.inputs] + [("output", p) for p in plan.outputs]
    rows = [(role, p.name, f"{format_shape(p.shape)} {p.dtype}{streamed(p)}") for role, p in ports]
    title = f"{safe(file.name)}   {version} of {safe(plan.name)}, {', '.join(words)}"
    return [painted(title, "bold"), *columns(rows)]


def _memory(plan: PlanView) -> list[str]:
    reserved = f"{format_size(plan.reserved_bytes)} of it for decompressed weights" if plan.reserved_bytes else ""
    rows = [("fast memory", format_size(plan.fast_bytes), reserved)]
    if plan.slow_bytes:
        rows.append(("slow memory", format_size(plan.slow_bytes), ""))
    rows.append(("all memory", format_size(plan.fast_bytes + plan.slow_bytes), ""))
    return [painted("memory", "bold"), *columns(rows)]


def _flash(plan: PlanView) -> list[str]:
    weights = plan.sections["weights"][1]
    rows = [
        ("plan", format_size(len(plan.data))),
        ("weights", format_size(weights)),
        ("overhead", format_size(len(plan.data) - weights)),
    ]
    return [painted("flash", "bold"), *columns(rows)]


def _stages(plan: PlanView) -> list[str]:
    firings, nodes = plan.records("firings"), plan.records("nodes")
    rows = []
    for index, stage in enumerate(plan.records("stages")):
        own = firings[stage["first_firing"] : stage["first_firing"] + stage["firing_count"]]
        kinds = Counter(plan.node_kind(nodes[f["node"]]["kind"]) for f in own if f["node"] < len(nodes))
        tiled = "tiled" if stage["flags"] & layout.STAGE_TILED else ""
        rows.append((str(index), count(len(own), "firing"), tiled, ", ".join(kinds)))
    return [painted("stages", "bold"), *columns(rows, right=frozenset({0}))]


def _nodes(plan: PlanView) -> list[str]:
    buffers, tensors = plan.records("buffers"), plan.records("tensors")
    rows = []
    for index, node in enumerate(plan.records("nodes")):
        operator = "" if node["operator"] == layout.NOTHING_16 else f"operator {node['operator']}"
        name = ""
        if node["output"] < len(buffers) and buffers[node["output"]]["tensor"] < len(tensors):
            name = plan.string(tensors[buffers[node["output"]]["tensor"]]["name"])
        rows.append((str(index), plan.node_kind(node["kind"]), f"{node['units']} units", operator, name))
    return [painted("nodes", "bold"), *columns(rows, right=frozenset({0}))]


def _summary(plan: PlanView) -> list[str]:
    rows = [("stages", f"{_number(plan, 'stages')}, {_tiled(plan)} tiled")]
    rows.append(("firings", f"{_number(plan, 'firings')} of {count(_number(plan, 'nodes'), 'node')}"))
    rows += [(key, _word(value)) for key, value in plan.provenance.items()]
    rows += [("model digest", plan.model_digest), ("plan digest", plan.digest)]
    return columns(rows, indent="")


def _document(plan: PlanView, file: Model) -> dict[str, Any]:
    keys = ("name", "shape", "dtype", "scale", "zero_point", "streamed", "rows", "row_bytes")
    ports = [{key: getattr(port, key) for key in keys} for port in plan.ports]
    split = plan.number("input_count")
    return dict(
        report=1, file=file.name, size_bytes=len(plan.data), name=plan.name,
        version=[plan.number("version_major"), plan.number("version_minor")], flags=flags(plan),
        digest=plan.digest, model_digest=plan.model_digest, graph_digest=plan.graph_digest,
        fast_bytes=plan.fast_bytes, slow_bytes=plan.slow_bytes, reserved_bytes=plan.reserved_bytes,
        weight_bytes=plan.sections["weights"][1], inputs=ports[:split], outputs=ports[split:],
        stages=plan.records("stages"), nodes=[_node(plan, node) for node in plan.records("nodes")],
        buffers=plan.records("buffers"), firings=plan.records("firings"), blocks=plan.records("blocks"),
        provenance=dict(plan.provenance),
    )  # fmt: skip


def _node(plan: PlanView, node: dict[str, int]) -> dict[str, Any]:
    return {**node, "kind": plan.node_kind(node["kind"])}


def _number(plan: PlanView, section: str) -> int:
    return plan.sections[section][2]


def _tiled(plan: PlanView) -> int:
    return sum(stage["flags"] & layout.STAGE_TILED for stage in plan.records("stages"))


def _word(value: object) -> str:
    return value if isinstance(value, str) else repr(value)[:200]
