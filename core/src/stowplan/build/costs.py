"""What each node of a plan costs, as far as the plan itself says it: firings, multiplications, weights, bytes made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from stowplan.nouns import dataclass
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView

_WINDOWED = ("conv_2d", "depthwise_conv_2d")


@dataclass(frozen=True, kw_only=True)
class NodeCost:
    """One node: its kernel, the tensor it makes, and what that takes in one run.

    `macs` are multiplications with weights, None for kernels that have none. `duration_us` is there when it was
    measured.
    """

    index: int
    kind: str
    tensor: str
    firings: int
    output_bytes: int
    weight_bytes: int
    macs: int | None
    duration_us: float | None = None


def node_costs(plan: PlanView) -> tuple[NodeCost, ...]:
    """Return the cost of each node in the order of the plan."""
    nodes, buffers = plan.records("nodes"), plan.records("buffers")
    firings = Counter(firing["node"] for firing in plan.records("firings"))
    tensors, constants = plan.records("tensors"), plan.records("constants")
    dims, params = plan.words("dims"), plan.words("params")
    found = []
    for index, node in enumerate(nodes):
        output = buffers[node["output"]]
        name, elements = "", 0
        if output["tensor"] < len(tensors):
            tensor = tensors[output["tensor"]]
            name = plan.string(tensor["name"])
            elements = prod(dims[tensor["first_dim"] : tensor["first_dim"] + tensor["rank"]])
        kind = plan.node_kind(node["kind"])
        words = params[node["first_param"] : node["first_param"] + node["param_count"]]
        used = [c for c in constants_of(kind, words) if 0 <= c < len(constants)]
        found.append(
            NodeCost(
                index=index, kind=kind, tensor=name, firings=firings[index],
                output_bytes=output["rows"] * output["row_bytes"],
                weight_bytes=sum(constants[c]["size_bytes"] for c in used),
                macs=_macs(kind, _parameters(kind, words), elements),
            )
        )  # fmt: skip
    return tuple(found)


def constants_of(kind: str, words: Sequence[int]) -> list[int]:
    """Return which constants a node of a kind uses, given its parameters; -1 stands for none."""
    known = NODE_KINDS[kind].params if kind in NODE_KINDS else ()
    return [word for param, word in zip(known, words, strict=False) if param.type == "const"]


def _parameters(kind: str, words: Sequence[int]) -> dict[str, int]:
    known = NODE_KINDS[kind].params if kind in NODE_KINDS else ()
    return {param.name: word for param, word in zip(known, words, strict=False)}


def _macs(kind: str, values: dict[str, int], elements: int) -> int | None:
    """Return the multiplications with weights for `elements` of output; padding counts as if it were there."""
    if kind.startswith("fully_connected"):
        return elements * values["features"]
    if kind.startswith(_WINDOWED):
        each = values["kernel_h"] * values["kernel_w"]
        return elements * each * (1 if kind.startswith("depthwise") else values["in_c"] // values.get("groups", 1))
    return None
