"""A piece of a network in one memory: operators that run before all others go on, beside whatever has to wait.

A network in pieces needs at its peak what the hungriest piece needs: its own rows, and the tensors that exist before
it, are needed after it, and are not touched by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stowplan.flow.graph import Graph
from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.region import RECEIVE, SPILL, Work, entering_region, region_works
from stowplan_scheduler_stream.search import Effort, Found, find_order
from stowplan_scheduler_stream.steps import Read


@dataclass(frozen=True)
class Piece:
    """The works of a piece with an order of them, and the most bytes alive in it."""

    works: tuple[Work, ...]
    found: Found

    def order(self) -> Iterable[tuple[bool, int]]:
        """Yield for each firing whether rows arrive, and the tensor whose rows are made."""
        for index in self.found.order:
            if index < len(self.works):
                yield self.works[index].step == RECEIVE, self.works[index].tensor


def search_piece(
    graph: Graph,
    operators: Iterable[int],
    later: Collection[int],
    alignment_bytes: int,
    streamed: Collection[int],
    effort: Effort,
) -> Piece | None:
    """Return the best order of some operators of a graph; None where there is no search.

    Tensors in `later` are needed after the piece: they stay to its end, whether it makes them or finds them.
    """
    network = _network(graph, operators, alignment_bytes, streamed)
    steps = range(len(network.steps))
    crossing = network.crossing(steps, slow=False)
    works = region_works(network, steps, crossing)
    entering = entering_region(network, steps, crossing)
    tensors = dict.fromkeys((*entering, *(work.tensor for work in works)))
    kept = [network.layout.root(t) for t in tensors if t in later]
    end = Work(SPILL, -1, 1, False, 0, tuple(Read(t, 0, (0,), (network.stuff(t).rows,)) for t in kept))
    found = find_order(network, [*works, end], entering, None, effort)
    return None if found is None else Piece(tuple(works), found)


def _network(graph: Graph, operators: Iterable[int], alignment_bytes: int, streamed: Collection[int]) -> Network:
    chosen = [graph.operators[index] for index in operators]
    made = {operator.outputs[0] for operator in chosen}
    read = dict.fromkeys(t for operator in chosen for t in operator.inputs if graph.is_activation(t))
    inputs = tuple(t for t in read if t not in made)
    part = replace(graph, operators=tuple(chosen), inputs=inputs, outputs=(), states=(), signatures=())
    return Network(part, alignment_bytes, [t for t in inputs if t in streamed])
