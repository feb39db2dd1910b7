"""No plan is written that has not been run: the plan against a schedule without any sharing, on random inputs.

Both run the same kernels in arenas of exactly the sizes they state, between guard bytes, with unwritten memory filled
differently each time. What differs is order, rows and addresses: equal outputs, bit for bit, prove those.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

from stowplan.build.rows import Layout
from stowplan.errors import InternalFault
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import NONE, Buffer, Firing, Node, Region, Schedule
from stowplan.flow.target import Pool, Target
from stowplan.plugins.kinds import Backend, Metrics, Port

_POISONS = (0xA5, 0x00, 0x7F)
MOST_UNITS = 65535
"""The plan format counts the units of one firing in 16 bits."""


class ProofFailed(InternalFault):
    """The plan ran and gave other bytes than the untiled schedule."""

    code = "proof-failed"


def separate_schedule(graph: Graph) -> Schedule:
    """Return the untiled schedule: file order, each operator at once, every tensor in memory of its own."""
    layout, offset = Layout(graph), 0
    buffers: list[Buffer] = []
    numbers: dict[int, int] = {}
    nodes: list[Node] = []
    tensors = [*graph.inputs, *(op.outputs[0] for op in graph.operators)]
    for tensor in tensors:
        form = layout.form(tensor)
        numbers[tensor] = len(buffers)
        rows = tuple(offset + r * form.row_bytes for r in range(form.rows))
        buffers.append(Buffer(tensor=tensor, pool=0, rows=form.rows, row_bytes=form.row_bytes, offsets=rows))
        offset += -(-form.size_bytes // 16) * 16
    for index, operator in enumerate(graph.operators):
        units, output = layout.units(index), numbers[operator.outputs[0]]
        count = buffers[output].rows if layout.is_view(operator) else units.count
        inputs = tuple(numbers[t] if graph.is_activation(t) else NONE for t in operator.inputs)
        nodes.append(Node(operator=index, inputs=inputs, output=output, units=count, by_input=units.by_input))
    firings = tuple(firing for index, node in enumerate(nodes) for firing in _firings(index, node))
    return Schedule(
        graph_digest=graph.digest,
        target=Target(pools=(Pool(name="fast", size_bytes=None),)),
        scheduler="separate",
        buffers=tuple(buffers),
        nodes=tuple(nodes),
        firings=firings,
        regions=(Region(first=0, last=len(firings), tiled=False),),
        interface=tuple((t, numbers[t]) for t in (*graph.inputs, *graph.outputs)),
        pool_bytes=(offset,),
        live_peak_bytes=(offset,),
    )


def prove(
    backend: Backend, plan: bytes, reference: bytes, seed: str, samples: int = 3, in_a_row: int = 1
) -> list[Metrics]:
    """Run both plans on `samples` random inputs. Raises `ProofFailed` at the first difference.

    A model that keeps state is given `in_a_row` inputs one after another each time, from its first state on.
    Returns what each run of `plan` cost.
    """
    found = []
    with ExitStack() as stack:
        truth = None
        for sample in range(samples):
            if truth is None or in_a_row > 1:  # a model that keeps state begins anew
                truth = stack.enter_context(closing(backend.compile(reference)))
            poison = _POISONS[sample % len(_POISONS)]
            with closing(backend.compile(plan, poison=poison)) as candidate:
                for step in range(in_a_row):
                    generator = random.Random(f"{seed}/{sample}" if step == 0 else f"{seed}/{sample}/{step}")
                    inputs = [random_bytes(port, generator) for port in truth.inputs]
                    expected = truth.run(inputs)
                    outputs, metrics = candidate.run_with_metrics(inputs)
                    _compare(candidate.outputs, outputs, expected, sample)
                found.append(metrics)
    return found


def _firings(index: int, node: Node) -> Iterator[Firing]:
    """Yield the firings of a node: one, or as few as the plan format can count."""
    step = node.units if node.by_input else MOST_UNITS
    for first in range(0, node.units, max(step, 1)):
        yield Firing(node=index, first=first, last=min(first + step, node.units))


def random_bytes(port: Port, generator: random.Random) -> bytes:
    """Return a random tensor for a port: integers over their whole range, reals in -1..1."""
    make = _GENERATORS.get(port.dtype)
    if make is None:
        return generator.randbytes(port.size_bytes)
    return make(port, generator)


def _floats(port: Port, generator: random.Random) -> bytes:
    words = array("h", generator.randbytes(port.size_bytes // 2))
    return struct.pack(f"<{len(words)}f", *(word / 32768 for word in words))


_GENERATORS: dict[str, Callable[[Port, random.Random], bytes]] = {"float32": _floats}


def _compare(ports: Sequence[Port], outputs: Sequence[bytes], expected: Sequence[bytes], sample: int) -> None:
    for port, got, want in zip(ports, outputs, expected, strict=True):
        if got == want:
            continue
        count = sum(a != b for a, b in zip(got, want, strict=True))
        raise ProofFailed(
            f"the plan failed its proof: {count} of {len(want)} bytes of output {port.name} differ from the untiled "
            f"schedule (sample {sample}). No plan was written; please report this with the model"
        )
