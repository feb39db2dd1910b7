"""`stowplan profile`: where a model's time goes, operator by operator, slowest first."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from stowplan.cli.boards import add_board, board_options
from stowplan.cli.loading import add_loading, count_of, estimate_line, estimate_of, load_options, model_backend
from stowplan.cli.output import check_output, columns, painted, plain, print_json, safe, write_file
from stowplan.cli.plans import plan_of
from stowplan.cli.samples import sample
from stowplan.cli.working import working
from stowplan.errors import UsageError
from stowplan.flow.model import Model
from stowplan.nouns import replace
from stowplan.planfile.reader import is_plan
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Compiled, LoadOptions, Profile, ProfileEvent, ProfileTotal
from stowplan.units import format_size

BAR = 24
TRACE_EVENTS = 10_000


def configure(parser: argparse.ArgumentParser) -> None:
    add_loading(parser, on=None, what="model or plan; without --on it runs with the C kernels of this machine")
    parser.add_argument("--runs", metavar="N", type=int, default=100, help="runs to record (default 100)")
    parser.add_argument("--warm-up", metavar="N", type=int, default=10, help="runs before that (default 10)")
    parser.add_argument("--each", action="store_true", help="every operator, in the order of a run")
    parser.add_argument("--trace", metavar="FILE.json", type=Path, help="timeline of the last runs, in Chrome's format")
    parser.add_argument("--profiler", metavar="NAME", help="who records (default the backend's own)")
    add_board(parser)


def run(arguments: argparse.Namespace) -> int:
    board = board_options(arguments)
    if board is not None:
        from stowplan.cli import board_profile  # it compiles models, which is not needed to time them

        return board_profile.run(arguments, board)
    runs, warm_up = count_of(arguments.runs, "--runs"), count_of(arguments.warm_up, "--warm-up")
    if arguments.trace is not None:
        if arguments.trace.suffix.lower() != ".json":
            raise UsageError(f"--trace {arguments.trace}: write a name that ends in .json")
        check_output(arguments.trace, [arguments.model])
    model = Model.read(arguments.model)
    load, own = _way(arguments, model)
    profiler = host().profilers()[arguments.profiler or own]
    what = f"recording {model.name}, which takes {format_size(profiler.cost_bytes)} of memory"
    if not arguments.json and profiler.cost_bytes:
        print(
            f"{painted(safe(model.name), 'bold')}   recording takes up to {format_size(profiler.cost_bytes)} of memory"
        )
    with working(what), closing(load()) as loaded:
        recording = profiler.attach(loaded)
        estimate = estimate_of(loaded)
        if estimate is None:
            plain_us, recorded_us = record(loaded, recording, warm_up, runs)
        else:
            runs, plain_us, recorded_us = 1, estimate.duration_ns / 1000, None
        kinds, each = recording.by_kind(), recording.by_operator()
        if arguments.trace is not None:
            write_file(arguments.trace, trace(recording.events(TRACE_EVENTS), model.name))
        used = _used(loaded)
        note = recording.note
    if arguments.json:
        print_json(dict(report=1, model=model.name, on=used, runs=runs, run_us=plain_us, recorded_run_us=recorded_us,
                        cost_bytes=profiler.cost_bytes, note=note, kinds=plain(kinds), operators=plain(each),
                        estimate=None if estimate is None else plain(estimate),
                        trace=None if arguments.trace is None else str(arguments.trace)))  # fmt: skip
    else:
        if estimate is None:
            head = f"{runs} runs on {used}: {recorded_us:.1f} us a run recorded, {plain_us:.1f} us unrecorded"
        else:
            head = estimate_line(estimate, used)
        print("\n".join(_lines(head, runs, note, kinds, each if arguments.each else ())))
        if arguments.trace is not None:
            print(f"wrote {safe(str(arguments.trace))}")
    return 0


def _way(arguments: argparse.Namespace, model: Model) -> tuple[Callable[[], Compiled], str]:
    """Return what loads the model or plan, and whose profiler goes with that."""
    plan = is_plan(model.data)
    if arguments.on is None and arguments.backend in (None, "c"):
        _check_unused(arguments)
        ready = plan_of(model) if plan else None  # a damaged file is refused before anything is said
        return lambda: host().backends()["c"].compile((ready or plan_of(model)).data), "host"
    if plan:
        raise UsageError(
            f"{model.name} is a plan, which runs with the C kernels: leave out --on and -b, or give its model"
        )
    name = arguments.backend or "litert"
    arguments.on = "cpu" if arguments.on is None else arguments.on
    options, backend = replace(load_options(arguments), profile=True), model_backend(name)
    return lambda: backend.load_model(model, options), name


def _check_unused(arguments: argparse.Namespace) -> None:
    """Refuse options that would change nothing."""
    usual = LoadOptions()
    given = (
        ("--precision", arguments.precision != usual.precision), ("--signature", arguments.signature is not None),
        ("--threads", arguments.threads != usual.threads), ("--device", arguments.device != usual.device),
    )  # fmt: skip
    for option, is_given in given:
        if is_given:
            raise UsageError(f"{option}: means nothing to the C kernels; add --on cpu to profile another runtime")


def _used(loaded: Compiled) -> str:
    acceleration = getattr(loaded, "acceleration", None)
    return f"cpu, {getattr(loaded, 'kernels', 'unknown')} kernels" if acceleration is None else str(acceleration.used)


def record(model: Compiled, recording: Profile, warm_up: int, runs: int) -> tuple[float, float]:
    """Record `runs` runs after `warm_up` others; return the median microseconds of both, since recording costs too."""
    inputs = [sample(port, seed) for seed, port in enumerate(model.inputs)]
    before = [model.run_with_metrics(inputs)[1].duration_ns for _ in range(warm_up)]
    recording.resume()
    times = [model.run_with_metrics(inputs)[1].duration_ns for _ in range(runs)]
    recording.pause()
    return median(before) / 1000, median(times) / 1000


def trace(events: Sequence[ProfileEvent], model: str) -> bytes:
    """Return events as Chrome's trace viewer and Perfetto read them."""
    rows = [
        dict(
            name=event.name, cat=event.kind, ph="X", pid=1, tid=1,
            ts=event.start_ns / 1000, dur=event.duration_ns / 1000,
            args=dict(index=event.index, start="added up" if event.estimated else "measured"),
        )
        for event in events
    ]  # fmt: skip
    names = [dict(name="process_name", ph="M", pid=1, tid=1, args=dict(name=model))]
    return json.dumps({"traceEvents": [*names, *rows], "displayTimeUnit": "ms"}).encode()


def _lines(head: str, runs: int, note: str, kinds: Sequence[ProfileTotal], each: Sequence[ProfileTotal]) -> list[str]:
    lines = [head]
    if note:
        lines.append(f"note   {note}")
    if kinds:
        lines += ["", *_table(kinds, runs, "kinds of operator, slowest first")]
    if each:
        lines += ["", *_table(each, runs, "operators in the order of a run")]
    return lines


def _table(totals: Sequence[ProfileTotal], runs: int, heading: str) -> list[str]:
    whole = sum(total.duration_ns for total in totals) or 1
    most = max(total.duration_ns for total in totals) or 1
    rows = [("us a run", "share", "", "times", "", "")]
    for total in totals:
        bar = "#" * max(round(BAR * total.duration_ns / most), 1 if total.duration_ns else 0)
        rows.append((
            f"{total.duration_ns / 1000 / runs:.1f}", f"{100 * total.duration_ns / whole:.1f} %", bar,
            f"{total.count / runs:g}", total.name, total.kind,
        ))  # fmt: skip
    return [painted(heading, "bold"), *columns(rows, right=frozenset({0, 1, 3}))]
