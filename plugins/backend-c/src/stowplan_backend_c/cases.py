"""Which cases the nodes of a plan come to, so that generated code leaves out what is there only for the others.

The runtime has a macro for each, which is 1 where nobody says otherwise. Sets of kernels pass what they have no fast
way for to the portable one: here is proven that a plan has none of it, from what the runtime checks of any plan
(constants begin at multiples of 16, rows of a multiple of 4 bytes at multiples of 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan.nouns import dataclass
from stowplan.planfile import layout
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView

_NONE = 0xFFFF
_PATCH = 128
"""Elements of a vector that every set takes as a whole: the least of its STOW_MM_PATCH."""


@dataclass(frozen=True, kw_only=True)
class _Node:
    kind: str
    params: Mapping[str, int]
    row_bytes: int
    """Of its first operand."""
    together: bool
    """Whether the rows of that follow each other in memory."""
    accumulates: bool


def cases(view: PlanView) -> dict[str, bool]:
    """Return, by the names of their macros, whether some node of the plan comes to a case."""
    nodes = _nodes(view)

    def any_of(kind: str, case: Callable[[_Node], bool]) -> bool:
        return any(case(node) for node in nodes if node.kind == kind)

    return {
        "STOW_WITH_DSP_MM_FALLBACK": any_of("conv_2d_s8", _conv_is_slow)
        or any_of("fully_connected_s8", _dense_is_slow)
        or any_of("batch_matmul_int", _matmul_is_slow),
        "STOW_WITH_DSP_DEPTHWISE_FALLBACK": any_of("depthwise_conv_2d_s8", _depthwise_is_slow_with_dsp),
        "STOW_WITH_HELIUM_DEPTHWISE_FALLBACK": any_of("depthwise_conv_2d_s8", _depthwise_is_slow_with_helium),
        "STOW_WITH_ADD_FALLBACK": any_of("add_s8", _add_is_slow),
        "STOW_WITH_DILATED_COLUMNS": any_of("conv_2d_s8", lambda node: node.params["dilation_w"] != 1),
        "STOW_WITH_LONG_VECTORS": any(_keeps_sums(node) for node in nodes),
        "STOW_WITH_ROWS_APART": any_of("fully_connected_s8", _lies_apart),
        "STOW_WITH_ACCUMULATORS": any(node.accumulates for node in nodes),
    }


def _nodes(view: PlanView) -> list[_Node]:
    kinds = {kind.code: kind for kind in NODE_KINDS.values()}
    words, operands, buffers = view.words("params"), view.words("operands"), view.records("buffers")
    found = []
    for node in view.records("nodes"):
        kind = kinds[node["kind"]]
        given = words[node["first_param"] : node["first_param"] + node["param_count"]]
        first = operands[node["first_input"]] if node["input_count"] > 0 else None
        found.append(
            _Node(
                kind=kind.name,
                params=dict(zip((param.name for param in kind.params), given, strict=False)),
                row_bytes=buffers[first]["row_bytes"] if first is not None else 0,
                together=first is not None and _is_together(buffers[first]),
                accumulates=node["accumulator"] != _NONE,
            )
        )
    return found


def _is_together(buffer: Mapping[str, int]) -> bool:
    if buffer["pool"] == layout.POOL_CONSTANT:
        return True
    follows = buffer["rows"] == 1 or buffer["stride"] == buffer["row_bytes"]
    return not buffer["flags"] & layout.BUFFER_TABLE and buffer["height"] >= buffer["rows"] and follows


def _lies_apart(node: _Node) -> bool:
    return not node.together or node.params["features"] != node.params["weights_step"]


def _keeps_sums(node: _Node) -> bool:
    """Whether sums are not yet outputs: of vectors that come in parts, and of all products of two computed matrices."""
    if node.kind in ("conv_2d_s8", "fully_connected_s8"):
        return node.params["weights_step"] > _PATCH
    return node.kind == "batch_matmul_int"


def _conv_is_slow(node: _Node) -> bool:
    """Vectors are read where they lie only if a kernel has one row; else from a patch, which is aligned."""
    p = node.params
    in_place = p["kernel_h"] == 1 and p["in_c"] % 4 != 0
    return not p["bounded"] or p["weights_step"] % 4 != 0 or in_place


def _dense_is_slow(node: _Node) -> bool:
    p = node.params
    in_place = p["features"] == p["weights_step"] and node.row_bytes % 4 != 0
    return not p["bounded"] or p["weights_step"] % 4 != 0 or in_place


def _matmul_is_slow(node: _Node) -> bool:
    """Rows of the first matrix are read where they lie."""
    return node.params["k"] % 4 != 0 or node.row_bytes % 4 != 0


def _depthwise_is_slow_with_dsp(node: _Node) -> bool:
    p = node.params
    square = p["kernel_h"] == p["kernel_w"] == 3 and p["dilation_h"] == p["dilation_w"] == 1
    plain = p["in_c"] == p["out_c"] and p["in_c"] % 4 == 0 and p["weights_step"] % 4 == 0
    return not (p["bounded"] and square and plain)


def _depthwise_is_slow_with_helium(node: _Node) -> bool:
    p = node.params
    return p["in_c"] != p["out_c"] or p["in_c"] % 8 != 0 or p["kernel_h"] * p["kernel_w"] > 25


def _add_is_slow(node: _Node) -> bool:
    p = node.params
    operands = all(-31 <= p[shift] <= 0 for shift in ("a_shift", "b_shift"))
    return not (operands and -32 <= p["output_shift"] <= -1)
