"""The map of a plan: lives by hand, peaks as the schedulers count them, and an SVG that holds what the plan says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fitting import fit, target_of
from graphs import GraphBuilder, random_graph, small_cnn
from stowplan.build.map_plot import svg
from stowplan.build.memory_map import MemoryMap, memory_map
from stowplan.build.prove import separate_schedule
from stowplan.build.verify import Checker, checked_tiling, verify
from stowplan.errors import DoesNotFit
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Firing, Schedule
from stowplan.flow.target import Pool, Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_greedy import GreedyScheduler
from stowplan_scheduler_stream import StreamScheduler

SVG = "{http://www.w3.org/2000/svg}"
BYTE_ALIGNED = Target(pools=(Pool(name="fast", size_bytes=None, alignment_bytes=1),))


def chain(rows: int = 4) -> Graph:
    """t0 of 8 bytes a row -> 3x3 depthwise -> t3 of 8 bytes a row -> relu -> t4 of 8 bytes a row."""
    b = GraphBuilder()
    return b.graph(b.unary(b.depthwise(b.input(1, rows, 4, 2)), "relu"))


def by_rows(graph: Graph) -> Schedule:
    """The untiled schedule, fired row by row: all of the first operator, then all of the second."""
    whole = separate_schedule(graph)
    firings = tuple(
        Firing(node=n, first=r, last=r + 1) for n, node in enumerate(whole.nodes) for r in range(node.units)
    )
    found = replace(whole, firings=firings, regions=(replace(whole.regions[0], last=len(firings), tiled=True),))
    verify(graph, found)
    return found


def tiled(graph: Graph, schedule: Schedule) -> Graph:
    """The graph whose tensors and operators a schedule names."""
    return checked_tiling(graph, schedule.tiles).graph if schedule.tiles else graph


def lives(memory: MemoryMap, tensor: int) -> list[tuple[int, int, int, int]]:
    return [(b.first_row, b.last_row, b.first, b.last) for b in memory.fast.boxes if b.tensor == tensor]


def test_whole_tensors_live_from_their_operator_to_their_last_reader() -> None:
    graph = chain()
    memory = memory_map(graph, separate_schedule(graph))
    (output,) = graph.outputs
    between = graph.operators[1].inputs[0]
    assert [lives(memory, t) for t in (*graph.inputs, between, output)] == [
        [(0, 4, 0, 1)],
        [(0, 4, 0, 2)],
        [(0, 4, 1, 2)],
    ]
    assert (memory.fast.peak(0, 2).size_bytes, memory.fast.alive([1])) == (64, [{between: 32, output: 32}])


def test_rows_live_until_the_last_window_that_covers_them_and_outputs_to_the_end() -> None:
    """Row r of the input is read by output rows r-1 to r+1; rows 2 and 3 end with output row 3, so they are one box."""
    graph = chain()
    memory = memory_map(graph, by_rows(graph))
    assert lives(memory, graph.inputs[0]) == [(0, 1, 0, 2), (1, 2, 0, 3), (2, 4, 0, 4)]
    assert lives(memory, graph.operators[1].inputs[0]) == [(r, r + 1, r, r + 5) for r in range(4)]
    assert lives(memory, graph.outputs[0]) == [(r, r + 1, 4 + r, 8) for r in range(4)]


def test_rows_of_a_streamed_input_live_from_their_arrival() -> None:
    graph = chain(rows=12)
    options = ScheduleOptions(thorough=True, streamed_inputs=graph.inputs)
    schedule = StreamScheduler().schedule(graph, target_of(None), options)
    memory = memory_map(graph, schedule)
    arrivals = {row: step for step, f in enumerate(schedule.firings) if schedule.nodes[f.node].is_arrival
                for row in range(f.first, f.last)}  # fmt: skip
    boxes = [box for box in memory.fast.boxes if box.tensor == graph.inputs[0]]
    assert {box.first_row: box.first for box in boxes} == {box.first_row: arrivals[box.first_row] for box in boxes}
    assert max(box.first for box in boxes) > 0
    assert {box.writer for box in boxes} == {"the application, row by row"}


def test_boxes_name_what_writes_them() -> None:
    graph = chain()
    writers = {box.tensor: box.writer for box in memory_map(graph, by_rows(graph)).fast.boxes}
    assert writers[graph.inputs[0]] == "the application"
    assert writers[graph.outputs[0]] == graph.operators[1].source


@pytest.mark.parametrize("seed", range(6))
def test_peaks_of_stages_are_the_largest_sums_of_their_firings(seed: int) -> None:
    graph = random_graph(seed)
    schedule = tight(graph, slow=True)
    memory = memory_map(tiled(graph, schedule), schedule)
    for pool in memory.pools:
        sums = [sum(b.size_bytes for b in pool.boxes if b.first <= step < b.last) for step in range(memory.steps)]
        assert [p.size_bytes for p in pool.peaks(memory.stages)] == [max(sums[a:b]) for a, b in memory.stages]
        assert [sum(sizes.values()) for sizes in pool.alive(range(memory.steps))] == sums


class Witness(Checker):
    """The checker, writing down the first and last firing that touches each row."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        super().__init__(graph, schedule)
        self.touched: dict[tuple[int, int], tuple[int, int]] = {}

    def _fire(self, step: int, firing: Firing) -> None:
        super()._fire(step, firing)
        node = self.schedule.nodes[firing.node]
        for segment in (*self._reads(node, firing), *self._writes(node, firing)):
            first, _ = self.touched.get(segment, (step, step))
            self.touched[segment] = (first, step + 1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("slow", [False, True], ids=["one pool", "two pools"])
def test_lives_are_what_the_checker_sees_read_and_written(seed: int, slow: bool) -> None:
    graph = random_graph(seed)
    schedule = tight(graph, slow)
    graph = tiled(graph, schedule)
    witness = Witness(graph, schedule)
    witness.check()
    inputs = {index for _, index in schedule.interface[: len(graph.inputs)]}
    outputs = {index for _, index in schedule.interface[len(graph.inputs) :]}
    expected = set()
    for index, buffer in enumerate(schedule.buffers):
        for row, offset in enumerate(buffer.offsets):
            first, last = witness.touched.get((index, row), (0, 1))
            first, last = 0 if index in inputs else first, len(schedule.firings) if index in outputs else last
            expected.add((buffer.pool, buffer.tensor, buffer.accumulator, row, offset, first, last))
    found = set()
    for number, pool in enumerate(memory_map(graph, schedule).pools):
        for box in pool.boxes:
            size = box.size_bytes // (box.last_row - box.first_row)
            for at, row in enumerate(range(box.first_row, box.last_row)):
                place = box.offset_bytes + at * size
                found.add((number, box.tensor, box.accumulator, row, place, box.first, box.last))
    assert found == expected


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("scheduler", [GreedyScheduler(), StreamScheduler()], ids=["greedy", "stream"])
def test_no_more_is_alive_than_the_scheduler_counted(seed: int, scheduler) -> None:
    graph = random_graph(seed)
    options = ScheduleOptions(thorough=scheduler.name == "stream", time_limit_s=1.0)
    schedule = scheduler.schedule(graph, BYTE_ALIGNED, options)
    memory = memory_map(graph, schedule)
    biggest = max(sum(graph.tensors[t].size_bytes for t in (*graph.inputs,)), *(b.row_bytes for b in schedule.buffers))
    assert biggest <= memory.fast.peak(0, memory.steps).size_bytes <= schedule.live_peak_bytes[0]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("slow", [False, True], ids=["one pool", "two pools"])
def test_in_the_svg_every_box_lies_inside_its_pool_and_none_overlaps_another_alive(seed: int, slow: bool) -> None:
    graph = random_graph(seed)
    schedule = tight(graph, slow)
    memory = memory_map(tiled(graph, schedule), schedule)
    panels = drawn(svg(memory))
    assert len(panels) == sum(bool(pool.boxes) for pool in memory.pools)
    for (name, boxes), pool in zip(panels.items(), (p for p in memory.pools if p.boxes), strict=True):
        assert name == f"pool-{pool.name}"
        assert len(boxes) == len(pool.boxes)
        for x, y, width, height in boxes:
            assert 0 <= x < x + width <= memory.steps
            assert 0 <= y < y + height <= pool.size_bytes
        assert not list(overlaps(boxes))


def test_the_oracle_of_overlaps_finds_one() -> None:
    assert list(overlaps([(0, 0, 2, 8), (1, 4, 2, 8)]))
    assert not list(overlaps([(0, 0, 2, 8), (1, 8, 2, 8), (2, 0, 1, 8)]))


def test_hostile_names_neither_break_the_xml_nor_leave_their_text() -> None:
    evil = '</title><script>alert("x")</script>&\x00\x1b\ud800\uffff' + "n" * 500
    graph = small_cnn()
    tensors = tuple(replace(t, name=evil) for t in graph.tensors)
    operators = tuple(replace(o, source=evil) for o in graph.operators)
    graph = replace(graph, tensors=tensors, operators=operators, name=evil)
    text = svg(memory_map(graph, separate_schedule(graph)))
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(text.encode()).iter()}
    assert tags == {"svg", "title", "style", "rect", "text", "g", "line"}
    assert not re.search(r"href|url\(|@import|<script", text)


def test_a_box_tells_its_tensor_rows_bytes_and_life() -> None:
    graph = chain()
    titles = [t.text for t in ElementTree.fromstring(svg(memory_map(graph, by_rows(graph)))).iter(f"{SVG}title")]
    name, writer = graph.tensors[graph.outputs[0]].name, graph.operators[1].source
    assert f"{name}: row 2, 8 B at 80, firings 6-7, by {writer}" in titles
    assert "t0: rows 2-3, 16 B at 16, firings 0-3, by the application" in titles


def test_the_budget_is_drawn_near_the_plan_and_only_named_when_it_is_far() -> None:
    graph = small_cnn()
    near, far = (svg(memory_map(graph, fit(graph, size).schedule)) for size in (1024, 1 << 20))
    assert 'class="budget"' in near and "budget 1 KiB" in near
    assert 'class="budget"' not in far and "budget 1 MiB" in far


def test_memory_kept_for_weights_is_on_the_map() -> None:
    graph = small_cnn()
    schedule = fit(graph, 4096, compressor="lz4").schedule
    assert f"kept for decompressed weights, {schedule.weights_reserved_bytes:,} B" in svg(memory_map(graph, schedule))


def test_a_plan_of_ten_thousand_firings_stays_a_small_file() -> None:
    b = GraphBuilder()
    x = b.input(1, 2500, 2, 2)
    for _ in range(4):
        x = b.depthwise(x)
    graph = b.graph(x)
    schedule = by_rows(graph)
    assert len(schedule.firings) == 10_000
    text = svg(memory_map(graph, schedule))
    assert sum(map(len, drawn(text).values())) > 10_000
    assert len(text) < 3_000_000


def tight(graph: Graph, slow: bool) -> Schedule:
    """A schedule that had to stream, and with slow memory to spill, where the graph allows that."""
    budget = fit(graph, None).schedule.pool_bytes[0]
    sizes = (None,) if slow else ()
    best = StreamScheduler().schedule(graph, target_of(budget, *sizes), ScheduleOptions())
    while budget > 32:
        budget = budget * 3 // 4
        try:
            best = StreamScheduler().schedule(graph, target_of(budget, *sizes), ScheduleOptions())
        except DoesNotFit:
            break
    return best


def drawn(text: str) -> dict[str, list[tuple[int, int, int, int]]]:
    """Return the boxes of each pool as (x, y, width, height) in firings and bytes."""
    panels = {}
    for group in ElementTree.fromstring(text.encode()).iter(f"{SVG}g"):
        if group.get("class") == "boxes":
            rects = [tuple(int(r.attrib[k]) for k in ("x", "y", "width", "height")) for r in group.iter(f"{SVG}rect")]
            panels[group.attrib["id"]] = rects
    return panels  # type: ignore[return-value]


def overlaps(boxes: list[tuple[int, int, int, int]]) -> Iterator[tuple[int, int]]:
    order = sorted(range(len(boxes)), key=lambda i: boxes[i][0])
    alive: list[int] = []
    for index in order:
        x, y, _, height = boxes[index]
        alive = [i for i in alive if boxes[i][0] + boxes[i][2] > x]
        yield from ((i, index) for i in alive if boxes[i][1] < y + height and y < boxes[i][1] + boxes[i][3])
        alive.append(index)
