"""Greedy placement: boxes alive together never overlap, fixed ones stay, and nothing is lower than the live peak."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan.build.arena import Box, _by_time, live_peak, place

boxes = st.lists(
    st.builds(
        lambda first, life, size, align: Box(first, first + life, size, align),
        st.integers(0, 20), st.integers(1, 10), st.integers(0, 50), st.sampled_from((1, 4, 16)),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip


@given(boxes, st.integers(0, 40))
def test_boxes_alive_together_never_overlap(found: list[Box], floor: int) -> None:
    placement = place(found, None, floor)
    for i, (a, at) in enumerate(zip(found, placement.offsets, strict=True)):
        assert at >= floor
        assert at % a.alignment_bytes == 0
        assert at + a.size_bytes <= placement.height_bytes
        for b, other in list(zip(found, placement.offsets, strict=True))[:i]:
            together = a.first < b.last and b.first < a.last
            assert (
                not together
                or at + a.size_bytes <= other
                or other + b.size_bytes <= at
                or not a.size_bytes * b.size_bytes
            )
    assert placement.height_bytes - floor >= live_peak(found) or placement.height_bytes >= live_peak(found)


@given(boxes)
def test_a_fixed_box_stays_where_it_is_and_others_keep_clear_of_its_whole_life(found: list[Box]) -> None:
    fixed = [Box(0, 5, 16, 1, 0), Box(0, 25, 16, 1, 16)]
    placement = place([*fixed, *found], None)
    assert placement.offsets[:2] == (0, 16)
    for box, at in zip(found, placement.offsets[2:], strict=True):
        for pinned in fixed:
            assert pinned.offset_bytes is not None
            together = box.first < pinned.last
            apart = at >= pinned.offset_bytes + pinned.size_bytes or at + box.size_bytes <= pinned.offset_bytes
            assert not together or apart or not box.size_bytes


def test_live_peak_counts_a_step_at_which_one_ends_and_another_begins_once() -> None:
    assert live_peak([Box(0, 2, 10), Box(2, 4, 20), Box(1, 3, 5)]) == 25


def lowest_by_trying(box: Box, beside: list[tuple[int, int]], floor: int) -> int:
    at = -(-floor // box.alignment_bytes) * box.alignment_bytes
    while any(at < end and start < at + box.size_bytes for start, end in beside):
        at += box.alignment_bytes
    return at


@given(boxes, st.integers(0, 40))
def test_by_time_each_box_takes_the_lowest_place_that_is_free_when_it_is_born(found: list[Box], floor: int) -> None:
    """The list of gaps against trying every address."""
    found = [box for box in found if box.size_bytes]
    offsets = _by_time(found, floor, best_fit=False).offsets
    order = sorted(range(len(found)), key=lambda i: (found[i].first, -found[i].size_bytes))
    for turn, index in enumerate(order):
        before = [i for i in order[:turn] if found[i].last > found[index].first]
        beside = [(offsets[i], offsets[i] + found[i].size_bytes) for i in before]
        assert offsets[index] == lowest_by_trying(found[index], beside, floor)
