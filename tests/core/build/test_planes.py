"""Streamed planes arrive as pixels: the same network, and only where nothing else would notice."""

from __future__ import annotations

from dataclasses import replace

from fitting import NO_FILE, prove_plan
from graphs import GraphBuilder
from stowplan.build.passes.planes import arriving_pixels
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.flow.graph import Graph
from stowplan.flow.plan import Plan
from stowplan.flow.target import Pool, Target
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler

TARGET = Target(pools=(Pool(name="fast", size_bytes=None),))


def planes() -> Graph:
    """3x12x8 -> 12x8x3 -> conv stride 2 -> mean."""
    b = GraphBuilder(seed=4)
    return b.graph(b.mean(b.conv(b.pixels(b.input(1, 3, 12, 8)), 4, stride=(2, 2))))


def outputs_of(plan: Plan, data: bytes) -> bytes:
    backend = host().backends()["c"]
    model = backend.compile(prove_plan(plan))
    try:
        return model.run([data])[0]
    finally:
        model.close()


def test_pixels_that_arrive_give_what_planes_gave() -> None:
    graph = planes()
    pixels = arriving_pixels(graph, graph.inputs)
    assert pixels.tensors[graph.inputs[0]].shape == (1, 12, 8, 3)
    assert [op.kind for op in pixels.operators] == ["conv_2d", "mean"]
    assert pixels.notes == ('input "t0": its rows arrive as 1x12x8x3; the model itself makes that of its 1x3x12x8',)
    data = bytes(i * 7 % 256 for i in range(288))
    turned = bytes(data[c * 96 + y * 8 + x] for y in range(12) for x in range(8) for c in range(3))
    found = []
    for each, given, streamed in ((graph, data, ()), (pixels, turned, graph.inputs)):
        options = ScheduleOptions(thorough=True, streamed_inputs=streamed)
        schedule = StreamScheduler().schedule(each, TARGET, options)
        plan = make_plan(NO_FILE, Lowering(each), schedule, PlanOptions(schedule=options))
        found.append((outputs_of(plan, given), schedule.pool_bytes[0]))
    assert found[0][0] == found[1][0]
    assert found[1][1] < 288 <= found[0][1]


def test_planes_that_are_read_otherwise_stay_planes() -> None:
    graph = planes()
    source = graph.inputs[0]
    copied = replace(graph, operators=(*graph.operators, replace(graph.operators[0], outputs=(graph.outputs[0],))))
    assert arriving_pixels(copied, (source,)) is copied, "two readers"
    kept = replace(graph, outputs=(*graph.outputs, graph.operators[0].outputs[0]))
    assert arriving_pixels(kept, (source,)) is kept, "the pixels are an output"
    move = graph.operators[0]
    for attributes in ({**move.attributes, "offset": 1}, {**move.attributes, "strides": (288, 8, 1, 95)}):
        odd = replace(graph, operators=(replace(move, attributes=attributes), *graph.operators[1:]))
        assert arriving_pixels(odd, (source,)) is odd, "no plain transposition"
    assert arriving_pixels(graph, ()) is graph, "nothing is streamed"
