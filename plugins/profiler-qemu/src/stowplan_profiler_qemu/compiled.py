"""A plan as firmware on an emulated board: run it, and learn what it cost to the instruction."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from stowplan.errors import InternalFault, RuntimeFailure, UsageError
from stowplan.native.library import NativeLibrary
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView, read_plan
from stowplan.plugins.kinds import BoardOptions, BoardReport, Metrics, OperatorCount
from stowplan.units import format_size
from stowplan_profiler_qemu import tools
from stowplan_profiler_qemu.boards import BOARDS, Board
from stowplan_profiler_qemu.firmware import Image, build

COUNTER = NativeLibrary(name="stow-counter", folders=(Path(__file__).parent / "counter",))
RUN_SECONDS = 600


class QemuCompiled:
    """See `stowplan.plugins.kinds.BoardCompiled`. The firmware is built when it is first needed."""

    def __init__(self, plan: bytes, options: BoardOptions) -> None:
        board = BOARDS.get(options.board)
        if board is None:
            raise UsageError(f"--board {options.board}: there is no such board; boards are {', '.join(BOARDS)}")
        lacking = tools.missing(board)
        if lacking:
            raise RuntimeFailure(f"--board {board.name}: {lacking}")
        _check_room(board, options)
        self._board: Board = board
        self._view: PlanView = read_plan(plan)
        self._options = options
        self._images: dict[bool, Image] = {}
        self._folder: Path | None = Path(tempfile.mkdtemp(prefix="stowplan-board-"))
        self.inputs = self._view.inputs
        self.outputs = self._view.outputs
        self.fully_accelerated = True

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        return self.run_with_metrics(inputs)[0]

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
        start = time.perf_counter_ns()
        outputs, report = self.measure(inputs)
        counters = {
            "instructions": report.instructions, "stack_bytes": report.stack_bytes,
            "opening_stack_bytes": report.opening_stack_bytes, "fast_used_bytes": report.fast_used_bytes,
            "slow_used_bytes": report.slow_used_bytes, "flash_bytes": report.flash_bytes,
            "ram_bytes": report.ram_bytes,
        }  # fmt: skip
        return outputs, Metrics(duration_ns=time.perf_counter_ns() - start, counters=counters)

    def measure(self, inputs: Sequence[bytes], each: bool = False) -> tuple[list[bytes], BoardReport]:
        """Run once; with `each` firings are marked, which costs a few instructions for every one of them."""
        folder = self._open_folder()
        self._check_inputs(inputs)
        image = self._image(each)
        for index, data in enumerate(inputs):
            (folder / f"input_{index}").write_bytes(data)
        self._emulate(image, folder)
        outputs = [self._output(folder, index) for index in range(len(self.outputs))]
        numbers = [int(word) for word in (folder / "report").read_text().split()]
        counts = [int(word) for word in (folder / "counts").read_text().split()]
        report = BoardReport(
            board=self._board.name,
            core=self._board.core,
            instructions=counts[-1],
            stack_bytes=numbers[0],
            opening_stack_bytes=numbers[1],
            fast_used_bytes=numbers[2],
            slow_used_bytes=numbers[3],
            flash_bytes=image.flash_bytes,
            ram_bytes=image.ram_bytes,
            operators=self._by_operator(counts) if each else (),
        )
        return outputs, report

    def close(self) -> None:
        """Remove the firmware; a second call does nothing."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def __enter__(self) -> QemuCompiled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_folder(self) -> Path:
        if self._folder is None:
            raise RuntimeFailure("this compiled model was closed")
        return self._folder

    def _image(self, marks: bool) -> Image:
        if marks not in self._images:
            folder = self._open_folder() / ("marked" if marks else "plain")
            folder.mkdir()
            self._images[marks] = build(self._view, self._board, self._options, folder, marks)
        return self._images[marks]

    def _emulate(self, image: Image, folder: Path) -> None:
        for name in ("report", "counts"):
            (folder / name).unlink(missing_ok=True)
        marks = ",".join(
            f"{mark}={image.symbols[f'board_{mark}'] & ~1:x}"
            for mark in ("begin", "end", "mark")
            if f"board_{mark}" in image.symbols
        )
        command = [
            self._board.emulator, *self._board.machine, "-kernel", str(image.path), "-display", "none", "-monitor",
            "none", "-serial", "null", "-semihosting-config", "enable=on,target=native",
            "-plugin", f"{COUNTER.path()},{marks},out=counts",
        ]  # fmt: skip
        tools.run(command, folder, RUN_SECONDS, f"the run on {self._board.name}")
        if not (folder / "report").is_file() or not (folder / "counts").is_file():
            raise InternalFault(f"the run on {self._board.name} left no report; please report this plan")

    def _output(self, folder: Path, index: int) -> bytes:
        data = (folder / f"output_{index}").read_bytes()
        if len(data) != self.outputs[index].size_bytes:
            raise InternalFault(f"the run on {self._board.name} wrote {len(data)} bytes of output {index}")
        return data

    def _by_operator(self, counts: Sequence[int]) -> tuple[OperatorCount, ...]:
        """Add up what each firing cost: from its mark to the next, or to the end of the run."""
        nodes = self._view.records("nodes")
        totals: dict[int, list[int]] = {}
        arrival = NODE_KINDS["receive"].code
        firings = [f for f in self._view.records("firings") if nodes[f["node"]]["kind"] != arrival]
        for firing, start, end in zip(firings, counts, counts[1:], strict=False):
            total = totals.setdefault(firing["node"], [0, 0])
            total[0] += 1
            total[1] += end - start
        return tuple(
            OperatorCount(
                operator=nodes[n]["operator"], kind=self._view.node_kind(nodes[n]["kind"]), firings=f, instructions=c
            )
            for n, (f, c) in sorted(totals.items())
        )

    def _check_inputs(self, inputs: Sequence[bytes]) -> None:
        if len(inputs) != len(self.inputs):
            raise RuntimeFailure(f"{len(inputs)} inputs given, the model has {len(self.inputs)}")
        for port, data in zip(self.inputs, inputs, strict=True):
            if len(data) != port.size_bytes:
                raise RuntimeFailure(f"input {port.name}: {len(data)} bytes given, it has {port.size_bytes}")


def _check_room(board: Board, options: BoardOptions) -> None:
    for what, asked, (_, there) in (("flash", options.flash_bytes, board.flash), ("RAM", options.ram_bytes, board.ram)):
        if asked is not None and asked > there:
            raise UsageError(
                f"--{what.lower()}: the emulated {board.name} has {format_size(there)} of {what}, "
                f"{format_size(asked)} were asked for; give less, or nothing for all of it"
            )
