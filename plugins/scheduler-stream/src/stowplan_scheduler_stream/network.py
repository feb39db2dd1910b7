"""A graph as the scheduler sees it: steps that turn rows of some tensors into rows of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.build.rows import Layout
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph


@dataclass(frozen=True)
class Read:
    """What a step reads of one tensor: unit u reads rows [first[u], last[u])."""

    tensor: int
    position: int
    first: tuple[int, ...]
    last: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One operator that does work (views have vanished). Tensors are named by their roots."""

    operator: int
    name: str
    output: int
    units: int
    by_input: bool
    accumulator_bytes: int
    reads: tuple[Read, ...]
    weight_bytes: int


@dataclass(frozen=True)
class Stuff:
    """A root tensor: its rows, and the alignment of each."""

    tensor: int
    rows: int
    row_bytes: int
    alignment_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.rows * self.row_bytes


class Network:
    """All steps of a graph in order, and what the scheduler asks about its tensors."""

    def __init__(self, graph: Graph, alignment_bytes: int) -> None:
        self.graph = graph
        self.layout = Layout(graph)
        self.alignment_bytes = alignment_bytes
        operators = range(len(graph.operators))
        self.steps = tuple(self._step(i) for i in operators if not self.layout.is_view(graph.operators[i]))
        self.inputs = tuple(self.layout.root(t) for t in graph.inputs)
        self.outputs = tuple(dict.fromkeys(self.layout.root(t) for t in graph.outputs))
        self.maker = {step.output: i for i, step in enumerate(self.steps)}
        self.last_reader: dict[int, int] = {}
        for index, step in enumerate(self.steps):
            for read in step.reads:
                self.last_reader[read.tensor] = index
        self.unread = [t for t in self.inputs if t not in self.last_reader]
        self._stuff = {t: self._measure(t) for t in {*self.inputs, *self.maker}}

    def stuff(self, tensor: int) -> Stuff:
        return self._stuff[tensor]

    def last_use(self, tensor: int) -> int:
        """Return the last step that reads a tensor; after all steps for a model output, before all if unread."""
        return len(self.steps) if tensor in self.outputs else self.last_reader.get(tensor, -1)

    def crossing(self, first: int, last: int) -> tuple[list[int], list[int]]:
        """Return the tensors that enter the steps [first, last) from before, and those that leave them."""
        inside = range(first, last)
        entering = {
            read.tensor: None for i in inside for read in self.steps[i].reads if self.maker.get(read.tensor, -1) < first
        }
        leaving = [self.steps[i].output for i in inside if self.last_use(self.steps[i].output) >= last]
        return list(entering), leaving

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
        )

    def _measure(self, tensor: int) -> Stuff:
        form = self.layout.form(tensor)
        alignment = max(self.alignment_bytes, SIZE_BYTES[self.graph.tensors[tensor].dtype])
        return Stuff(tensor, form.rows, form.row_bytes, alignment)


def constants_in(steps: Sequence[Step]) -> int:
    """Return the bytes of constants that steps use together."""
    return sum(step.weight_bytes for step in steps)
