"""Regions with slow memory between them: cut where least is moved, in tiles where steps do not fit otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build.tiling import tiled_graph
from stowplan.flow.schedule import Tile
from stowplan.nouns import dataclass
from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.cuts import LONG, cut
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.planner import Budget, Planner
from stowplan_scheduler_stream.search import Effort
from stowplan_scheduler_stream.sections import Section, Sections, region_steps, tiles_of


@dataclass(frozen=True)
class Regions:
    """Placed regions, of this network: the tiled one where there are `tiles`."""

    network: Network
    placed: list[Placed]
    tiles: tuple[Tile, ...] = ()


def spilling(network: Network, budget: Budget, effort: Effort, tiles: bool) -> Regions:
    """Return the regions that move least. One that does not fit is left to the caller to refuse."""
    sections = Sections(network, budget, effort) if tiles and len(network.steps) <= LONG else None
    return _placed(network, budget, effort, cut(Planner(network, budget, effort), sections))


def _placed(network: Network, budget: Budget, effort: Effort, found: Sequence[Placed | Section]) -> Regions:
    if not any(isinstance(part, Section) for part in found):
        return Regions(network, [part for part in found if isinstance(part, Placed)])
    tiles, counts = tiles_of(network, [part.steps if isinstance(part, Placed) else part for part in found])
    tiled = tiled_graph(network.graph, tiles)
    whole = Network(tiled.graph, network.alignment_bytes, tuple(network.streamed), tiled.carriers)
    planner = Planner(whole, budget, effort)
    return Regions(whole, [planner.tried(steps) for steps in region_steps(whole, tiled, counts)], tuple(tiles))
