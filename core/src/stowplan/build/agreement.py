"""How far a plan's answers are from another runtime's, over whole runs and operator by operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.nouns import NamedTuple, replace
from stowplan.plugins.kinds import Port

Run = Callable[[Sequence[bytes]], list[bytes]]
Witness = Callable[[Sequence[bytes]], Mapping[str, bytes]]
"""Runs a model once and returns all the tensors that it can, by name."""
Numbers = Callable[[Port, bytes], Sequence[float]]
CLOSE = 1e-4
"""Floats: of the largest number of an output. Integers may be one step off."""


class Difference(NamedTuple):
    """How far one output of one runtime is from the plan's, over all samples."""

    oracle: str
    output: str
    dtype: str
    largest: float
    magnitude: float
    differing: int
    elements: int

    @property
    def verdict(self) -> str:
        if self.differing == 0:
            return "equal"
        limit = CLOSE * self.magnitude if self.dtype.startswith("float") else 1.0
        return "close" if self.largest <= limit else "differs"

    def more(self, port: Port, numbers: Numbers, mine: bytes, theirs: bytes) -> Difference:
        """Return the difference with one more sample in it."""
        largest, magnitude, differing = self.largest, self.magnitude, self.differing
        for a, b in zip(numbers(port, mine), numbers(port, theirs), strict=True):
            magnitude = max(magnitude, abs(b)) if math.isfinite(b) else magnitude
            if a != b and not (a != a and b != b):
                differing += 1
                apart = abs(a - b)
                largest = max(largest, apart if math.isfinite(apart) else math.inf)
        elements = self.elements + math.prod(port.shape)
        return self._replace(largest=largest, magnitude=magnitude, differing=differing, elements=elements)


class Tracing(NamedTuple):
    """What comparing all tensors brought: how many could be, how many were equal and close, and the first others.

    `first_unequal` and `first_differing` go by the order of the operators, each with the operator that made it: what
    that operator read was equal, or close, as far as it could be compared.
    """

    oracle: str
    compared: int
    equal: int
    close: int
    first_unequal: tuple[str, Difference] | None
    first_differing: tuple[str, Difference] | None


def differences(
    name: str, oracle: Run, run: Run, ports: Sequence[Port], samples: Sequence[Sequence[bytes]], numbers: Numbers
) -> list[Difference]:
    """Run both on each sample, one after another, and return how far each output is off."""
    found = [Difference(name, port.name, port.dtype, 0.0, 0.0, 0, 0) for port in ports]
    for inputs in samples:
        pairs = zip(found, ports, run(inputs), oracle(inputs), strict=True)
        found = [so_far.more(port, numbers, mine, theirs) for so_far, port, mine, theirs in pairs]
    return found


def trace(
    model: Model,
    graph: Graph,
    oracle: str,
    witness: Witness,
    samples: Sequence[Sequence[bytes]],
    numbers: Numbers,
    complete: bool = True,
) -> Tracing:
    """Compare all tensors that both have. `graph` is as it was imported: no pass has changed a tensor.

    What its operators make is compared in their order; unless `complete`, only its outputs are, in theirs.
    """
    from stowplan.build.planning import Lowering, PlanOptions, make_plan
    from stowplan.build.prove import separate_schedule
    from stowplan.planfile.writer import write_plan
    from stowplan.plugins.host import host

    exposed = with_all_outputs(graph) if complete else graph
    plan = write_plan(make_plan(model, Lowering(exposed), separate_schedule(exposed), PlanOptions()))
    found: dict[str, Difference] = {}
    tensors = [exposed.tensors[t] for t in exposed.exits]
    with closing(host().backends()["c"].compile(plan)) as compiled:
        for inputs in samples:
            theirs = witness(inputs)
            for tensor, port, data in zip(tensors, compiled.outputs, compiled.run(inputs), strict=True):
                other = theirs.get(tensor.name)
                if other is not None and len(other) == len(data):
                    start = Difference(oracle, tensor.name, port.dtype, 0.0, 0.0, 0, 0)
                    found[tensor.name] = found.get(tensor.name, start).more(port, numbers, data, other)
    return _summed(oracle, exposed, found)


def with_all_outputs(graph: Graph) -> Graph:
    """Return the graph with the result of every operator among its outputs, in the order in which they are made."""
    made = dict.fromkeys(t for operator in graph.operators for t in operator.outputs)
    kept = [t for t in graph.outputs if t not in made or t in graph.state_tensors]
    return replace(graph, outputs=(*(t for t in made if t not in kept), *kept), signatures=())


def _summed(oracle: str, graph: Graph, found: Mapping[str, Difference]) -> Tracing:
    in_order = []
    for tensor in graph.exits:
        difference = found.get(graph.tensors[tensor].name)
        if difference is not None:
            in_order.append((_maker(graph, tensor), difference))
    verdicts = [difference.verdict for _, difference in in_order]
    return Tracing(
        oracle=oracle,
        compared=len(in_order),
        equal=verdicts.count("equal"),
        close=verdicts.count("close"),
        first_unequal=next((pair for pair in in_order if pair[1].differing), None),
        first_differing=next((pair for pair in in_order if pair[1].verdict == "differs"), None),
    )


def _maker(graph: Graph, tensor: int) -> str:
    operator = graph.operators[graph.producers[tensor]] if tensor in graph.producers else None
    return (operator.source or operator.kind) if operator else graph.tensors[tensor].name
