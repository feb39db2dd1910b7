"""TFLite Micro's greedy memory planner (greedy_memory_planner.cc, micro_allocation_info.cc), as a scheduler.

Sizes are rounded up to 16 bytes; tensors are placed largest first, equal ones last in the file first, each in the
first gap between those alive at the same time. Inputs live from step 0, outputs to the last step, and both ends of a
life are inclusive. Kernel scratch buffers are not counted: they are the rival's business.
"""

from __future__ import annotations

from stowplan.build.arena import Box, live_peak
from stowplan.build.rows import Layout
from stowplan.errors import DoesNotFit, UsageError
from stowplan.flow.graph import ABSENT, Graph
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Region, Schedule
from stowplan.flow.target import Target
from stowplan.nouns import dataclass
from stowplan.plugins.kinds import ScheduleOptions
from stowplan.units import format_size

_ALIGNMENT = 16


@dataclass
class _Life:
    first: int
    last: int


def schedule(graph: Graph, target: Target, options: ScheduleOptions, name: str) -> Schedule:
    """Return the baseline's schedule, all of it in the fast pool. Raises `DoesNotFit` when that is too small,
    `UsageError` when inputs are to be streamed.
    """
    if options.streamed_inputs:
        raise UsageError("scheduler greedy keeps whole tensors, it cannot stream inputs. Try --scheduler stream")
    layout = Layout(graph)
    lives = _lives(graph)
    offsets, height = _plan(graph, lives, options.weights_reserved_bytes)
    capacity = target.fast.size_bytes
    if capacity is not None and height > capacity:
        raise DoesNotFit(
            f"1 stage exceeds it: {format_size(height)} needed by whole tensors. Try --scheduler stream",
            needed_bytes=height,
            budget_bytes=capacity,
        )
    return _schedule(graph, layout, target, options, name, offsets, height, lives)


def _lives(graph: Graph) -> dict[int, _Life]:
    """Return the first and last step of each activation; step 0 is before the first operator."""
    lives = {tensor: _Life(0, 0) for tensor in graph.inputs}
    for step, operator in enumerate(graph.operators, 1):
        for tensor in operator.outputs:
            lives.setdefault(tensor, _Life(step, step))
        for tensor in operator.inputs:
            if tensor in lives:
                lives[tensor].last = step
    for tensor in graph.outputs:
        lives[tensor].last = len(graph.operators)
    return lives


def _plan(graph: Graph, lives: dict[int, _Life], floor_bytes: int) -> tuple[dict[int, int], int]:
    floor = -(-floor_bytes // _ALIGNMENT) * _ALIGNMENT
    sizes = {t: -(-graph.tensors[t].size_bytes // _ALIGNMENT) * _ALIGNMENT for t in lives}
    offsets: dict[int, int] = {}
    for tensor in sorted(lives, key=lambda t: (-sizes[t], -t)):
        offset = floor
        together = (t for t in offsets if lives[t].first <= lives[tensor].last and lives[tensor].first <= lives[t].last)
        for other in sorted(together, key=lambda t: offsets[t]):
            if offsets[other] - offset >= sizes[tensor]:
                break
            offset = max(offset, offsets[other] + sizes[other])
        offsets[tensor] = offset
    height = max((offsets[t] + sizes[t] for t in offsets), default=floor)
    return offsets, height


def _schedule(
    graph: Graph, layout: Layout, target: Target, options: ScheduleOptions, name: str,
    offsets: dict[int, int], height: int, lives: dict[int, _Life],
) -> Schedule:  # fmt: skip
    numbers = {tensor: index for index, tensor in enumerate(offsets)}
    buffers = []
    for tensor, offset in offsets.items():
        form = layout.form(tensor)
        rows = tuple(range(offset, offset + form.size_bytes, form.row_bytes)) or (offset,)
        buffers.append(Buffer(tensor=tensor, pool=0, rows=form.rows, row_bytes=form.row_bytes, offsets=rows))
    nodes = []
    for index, operator in enumerate(graph.operators):
        units = layout.units(index)
        inputs = tuple(numbers.get(t, NONE) if t != ABSENT else NONE for t in operator.inputs)
        output = numbers[operator.outputs[0]]
        count = buffers[output].rows if layout.is_view(operator) else units.count
        nodes.append(Node(operator=index, inputs=inputs, output=output, units=count, by_input=units.by_input))
    boxes = [Box(lives[t].first, lives[t].last + 1, graph.tensors[t].size_bytes) for t in offsets]
    return Schedule(
        graph_digest=graph.digest,
        target=target,
        scheduler=name,
        buffers=tuple(buffers),
        nodes=tuple(nodes),
        firings=tuple(Firing(node=i, first=0, last=node.units) for i, node in enumerate(nodes)),
        regions=_regions(graph, options),
        interface=tuple((t, numbers[t]) for t in (*graph.inputs, *graph.outputs)),
        pool_bytes=(height, 0)[: len(target.pools)],
        live_peak_bytes=(live_peak(boxes), 0)[: len(target.pools)],
        weights_reserved_bytes=options.weights_reserved_bytes,
    )


def _regions(graph: Graph, options: ScheduleOptions) -> tuple[Region, ...]:
    """One stage, or as many as keep the constants of each within the limit."""
    cuts, held = [0], 0
    for index, operator in enumerate(graph.operators):
        weight = sum(graph.tensors[t].size_bytes for t in operator.inputs if t != ABSENT and not graph.is_activation(t))
        if options.stage_weight_bytes is not None and held and held + weight > options.stage_weight_bytes:
            cuts.append(index)
            held = 0
        held += weight
    ends = [*cuts[1:], len(graph.operators)]
    return tuple(Region(first=a, last=b, tiled=False) for a, b in zip(cuts, ends, strict=True))
