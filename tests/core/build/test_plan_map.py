"""The map of a plan file against that of its schedule; costs against sums by hand; letters against both."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitting import fit
from graphs import GraphBuilder, random_graph
from stowplan.build.costs import node_costs
from stowplan.build.map_text import text_lines
from stowplan.build.memory_map import MapBox, MemoryMap, PoolMap, memory_map
from stowplan.build.plan_map import plan_map
from stowplan.build.plan_report import facts_of_plan
from stowplan.cli.page import page
from stowplan.errors import DoesNotFit, PlanError
from stowplan.flow.plan import Plan
from stowplan.planfile.layout import HEADER
from stowplan.planfile.reader import following, read_plan
from stowplan.planfile.writer import digest_of, write_plan

DIGEST = HEADER.offset_of("digest")
SOUND = write_plan(fit(random_graph(3), None))


def cells(memory: MemoryMap) -> dict[tuple[str, int, int], list[int]]:
    """Map each (pool, firing, address) to the tensors that lie there, each box once."""
    found: dict[tuple[str, int, int], list[int]] = {}
    for pool in memory.pools:
        for box in pool.boxes:
            assert box.end_bytes <= pool.size_bytes and box.last <= memory.steps
            for step in range(box.first, box.last):
                for address in range(box.offset_bytes, box.end_bytes):
                    found.setdefault((pool.name, step, address), []).append(box.tensor)
    return found


def tight(seed: int, slow: bool) -> Plan:
    graph = random_graph(seed)
    whole = fit(graph, None)
    try:
        return fit(graph, whole.schedule.pool_bytes[0] * 3 // 4, *((1 << 20,) if slow else ()))
    except DoesNotFit:
        return whole


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("slow", [False, True], ids=["one pool", "two pools"])
def test_what_is_alive_lies_where_the_plan_file_has_something(seed: int, slow: bool) -> None:
    plan = tight(seed, slow)
    from_file = cells(plan_map(read_plan(write_plan(plan))))
    assert set(cells(memory_map(plan.graph, plan.schedule))) <= set(from_file)
    assert all(len(tensors) == 1 for tensors in from_file.values()), "two rows in one place"


def test_multiplications_are_those_of_the_definition() -> None:
    """1x8x8x3 -> 3x3 depthwise, same size -> relu."""
    b = GraphBuilder()
    graph = b.graph(b.unary(b.depthwise(b.input(1, 8, 8, 3)), "relu"))
    costs = node_costs(read_plan(write_plan(fit(graph, None))))
    assert [cost.macs for cost in costs if cost.kind.startswith("depthwise")] == [8 * 8 * 3 * 3 * 3]
    assert all(cost.macs is None for cost in costs if not cost.kind.startswith("depthwise"))
    assert all(cost.firings >= 1 and cost.output_bytes == 8 * 8 * 3 for cost in costs)


@st.composite
def maps(draw: st.DrawFn) -> MemoryMap:
    steps, size = draw(st.integers(1, 200)), draw(st.integers(1, 5000))
    boxes = []
    for tensor in range(draw(st.integers(1, 80))):
        first, offset = draw(st.integers(0, steps - 1)), draw(st.integers(0, size - 1))
        last, end = draw(st.integers(first + 1, steps)), draw(st.integers(offset + 1, size))
        boxes.append(
            MapBox(
                tensor=tensor,
                name=f"t{tensor}",
                writer="w",
                first_row=0,
                last_row=1,
                offset_bytes=offset,
                size_bytes=end - offset,
                first=first,
                last=last,
            )
        )
    pool = PoolMap(name="fast", size_bytes=size, budget_bytes=None, reserved_bytes=0, boxes=tuple(boxes))
    return MemoryMap(name="m", steps=steps, stages=((0, steps),), pools=(pool,))


@settings(max_examples=60, deadline=None)
@given(maps(), st.integers(1, 90), st.integers(1, 20))
def test_a_cell_of_letters_is_empty_just_where_nothing_lies(memory: MemoryMap, width: int, height: int) -> None:
    lines = [line.partition("|")[2] for line in text_lines(memory, width, height) if "|" in line]
    wide, high, pool = len(lines[0]), len(lines), memory.fast
    assert wide <= max(width, 1) and high == min(height, pool.size_bytes)
    for row, line in enumerate(reversed(lines)):
        for column, letter in enumerate(line):
            low, up = row * pool.size_bytes / high, (row + 1) * pool.size_bytes / high
            left, right = column * memory.steps / wide, (column + 1) * memory.steps / wide
            touched = any(
                box.offset_bytes < up and box.end_bytes > low and box.first < right and box.last > left
                for box in pool.boxes
            )
            assert (letter != ".") == touched


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_plan_that_lies_is_refused_or_drawn_and_never_a_fault(data: st.DataObject) -> None:
    """Its digest is right, so nothing but the tables themselves can say that they are wrong."""
    plan = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(144, len(plan) - 1))
        plan[at] = data.draw(st.integers(0, 255))
    plan[DIGEST : DIGEST + 32] = digest_of(bytes(plan))
    try:
        with following("plan"):
            view = read_plan(bytes(plan))
            memory = plan_map(view)
            facts = facts_of_plan("plan", view, memory, {}, None)
            assert page(facts, memory, node_costs(view)).endswith("</html>\n")
    except PlanError as err:
        assert str(err).count("\n") == 0
