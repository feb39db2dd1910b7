"""Offsets by constraint programming: used when it is asked for and the optional extra `ortools` is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.build.arena import Box, Placement, live_peak
from stowplan.errors import UsageError
from stowplan.nouns import dataclass


@dataclass(frozen=True)
class Solved:
    """A placement no higher than the one it started from, and the least height that is still possible."""

    placement: Placement
    lower_bound_bytes: int


def improve(
    boxes: Sequence[Box], start: Placement, floor_bytes: int = 0, seconds: float = 60.0, workers: int = 2
) -> Solved:
    """Return a placement lower than `start` if one is found in time. Boxes with an offset stay where `start` has them.

    Raises `UsageError` when ortools is not installed.
    """
    try:
        # Imported here: an optional extra, and slow to load.
        from ortools.sat.python import cp_model
    except ImportError as err:
        raise UsageError("the CP-SAT packer needs ortools: run pip install ortools.") from err
    peak = live_peak(boxes) + floor_bytes
    if start.height_bytes <= peak:
        return Solved(start, peak)
    model: Any = cp_model.CpModel()
    height = model.new_int_var(peak, start.height_bytes, "height")
    offsets = [_offset(model, box, at, floor_bytes, height) for box, at in zip(boxes, start.offsets, strict=True)]
    _forbid_overlap(model, boxes, offsets, height)
    model.minimize(height)
    model.add_hint(height, start.height_bytes)
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    bound = max(peak, round(solver.best_objective_bound))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solved(start, min(bound, start.height_bytes))
    found = Placement(tuple(int(solver.value(offset)) for offset in offsets), int(solver.value(height)))
    return Solved(found if found.height_bytes < start.height_bytes else start, bound)


def _offset(model: Any, box: Box, start_bytes: int, floor_bytes: int, height: Any) -> Any:
    """An offset as a multiple of the alignment, hinted at its start."""
    if box.offset_bytes is not None:
        offset: Any = model.new_constant(start_bytes)
    else:
        align = box.alignment_bytes
        most = max(start_bytes, height.proto.domain[1] - box.size_bytes) // align
        unit = model.new_int_var(-(-floor_bytes // align), most, "")
        model.add_hint(unit, start_bytes // align)
        offset = unit * align
    model.add(offset + box.size_bytes <= height)
    return offset


def _forbid_overlap(model: Any, boxes: Sequence[Box], offsets: Sequence[Any], height: Any) -> None:
    lives, places, sizes = [], [], []
    for box, offset in zip(boxes, offsets, strict=True):
        if box.size_bytes and box.first < box.last:
            lives.append(model.new_fixed_size_interval_var(box.first, box.last - box.first, ""))
            places.append(model.new_fixed_size_interval_var(offset, box.size_bytes, ""))
            sizes.append(box.size_bytes)
    model.add_no_overlap_2d(lives, places)
    model.add_cumulative(lives, sizes, height)  # implied, and it prunes well
