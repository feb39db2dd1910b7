"""The native packer: its answers are right, least where the oracle knows, and good in the time it is given.

rows/*.csv are the lives of the rows of the standard int8 models, streamed through in an order with the least live peak,
with the input resident (its rows are pinned) or streamed in.
"""

from __future__ import annotations

import csv
import ctypes
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan_scheduler_stream
from brute_pack import can_fill, faults, least_height
from rectangles import perfect
from stowplan.build.arena import Box, Placement, live_peak
from stowplan.errors import InternalFault
from stowplan_scheduler_stream.packer import SECOND, Packer, Packing

NATIVE = Path(stowplan_scheduler_stream.__file__).parent / "native"
ROWS = Path(__file__).parent / "rows"
SOURCES = ("pack.c", "search.c", "timeline.c", "greedy.c", "edges.c", "ejection.c", "valley.c", "pq.c", "sweep.c")
NONE, FOUND = 0, 1
"""Answers of native/search.h."""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("pack") / "pack.so"
    flags = "-std=c11 -O2 -shared -fPIC -Wall -Wextra -Wconversion -Werror".split()
    sources = [*(NATIVE / name for name in SOURCES), Path(__file__).parent / "sweep_alone.c"]
    subprocess.run([compiler, *flags, f"-I{NATIVE}", "-o", library, *sources], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def packer(library: ctypes.CDLL) -> Packer:
    return Packer(library)


def rows(name: str) -> list[Box]:
    with (ROWS / f"{name}.csv").open() as file:
        lines = [[int(cell) if cell else None for cell in line] for line in list(csv.reader(file))[1:]]
    return [Box(*line) for line in lines]  # type: ignore[arg-type]


def assert_right(boxes: list[Box], packing: Packing, floor_bytes: int = 0, block: tuple[int, ...] = (0,)) -> None:
    placement = packing.placement
    assert faults(boxes, placement.offsets, placement.height_bytes, floor_bytes) == []
    shifts = {o - b.offset_bytes for b, o in zip(boxes, placement.offsets, strict=True) if b.offset_bytes is not None}
    assert len(shifts) <= 1
    assert all(shift == 0 or any(a and shift % a == 0 for a in block) for shift in shifts)
    assert packing.live_peak_bytes == live_peak(boxes) + floor_bytes


@st.composite
def few_boxes(draw: st.DrawFn) -> list[Box]:
    boxes = []
    for _ in range(draw(st.integers(0, 6))):
        first, life = draw(st.integers(0, 6)), draw(st.integers(0, 5))
        boxes.append(Box(first, first + life, draw(st.integers(0, 9)), draw(st.sampled_from([1, 2, 3, 4]))))
    return boxes


@settings(max_examples=400, deadline=None)
@given(boxes=few_boxes(), floor_bytes=st.integers(0, 3), seed=st.integers(0, 9))
def test_few_boxes_are_placed_as_low_as_any_order_can(
    packer: Packer, boxes: list[Box], floor_bytes: int, seed: int
) -> None:
    packing = packer.pack(boxes, floor_bytes=floor_bytes, work=2 * SECOND, seed=seed)
    assert_right(boxes, packing, floor_bytes)
    assert packing.proven
    assert packing.placement.height_bytes == least_height(boxes, floor_bytes)


@settings(max_examples=150, deadline=None)
@given(boxes=few_boxes(), pin=st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 6), st.integers(0, 7)))
def test_nothing_touches_a_pinned_box_and_no_order_around_it_is_lower_than_a_proof_says(
    packer: Packer, boxes: list[Box], pin: tuple[int, int, int, int]
) -> None:
    boxes = [*boxes[:5], Box(pin[0], pin[0] + pin[1], pin[2], 1, pin[3])]
    packing = packer.pack(boxes, work=SECOND // 20)
    assert_right(boxes, packing)
    least = least_height(boxes)
    assert packing.placement.height_bytes >= least
    assert not packing.proven or packing.placement.height_bytes == least


@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("model", ["kws", "vww", "resnet8", "person_detect"])
def test_rows_of_the_standard_models_lie_within_1_percent_of_their_live_peak(
    packer: Packer, model: str, mode: str
) -> None:
    boxes = rows(f"{model}_{mode}")
    goal = live_peak(boxes) * 101 // 100
    packing = packer.pack(boxes, goal_bytes=goal, work=30 * SECOND, block_alignments=(16, 4))
    assert_right(boxes, packing, block=(16, 4))
    assert packing.placement.height_bytes <= goal


@pytest.mark.parametrize("model", ["kws_resident", "vww_streamed", "resnet8_streamed", "person_detect_streamed"])
def test_rows_of_the_standard_models_reach_their_live_peak(packer: Packer, model: str) -> None:
    boxes = rows(model)
    packing = packer.pack(boxes, work=30 * SECOND, block_alignments=(16, 4))
    assert_right(boxes, packing, block=(16, 4))
    assert packing.proven
    assert packing.placement.height_bytes == live_peak(boxes)


@pytest.mark.parametrize("count", [60, 154, 170, 203, 213, 215, 296, 308, 316, 374, 409, 454])
def test_a_rectangle_cut_to_pieces_is_put_together_again(packer: Packer, count: int) -> None:
    boxes = [Box(first, last, high - low, 1024) for first, last, low, high in perfect(count, count)]
    packing = packer.pack(boxes, work=10 * SECOND)
    assert_right(boxes, packing)
    assert packing.placement.height_bytes == 1024 * 1024


def sweep_alone(library: ctypes.CDLL, boxes: list[Box], backwards: int, draws: int) -> tuple[int, list[int]]:
    count = len(boxes)
    steps = [*(box.first for box in boxes), *(box.last for box in boxes)]
    numbers = [*(box.size_bytes for box in boxes), *(box.alignment_bytes for box in boxes), *[-1] * count]
    offsets = (ctypes.c_int64 * count)()
    library.sweep_alone.restype = ctypes.c_int64
    answer = library.sweep_alone(
        count,
        (ctypes.c_int32 * len(steps))(*steps),
        (ctypes.c_int64 * len(numbers))(*numbers),
        backwards,
        draws,
        offsets,
    )
    return answer, list(offsets)


def full_boxes(rng: random.Random, height: int, steps: int) -> list[Box]:
    """Boxes that need the whole height at every step; whether they can be placed is another matter."""
    alive: list[tuple[int, int]] = []  # (first step, size)
    boxes = []
    for step in range(steps):
        left = height - sum(size for _, size in alive)
        while left:
            alive.append((step, rng.randint(1, min(left, 5))))
            left -= alive[-1][1]
        rng.shuffle(alive)
        for _ in range(len(alive) if step == steps - 1 else rng.randint(1, 2)):
            if alive:
                first, size = alive.pop()
                boxes.append(Box(first, step + 1, size, 1))
    return boxes


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_sweep_fills_a_height_exactly_when_that_can_be_done(library: ctypes.CDLL, backwards: int) -> None:
    answers = set()
    for seed in range(400):
        boxes = full_boxes(random.Random(seed), 10, 10)
        answer, offsets = sweep_alone(library, boxes, backwards, draws=seed % 2)
        assert answer == (FOUND if can_fill(boxes, 10) else NONE)
        assert answer == NONE or faults(boxes, offsets, 10) == []
        answers.add(answer)
    assert answers == {NONE, FOUND}


def test_two_searches_that_rule_a_height_out_rule_out_no_other(packer: Packer) -> None:
    """A byte more at each step, in boxes of their own, fills the next height exactly where the boxes fit into it."""
    heights = set()
    for seed in (*range(40), 138, 177, 213):
        boxes = full_boxes(random.Random(seed), 12, 12)
        found = packer.pack(boxes, work=SECOND // 10)
        loose = [Box(step, step + 1, 1, 1) for step in range(max(box.last for box in boxes))]
        if found.proven and found.placement.height_bytes > 13:
            assert not can_fill([*boxes, *loose], 13), seed
        heights.add(found.placement.height_bytes)
    assert {12, 13} <= heights


def test_boxes_that_leave_a_byte_empty_are_not_swept(library: ctypes.CDLL) -> None:
    assert sweep_alone(library, [Box(0, 2, 3, 1), Box(0, 1, 2, 1), Box(1, 2, 1, 1)], 0, 0)[0] not in (NONE, FOUND)


def test_where_a_height_cannot_be_filled_the_next_one_is_proven_least(packer: Packer) -> None:
    for seed in range(400):
        boxes = full_boxes(random.Random(seed), 10, 10)
        if not can_fill(boxes, 10):
            packing = packer.pack(boxes, work=SECOND)
            assert_right(boxes, packing)
            assert packing.placement.height_bytes == 11
            assert packing.proven
            return
    pytest.fail("no such boxes")


def test_a_short_limit_gives_the_best_greedy_placement_in_time(packer: Packer) -> None:
    boxes = rows("person_detect_streamed")
    start = time.perf_counter()
    packing = packer.pack(boxes, work=SECOND // 20)
    assert time.perf_counter() - start < 1.0
    assert_right(boxes, packing)
    assert packing.placement.height_bytes < 2 * live_peak(boxes)


def test_the_same_seed_finds_the_same_placement(packer: Packer) -> None:
    boxes = rows("resnet8_streamed")
    goal = live_peak(boxes) * 103 // 100
    found = [packer.pack(boxes, goal_bytes=goal, work=0, seed=5).placement for _ in range(2)]
    assert found[0] == found[1]


def test_a_hint_is_never_made_worse(packer: Packer) -> None:
    boxes = rows("vww_streamed")
    stacked, end = [], 0
    for box in boxes:
        stacked.append(end)
        end += -(-box.size_bytes // 16) * 16
    best = packer.pack(boxes, work=5 * SECOND).placement
    packing = packer.pack(boxes, work=0, hint=best)
    assert packing.placement == best
    assert packing.member == "hint"
    assert packer.pack(boxes, work=0, hint=Placement(tuple(stacked), end)).placement.height_bytes < end


def test_the_rows_of_an_input_move_up_together_where_that_saves_bytes(packer: Packer) -> None:
    """Input rows of 16 bytes end one by one from the bottom; hung from the top they leave one growing gap below.

    Steps 0..4; a result of 48 bytes is born when three of the four rows are gone, above or below what is left.
    """
    boxes = [Box(0, r + 1, 16, 1, 16 * r) for r in range(4)] + [Box(3, 5, 48, 4)]
    packing = packer.pack(boxes, work=2 * SECOND, block_alignments=(16, 4))
    assert_right(boxes, packing, block=(16,))
    assert packing.placement.height_bytes == 64


@pytest.mark.parametrize(
    "boxes",
    [
        [Box(0, 2, 8, 4, 0), Box(1, 3, 8, 4, 4)],
        [Box(0, 1, 8, 4, 2)],
        [Box(2, 1, 8)],
        [Box(0, 1, -1)],
        [Box(0, 1, 2**62)],
        [Box(0, 2**31, 1)],
        [Box(0, 1, 1, 0)],
    ],
)
def test_boxes_that_make_no_sense_are_refused_in_one_line(packer: Packer, boxes: list[Box]) -> None:
    with pytest.raises(InternalFault, match="packer"):
        packer.pack(boxes, work=SECOND // 10)


def test_no_boxes_need_no_bytes(packer: Packer) -> None:
    assert packer.pack([]).placement == Placement((), 0)
    assert packer.pack([], floor_bytes=12).placement == Placement((), 12)
