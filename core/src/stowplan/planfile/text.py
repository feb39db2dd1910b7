"""The text form of a plan file: every table, one line per record; for diffs, golden tests and bug reports."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from stowplan.errors import PlanError
from stowplan.planfile import layout
from stowplan.planfile.reader import PlanView

FLAG_NAMES = {
    layout.FLAG_XIP: "xip",
    layout.FLAG_PROVEN: "proven",
    layout.FLAG_NAMES: "names",
    layout.FLAG_COMPRESSED: "compressed",
    layout.FLAG_RANGE: "range",
    layout.FLAG_STATE: "state",
    layout.FLAG_STREAMED: "streamed",
}
POOLS = {0: "fast", 1: "slow", layout.POOL_CONSTANT: "constant"}


def plan_lines(plan: PlanView) -> Iterator[str]:
    """Yield the lines. Raises `PlanError` where an index leads nowhere."""
    yield f"plan {plan.number('version_major')}.{plan.number('version_minor')} {plan.name!r}"
    yield f"digest {plan.digest}"
    yield f"model {plan.model_digest}"
    yield f"graph {plan.graph_digest}"
    yield f"flags {' '.join(flags(plan)) or 'none'}"
    yield f"memory fast {plan.fast_bytes} slow {plan.slow_bytes} reserved {plan.reserved_bytes}"
    for role, ports in (("input", plan.inputs), ("output", plan.outputs)):
        for port in ports:
            streamed = " streamed" if port.streamed else ""
            yield f"{role} {port.dtype}[{','.join(map(str, port.shape))}] {port.name!r}{streamed}"
    for index, buffer in enumerate(plan.records("buffers")):
        yield f"buffer {index} {_buffer(plan, buffer)}"
    for index, node in enumerate(plan.records("nodes")):
        yield f"node {index} {_node(plan, node)}"
    yield from _stages(plan)
    for index, constant in enumerate(plan.records("constants")):
        where = "" if constant["block"] == layout.NOTHING_32 else f" in block {constant['block']}"
        yield f"constant {index} {constant['size_bytes']} bytes at {constant['offset_bytes']}{where}"
    for index, block in enumerate(plan.records("blocks")):
        where = f"{block['packed_bytes']} bytes at {block['offset_bytes']}"
        yield f"block {index} {where}, {block['unpacked_bytes']} unpacked"
    for index, state in enumerate(plan.records("states")):
        first = "zeros" if state["initial"] == layout.NOTHING_32 else f"constant {state['initial']}"
        yield f"state {index} buffer {state['before']} from buffer {state['after']}, first {first}"
    start, size, _ = plan.sections["weights"]
    yield f"weights {size} bytes {sha256(plan.data[start : start + size]).hexdigest()[:16]}"


def flags(plan: PlanView) -> list[str]:
    """Return the words for a plan's flags."""
    return [word for flag, word in FLAG_NAMES.items() if plan.flags & flag]


def _buffer(plan: PlanView, buffer: dict[str, int]) -> str:
    pool = POOLS.get(buffer["pool"], f"pool {buffer['pool']}")
    size = f"{buffer['rows']} rows of {buffer['row_bytes']} bytes"
    tensor = "" if buffer["tensor"] == layout.NOTHING_16 else f"tensor {buffer['tensor']} "
    if buffer["pool"] == layout.POOL_CONSTANT:
        return f"{pool} {size} constant {buffer['base']}"
    accumulator = " accumulator" if buffer["flags"] & layout.BUFFER_ACCUMULATOR else ""
    if buffer["flags"] & layout.BUFFER_TABLE:
        offsets = plan.words("row_offsets")[buffer["base"] : buffer["base"] + buffer["rows"]]
        return f"{tensor}{pool} {size} at {','.join(map(str, offsets))}{accumulator}"
    return f"{tensor}{pool} {size} at {buffer['base']} stride {buffer['stride']} height {buffer['height']}{accumulator}"


def _node(plan: PlanView, node: dict[str, int]) -> str:
    inputs = plan.words("operands")[node["first_input"] : node["first_input"] + node["input_count"]]
    params = plan.words("params")[node["first_param"] : node["first_param"] + node["param_count"]]
    if len(inputs) != node["input_count"] or len(params) != node["param_count"]:
        raise PlanError("the plan is damaged: a node's inputs or parameters lie outside it")
    sources = ", ".join("-" if i == layout.NOTHING_16 else f"buffer {i}" for i in inputs)
    partial = "" if node["accumulator"] == layout.NOTHING_16 else f" partial sums in buffer {node['accumulator']}"
    by = " by input rows" if node["flags"] & layout.NODE_BY_INPUT else ""
    words = f" params {' '.join(map(str, params))}" if params else ""
    kind = plan.node_kind(node["kind"])
    return f"buffer {node['output']} = {kind}({sources}) {node['units']} units{by}{partial}{words}"


def _stages(plan: PlanView) -> Iterator[str]:
    firings = plan.records("firings")
    for index, stage in enumerate(plan.records("stages")):
        tiled = " tiled" if stage["flags"] & layout.STAGE_TILED else ""
        block = "" if stage["block"] == layout.NOTHING_16 else f" block {stage['block']}"
        yield f"stage {index}{tiled}{block}"
        for firing in firings[stage["first_firing"] : stage["first_firing"] + stage["firing_count"]]:
            yield f"  fire node {firing['node']} units {firing['first']}..{firing['first'] + firing['count']}"
