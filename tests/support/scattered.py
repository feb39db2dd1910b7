"""Runs models under schedules that no scheduler would choose: rows at random places, units in random portions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.build.prove import separate_schedule
from stowplan.build.rows import Form, Layout
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Region, Schedule
from stowplan.flow.target import Pool, Target
from stowplan.planfile.writer import write_plan
from stowplan_backend_c import CBackend
from tflite_import import import_bytes, model_of


def run_whole(model: bytes, inputs: Sequence[bytes]) -> list[bytes]:
    """Run a model with each operator at once and every tensor in one piece."""
    graph = import_bytes(model)
    return _run(model, graph, separate_schedule(graph), inputs)


def run_scattered(model: bytes, inputs: Sequence[bytes], seed: int) -> list[bytes]:
    """Run a model with every row in a place of its own and each node fired in random portions."""
    graph = import_bytes(model)
    return _run(model, graph, scattered_schedule(graph, seed), inputs)


def plan_of(model: bytes, graph: Graph, schedule: Schedule) -> bytes:
    return write_plan(make_plan(model_of(model), Lowering(graph), schedule, PlanOptions()))


def _run(model: bytes, graph: Graph, schedule: Schedule, inputs: Sequence[bytes]) -> list[bytes]:
    with closing(CBackend().compile(plan_of(model, graph, schedule))) as compiled:
        return compiled.run(inputs)


@dataclass
class _Scatter:
    """A schedule under construction. Inputs and outputs have to lie in one piece, so they are copied in and out."""

    graph: Graph
    random: random.Random
    buffers: list[Buffer] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    firings: list[Firing] = field(default_factory=list)
    offset: int = 0

    def whole(self, tensor: int, form: Form) -> int:
        start = self._room(form.size_bytes)
        return self._buffer(tensor, form, [start + r * form.row_bytes for r in range(form.rows)])

    def rows(self, tensor: int, form: Form, accumulator: bool = False) -> int:
        places = [self._room(form.row_bytes) for _ in range(form.rows)]
        self.random.shuffle(places)
        return self._buffer(tensor, form, places, accumulator)

    def copy(self, source: int, target: int) -> None:
        self.node(Node(operator=None, inputs=(source,), output=target, units=self.buffers[target].rows))

    def node(self, node: Node, portions: bool = True) -> None:
        self.nodes.append(node)
        first = 0
        while first < node.units:
            last = self.random.randint(first + 1, node.units) if portions else node.units
            self.firings.append(Firing(node=len(self.nodes) - 1, first=first, last=last))
            first = last

    def _room(self, size_bytes: int) -> int:
        start = self.offset
        self.offset += -(-size_bytes // 4) * 4 + 4 * self.random.randint(0, 2)
        return start

    def _buffer(self, tensor: int, form: Form, offsets: list[int], accumulator: bool = False) -> int:
        size = dict(rows=form.rows, row_bytes=form.row_bytes)
        self.buffers.append(Buffer(tensor=tensor, pool=0, offsets=tuple(offsets), accumulator=accumulator, **size))
        return len(self.buffers) - 1


def scattered_schedule(graph: Graph, seed: int) -> Schedule:
    """Return a schedule in file order whose rows lie anywhere; nodes by input rows get an accumulator."""
    layout, s = Layout(graph), _Scatter(graph, random.Random(seed))
    ports, places = {}, {}
    for tensor in graph.inputs:
        ports[tensor] = s.whole(tensor, layout.form(tensor))
        places[tensor] = s.rows(tensor, layout.form(tensor))
        s.copy(ports[tensor], places[tensor])
    for index, operator in enumerate(graph.operators):
        output, units = operator.outputs[0], layout.units(index)
        places[output] = s.rows(output, layout.form(output))
        inputs = tuple(places[t] if graph.is_activation(t) else NONE for t in operator.inputs)
        sums = s.rows(output, Form(1, units.accumulator_bytes), True) if units.by_input else NONE
        s.node(Node(
            operator=index, inputs=inputs, output=places[output], units=units.count, by_input=units.by_input,
            accumulator=sums,
        ))  # fmt: skip
    for tensor in graph.outputs:
        if tensor in ports:  # what a run reads and the next one reads again
            continue
        ports[tensor] = s.whole(tensor, layout.form(tensor))
        s.copy(places[tensor], ports[tensor])
    return Schedule(
        graph_digest=graph.digest,
        target=Target(pools=(Pool(name="fast", size_bytes=None),)),
        scheduler="scattered",
        buffers=tuple(s.buffers),
        nodes=tuple(s.nodes),
        firings=tuple(s.firings),
        regions=(Region(first=0, last=len(s.firings), tiled=True),),
        interface=tuple((t, ports[t]) for t in (*graph.inputs, *graph.outputs)),
        pool_bytes=(s.offset,),
        live_peak_bytes=(s.offset,),
    )
