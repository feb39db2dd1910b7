"""The memory map of a plan file, where there is no model to ask which rows an operator reads.

A row is drawn from the firing that fills it for as long as its bytes lie there and somebody may still read them: until
something else is written to its place, or until the last firing of the nodes that read its buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stowplan.build.memory_map import MapBox, MemoryMap, PoolMap
from stowplan.errors import PlanError
from stowplan.flow.target import FAST, SLOW
from stowplan.nouns import dataclass, replace
from stowplan.planfile import layout
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView, following

_RECEIVE = NODE_KINDS["receive"].code
MOST_ROWS = 1_000_000
"""How many rows may be written in a run. The largest models have some ten thousand; a damaged plan may say anything."""
_POOLS = {FAST: "fast", SLOW: "slow"}


def plan_map(plan: PlanView, budgets: Mapping[str, int] | None = None) -> MemoryMap:
    """Return the map of a plan, with `budgets` (bytes by pool) beside it. Raises `PlanError` for a damaged plan."""
    with following(plan.name):
        return _Reading(plan).map(budgets or {})


@dataclass
class _Held:
    """A row whose bytes lie in a pool since firing `first`."""

    buffer: int
    row: int
    first: int
    start: int
    end: int


class _Reading:
    """Goes through the firings once and keeps what lies in each pool meanwhile."""

    def __init__(self, plan: PlanView) -> None:
        self.plan = plan
        self.nodes, self.buffers = plan.records("nodes"), plan.records("buffers")
        self.firings, self.tensors = plan.records("firings"), plan.records("tensors")
        self.operands, self.offsets = plan.words("operands"), plan.words("row_offsets")
        self.last_use = [0] * len(self.buffers)
        self.held: dict[int, list[_Held]] = {pool: [] for pool in _POOLS}
        self.boxes: dict[int, list[MapBox]] = {pool: [] for pool in _POOLS}
        self.drawn_rows = 0
        self.writers = ["the application"] * len(self.buffers)

    def map(self, budgets: Mapping[str, int]) -> MemoryMap:
        self._find_uses()
        for port in self.plan.records("ports")[: self.plan.number("input_count")]:
            if not self._is_received(port["buffer"]):
                self._write(port["buffer"], range(self.buffers[port["buffer"]]["rows"]), 0)
        for state in self.plan.records("states"):
            self._write(state["before"], range(self.buffers[state["before"]]["rows"]), 0)
        for step in range(len(self.firings)):
            self._fire(step)
        for pool, held in self.held.items():
            self._let_go(pool, held, len(self.firings))
        sizes = {FAST: self.plan.fast_bytes, SLOW: self.plan.slow_bytes}
        pools = [
            PoolMap(
                name=name, size_bytes=sizes[pool], budget_bytes=budgets.get(name),
                reserved_bytes=self.plan.reserved_bytes if pool == FAST else 0,
                boxes=tuple(_joined(sorted(self.boxes[pool], key=_place))),
            )
            for pool, name in _POOLS.items() if pool == FAST or sizes[pool]
        ]  # fmt: skip
        stages = [(s["first_firing"], s["first_firing"] + s["firing_count"]) for s in self.plan.records("stages")]
        return MemoryMap(name=self.plan.name, steps=len(self.firings), stages=tuple(stages), pools=tuple(pools))

    def _find_uses(self) -> None:
        for step, firing in enumerate(self.firings):
            node = self.nodes[firing["node"]]
            for index in (*self._inputs(node), node["output"], node["accumulator"]):
                if index != layout.NOTHING_16:
                    self.last_use[index] = step + 1
        for port in self.plan.records("ports")[self.plan.number("input_count") :]:
            self.last_use[port["buffer"]] = len(self.firings)
        for state in self.plan.records("states"):
            self.last_use[state["before"]] = self.last_use[state["after"]] = len(self.firings)
        for node in self.nodes:
            for index in (node["output"], node["accumulator"]):
                if index != layout.NOTHING_16:
                    self.writers[index] = self.plan.node_kind(node["kind"])

    def _inputs(self, node: Mapping[str, int]) -> tuple[int, ...]:
        return self.operands[node["first_input"] : node["first_input"] + node["input_count"]]

    def _is_received(self, buffer: int) -> bool:
        return any(node["kind"] == _RECEIVE and node["output"] == buffer for node in self.nodes)

    def _fire(self, step: int) -> None:
        firing = self.firings[step]
        node, end = self.nodes[firing["node"]], firing["first"] + firing["count"]
        output = node["output"]
        if not node["flags"] & layout.NODE_BY_INPUT:
            self._write(output, range(firing["first"], end), step)
            return
        if node["accumulator"] != layout.NOTHING_16:
            self._write(node["accumulator"], range(self.buffers[node["accumulator"]]["rows"]), step)
        if end == node["units"]:
            self._write(output, range(self.buffers[output]["rows"]), step)

    def _write(self, buffer: int, rows: range, step: int) -> None:
        """Put rows where they belong; what they overwrite ends there, but not partial sums that grow."""
        record = self.buffers[buffer]
        pool = record["pool"]
        if pool not in self.held or not record["row_bytes"]:
            return
        self.drawn_rows += len(rows)
        if self.drawn_rows > MOST_ROWS:
            raise PlanError(f"{self.plan.name}: the plan writes more rows than a map can show ({MOST_ROWS:,})")
        new = [self._segment(buffer, row, step) for row in rows]
        kept, gone = [], []
        lowest, highest = min((s.start for s in new), default=0), max((s.end for s in new), default=0)
        known = set()
        for old in self.held[pool]:
            if self.last_use[old.buffer] <= step:
                gone.append(old)
            elif old.end <= lowest or old.start >= highest or not any(_meet(old, s) for s in new):
                kept.append(old)
            elif old.buffer == buffer and old.row in rows:
                kept.append(old)
                known.add(old.row)
            else:
                gone.append(old)
        self._let_go(pool, gone, step)
        self.held[pool] = kept + [segment for segment in new if segment.row not in known]

    def _let_go(self, pool: int, held: list[_Held], step: int) -> None:
        for segment in held:
            record = self.buffers[segment.buffer]
            tensor = record["tensor"]
            self.boxes[pool].append(
                MapBox(
                    tensor=tensor, name=self._name(tensor), writer=self.writers[segment.buffer],
                    first_row=segment.row, last_row=segment.row + 1, offset_bytes=segment.start,
                    size_bytes=segment.end - segment.start, first=segment.first,
                    last=max(segment.first + 1, min(step, self.last_use[segment.buffer])),
                    accumulator=bool(record["flags"] & layout.BUFFER_ACCUMULATOR),
                )
            )  # fmt: skip

    def _segment(self, buffer: int, row: int, step: int) -> _Held:
        record = self.buffers[buffer]
        if record["flags"] & layout.BUFFER_TABLE:
            start = self.offsets[record["base"] + row]
        else:
            start = record["base"] + row % record["height"] * record["stride"]
        return _Held(buffer=buffer, row=row, first=step, start=start, end=start + record["row_bytes"])

    def _name(self, tensor: int) -> str:
        if tensor >= len(self.tensors):
            return "constant"
        return self.plan.string(self.tensors[tensor]["name"]) or f"tensor {tensor}"


def _meet(a: _Held, b: _Held) -> bool:
    return a.start < b.end and b.start < a.end


def _place(box: MapBox) -> tuple[int, ...]:
    return box.tensor, box.accumulator, box.first, box.last, box.first_row


def _joined(boxes: list[MapBox]) -> Iterator[MapBox]:
    """Yield rows with equal lives that lie side by side as one box."""
    last: MapBox | None = None
    for box in boxes:
        same = last is not None and (last.tensor, last.first, last.last) == (box.tensor, box.first, box.last)
        if last and same and (last.last_row, last.end_bytes) == (box.first_row, box.offset_bytes):
            last = replace(last, last_row=box.last_row, size_bytes=last.size_bytes + box.size_bytes)
            continue
        if last:
            yield last
        last = box
    if last:
        yield last
