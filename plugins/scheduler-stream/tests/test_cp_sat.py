"""CP-SAT as an optional packer: never worse than its start, and right."""

from __future__ import annotations

import pytest

from brute_pack import faults
from stowplan.build.arena import Box, live_peak, place
from stowplan_scheduler_stream.cp_sat import improve


def test_a_stack_sinks_to_the_live_peak_and_pins_stay() -> None:
    """Five boxes of 8 bytes, two alive at each step; stacked they need 40 bytes, 16 are enough."""
    pytest.importorskip("ortools", reason="ortools is not installed")
    boxes = [Box(i, i + 2, 8, 4, 8 if i == 0 else None) for i in range(5)]
    greedy = place(boxes, None)
    stacked = type(greedy)((8, 16, 24, 32, 40), 48)
    solved = improve(boxes, stacked, seconds=20, workers=1)
    assert faults(boxes, solved.placement.offsets, solved.placement.height_bytes) == []
    assert solved.placement.height_bytes == solved.lower_bound_bytes == live_peak(boxes) == 16
    assert solved.placement.offsets[0] == 8
