"""Regions with slow memory between them: cut where least is moved, in tiles where steps do not fit otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build.tiling import tiled_graph
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule, Tile
from stowplan.flow.target import Target
from stowplan.nouns import dataclass, replace
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream.assemble import Placed, assemble
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.cuts import LONG, Cutter
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.sections import Section, Sections, region_steps, tiles_of


@dataclass(frozen=True)
class Regions:
    """Placed regions of a graph, in this network: that of the tiled graph where there are `tiles`."""

    graph: Graph
    network: Network
    placed: list[Placed]
    tiles: tuple[Tile, ...] = ()

    @property
    def height_bytes(self) -> int:
        return max(placed.packed.height_bytes for placed in self.placed)

    def schedule(self, target: Target, options: ScheduleOptions, name: str) -> Schedule:
        """Return the schedule that runs the regions one after another."""
        found = assemble(self.network, target, options, name, self.placed)
        return replace(found, graph_digest=self.graph.digest, tiles=self.tiles)


def spilling(network: Network, budget: Budget, effort: Effort, clock: Clock, tiles: bool) -> Regions:
    """Return the regions that move least, or those that cannot fit, which the caller has to refuse."""
    sections = Sections(network, budget, effort, clock) if tiles and len(network.steps) <= LONG else None
    cutter = Cutter(Planner(network, budget, effort, clock), sections)
    impossible = cutter.impossible() if sections else []
    if impossible:
        return Regions(network.graph, network, impossible)
    while True:
        found = cutter.run()
        regions, owners = _placed(network, budget, effort, clock, found)
        misfits = {owner for owner, region in zip(owners, regions.placed, strict=True) if not budget.holds(region)}
        refused = [_refuse(network, cutter, found, found[i]) for i in sorted(misfits)]
        if not any(refused):
            return regions


def _refuse(network: Network, cutter: Cutter, found: Sequence[Placed | Section], misfit: Placed | Section) -> bool:
    """Refuse a section that does not fit between its neighbours, or those that feed a region which does not.

    What moves elements reads them where they lie, but not if they have to be put together of several parts first.
    """
    if isinstance(misfit, Section):
        cutter.refuse(misfit)
        return True
    made_in_tiles = {step for part in found if isinstance(part, Section) for step in range(*part.steps)}
    makers = {network.maker.get(tensor, -1) for tensor in network.entering(misfit.steps)} & made_in_tiles
    for maker in makers:
        cutter.keep_whole(maker)
    return bool(makers)


def _placed(
    network: Network, budget: Budget, effort: Effort, clock: Clock, found: Sequence[Placed | Section]
) -> tuple[Regions, list[int]]:
    """Return the regions in the network that the tiles make, and which of the parts found each belongs to."""
    if not any(isinstance(part, Section) for part in found):
        return Regions(network.graph, network, [part for part in found if isinstance(part, Placed)]), list(
            range(len(found))
        )
    owners = [i for i, part in enumerate(found) for _ in (part.regions if isinstance(part, Section) else (part,))]
    tiles, counts = tiles_of(network, [part.steps if isinstance(part, Placed) else part for part in found])
    tiled = tiled_graph(network.graph, tiles)
    whole = Network(tiled.graph, network.alignment_bytes, tuple(network.streamed), tiled.carriers)
    planner = Planner(whole, budget, effort, clock)
    placed = [planner.tried(steps) for steps in region_steps(whole, tiled, counts)]
    return Regions(network.graph, whole, placed, tuple(tiles)), owners
