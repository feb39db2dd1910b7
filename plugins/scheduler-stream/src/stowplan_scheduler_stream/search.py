"""The least live bytes of any order of rows, by the compiled search (`native/order.c`); greedy where it cannot run."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from stowplan.nouns import dataclass, replace
from stowplan_scheduler_stream.native import library
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.region import NOWHERE, RELOAD, SPILL, Work

PATIENCE = 6
PER_BOX = 60_000
"""Work of the packer on one order, for each row that it places."""
FURTHER = 5
"""How many times as far everything goes for `optimal`."""

_INTS, _LONGS, _BYTES = (ctypes.POINTER(kind) for kind in (ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8))


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard to look: states remembered per threshold, and firings weighed in all. `seed` changes which order is met
    first. Equal inputs give equal orders; only `seconds`, a clock that ends the search as well, can change that.
    """

    states: int = 20_000
    steps: int = 5_000_000
    seconds: float | None = None
    seed: int = 0
    padded: bool = True
    """Count rows with the bytes that align the next one. Without them the bound is exact, and the order no better."""
    cuts: bool = False
    """Look for pieces that run one after another instead of one order of everything: for large networks."""

    def times(self, factor: int) -> Effort:
        """Return an effort that goes so many times as far."""
        return replace(self, states=self.states * factor, steps=self.steps * factor)


@dataclass(frozen=True, kw_only=True)
class Found:
    """An order of works, one entry per unit; its live peak; and a bound that no placement of any order can beat.

    `proven` says that no order has a lower peak, of rows as they were counted.
    """

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    proven: bool
    cut_short: bool = False
    """The clock ended the search."""


_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("node_units", _INTS),
    ("node_output", _INTS),
    ("node_by_input", _INTS),
    ("node_accumulator", _LONGS),
    ("node_first_read", _INTS),
    ("read_node", _INTS),
    ("read_tensor", _INTS),
    ("read_first", _INTS),
    ("read_low", _INTS),
    ("read_high", _INTS),
    ("tensor_rows", _INTS),
    ("tensor_row_bytes", _LONGS),
    ("tensor_whole", _INTS),
    ("row_read", _BYTES),
)
"""The problem's arrays, in the order of `order_problem` in native/order.h."""


class _Problem(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("node_count", "tensor_count", "read_count", "firing_count")),
        *_COLUMNS,
        ("start_peak_bytes", ctypes.c_int64),
    )


class _Limits(ctypes.Structure):
    _fields_ = (
        ("state_limit", ctypes.c_int64),
        ("step_limit", ctypes.c_int64),
        ("seconds", ctypes.c_double),
        ("useless_bytes", ctypes.c_int64),
        ("known_bytes", ctypes.c_int64),
        ("seed", ctypes.c_uint32),
        ("patience", ctypes.c_int32),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        ("order", _INTS),
        ("peak_bytes", ctypes.c_int64),
        ("lower_bound_bytes", ctypes.c_int64),
        ("steps", ctypes.c_int64),
        ("cut_short", ctypes.c_int32),
    )


def find_order(
    network: Network,
    works: Sequence[Work],
    entering: Sequence[int],
    useless_bytes: int | None,
    effort: Effort,
    known_bytes: int = 0,
) -> Found | None:
    """Return the best order of a region's works; None when there is no search.

    `entering` are tensors that lie in fast memory when the region starts. The search ends early once it is proven
    that every order needs more than `useless_bytes`; that every one needs at least `known_bytes` is known before.
    """
    native = library()
    if native is None or not works:
        return None
    arrays = _Arrays(network, works, entering, effort.padded)
    if max(w.units for w in works) > 0xFFFF:
        return None
    order = (ctypes.c_int32 * arrays.firings)()
    result = _Result(order=order)
    useless = 2**62 if useless_bytes is None else useless_bytes + arrays.slack_bytes
    # The C side knows 0 seconds as no clock at all.
    seconds = 0.0 if effort.seconds is None else max(effort.seconds, 1e-6)
    known = known_bytes + arrays.slack_bytes if known_bytes else 0
    limits = _Limits(effort.states, effort.steps, seconds, useless, known, effort.seed, PATIENCE)
    problem = arrays.problem()
    search = native.order_cuts if effort.cuts else native.order_search
    status = search(ctypes.byref(problem), ctypes.byref(limits), ctypes.byref(result))
    if status != 0:
        return None
    return Found(
        order=tuple(order),
        peak_bytes=result.peak_bytes,
        lower_bound_bytes=max(result.lower_bound_bytes - arrays.slack_bytes, 0),
        proven=result.peak_bytes == result.lower_bound_bytes,
        cut_short=bool(result.cut_short),
    )


class _Arrays:
    """The search's problem, in flat arrays that stay alive as long as this does."""

    def __init__(self, network: Network, works: Sequence[Work], entering: Sequence[int], padded: bool) -> None:
        self.network, self.works, self.padded = network, works, padded
        self.firings = sum(work.units for work in works)
        fast = [*entering, *(work.tensor for work in works if work.step != SPILL)]
        self.tensors = {tensor: index for index, tensor in enumerate(dict.fromkeys(fast))}
        self.entering = frozenset(entering)
        self.crossing = frozenset(work.tensor for work in works if work.step in (SPILL, RELOAD))
        self.over = frozenset(work.tensor for work in works if work.over != NOWHERE)
        self.read_rows = {tensor: bytearray(network.stuff(tensor).rows) for tensor in self.tensors}
        self.columns: dict[str, array[int]] = {
            name: array("q" if kind is _LONGS else "B" if kind is _BYTES else "i") for name, kind in _COLUMNS
        }
        self.nothing = len(self.tensors)
        for index, work in enumerate(works):
            self._node(index, work)
        self._add("node_first_read", len(self.columns["read_node"]))
        for tensor in self.tensors:
            self._tensor(tensor)
        self._add("tensor_rows", max((w.units for w in works), default=1))  # what spills write costs nothing here
        self._add("tensor_row_bytes", 0)
        self._add("tensor_whole", 0)
        self.columns["row_read"].frombytes(bytes(self.columns["tensor_rows"][-1]))
        self.slack_bytes = self._slack()

    def _slack(self) -> int:
        """Return how far below a sum of padded rows a placement may be.

        Rows are counted with the bytes that align the next one. The highest row needs none, and where an input of dense
        rows begins, it may take them.
        """
        stuffs = [self.network.stuff(tensor) for tensor in self.tensors if not self._is_dense(tensor)]
        padding = max((-s.row_bytes % s.alignment_bytes for s in stuffs if self.padded), default=0)
        dense = sum(self._is_dense(tensor) for tensor in self.entering)
        return padding * (1 + dense)

    def _is_dense(self, tensor: int) -> bool:
        """Say whether a tensor's rows lie one after another: the application reads or writes it as a whole."""
        return self._is_kept(tensor) or (tensor in self.entering and tensor in self.network.inputs)

    def _is_kept(self, tensor: int) -> bool:
        return tensor in self.network.outputs and tensor not in self.crossing

    def problem(self) -> _Problem:
        found = _Problem(len(self.works), len(self.tensors) + 1, len(self.columns["read_node"]), self.firings)
        for name, kind in _COLUMNS:
            if not self.columns[name]:
                self.columns[name].append(0)
            setattr(found, name, ctypes.cast(self.columns[name].buffer_info()[0], kind))
        found.start_peak_bytes = sum(self.network.stuff(t).size_bytes for t in self.entering)
        return found

    def _add(self, column: str, value: int) -> None:
        self.columns[column].append(value)

    def _node(self, index: int, work: Work) -> None:
        self._add("node_units", work.units)
        self._add("node_output", self.nothing if work.step == SPILL else self.tensors[work.tensor])
        self._add("node_by_input", int(work.by_input))
        self._add("node_accumulator", work.accumulator_bytes if work.units > 1 else 0)
        self._add("node_first_read", len(self.columns["read_node"]))
        for read in work.reads:
            if read.tensor not in self.tensors:
                continue
            rows = self.network.stuff(read.tensor).rows
            self._add("read_node", index)
            self._add("read_tensor", self.tensors[read.tensor])
            self._add("read_first", len(self.columns["read_low"]))
            self.columns["read_low"].extend(_first_needed(read.first, read.last, rows))
            high = list(accumulate(read.last, max))
            self.columns["read_high"].extend([*high, high[-1] if high else 0])
            wanted = self.read_rows[read.tensor]
            for first, last in zip(read.first, read.last, strict=True):
                wanted[first:last] = b"\1" * max(last - first, 0)

    def _tensor(self, tensor: int) -> None:
        stuff = self.network.stuff(tensor)
        unit = stuff.alignment_bytes if self.padded and not self._is_dense(tensor) else 1
        self._add("tensor_rows", stuff.rows)
        self._add("tensor_row_bytes", 0 if tensor in self.over else -(-stuff.row_bytes // unit) * unit)
        self._add("tensor_whole", int(self._is_kept(tensor)))
        self.columns["row_read"].frombytes(bytes(self.read_rows[tensor]))


def _first_needed(first: Sequence[int], last: Sequence[int], rows: int) -> list[int]:
    """Return, before each unit, the first row that this or a later unit reads; and at the end, none."""
    found, low = [rows], rows
    for begin, end in zip(reversed(first), reversed(last), strict=True):
        low = min(low, begin) if begin < end else low
        found.append(low)
    found.reverse()
    return found
