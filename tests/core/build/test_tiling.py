"""Any tiles of a graph compute what it does; the checker of tiles finds planted faults, each by its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fitting import NO_FILE
from graphs import GraphBuilder, random_graph
from stowplan.build.codec import schedule_document, schedule_of
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.build.prove import prove, separate_schedule
from stowplan.build.tiling import TiledGraph, can_cut_channels, can_cut_columns, tiled_graph, whole_box
from stowplan.build.verify import ScheduleFault, checked_tiling, verify
from stowplan.build.verify_tiles import TilingFault, check_tiles
from stowplan.flow.graph import Graph, Operator
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Schedule, Tile
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import host


def chain() -> Graph:
    """8x8x4 through a convolution, a depthwise one with stride, a pointwise one: every tile has a neighbour."""
    b = GraphBuilder()
    x = b.conv(b.depthwise(b.conv(b.input(1, 8, 8, 4), 4), stride=(2, 2)), 6, (1, 1))
    return b.graph(b.fully_connected(b.mean(x), 3))


STRIPS = (
    Tile(operator=0, columns=(0, 5), section=1),
    Tile(operator=1, columns=(0, 2), section=1),
    Tile(operator=2, columns=(0, 2), section=1),
    Tile(operator=0, columns=(5, 8), section=1),
    Tile(operator=1, columns=(2, 4), section=1),
    Tile(operator=2, columns=(2, 4), section=1),
    Tile(operator=3),
    Tile(operator=4),
)
GROUPS = (
    Tile(operator=0, channels=(0, 1)),
    Tile(operator=1, channels=(0, 1)),
    Tile(operator=0, channels=(1, 4)),
    Tile(operator=1, channels=(1, 4)),
    Tile(operator=2, channels=(2, 6)),
    Tile(operator=2, channels=(0, 2)),
    Tile(operator=3),
    Tile(operator=4, channels=(0, 1)),
    Tile(operator=4, channels=(1, 3)),
)


def separate(graph: Graph, tiles: tuple[Tile, ...]) -> Schedule:
    tiled = checked_tiling(graph, tiles).graph
    return replace(separate_schedule(tiled), graph_digest=graph.digest, tiles=tiles)


def prove_tiles(graph: Graph, tiles: tuple[Tile, ...]) -> None:
    """Run the tiles against the graph as it was."""
    plan = make_plan(NO_FILE, Lowering(graph), separate(graph, tiles), PlanOptions())
    truth = make_plan(NO_FILE, Lowering(graph), separate_schedule(graph), PlanOptions())
    prove(host().backends()["c"], write_plan(plan), write_plan(truth), seed=graph.digest, samples=1)


@pytest.mark.parametrize("tiles", [STRIPS, GROUPS], ids=["strips", "groups"])
def test_tiles_compute_the_bytes_of_the_graph(tiles: tuple[Tile, ...]) -> None:
    prove_tiles(chain(), tiles)


def ranges(draw: st.DrawFn, size: int, step: int, overlap: bool) -> list[tuple[int, int]]:
    """Cut [0, size) at random multiples of `step`; with `overlap`, pieces may reach into their neighbours."""
    inner = draw(st.sets(st.integers(1, max(size // step - 1, 1)), max_size=2)) if size // step > 1 else set()
    ends = [0, *sorted(i * step for i in inner), size]
    found = list(pairwise(ends))
    if overlap and len(found) > 1:
        found = [(max(a - step, 0), min(b + step, size)) for a, b in found]
    return [(0, size)] if (0, size) in found else found


@st.composite
def tilings(draw: st.DrawFn) -> tuple[Graph, tuple[Tile, ...]]:
    """A random network, each operator in random columns and channels, overlapping or not, in random order."""
    seed = draw(st.integers(0, 400))
    graph = random_graph(seed, draw(st.sampled_from(["int8", "float32"])))
    tiles: list[Tile] = []
    for index, operator in enumerate(graph.operators):
        box = whole_box(graph.tensors[operator.outputs[0]])
        columns: list[tuple[int, int] | None] = [None]
        channels: list[tuple[int, int] | None] = [None]
        overlap = draw(st.booleans())
        if can_cut_columns(graph, operator) and draw(st.booleans()):
            columns = [None if r == box.columns else r for r in ranges(draw, box.columns[1], 1, overlap)]
        if can_cut_channels(graph, operator) and draw(st.booleans()):
            group = operator.integer("multiplier") if operator.kind == "depthwise_conv_2d" else 1
            channels = [None if r == box.channels else r for r in ranges(draw, box.channels[1], group, overlap)]
        own = [
            Tile(operator=index, columns=a, channels=b, section=draw(st.integers(0, 1)))
            for a in columns
            for b in channels
        ]
        tiles += draw(st.permutations(own))
    return graph, tuple(tiles)


@settings(max_examples=80, deadline=None)
@given(tilings())
def test_any_tiles_of_any_network_compute_its_bytes(found: tuple[Graph, tuple[Tile, ...]]) -> None:
    graph, tiles = found
    try:
        prove_tiles(graph, tiles)
    except ScheduleFault as err:  # a column that reads padding only is no operator; nothing else may be refused
        assume("read padding only" not in str(err))
        raise


def with_operator(tiled: TiledGraph, index: int, **changes: object) -> Graph:
    operators = list(tiled.graph.operators)
    operators[index] = replace(operators[index], **changes)  # type: ignore[arg-type]
    return replace(tiled.graph, operators=tuple(operators))


def first(tiled: TiledGraph, kind: str, origin: int | None = None) -> int:
    """Return the first operator of a kind, or that of a tile."""
    pairs = enumerate(zip(tiled.graph.operators, tiled.origins, strict=True))
    return next(i for i, (op, o) in pairs if op.kind == kind and (origin is None or o == origin))


def attribute(tiled: TiledGraph, index: int, **changes: object) -> Graph:
    return with_operator(tiled, index, attributes={**tiled.graph.operators[index].attributes, **changes})


def other_pad(tiled: TiledGraph) -> Graph:
    """The second strip of the first convolution pads on the left, as the first does."""
    return attribute(tiled, first(tiled, "conv_2d", 3), pad_left=1)


def other_stride(tiled: TiledGraph) -> Graph:
    return attribute(tiled, first(tiled, "depthwise_conv_2d"), stride_w=1)


def other_slice(tiled: TiledGraph) -> Graph:
    index = first(tiled, "rearrange")
    return attribute(tiled, index, offset=0 if tiled.graph.operators[index].integer("offset") else 4)


def other_order(tiled: TiledGraph) -> Graph:
    index = first(tiled, "concatenation")
    return with_operator(tiled, index, inputs=tiled.graph.operators[index].inputs[::-1])


def other_input(tiled: TiledGraph) -> Graph:
    """The last convolution's second strip reads what its first did."""
    before = tiled.graph.operators[first(tiled, "conv_2d", 2)]
    index = first(tiled, "conv_2d", 5)
    return with_operator(tiled, index, inputs=(before.inputs[0], *tiled.graph.operators[index].inputs[1:]))


def other_output(tiled: TiledGraph) -> Graph:
    return replace(tiled.graph, outputs=tiled.graph.inputs)


def no_producer(tiled: TiledGraph) -> Graph:
    operators = list(tiled.graph.operators)
    swap = first(tiled, "concatenation")
    operators.insert(0, operators.pop(swap))
    return replace(tiled.graph, operators=tuple(operators))


def other_kind(tiled: TiledGraph) -> Graph:
    return with_operator(tiled, first(tiled, "rearrange"), kind="sample")


STRIP_FAULTS: dict[Callable[[TiledGraph], Graph], set[str]] = {
    other_pad: {"columns"},
    other_stride: {"operator"},
    other_slice: {"columns", "move", "operands", "shape"},
    other_order: {"move"},
    other_input: {"operands", "columns"},
    other_output: {"ports"},
    no_producer: {"order", "operator", "move"},
    other_kind: {"move"},
}


@pytest.mark.parametrize("plant", STRIP_FAULTS, ids=lambda plant: plant.__name__)
def test_a_fault_planted_in_strips_is_found(plant: Callable[[TiledGraph], Graph]) -> None:
    graph = chain()
    tiled = tiled_graph(graph, STRIPS)
    check_tiles(graph, STRIPS, tiled.graph, tiled.origins)
    with pytest.raises(TilingFault) as fault:
        check_tiles(graph, STRIPS, plant(tiled), tiled.origins)
    assert fault.value.rule in STRIP_FAULTS[plant]
    assert "the tiles are wrong" in str(fault.value)


def swapped_constants(tiled: TiledGraph, position: int) -> Graph:
    """The second group of the depthwise convolution gets the weights or biases of channels one further up."""
    index = first(tiled, "depthwise_conv_2d", 3)
    operator: Operator = tiled.graph.operators[index]
    tensors = list(tiled.graph.tensors)
    number = operator.inputs[position]
    data = tiled.graph.constant_bytes(number)
    turned = data[1:] + data[:1]
    tensors[number] = replace(tensors[number], constant="0" * 64)
    return replace(tiled.graph, tensors=tuple(tensors), constants={**tiled.graph.constants, "0" * 64: turned})


def other_scales(tiled: TiledGraph) -> Graph:
    index = first(tiled, "conv_2d", 4)
    tensors = list(tiled.graph.tensors)
    number = tiled.graph.operators[index].inputs[1]
    quantization = tensors[number].quantization
    assert quantization is not None
    tensors[number] = replace(tensors[number], quantization=replace(quantization, scales=quantization.scales[::-1]))
    return replace(tiled.graph, tensors=tuple(tensors))


GROUP_FAULTS: dict[str, Callable[[TiledGraph], Graph]] = {
    "weights": lambda tiled: swapped_constants(tiled, 1),
    "biases": lambda tiled: swapped_constants(tiled, 2),
    "scales": other_scales,
}


@pytest.mark.parametrize("name", GROUP_FAULTS)
def test_weights_of_other_channels_are_found(name: str) -> None:
    graph = chain()
    tiled = tiled_graph(graph, GROUPS)
    check_tiles(graph, GROUPS, tiled.graph, tiled.origins)
    with pytest.raises(TilingFault) as fault:
        check_tiles(graph, GROUPS, GROUP_FAULTS[name](tiled), tiled.origins)
    assert fault.value.rule == "weights"


@pytest.mark.parametrize(
    ("tiles", "words"),
    [
        ((Tile(operator=9),), "names an operator that does not exist"),
        (STRIPS[:1], "read before it is made"),
        ((*STRIPS[:3], *STRIPS[4:]), "read before it is made"),
        ((Tile(operator=0, columns=(3, 3)), *STRIPS[1:]), "has no tile of"),
        ((*STRIPS[:-2], Tile(operator=3, columns=(0, 2))), "has no tile of"),
        ((Tile(operator=0), Tile(operator=0), *STRIPS[1:3], *STRIPS[4:]), "computed twice as a whole"),
    ],
)
def test_tiles_that_cannot_be_are_refused_with_the_reason(tiles: tuple[Tile, ...], words: str) -> None:
    graph = chain()
    with pytest.raises(ScheduleFault, match=words) as fault:
        verify(graph, replace(separate_schedule(graph), tiles=tiles))
    assert fault.value.rule == "tiles"


def test_a_schedule_in_tiles_survives_the_cache() -> None:
    schedule = separate(chain(), STRIPS)
    assert schedule_of(schedule_document(schedule), schedule.target) == schedule


def test_strips_share_their_weights_and_groups_take_each_a_part() -> None:
    graph = chain()
    whole = make_plan(NO_FILE, Lowering(graph), separate_schedule(graph), PlanOptions())
    truth = sum(len(block) for block in weights_of(whole))
    for tiles in (STRIPS, GROUPS):
        plan = make_plan(NO_FILE, Lowering(graph), separate(graph, tiles), PlanOptions())
        assert sum(len(block) for block in weights_of(plan)) == truth


def weights_of(plan: Plan) -> set[bytes]:
    found = (lowered.params.get("weights") for lowered in plan.lowered)
    return {data for data in found if isinstance(data, bytes)}
