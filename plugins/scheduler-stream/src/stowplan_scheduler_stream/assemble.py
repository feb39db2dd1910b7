"""From placed regions to a schedule: buffers, nodes and firings, and where spilled tensors lie in slow memory."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build.arena import Box, live_peak, place
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Region, Schedule
from stowplan.flow.target import FAST, SLOW, Target
from stowplan.nouns import dataclass, replace
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.packing import Packed
from stowplan_scheduler_stream.region import NOWHERE, RECEIVE, RELOAD, SPILL, RegionOrder, Work
from stowplan_scheduler_stream.steps import Crossing


@dataclass(frozen=True)
class Placed:
    """A region with an order and offsets, and what crosses its borders."""

    steps: range
    order: RegionOrder
    packed: Packed
    crossing: Crossing


def assemble(
    network: Network, target: Target, options: ScheduleOptions, name: str, regions: Sequence[Placed]
) -> Schedule:
    """Return the schedule that runs the regions one after another."""
    return _Assembly(network, target, options, name).run(regions)


class _Assembly:
    def __init__(self, network: Network, target: Target, options: ScheduleOptions, name: str) -> None:
        self.network, self.target, self.options, self.name = network, target, options, name
        self.buffers: list[Buffer] = []
        self.nodes: list[Node] = []
        self.firings: list[Firing] = []
        self.regions: list[Region] = []
        self.slow: dict[int, int] = {}
        self.slow_life: dict[int, tuple[int, int]] = {}
        self.resident: dict[int, int] = {}
        self.received: dict[int, int] = {}

    def run(self, regions: Sequence[Placed]) -> Schedule:
        spilled = dict.fromkeys(t for placed in regions for t in placed.crossing.slow)
        if spilled:
            spilled.update(dict.fromkeys(self.network.unread))
        for tensor in spilled:
            stuff = self.network.stuff(tensor)
            self.slow[tensor] = len(self.buffers)
            offsets = tuple(range(0, stuff.size_bytes, stuff.row_bytes))
            self.buffers.append(
                Buffer(tensor=tensor, pool=SLOW, rows=stuff.rows, row_bytes=stuff.row_bytes, offsets=offsets)
            )
        for placed in regions:
            self._region(placed)
        slow_bytes, slow_peak = self._place_slow()
        fast_bytes = max([self.options.weights_reserved_bytes, *(p.packed.height_bytes for p in regions)])
        fast_peak = max([0, *(p.packed.live_peak_bytes for p in regions)])
        pools = len(self.target.pools)
        return Schedule(
            graph_digest=self.network.graph.digest,
            target=self.target,
            scheduler=self.name,
            buffers=tuple(self.buffers),
            nodes=tuple(self.nodes),
            firings=tuple(self.firings),
            regions=tuple(self.regions),
            interface=self._interface(),
            pool_bytes=(fast_bytes, slow_bytes)[:pools],
            live_peak_bytes=(fast_peak, slow_peak)[:pools],
            weights_reserved_bytes=self.options.weights_reserved_bytes,
        )

    def _region(self, placed: Placed) -> None:
        order, start = placed.order, len(self.firings)
        fast: dict[int, int] = {}
        accumulators: dict[int, int] = {}
        for span, offsets in zip(order.spans, placed.packed.offsets, strict=True):
            if span.accumulator_of >= 0:
                size = self.network.steps[span.accumulator_of].accumulator_bytes
                accumulators[span.accumulator_of] = len(self.buffers)
                buffer = Buffer(
                    tensor=span.tensor, pool=FAST, rows=1, row_bytes=size, offsets=offsets, accumulator=True
                )
            else:
                stuff = self.network.stuff(span.tensor)
                fast[span.tensor] = len(self.buffers)
                if span.tensor in self.network.turns and span.tensor not in order.brought:
                    turn = self.network.turns[span.tensor]
                    offsets = tuple(offset for _, offset in sorted(zip(turn, offsets, strict=True)))
                buffer = Buffer(
                    tensor=span.tensor, pool=FAST, rows=stuff.rows, row_bytes=stuff.row_bytes, offsets=offsets
                )
            self.buffers.append(buffer)
        for work in order.works:
            if work.over != NOWHERE:
                fast[work.tensor] = self._over(work.tensor, fast[work.over])
        self.resident.update(fast)
        self.received.update((t, fast[t]) for t in placed.crossing.receive)
        numbers = []
        for work in order.works:
            numbers.append(len(self.nodes))
            self.nodes.append(self._node(work, fast, accumulators))
        for index, first, last in order.firings:
            self._touch_slow(order.works[index], placed.crossing, len(self.firings))
            self.firings.append(Firing(node=numbers[index], first=first, last=last))
        self.regions += self._split(placed, start)

    def _over(self, tensor: int, place: int) -> int:
        """Give a tensor a buffer in the place of another: the same rows, or else one piece in one piece."""
        stuff, offsets = self.network.stuff(tensor), self.buffers[place].offsets
        if stuff.rows != len(offsets):
            offsets = tuple(range(offsets[0], offsets[0] + stuff.size_bytes, stuff.row_bytes))
        self.buffers.append(
            Buffer(tensor=tensor, pool=FAST, rows=stuff.rows, row_bytes=stuff.row_bytes, offsets=offsets)
        )
        return len(self.buffers) - 1

    def _node(self, work: Work, fast: dict[int, int], accumulators: dict[int, int]) -> Node:
        if work.step == RECEIVE:
            return Node(operator=None, inputs=(), output=fast[work.tensor], units=work.units)
        if work.step == RELOAD:
            return Node(operator=None, inputs=(self.slow[work.tensor],), output=fast[work.tensor], units=work.units)
        if work.step == SPILL:
            return Node(operator=None, inputs=(fast[work.tensor],), output=self.slow[work.tensor], units=work.units)
        step = self.network.steps[work.step]
        inputs = [NONE] * len(self.network.graph.operators[step.operator].inputs)
        for read in step.reads:
            inputs[read.position] = fast[read.tensor] if read.tensor in fast else self.slow[read.tensor]
        return Node(
            operator=step.operator, inputs=tuple(inputs), output=fast[step.output], units=step.units,
            by_input=step.by_input, accumulator=accumulators.get(work.step, NONE),
        )  # fmt: skip

    def _split(self, placed: Placed, start: int) -> list[Region]:
        """A region is one stage, unless its operators run one after another and their weights must not be together."""
        end, limit = len(self.firings), self.options.stage_weight_bytes
        if placed.order.tiled or limit is None:
            return [Region(first=start, last=end, tiled=placed.order.tiled)]
        cuts, held = [start], 0
        for index in range(start, end):
            work = placed.order.works[placed.order.firings[index - start][0]]
            weight = self.network.steps[work.step].weight_bytes if work.step >= 0 else 0
            if held and held + weight > limit:
                cuts.append(index)
                held = 0
            held += weight
        return [Region(first=a, last=b, tiled=False) for a, b in zip(cuts, [*cuts[1:], end], strict=True)]

    def _touch_slow(self, work: Work, crossing: Crossing, step: int) -> None:
        touched = [work.tensor] if work.step in (RELOAD, SPILL) else []
        if work.step >= 0 and crossing.direct:
            reads = (read.tensor for read in self.network.steps[work.step].reads)
            touched += [tensor for tensor in reads if tensor in crossing.direct]
        for tensor in touched:
            given = tensor in self.network.inputs and tensor not in self.network.streamed
            first, _ = self.slow_life.get(tensor, (0 if given else step, step))
            self.slow_life[tensor] = (first, step + 1)

    def _place_slow(self) -> tuple[int, int]:
        """Place what is in slow memory; what is left to the next run goes where it was found, once that is read."""
        boxes, end = {}, len(self.firings)
        for tensor in self.slow:
            first, last = self.slow_life.get(tensor, (0, 1))
            last = end if tensor in self.network.outputs else last
            boxes[tensor] = Box(first, last, self.network.stuff(tensor).size_bytes, 16)
        places = {tensor: tensor for tensor in boxes}
        for after, kept in self.network.kept.items():
            if {after, kept.before} <= boxes.keys() and self._last_touch(kept.before) <= boxes[after].first:
                places[after] = kept.before
        roots = [tensor for tensor in boxes if places[tensor] == tensor]
        if not roots:
            return 0, 0
        own = [boxes[tensor] for tensor in roots]
        placement = place(own, None)
        offsets = dict(zip(roots, placement.offsets, strict=True))
        for tensor, root in places.items():
            index = self.slow[tensor]
            moved = tuple(offsets[root] + start for start in self.buffers[index].offsets)
            self.buffers[index] = replace(self.buffers[index], offsets=moved)
        return placement.height_bytes, live_peak(own)

    def _last_touch(self, tensor: int) -> int:
        return self.slow_life.get(tensor, (0, 0))[1]

    def _interface(self) -> tuple[tuple[int, int], ...]:
        graph, root = self.network.graph, self.network.layout.root
        leaving = {**self.resident, **self.slow}
        entering = {**leaving, **self.received}
        return (*((t, entering[root(t)]) for t in graph.inputs), *((t, leaving[root(t)]) for t in graph.outputs))
