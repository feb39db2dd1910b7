"""Which operators of a graph the C runtime has kernels for."""

from __future__ import annotations

from stowplan.build.lower import lower
from stowplan.build.rows import Layout
from stowplan.errors import UnsupportedError
from stowplan.flow.graph import Graph
from stowplan.plugins.kinds import Coverage


def coverage(graph: Graph) -> Coverage:
    """Say for each operator whether it can be lowered to a kernel, and why not."""
    layout = Layout(graph)
    reasons: dict[int, str] = {}
    for index, operator in enumerate(graph.operators):
        if layout.is_view(operator):
            continue  # costs nothing: its output is its input
        try:
            lower(graph, layout, index)
        except UnsupportedError as err:
            reasons[index] = str(err)
    taken = tuple(index for index in range(len(graph.operators)) if index not in reasons)
    return Coverage(taken=taken, reasons=reasons)
