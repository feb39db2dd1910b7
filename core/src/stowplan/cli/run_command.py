"""`stowplan run`: executes a plan here or on a board, in arenas of exactly the sizes it states."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from math import prod
from pathlib import Path
from typing import Any

from stowplan.cli.arrays import describe, labelled, read_tensor, to_file, values
from stowplan.cli.assigning import assign, require_all
from stowplan.cli.boards import add_board, board_options, on_board, report_document, used_lines
from stowplan.cli.options import add_json
from stowplan.cli.output import check_output, columns, print_json, write_file
from stowplan.cli.plans import open_plan
from stowplan.errors import RuntimeFailure
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.planfile.reader import PlanView
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Backend, BoardOptions, BoardReport, Metrics, Port
from stowplan.units import format_size

Ports = Sequence[Port]
MOST_SHOWN = 16  # values of an output that fit a line or two
MOST_IN_JSON = 4096


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", type=Path, help="plan file (.stow)")
    parser.add_argument(
        "--input", metavar="[NAME=]FILE", action="append", default=[], help=".npy or .bin file for an input, repeatable"
    )
    parser.add_argument(
        "--output",
        metavar="[NAME=]FILE",
        action="append",
        default=[],
        help=".npy or .bin file for an output, repeatable",
    )
    parser.add_argument("-b", "--backend", metavar="NAME", default="c", help="what runs it (default c)")
    add_board(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    board = board_options(arguments)
    plan = open_plan(arguments.plan)
    takes, gives = labelled(plan.inputs, "input"), labelled(plan.outputs, "output")
    inputs = assign(arguments.input, takes, "input")
    require_all(inputs, takes)
    outputs = assign(arguments.output, gives, "output")
    for path in outputs.values():
        check_output(path, [arguments.plan, *inputs.values()])
    data = [read_tensor(inputs[port.name], port) for port in takes]
    report = None
    if board is not None:
        results, metrics, report = _execute_on(board, plan.data, data)
    else:
        results, metrics = _execute(_backend(arguments.backend), plan.data, data)
    for port, result in zip(gives, results, strict=True):
        if port.name in outputs:
            write_file(outputs[port.name], to_file(outputs[port.name], port, result))
    if arguments.json:
        on = {} if report is None else dict(board=report_document(report))
        print_json(_document(plan, gives, results, metrics, outputs) | on)
    else:
        _print(plan, gives, results, metrics, outputs, report)
    return 0


def _execute(backend: Backend, plan: bytes, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
    compiled = backend.compile(plan)
    try:
        return compiled.run_with_metrics(inputs)
    finally:
        compiled.close()


def _execute_on(board: BoardOptions, plan: bytes, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics, BoardReport]:
    with closing(on_board(plan, board)) as compiled:
        start = time.perf_counter_ns()
        results, report = compiled.measure(inputs)
        return results, Metrics(duration_ns=time.perf_counter_ns() - start), report


def _backend(name: str) -> Backend:
    backend = host().backends()[name]
    availability = backend.available()
    if not availability.ok:
        raise RuntimeFailure(f"backend {name} does not work on this machine: {availability.why}")
    return backend


def _print(
    plan: PlanView, gives: Ports, results: Sequence[bytes], metrics: Metrics, files: Mapping[str, Path],
    report: BoardReport | None,
) -> None:  # fmt: skip
    memory = [f"{format_size(plan.fast_bytes)} fast"]
    if plan.slow_bytes:
        memory.append(f"{format_size(plan.slow_bytes)} slow")
    how = f"{metrics.duration_ns / 1e6:.2f} ms on this machine" if report is None else f"on {report.board}"
    print(f"{plan.name}   ran in {' and '.join(memory)} memory, {how}")
    if report is not None:
        print("\n".join(used_lines(report, plan.fast_bytes, plan.slow_bytes)))
    if metrics.slow_read_bytes is not None and metrics.slow_written_bytes is not None and plan.slow_bytes:
        read, written = format_size(metrics.slow_read_bytes), format_size(metrics.slow_written_bytes)
        print(f"slow traffic   {read} read, {written} written")
    rows = []
    for port, data in zip(gives, results, strict=True):
        end = f"written to {files[port.name]}" if port.name in files else _shown(port, data)
        rows.append(("output", port.name, describe(port), end))
    print("\n".join(columns(rows)))


def _shown(port: Port, data: bytes) -> str:
    numbers = values(port, data[: MOST_SHOWN * SIZE_BYTES[port.dtype]])
    shown = " ".join(f"{n:.6g}" if isinstance(n, float) else str(n) for n in numbers)
    count = prod(port.shape)
    return shown if count <= MOST_SHOWN else f"{shown} ... ({count} values; --output FILE keeps them)"


def _document(
    plan: PlanView, gives: Ports, results: Sequence[bytes], metrics: Metrics, files: Mapping[str, Path]
) -> dict[str, Any]:
    outputs = []
    for port, data in zip(gives, results, strict=True):
        fields: dict[str, Any] = dict(name=port.name, shape=list(port.shape), dtype=port.dtype)
        fields.update(scale=port.scale, zero_point=port.zero_point, sha256=hashlib.sha256(data).hexdigest())
        if port.name in files:
            fields["file"] = str(files[port.name])
        if prod(port.shape) <= MOST_IN_JSON:
            fields["values"] = values(port, data)
        outputs.append(fields)
    return dict(
        report=1, plan=plan.name, digest=plan.digest, fast_bytes=plan.fast_bytes, slow_bytes=plan.slow_bytes,
        duration_ns=metrics.duration_ns, slow_read_bytes=metrics.slow_read_bytes,
        slow_written_bytes=metrics.slow_written_bytes, outputs=outputs,
    )  # fmt: skip
