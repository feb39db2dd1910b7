"""A graph as the scheduler sees it: steps that turn rows of some tensors into rows of another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stowplan.build.moves import MOVES
from stowplan.build.rows import Layout
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph
from stowplan.nouns import replace
from stowplan_scheduler_stream.keeping import kept_in_place
from stowplan_scheduler_stream.steps import Crossing, Read, Step, Stuff

CARRYING = MOVES | {"concatenation", "reshape"}
"""Operators that only move elements, which they may take from where they lie in slow memory."""


class Network:
    """All steps of a graph in order, and what the scheduler asks about its tensors.

    The rows of `streamed` inputs arrive in the first region that reads them. `carriers` are the operators of a tiled
    graph that belong to no tile; `again` are its tensors in which a streamed input arrives once more.
    """

    def __init__(
        self,
        graph: Graph,
        alignment_bytes: int,
        streamed: Sequence[int] = (),
        carriers: Collection[int] = frozenset(),
        again: Sequence[int] = (),
    ) -> None:
        self.graph = graph
        self.carriers = carriers
        self.layout = Layout(graph)
        self.alignment_bytes = alignment_bytes
        operators = range(len(graph.operators))
        self.steps = tuple(self._step(i) for i in operators if not self.layout.is_view(graph.operators[i]))
        self.inputs = (*(self.layout.root(t) for t in graph.inputs), *again)
        self.outputs = tuple(dict.fromkeys(self.layout.root(t) for t in graph.outputs))
        self.streamed = frozenset((*(self.layout.root(t) for t in streamed), *again))
        self.maker = {step.output: i for i, step in enumerate(self.steps)}
        self.last_reader: dict[int, int] = {}
        self.first_reader: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            for read in step.reads:
                self.last_reader[read.tensor] = index
                self.first_reader.setdefault(read.tensor, index)
        self.turns = self._turns()
        self.steps = tuple(replace(step, turned=tuple(map(self._turned, step.reads))) for step in self.steps)
        self.unread = [t for t in self.inputs if t not in self.last_reader and t not in self.streamed]
        self._stuff = {t: self._measure(t) for t in {*self.inputs, *self.maker}}
        self.kept = kept_in_place(self)

    def _turns(self) -> dict[int, tuple[int, ...]]:
        """Return, for inputs whose rows are not needed one after another, the rows in the order they are needed."""
        found = {}
        for tensor in dict.fromkeys(self.inputs):
            readers = [(step, read) for step in self.steps for read in step.reads if read.tensor == tensor]
            if len(readers) != 1 or tensor in self.outputs or readers[0][0].by_input:
                continue
            (step, read), rows = readers[0], self.layout.form(tensor).rows
            touched = [self.layout.touches(step.operator, read.position, unit) for unit in range(step.units)]
            turn = [row for ranges in touched for part in ranges for row in part]
            if sorted(turn) == list(range(rows)) and turn != sorted(turn):
                found[tensor] = tuple(turn)
        return found

    def _turned(self, read: Read) -> Read:
        if read.tensor not in self.turns:
            return read
        place = {row: turn for turn, row in enumerate(self.turns[read.tensor])}
        step = self.steps[self.first_reader[read.tensor]]
        spans = []
        for unit in range(step.units):
            ranges = self.layout.touches(step.operator, read.position, unit)
            places = [place[row] for part in ranges for row in part]
            spans.append((min(places), max(places) + 1))
        return replace(read, first=tuple(a for a, _ in spans), last=tuple(b for _, b in spans))

    def stuff(self, tensor: int) -> Stuff:
        return self._stuff[tensor]

    @property
    def tensors(self) -> Collection[int]:
        """All root tensors."""
        return self._stuff

    def last_use(self, tensor: int) -> int:
        """Return the last step that reads a tensor; after all steps for a model output, before all if unread."""
        return len(self.steps) if tensor in self.outputs else self.last_reader.get(tensor, -1)

    def alive(self, point: int) -> list[int]:
        """Return the tensors that exist before a step and are needed from it on, but for inputs that arrive."""
        made = [*(t for t in self.inputs if t not in self.streamed), *(step.output for step in self.steps[:point])]
        return [t for t in made if self.last_use(t) >= point]

    def crossing(self, steps: range, slow: bool) -> Crossing:
        """Return what crosses the borders of a region. Without `slow` memory all else stays in fast memory."""
        receive = [t for t in self.inputs if t in self.streamed and self.first_reader.get(t, 0) in steps]
        if not slow:
            return Crossing(receive=tuple(receive))
        made = [*receive, *(self.steps[i].output for i in steps)]
        entering = [t for t in self.entering(steps) if t not in receive]
        direct = self._direct(steps, entering)
        spill = [t for t in made if self.last_use(t) >= steps.stop]
        return Crossing(
            reload=tuple(t for t in entering if t not in direct),
            spill=tuple(spill),
            receive=tuple(receive),
            direct=tuple(direct),
        )

    def _direct(self, steps: range, entering: Sequence[int]) -> list[int]:
        """Return what is read by steps that carry alone, and not more of it in all than a copy of it would be.

        Tiles are cut so that what belongs to none reads little.
        """
        wanted = {read.tensor for i in steps if not self.steps[i].carries for read in self.steps[i].reads}
        found = [t for t in entering if t not in wanted]
        if not found:
            return found
        moved = self._carried(i for i in steps if self.steps[i].operator not in self.carriers)
        return [t for t in found if moved.get(t, 0) <= self.stuff(t).size_bytes]

    def _carried(self, steps: Iterable[int]) -> dict[int, int]:
        """Return the bytes of each tensor that steps which carry read of it, were it in slow memory."""
        moved: dict[int, int] = {}
        for index in steps:
            step = self.steps[index]
            joins = len(self.graph.operators[step.operator].inputs) > 1
            for read in step.reads if step.carries else ():
                size = self.stuff(read.tensor if joins else step.output).size_bytes
                moved[read.tensor] = moved.get(read.tensor, 0) + size
        return moved

    def slow_bytes(self, steps: range, crossing: Crossing) -> int:
        """Return the bytes that a region moves from and to slow memory."""
        moved = sum(self.stuff(t).size_bytes for t in (*crossing.reload, *crossing.spill))
        if not crossing.direct:
            return moved
        carried = self._carried(steps)
        return moved + sum(carried[t] for t in crossing.direct)

    def entering(self, steps: range) -> list[int]:
        """Return the tensors that a region reads and that exist before it, or arrive in it."""
        reads = (read.tensor for i in steps for read in self.steps[i].reads)
        return list(dict.fromkeys(t for t in reads if self.maker.get(t, -1) < steps.start))

    def leaving(self, steps: range) -> list[int]:
        """Return the tensors made in a region that are needed after it."""
        return [self.steps[i].output for i in steps if self.last_use(self.steps[i].output) >= steps.stop]

    def _step(self, index: int) -> Step:
        operator = self.graph.operators[index]
        units = self.layout.units(index)
        reads = []
        for position, tensor in enumerate(operator.inputs):
            if not self.graph.is_activation(tensor):
                continue
            spans = [self.layout.reads(index, position, unit) for unit in range(units.count)]
            first, last = tuple(s.start for s in spans), tuple(s.stop for s in spans)
            reads.append(Read(self.layout.root(tensor), position, first, last))
        constants = {t for t in operator.inputs if t >= 0 and not self.graph.is_activation(t)}
        return Step(
            operator=index,
            name=operator.source or operator.kind,
            output=operator.outputs[0],
            units=units.count,
            by_input=units.by_input,
            accumulator_bytes=units.accumulator_bytes,
            reads=tuple(reads),
            weight_bytes=sum(self.graph.tensors[t].size_bytes for t in constants),
            carries=index in self.carriers or operator.kind in CARRYING,
        )

    def _measure(self, tensor: int) -> Stuff:
        form = self.layout.form(tensor)
        alignment = max(self.alignment_bytes, SIZE_BYTES[self.graph.tensors[tensor].dtype])
        return Stuff(tensor, form.rows, form.row_bytes, alignment)
