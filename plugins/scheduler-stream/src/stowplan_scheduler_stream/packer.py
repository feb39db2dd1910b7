"""Offsets from the native packer: the portfolio of native/pack.c, called through ctypes.

Work is counted in neighbours and steps looked at, so that equal boxes get equal offsets on every machine; fifty million
of it take about a second.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from stowplan.build.arena import Box, Placement
from stowplan.errors import InternalFault, RuntimeFailure
from stowplan.nouns import dataclass

MEMBERS = ("greedy", "hint", "ejection", "valley", "sweep")
"""Who can find a placement, in the order of the PACK_ constants of native/pack.h."""

SECOND = 50_000_000
"""Work of about a second."""

_NO_MEMORY = -1
_INT32, _INT64 = 2**31 - 1, 2**40
_I32, _I64 = ctypes.c_int32, ctypes.c_int64


@dataclass(frozen=True)
class Packing:
    """A placement with what is known about it: `proven` when no placement is lower than this one."""

    placement: Placement
    live_peak_bytes: int
    proven: bool
    member: str
    rounds: int
    work: int
    cut_short: bool = False
    """The clock ended the search."""


class _Problem(ctypes.Structure):
    _fields_ = (
        ("count", _I32),
        ("first", ctypes.POINTER(_I32)),
        ("last", ctypes.POINTER(_I32)),
        ("size", ctypes.POINTER(_I64)),
        ("alignment", ctypes.POINTER(_I64)),
        ("pinned", ctypes.POINTER(_I64)),
        ("hint", ctypes.POINTER(_I64)),
        ("block_alignment", _I64),
        ("block_least_alignment", _I64),
        ("floor_bytes", _I64),
        ("goal_bytes", _I64),
        ("work", _I64),
        ("seconds", ctypes.c_double),
        ("seed", ctypes.c_uint32),
    )


class _Report(ctypes.Structure):
    _fields_ = (
        ("height", _I64),
        ("live_peak", _I64),
        ("proven", _I32),
        ("member", _I32),
        ("cut_short", _I32),
        ("rounds", _I64),
        ("work", _I64),
    )


class Packer:
    """The packer in a shared library that is loaded already; how it was built is the caller's business."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._call = library.pack_boxes
        self._call.argtypes = (ctypes.POINTER(_Problem), ctypes.POINTER(_I64), ctypes.POINTER(_Report))
        self._call.restype = _I64

    def pack(
        self, boxes: Sequence[Box], goal_bytes: int = 0, floor_bytes: int = 0, work: int = SECOND, seed: int = 0, *,
        seconds: float | None = None, block_alignments: tuple[int, int] = (0, 0), hint: Placement | None = None,
    ) -> Packing:  # fmt: skip
        """Return the lowest placement found with so much work; it stops at `goal_bytes` or at the live peak.

        A clock ends it as well after `seconds`, where there are any.

        Boxes with an offset stay there, or with `block_alignments` (the wanted one, the least one) all of them move up
        together by a multiple: the rows of a model input, which is one piece. `hint` is a placement to be improved.
        """
        _check(boxes, floor_bytes)
        count = len(boxes)
        offsets = (_I64 * (count + 1))()
        report = _Report()
        problem = _Problem(
            count=count,
            first=(_I32 * count)(*(box.first for box in boxes)),
            last=(_I32 * count)(*(box.last for box in boxes)),
            size=(_I64 * count)(*(box.size_bytes for box in boxes)),
            alignment=(_I64 * count)(*(box.alignment_bytes for box in boxes)),
            pinned=(_I64 * count)(*(-1 if box.offset_bytes is None else box.offset_bytes for box in boxes)),
            hint=None if hint is None else (_I64 * count)(*hint.offsets),
            block_alignment=block_alignments[0],
            block_least_alignment=block_alignments[1],
            floor_bytes=floor_bytes,
            goal_bytes=min(max(goal_bytes, 0), _INT64),
            work=work,
            seconds=0.0 if seconds is None else max(seconds, 1e-6),  # 0 is no clock on the other side
            seed=seed % 2**32,
        )
        height = self._call(ctypes.byref(problem), offsets, ctypes.byref(report))
        if height == _NO_MEMORY:
            raise RuntimeFailure(f"no memory left to place {count} boxes. Close other programs and try again.")
        if height < 0:
            raise InternalFault(f"the packer refused {count} boxes: pinned ones overlap or lie below {floor_bytes}.")
        placement = Placement(tuple(offsets[:count]), height)
        return Packing(
            placement, report.live_peak, bool(report.proven), MEMBERS[report.member], report.rounds, report.work,
            bool(report.cut_short),
        )  # fmt: skip


def _check(boxes: Sequence[Box], floor_bytes: int) -> None:
    """ctypes cuts integers to their width without a word, so what does not fit is refused here."""
    for number, box in enumerate(boxes):
        sound = -_INT32 <= box.first <= box.last <= _INT32 and 0 <= box.size_bytes < _INT64
        sound = sound and 1 <= box.alignment_bytes <= 2**30
        sound = sound and (box.offset_bytes is None or floor_bytes <= box.offset_bytes < _INT64)
        if not sound:
            raise InternalFault(f"the packer cannot place box {number}: {box}.")
    if not 0 <= floor_bytes < _INT64:
        raise InternalFault(f"the packer cannot start at byte {floor_bytes}.")
