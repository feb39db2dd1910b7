"""Functions of their own for nodes of one plan, so that a compiler knows their shapes: faster and larger.

Each is the shared kernel with the node's parameters as constants, and everything it calls put inside it: there is no
second kernel, and the results are the same.
"""

from __future__ import annotations

from math import prod

from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView

CHOICES = ("none", "hot", "all")
HOT_SHARE = 0.8
"""Of a run's work: `hot` takes the heaviest nodes until they do so much of it."""


def specialized(view: PlanView, name: str, choice: str) -> str:
    """Return the functions, and the one that finds them by the number of a node."""
    if choice == "none":
        return ""
    chosen = sorted(_all(view) if choice == "all" else _hot(view))
    nodes, params = view.records("nodes"), view.words("params")
    kinds = {kind.code: kind.name for kind in NODE_KINDS.values()}
    parts = []
    for number in chosen:
        node = nodes[number]
        words = params[node["first_param"] : node["first_param"] + node["param_count"]]
        parts.append(_FUNCTION.format(name=name, number=number, kind=kinds[node["kind"]], words=_listed(words)))
    entries = "\n".join(f"    case {number}: return {name}_node_{number};" for number in chosen)
    return "\n".join([*parts, _FINDER.format(entries=entries)])


def _all(view: PlanView) -> list[int]:
    """Return the nodes that have weights: for all others there is next to nothing to know."""
    weighted = {kind.code for kind in NODE_KINDS.values() if any(param.name == "weights" for param in kind.params)}
    return [i for i, node in enumerate(view.records("nodes")) if node["kind"] in weighted]


def _hot(view: PlanView) -> list[int]:
    work = {number: _work(view, number) for number in _all(view)}
    left, chosen = HOT_SHARE * sum(work.values()), []
    for number in sorted(work, key=lambda number: -work[number]):
        if left <= 0:
            break
        chosen.append(number)
        left -= work[number]
    return chosen


def _work(view: PlanView, number: int) -> int:
    """Return about how many products a node makes, or bytes where it makes none."""
    node = view.records("nodes")[number]
    kind = next(kind for kind in NODE_KINDS.values() if kind.code == node["kind"])
    buffer = view.records("buffers")[node["output"]]
    given = view.words("params")[node["first_param"] : node["first_param"] + node["param_count"]]
    value = dict(zip((param.name for param in kind.params), given, strict=False))
    depth = "in_c" if "weights" in value and not kind.name.startswith("depthwise") else ""
    each = prod(value.get(word, 1) for word in ("kernel_h", "kernel_w", depth, "features"))
    return int(buffer["rows"] * buffer["row_bytes"] * each)


def _listed(words: tuple[int, ...]) -> str:
    return ", ".join("INT32_MIN" if word == -(2**31) else str(word) for word in words)


_FUNCTION = """\
STOW_ALONE static void {name}_node_{number}(const stow_call *given)
{{
    static const int32_t params[] = {{{words}}};
    stow_call call = *given;
    call.params = params;
    stow_{kind}_run(&call);
}}
"""
_FINDER = """\
static stow_run *stow_specialized(uint32_t node)
{{
    switch (node) {{
{entries}
    default: return NULL;
    }}
}}
"""
