"""Runs a plan on this machine, in arenas of exactly its sizes, and notices when anything beside them is touched."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType

from stowplan.errors import InternalFault, PlanError, RuntimeFailure
from stowplan.planfile.reader import read_plan
from stowplan.plugins.kinds import Metrics, Port
from stowplan_backend_c.binding import Runtime, runtime

ALIGNMENT_BYTES = 16
GUARD_BYTES = 64
GUARD = bytes((37 * i + 11) & 0xFF for i in range(GUARD_BYTES))
"""No two neighbours equal, so that no poison byte looks like it."""
MAX_ARENA_BYTES = 2**30
"""More than any plan for a small device needs; a hostile file must not make this machine run out of memory."""


MORE = 24
"""The status of the runtime that says: rows are needed."""

KERNELS = "STOWPLAN_KERNELS"
WORTH_IT = 4
"""From this run on the host's own kernels are used: packing weights for them costs as much as some runs without."""
"""Names the kernels to run with: one of the host's own sets, `plain` for those of any processor. Unset: the best."""
SETS = ("avx512", "avx2", "plain")
PREPARED_ALIGNMENT_BYTES = 64


class AlignedBytes:
    """Memory at a multiple of 16, between guard bytes that nobody should change."""

    def __init__(self, size_bytes: int, label: str) -> None:
        self.size_bytes = size_bytes
        self.label = label
        try:
            self._memory = (ctypes.c_ubyte * (size_bytes + 2 * GUARD_BYTES + ALIGNMENT_BYTES))()
        except MemoryError as err:
            raise RuntimeFailure(f"no memory for the {label} ({size_bytes} bytes)") from err
        start = ctypes.addressof(self._memory) + GUARD_BYTES
        self.address = start + -start % ALIGNMENT_BYTES
        ctypes.memmove(self.address - GUARD_BYTES, GUARD, GUARD_BYTES)
        ctypes.memmove(self.address + size_bytes, GUARD, GUARD_BYTES)

    def fill(self, value: int) -> None:
        ctypes.memset(self.address, value, self.size_bytes)

    def check(self) -> None:
        """Raise `InternalFault` when a guard byte was overwritten."""
        before = ctypes.string_at(self.address - GUARD_BYTES, GUARD_BYTES)
        after = ctypes.string_at(self.address + self.size_bytes, GUARD_BYTES)
        if before != GUARD:
            raise InternalFault(f"running the plan wrote in front of the {self.label}; please report this plan")
        if after != GUARD:
            raise InternalFault(f"running the plan wrote past the end of the {self.label}; please report this plan")


class _Address(ctypes.c_void_p):
    """An address that is passed as it is, and what must not go away while it is."""

    kept: object


class HostCompiled:
    """A plan with its arenas, ready to run; see `stowplan.plugins.kinds.Compiled`. Not for two threads at once."""

    def __init__(self, plan: bytes, poison: int = 0xA5) -> None:
        if not 0 <= poison <= 255:
            raise RuntimeFailure(f"poison is {poison}: it must be one byte (0..255)")
        self.view = view = read_plan(plan)
        self.inputs: tuple[Port, ...] = view.inputs
        self.outputs: tuple[Port, ...] = view.outputs
        self.fully_accelerated = True
        self._poison = poison
        self._open = True
        self._runtime: Runtime = runtime()
        self._data = AlignedBytes(len(plan), "plan")
        ctypes.memmove(self._data.address, plan, len(plan))
        self._plan = self._opened(len(plan))
        needed = view.fast_bytes + view.slow_bytes
        if needed > MAX_ARENA_BYTES:
            raise RuntimeFailure(f"the plan needs {needed} bytes of memory, {MAX_ARENA_BYTES} are the most to run here")
        self._fast = AlignedBytes(view.fast_bytes, "fast arena")
        self._slow = AlignedBytes(view.slow_bytes, "slow arena")
        self._keeps_state = bool(view.records("states"))
        self._fill()
        self._context = self._bound()
        self.kernels = "plain"
        self._prepared: object = None
        self._runs = 0
        if os.environ.get(KERNELS):  # asked for: at once, and refused here
            self._prepared = self._prepare(os.environ[KERNELS])
            self._runs = WORTH_IT
        self._row = AlignedBytes(max((port.row_bytes for port in self.inputs), default=0), "row that is pushed")

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        return self.run_with_metrics(inputs)[0]

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
        if not self._open:
            raise RuntimeFailure("this compiled model was closed")
        self._check_inputs(inputs)
        self.hasten(runs=1)
        if not self._keeps_state:
            self._fill()
        library, given = self._runtime.library, [bytes(data) for data in inputs]
        for index, (port, data) in enumerate(zip(self.inputs, given, strict=True)):
            if not port.streamed:
                ctypes.memmove(library.stow_input(self._context, index), data, port.size_bytes)
        streamed = any(port.streamed for port in self.inputs)
        start = time.perf_counter_ns()
        status = self._push(given) if streamed else library.stow_invoke(self._context)
        duration = time.perf_counter_ns() - start
        for memory in (self._fast, self._slow, self._data, self._row):
            memory.check()
        if status != 0:
            raise PlanError(f"the plan cannot be run: {self._runtime.text(status)}; compile it again")
        outputs = [
            ctypes.string_at(library.stow_output(self._context, index), port.size_bytes)
            for index, port in enumerate(self.outputs)
        ]
        return outputs, Metrics(
            duration_ns=duration,
            slow_read_bytes=library.stow_host_slow_read_bytes(self._context),
            slow_written_bytes=library.stow_host_slow_written_bytes(self._context),
        )

    def hasten(self, runs: int) -> None:
        """Count runs to come; pack the weights for the host's own kernels once there are enough to be worth it."""
        before, self._runs = self._runs, self._runs + runs
        if before < WORTH_IT <= self._runs:
            self._prepared = self._prepare("")

    def invoker(self) -> Callable[[], int]:
        """Return what runs once on the inputs in place and returns the runtime's status: for measuring, nothing else.

        Nothing is filled, copied or checked around it, and a run may leave its inputs overwritten.
        """
        self.hasten(runs=WORTH_IT)
        context = _Address(ctypes.addressof(self._context))
        context.kept = self
        return partial(self._runtime.library.stow_invoke, context)

    @property
    def clock_ns(self) -> int:
        """What a recorded firing costs more than one that is not."""
        return int(self._runtime.library.stow_host_clock_ns())

    def watch(self, record: int | None) -> None:
        """Record firings into a structure at this address, see native/stow_record.c; None stops."""
        if not self._open:
            raise RuntimeFailure("this compiled model was closed")
        self.hasten(runs=WORTH_IT)
        self._runtime.library.stow_host_watch(self._context, record)

    def _fill(self) -> None:
        """Make memory that is read before it is written show; a model's state, once set, must not be touched."""
        self._fast.fill(self._poison)
        self._slow.fill(self._poison)

    def _push(self, inputs: Sequence[bytes]) -> int:
        """Run with rows that come one at a time, of the input that the plan waits for; return the last status.

        In each turn they come from the first on. Every row comes in the same memory, so that a plan which needs an
        earlier one again finds another's bytes.
        """
        library, context, row = self._runtime.library, self._context, self._row
        cursors, turns = [0] * len(inputs), [1] * len(inputs)
        status: int = library.stow_begin(context)
        while status == MORE:
            index = library.stow_waiting_for(context)
            port = self.inputs[index]
            if cursors[index] == port.size_bytes and turns[index] < port.turns:
                cursors[index], turns[index] = 0, turns[index] + 1
            start = cursors[index]
            cursors[index] += port.row_bytes
            if cursors[index] > port.size_bytes:
                raise PlanError(f"the plan cannot be run: it takes more rows than {port.name} has; compile it again")
            ctypes.memmove(row.address, inputs[index][start : cursors[index]], port.row_bytes)
            status = library.stow_push_rows(context, index, row.address, 1)
        for port, taken, turn in zip(self.inputs, cursors, turns, strict=True):
            if status == 0 and port.streamed and (taken < port.size_bytes or turn < port.turns):
                raise PlanError(f"the plan cannot be run: it leaves rows of {port.name} untaken; compile it again")
        return status

    def close(self) -> None:
        """Let go of the arenas; a second call does nothing."""
        self._open = False
        for memory in ("_fast", "_slow", "_data", "_row", "_plan", "_context", "_prepared"):
            self.__dict__.pop(memory, None)

    def __enter__(self) -> HostCompiled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, size_bytes: int) -> ctypes.Array[ctypes.c_char]:
        plan = self._runtime.new_plan()
        status = self._runtime.library.stow_open(plan, self._data.address, size_bytes)
        if status != 0:
            where = self._runtime.library.stow_host_fault(plan)
            raise PlanError(f"the plan is refused: {self._runtime.text(status)} (record {where}); compile it again")
        return plan

    def _bound(self) -> ctypes.Array[ctypes.c_char]:
        context = self._runtime.new_context()
        fast, slow = self._fast, self._slow
        status = self._runtime.library.stow_bind(
            context, self._plan, fast.address, fast.size_bytes, slow.address, slow.size_bytes
        )
        if status != 0:
            raise InternalFault(f"arenas of the plan's own sizes are refused: {self._runtime.text(status)}")
        return context

    def _prepare(self, name: str) -> object:
        """Pack weights for the host's own kernels, if this processor has any; return the memory they lie in."""
        if name and name not in SETS:
            raise RuntimeFailure(f"{KERNELS}={name}: there is no such set of kernels; choose {', '.join(SETS)}")
        if name == "plain":
            return None
        library = self._runtime.library
        size = library.stow_host_prepare_bytes(self._context, name.encode())
        if size == 0 and name:
            raise RuntimeFailure(f"{KERNELS}={name}: this processor cannot run it; unset {KERNELS}")
        if size == 0:
            return None
        memory = (ctypes.c_ubyte * (size + PREPARED_ALIGNMENT_BYTES))()
        start = ctypes.addressof(memory)
        self.kernels = library.stow_host_prepare(
            self._context, name.encode(), start + -start % PREPARED_ALIGNMENT_BYTES
        ).decode()
        return memory

    def _check_inputs(self, inputs: Sequence[bytes]) -> None:
        if len(inputs) != len(self.inputs):
            raise RuntimeFailure(f"{len(inputs)} inputs given, the model has {len(self.inputs)}")
        for port, data in zip(self.inputs, inputs, strict=True):
            size = memoryview(data).nbytes
            if size != port.size_bytes:
                shape = "x".join(map(str, port.shape)) or "scalar"
                raise RuntimeFailure(
                    f"input {port.name}: {size} bytes given, {shape} {port.dtype} has {port.size_bytes} bytes"
                )
