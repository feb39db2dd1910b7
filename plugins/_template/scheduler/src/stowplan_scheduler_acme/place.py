"""Places whole tensors: each at the lowest offset where nothing lies that lives at the same time."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.build.rows import Layout
from stowplan.errors import DoesNotFit, UsageError
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Region, Schedule
from stowplan.flow.target import Target
from stowplan.plugins.kinds import ScheduleOptions

ALIGNMENT = 16


def schedule(graph: Graph, target: Target, options: ScheduleOptions, name: str) -> Schedule:
    """Return a schedule in the fast pool. Raises `DoesNotFit` where that is too small."""
    if options.streamed_inputs:
        raise UsageError(f"scheduler {name} keeps whole tensors, it cannot stream inputs. Try --scheduler stream")
    lives = lifetimes(graph)
    floor = aligned(options.weights_reserved_bytes)
    offsets = places(graph, lives, floor)
    height = max([floor, *(offset + size(graph, tensor) for tensor, offset in offsets.items())])
    budget = target.fast.size_bytes
    if budget is not None and height > budget:
        raise DoesNotFit(
            f"whole tensors need {height} bytes, {height - budget} more than there are. Try --scheduler stream",
            needed_bytes=height,
            budget_bytes=budget,
        )
    return written(graph, target, options, name, offsets, height, lives)


def lifetimes(graph: Graph) -> dict[int, tuple[int, int]]:
    """Return for each activation the steps [first, last) in which it must exist; operator i runs in step i + 1."""
    end = len(graph.operators) + 2
    lives = dict.fromkeys(graph.inputs, (0, 1))
    for step, operator in enumerate(graph.operators, 1):
        for tensor in operator.outputs:
            lives[tensor] = (step, step + 1)
        for tensor in operator.inputs:
            if tensor in lives:
                lives[tensor] = (lives[tensor][0], step + 1)
    for tensor in graph.outputs:
        lives[tensor] = (lives[tensor][0], end)
    return lives


def places(graph: Graph, lives: Mapping[int, tuple[int, int]], floor: int) -> dict[int, int]:
    """Return an offset for each tensor so that no two alive together overlap. Inputs are all there from the start."""
    offsets: dict[int, int] = {}
    for tensor, (first, last) in sorted(lives.items(), key=lambda item: (item[1][0], item[0])):
        offset = floor
        alive = [other for other in offsets if lives[other][0] < last and first < lives[other][1]]
        for other in sorted(alive, key=lambda o: offsets[o]):
            end = offsets[other] + size(graph, other)
            if offsets[other] < offset + size(graph, tensor) and offset < end:
                offset = end
        offsets[tensor] = offset
    return offsets


def written(
    graph: Graph, target: Target, options: ScheduleOptions, name: str,
    offsets: Mapping[int, int], height: int, lives: Mapping[int, tuple[int, int]],
) -> Schedule:  # fmt: skip
    """Return the decisions in the form that core checks and lowers."""
    layout, numbers = Layout(graph), {tensor: number for number, tensor in enumerate(offsets)}
    buffers = []
    for tensor, offset in offsets.items():
        form = layout.form(tensor)
        rows = tuple(offset + row * form.row_bytes for row in range(form.rows))
        buffers.append(Buffer(tensor=tensor, pool=0, rows=form.rows, row_bytes=form.row_bytes, offsets=rows))
    nodes = []
    for index, operator in enumerate(graph.operators):
        output, units = numbers[operator.outputs[0]], layout.units(index)
        count = buffers[output].rows if layout.is_view(operator) else units.count
        inputs = tuple(numbers.get(tensor, NONE) for tensor in operator.inputs)
        nodes.append(Node(operator=index, inputs=inputs, output=output, units=count, by_input=units.by_input))
    steps = range(len(graph.operators) + 2)
    peak = max(sum(graph.tensors[t].size_bytes for t, (a, b) in lives.items() if a <= step < b) for step in steps)
    return Schedule(
        graph_digest=graph.digest,
        target=target,
        scheduler=name,
        buffers=tuple(buffers),
        nodes=tuple(nodes),
        firings=tuple(Firing(node=number, first=0, last=node.units) for number, node in enumerate(nodes)),
        regions=regions(graph, options.stage_weight_bytes),
        interface=tuple((tensor, numbers[tensor]) for tensor in (*graph.inputs, *graph.outputs)),
        pool_bytes=(height, 0)[: len(target.pools)],
        live_peak_bytes=(peak, 0)[: len(target.pools)],
        weights_reserved_bytes=options.weights_reserved_bytes,
    )


def regions(graph: Graph, most_bytes: int | None) -> tuple[Region, ...]:
    """Return one stage, or as many as keep the constants of each within the limit."""
    cuts, held = [0], 0
    for index, operator in enumerate(graph.operators):
        constants = {t for t in operator.inputs if t >= 0 and not graph.is_activation(t)}
        weight = sum(graph.tensors[t].size_bytes for t in constants)
        if most_bytes is not None and held and held + weight > most_bytes:
            cuts.append(index)
            held = 0
        held += weight
    ends = [*cuts[1:], len(graph.operators)]
    return tuple(Region(first=first, last=last, tiled=False) for first, last in zip(cuts, ends, strict=True))


def size(graph: Graph, tensor: int) -> int:
    return aligned(graph.tensors[tensor].size_bytes)


def aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT
