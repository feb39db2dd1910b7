"""Runs of steps that fit only in tiles: each strip or group is a region of its own, with slow memory between them.

What a section moves through slow memory does not depend on how its neighbours are cut: it reads its inputs there, a
part of each row at a time, and leaves its outputs there. So a section is tried on a graph of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import sub

from stowplan.build.tiling import (
    Box,
    TiledGraph,
    can_cut_channels,
    can_cut_columns,
    needs,
    tiled_graph,
    whole_box,
)
from stowplan.flow.graph import Graph, Operator
from stowplan.flow.schedule import Tile
from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.strips import channel_groups, column_strips, whole_tiles

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Into how many strips or groups a section may be cut."""
LONGEST = 16
"""Steps of a section of strips."""
LONGEST_GROUPED = 3
"""Steps of a section of channel groups: the first reads its input once for each group."""
HOPELESS = 1.6
"""Orders may be searched for that need so much less than the greedy one, not less: what exceeds the budget by more is
not tried, nor are strips whose share of what the uncut section needs does.
"""


@dataclass(frozen=True)
class Section:
    """The tiles of each region, by the graph's operators, and the bytes that they move from and to slow memory.

    It runs the steps [first, last) of the network.
    """

    steps: tuple[int, int]
    regions: tuple[tuple[Tile, ...], ...]
    moved_bytes: int


class Sections:
    """The cheapest way to run steps in tiles at one budget, for any run of steps of a network."""

    def __init__(self, network: Network, budget: Budget, effort: Effort, clock: Clock) -> None:
        self.network, self.budget, self.effort, self.clock = network, budget, effort, clock
        self.uncut = Planner(network, budget, effort, clock)
        self.refused: set[Section] = set()
        self._greedy: dict[tuple[int, int], int] = {}
        graph, steps = network.graph, range(len(network.steps))
        inner = [self._is_inner(i) for i in steps]
        self._columns = _reaches([inner[i] and can_cut_columns(graph, self._operator(i)) for i in steps], LONGEST)
        self._channels = _reaches(
            [inner[i] and can_cut_channels(graph, self._operator(i)) for i in steps], LONGEST_GROUPED
        )

    def reach(self, first: int) -> int:
        """Return the end of the longest section from a step."""
        return max(self._columns[first], self._channels[first])

    def least_bytes(self, first: int, last: int) -> int | None:
        """Return what no section of these steps moves less than; None when there is none."""
        bounds = [self._bound(first, last, groups) for groups in (False, True)]
        return min((bound for bound in bounds if bound is not None), default=None)

    def best(self, first: int, last: int) -> Section | None:
        """Return the section of these steps that moves least; None when none fits."""
        found = [self._first_fit(first, last, groups) for groups in (False, True)]
        return min(
            (section for section in found if section), key=lambda s: (s.moved_bytes, len(s.regions)), default=None
        )

    def _bound(self, first: int, last: int, groups: bool) -> int | None:
        """Return what is moved by the fewest strips that may fit: more of them move more."""
        for cut in self._cuts(first, last, groups):
            return cut.moved_bytes
        return None

    def _first_fit(self, first: int, last: int, groups: bool) -> Section | None:
        for cut in self._cuts(first, last, groups):
            if cut.section not in self.refused and self._fits(cut):
                return cut.section
        return None

    def refuse(self, section: Section) -> None:
        """Do not return this section again: between its neighbours it does not fit.

        Where those are cut otherwise, what it reads has to be put together of several parts.
        """
        self.refused.add(section)

    def _cuts(self, first: int, last: int, groups: bool) -> Iterator[_Cut]:
        """Yield the section cut into more and more strips, from the fewest that are not hopeless."""
        if last > (self._channels if groups else self._columns)[first]:
            return
        if (first, last) not in self._greedy:
            self._greedy[first, last] = self.uncut.greedy(range(first, last), slow=True).packed.height_bytes
        part = _Part(self.network, range(first, last))
        for count in COUNTS:
            if self._hopeless(self._greedy[first, last] / count):
                continue
            regions = part.groups(count) if groups else part.strips(count)
            if regions is None:
                continue
            with suppress(ValueError):
                yield _Cut(part, regions, part.tiled([tile for region in regions for tile in region]))

    def _hopeless(self, needed_bytes: float) -> bool:
        return self.budget.capacity_bytes is not None and needed_bytes > HOPELESS * self.budget.capacity_bytes

    def _fits(self, cut: _Cut) -> bool:
        """Say whether each region of a section fits."""
        network = cut.part.network(cut.tiled)
        planner = Planner(network, self.budget, self.effort, self.clock)
        for steps in region_steps(network, cut.tiled, [len(region) for region in cut.regions]):
            placed = planner.greedy(steps, slow=True)
            if self._hopeless(placed.packed.height_bytes):
                return False
            if not self.budget.holds(placed) and not self.budget.holds(planner.tried(steps)):
                return False
        return True

    def _operator(self, step: int) -> Operator:
        return self.network.graph.operators[self.network.steps[step].operator]

    def _is_inner(self, index: int) -> bool:
        """A step whose tensors are cut into the rows that a graph of their own would have, and no model output."""
        step, layout = self.network.steps[index], self.network.layout
        operator = self.network.graph.operators[step.operator]
        tensors = [t for t in (*operator.inputs, *operator.outputs) if self.network.graph.is_activation(t)]
        plain = all(layout.form(t) == layout.default(t) and layout.root(t) == t for t in tensors)
        return plain and step.output not in self.network.outputs


class _Part:
    """Some steps of a network as a graph of their own, whose tensors keep their numbers."""

    def __init__(self, network: Network, steps: range) -> None:
        self.whole, self.steps = network, steps
        self.operators = [network.steps[i].operator for i in steps]
        graph, chosen = network.graph, [network.graph.operators[i] for i in self.operators]
        made = {operator.outputs[0] for operator in chosen}
        read = dict.fromkeys(t for operator in chosen for t in operator.inputs if graph.is_activation(t))
        self.leaving = {
            network.steps[i].output for i in steps if network.last_use(network.steps[i].output) >= steps.stop
        }
        self.graph: Graph = replace(
            graph,
            operators=tuple(chosen),
            inputs=tuple(t for t in read if t not in made),
            outputs=(),
            states=(),
            signatures=(),
        )

    def strips(self, count: int) -> list[list[Tile]] | None:
        graph = replace(self.graph, outputs=tuple(self.leaving))
        return column_strips(graph, range(len(self.operators)), count, again=False)

    def groups(self, count: int) -> list[list[Tile]] | None:
        return channel_groups(self.graph, range(len(self.operators)), count)

    def tiled(self, tiles: Sequence[Tile]) -> TiledGraph:
        """Return the tiled graph, whose outputs are the parts that leave it. Raises `ValueError`."""
        found = tiled_graph(self.graph, tiles)
        outputs = []
        for operator, origin in zip(found.graph.operators, found.origins, strict=True):
            if origin >= 0 and self.graph.operators[tiles[origin].operator].outputs[0] in self.leaving:
                outputs.append(operator.outputs[0])
        return replace(found, graph=replace(found.graph, outputs=tuple(outputs)))

    def network(self, tiled: TiledGraph) -> Network:
        arriving = [
            t for t in self.graph.inputs if t in self.whole.streamed and self.whole.first_reader[t] in self.steps
        ]
        return Network(tiled.graph, self.whole.alignment_bytes, arriving, tiled.carriers)

    def named(self, tile: Tile) -> Tile:
        return replace(tile, operator=self.operators[tile.operator])


class _Cut:
    """A section in tiles that was not tried yet."""

    def __init__(self, part: _Part, regions: list[list[Tile]], tiled: TiledGraph) -> None:
        self.part, self.regions, self.tiled = part, regions, tiled
        self.moved_bytes = _moved(tiled, [len(region) for region in regions])

    @property
    def section(self) -> Section:
        named = (tuple(self.part.named(tile) for tile in region) for region in self.regions)
        return Section((self.part.steps.start, self.part.steps.stop), tuple(named), self.moved_bytes)


def _moved(tiled: TiledGraph, counts: Sequence[int]) -> int:
    """Return the bytes that regions of so many tiles move when all that crosses their borders is in slow memory."""
    graph, carriers = tiled.graph, tiled.carriers
    ends = list(accumulate(counts))
    region = [bisect_right(ends, place) for place in tiled.places]
    made = {operator.outputs[0]: region[i] for i, operator in enumerate(graph.operators)}
    spilled = set(graph.outputs)
    reloaded: set[tuple[int, int]] = set()
    direct: dict[tuple[int, int], int] = {}
    for index, operator in enumerate(graph.operators):
        for tensor in operator.inputs:
            if not graph.is_activation(tensor) or made.get(tensor, -1) == region[index]:
                continue
            if tensor in made:
                spilled.add(tensor)
            if index in carriers:
                least = min(graph.tensors[tensor].size_bytes, graph.tensors[operator.outputs[0]].size_bytes)
                direct[tensor, region[index]] = direct.get((tensor, region[index]), 0) + least
            else:
                reloaded.add((tensor, region[index]))
    moved = sum(graph.tensors[tensor].size_bytes for tensor in spilled)
    moved += sum(graph.tensors[tensor].size_bytes for tensor, _ in reloaded)
    return moved + sum(size for where, size in direct.items() if where not in reloaded)


def least_tiles_bytes(network: Network) -> int:
    """Return what the hungriest operator needs for one row of its smallest tile, which no way to cut goes below."""
    return max((_least_tile(network, index) for index in range(len(network.steps))), default=0)


def _least_tile(network: Network, index: int) -> int:
    """One column and the fewest channels where those can be cut, and the rows of the inputs that they need.

    What is only moved need not be in fast memory.
    """
    step, graph = network.steps[index], network.graph
    operator = graph.operators[step.operator]
    box = whole_box(graph.tensors[step.output])
    columns = (0, 1) if can_cut_columns(graph, operator) else box.columns
    group = operator.integer("multiplier") if operator.kind == "depthwise_conv_2d" else 1
    channels = (0, group) if can_cut_channels(graph, operator) else box.channels
    part = Box(columns, channels)
    needed = _share(network, step.output, step.output, part) if not step.by_input else 0
    for read in step.reads if not step.carries else ():
        rows = max(map(sub, read.last, read.first), default=0)
        wanted = needs(graph, operator, read.position, part)
        needed += rows * _share(network, read.tensor, operator.inputs[read.position], wanted)
    return needed


def _share(network: Network, root: int, view: int, box: Box) -> int:
    """Return the bytes of a root tensor's row that lie in a box of a view of it, rounded down."""
    whole = whole_box(network.graph.tensors[view])
    held = (box.columns[1] - box.columns[0]) * (box.channels[1] - box.channels[0])
    return network.stuff(root).row_bytes * held // (whole.columns[1] * whole.channels[1])


def tiles_of(network: Network, regions: Sequence[range | Section]) -> tuple[list[Tile], list[int]]:
    """Return the tiles of a whole network, and how many of them each region holds.

    Operators that cost nothing go with the region after them, or with the last one.
    """
    tiles: list[Tile] = []
    counts: list[int] = []
    done = 0
    for number, region in enumerate(regions):
        parts = region.regions if isinstance(region, Section) else (_whole(network, region),)
        first, last = (pick(tile.operator for part in parts for tile in part) for pick in (min, max))
        views = whole_tiles(i for i in range(done, first))
        done = last + 1
        for part in parts:
            tiles += [*views, *(replace(tile, section=number) for tile in part)]
            counts.append(len(views) + len(part))
            views = []
        inside = {tile.operator for part in parts for tile in part}
        late = whole_tiles(i for i in range(first, last) if i not in inside)
        tiles += late
        counts[-1] += len(late)
    rest = whole_tiles(range(done, len(network.graph.operators)))
    counts[-1] += len(rest)
    return [*tiles, *rest], counts


def _whole(network: Network, steps: range) -> tuple[Tile, ...]:
    first, last = network.steps[steps.start].operator, network.steps[steps.stop - 1].operator
    return tuple(whole_tiles(range(first, last + 1)))


def region_steps(network: Network, tiled: TiledGraph, counts: Sequence[int]) -> Iterator[range]:
    """Yield the steps of each region of a tiled network, from how many tiles it holds."""
    step, tiles = 0, 0
    for count in counts:
        tiles += count
        first = step
        while step < len(network.steps) and tiled.places[network.steps[step].operator] < tiles:
            step += 1
        yield range(first, step)


def _reaches(good: Sequence[bool], longest: int) -> list[int]:
    """Return for each index the end of the run of good ones that begins there, at most so long."""
    ends = [len(good)] * len(good)
    end = len(good)
    for index in range(len(good) - 1, -1, -1):
        end = end if good[index] else index
        ends[index] = min(end, index + longest)
    return ends
