"""Places one region as low as it goes: a greedy order first, the searched order where that is not enough."""

from __future__ import annotations

from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.assemble import Placed
from stowplan_scheduler_stream.clock import Clock
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.packer import SECOND
from stowplan_scheduler_stream.packing import NONE, Patience, crowding, pack_region
from stowplan_scheduler_stream.region import entering_region, order_region, region_works
from stowplan_scheduler_stream.search import Effort, Found, find_order
from stowplan_scheduler_stream.steps import constants_in


@dataclass(frozen=True)
class Budget:
    """The bytes a region may use, above those reserved for weights, and the constants one stage may hold."""

    capacity_bytes: int | None
    floor_bytes: int = 0
    weight_bytes: int | None = None

    def holds(self, placed: Placed) -> bool:
        return self.capacity_bytes is None or placed.packed.height_bytes <= self.capacity_bytes

    def may_join(self, network: Network, steps: range) -> bool:
        """Whether one stage may hold the constants of all these steps (a single step always may)."""
        if self.weight_bytes is None or len(steps) == 1:
            return True
        return constants_in([network.steps[i] for i in steps]) <= self.weight_bytes


PATIENT = SECOND // 2
"""Work of the packer where a network would not fit otherwise."""
ATTEMPTS = ((0, False), (0, True), (1, False), (2, False))
"""Seeds of the search, and whether it looks for pieces: orders with one live peak pack differently."""
PIECES = Effort(states=500, steps=20_000_000, cuts=True)
"""For a network in pieces: few states for each, for there are thousands of them."""


class Planner:
    """Regions of one network at one budget."""

    def __init__(self, network: Network, budget: Budget, effort: Effort, clock: Clock) -> None:
        self.network, self.budget, self.effort, self.clock = network, budget, effort, clock

    def whole(self, steps: range, slow: bool) -> Placed:
        """Every operator at once, whole tensors."""
        return self._placed(steps, slow, tiled=False)

    def greedy(self, steps: range, slow: bool) -> Placed:
        """Row by row, always the deepest operator that can run."""
        return self._placed(steps, slow, tiled=True)

    def streamed(self, steps: range, slow: bool) -> Placed:
        """Row by row: the greedy order if that fits, else the lowest of it and the searched ones.

        Neither order nor height depends on the budget, only how many are tried does: a larger budget never fits less.
        """
        best = self.greedy(steps, slow)
        room = self._room()
        for seed, cuts in ATTEMPTS:
            if self.budget.holds(best):
                break
            if cuts and slow:
                continue  # a region is cut by ending it
            found = self.search(steps, slow, seed, cuts)
            if found is None:
                break
            if found.peak_bytes < best.packed.height_bytes:
                placed = self.searched(steps, slow, found, 0 if slow else PATIENT)
                best = min(best, placed, key=lambda either: either.packed.height_bytes)
            if room is not None and found.lower_bound_bytes > room:
                break
        return best

    def tried(self, steps: range) -> Placed:
        """Whole tensors if they fit, else row by row; what crosses the region's borders goes through slow memory."""
        placed = self.whole(steps, slow=True)
        return placed if self.budget.holds(placed) else self.streamed(steps, slow=True)

    def searched(
        self, steps: range, slow: bool, found: Found, work: int, goal_bytes: int = 0, share: float = 1.0
    ) -> Placed:
        """Place a searched order; with so much work of the packer, which may take a share of the time that is left."""
        patience = Patience(work, goal_bytes, self.clock.left(share))
        return self._placed(steps, slow, tiled=True, order=found.order, patience=patience)

    def crowding(self, steps: range, slow: bool, found: Found, level_bytes: int | None = None) -> int:
        """Return how hard a searched order is to place: the less, the easier."""
        ordered = order_region(self.network, steps, self.network.crossing(steps, slow), True, found.order)
        return crowding(self.network, ordered, level_bytes)

    def search(
        self, steps: range, slow: bool, seed: int = 0, cuts: bool = False, known_bytes: int = 0, share: float = 1.0
    ) -> Found | None:
        """Return the order with the least live bytes the effort allows; with `cuts`, in pieces one by one.

        No order is known to do with less than `known_bytes`. The search may take a share of the time that is left.
        """
        crossing = self.network.crossing(steps, slow)
        works = region_works(self.network, steps, crossing)
        entering = entering_region(self.network, steps, crossing)
        effort = replace(PIECES if cuts else replace(self.effort, seed=seed), seconds=self.clock.left(share))
        found = find_order(self.network, works, entering, self._room(), effort, known_bytes)
        self.clock.note(found is not None and found.cut_short)
        return found

    def _placed(
        self,
        steps: range,
        slow: bool,
        tiled: bool,
        order: tuple[int, ...] | None = None,
        patience: Patience = NONE,
    ) -> Placed:
        crossing = self.network.crossing(steps, slow)
        ordered = order_region(self.network, steps, crossing, tiled, order)
        packed = pack_region(self.network, ordered, self.budget.capacity_bytes, self.budget.floor_bytes, patience)
        self.clock.note(packed.cut_short)
        return Placed(steps, ordered, packed, crossing)

    def _room(self) -> int | None:
        """Bytes that live tensors may take: whatever is above cannot fit."""
        capacity = self.budget.capacity_bytes
        return None if capacity is None else capacity - self.budget.floor_bytes
