"""`stowplan accelerate`: what an accelerator really takes of a model, what that costs, and why it leaves the rest."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from statistics import median

from stowplan.cli.caching import add_cache, open_cache, open_store
from stowplan.cli.loading import (
    add_loading,
    count_of,
    cpu_only,
    estimate_line,
    estimate_of,
    load_options,
    model_backend,
)
from stowplan.cli.output import check_output, columns, painted, plain, print_json, safe, write_file
from stowplan.cli.samples import sample
from stowplan.cli.working import working
from stowplan.errors import UsageError
from stowplan.flow.model import Model
from stowplan.nouns import dataclass
from stowplan.plugins.kinds import (
    Accelerated,
    Acceleration,
    LoadOptions,
    Metrics,
    ModelBackend,
    Partitioning,
    Precompiled,
    Share,
)
from stowplan.units import format_size

WARM_UP = 3
SIMILAR = 1.05
"""Times that differ by less than this are not told apart."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The median time of a run, accelerated and on the CPU alone."""

    accelerated_us: float
    cpu_us: float
    runs: int

    @property
    def ratio(self) -> float:
        return self.accelerated_us / self.cpu_us if self.cpu_us else 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    add_loading(parser, on="npu,gpu,cpu")
    parser.add_argument("--require", metavar="WHAT", help="exit 1 unless met: full, any, or an accelerator's name")
    parser.add_argument("--runs", metavar="N", type=int, default=50, help="runs to compare with the CPU (default 50)")
    parser.add_argument("--no-measure", action="store_true", help="do not run it")
    parser.add_argument("--aot", metavar="VENDOR[:CHIP]", help="ask a vendor's ahead-of-time compiler instead")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="with --aot: write the compiled model")
    add_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    runs = count_of(arguments.runs, "--runs")
    options = load_options(arguments)
    if arguments.output is not None and not arguments.aot:
        raise UsageError("-o: only --aot makes a file; add --aot VENDOR")
    if arguments.require is not None and arguments.require not in ("full", "any", *options.accelerators):
        raise UsageError(f"--require {arguments.require}: write full, any, or one of {', '.join(options.accelerators)}")
    backend = model_backend(arguments.backend)
    model = Model.read(arguments.model)
    if arguments.aot:
        return _ahead(backend, model, options, arguments)
    with working(f"compiling {model.name}"), closing(backend.load_model(model, options)) as loaded:
        found, estimate = loaded.acceleration, estimate_of(loaded)
        cost = None
        if estimate is None and not arguments.no_measure and found.used != "cpu":
            with closing(cpu_only(backend, model, options)) as plain_model:
                cost = measure(loaded, plain_model, runs)
    unmet = _unmet(found, arguments.require)
    if arguments.json:
        print_json(_document(model, found, cost, estimate, arguments.require, unmet))
    else:
        print("\n".join(_lines(model, found, cost, estimate)))
        if unmet:
            sys.stdout.flush()
            print(f"Error: {unmet}", file=sys.stderr)
    return 1 if unmet else 0


def measure(accelerated: Accelerated, cpu: Accelerated, runs: int) -> Cost:
    """Run both in turn on the same inputs, so that what else the machine does meets both."""
    times: tuple[list[int], list[int]] = ([], [])
    inputs = [sample(port, seed) for seed, port in enumerate(cpu.inputs)]
    for index in range(runs + WARM_UP):
        for model, kept in zip((accelerated, cpu), times, strict=True):
            duration = model.run_with_metrics(inputs)[1].duration_ns
            if index >= WARM_UP:
                kept.append(duration)
    return Cost(accelerated_us=median(times[0]) / 1000, cpu_us=median(times[1]) / 1000, runs=runs)


def verdict(found: Acceleration, cost: Cost) -> str:
    """Return in one sentence whether the accelerator is worth it."""
    times = f"{cost.accelerated_us / 1000:.3g} ms a run on {found.used}, {cost.cpu_us / 1000:.3g} ms on the CPU alone"
    if cost.ratio > SIMILAR:
        part = "" if found.fully else "partial acceleration is slower: "
        return f"{times}; {part}{cost.ratio:.2g} times the CPU's time, so --on cpu is the better choice"
    if cost.ratio < 1 / SIMILAR:
        return f"{times}; {1 / cost.ratio:.2g} times as fast"
    return f"{times}; no difference"


def _unmet(found: Acceleration, require: str | None) -> str:
    """Return why a requirement is not met, or nothing."""
    where = f"{found.taken} of {found.operators} operators are accelerated, on {found.used}"
    if require == "full" and not found.fully:
        return f"--require full: {where}"
    if require == "any" and not found.taken:
        return f"--require any: {where}"
    if require not in (None, "full", "any") and found.used != require:
        return f"--require {require}: {where}"
    return ""


def _lines(model: Model, found: Acceleration, cost: Cost | None, estimate: Metrics | None) -> list[str]:
    title = f"{safe(model.name)}   {found.operators} operators, asked for {', '.join(found.asked)}"
    state = "fully accelerated" if found.fully else f"{found.taken} of {found.operators} operators accelerated"
    colour = "green" if found.fully else "bold"
    rows = [("", "here", "operators", "parts", "device", ""), *(_row(share) for share in found.shares)]
    lines = [painted(title, "bold"), painted(f"runs on {found.used}: {state}", colour), "", *columns(rows)]
    if cost is not None:
        lines += ["", f"measured   {verdict(found, cost)}"]
    if estimate is not None:
        lines += ["", estimate_line(estimate, found.used)]
    return lines


def _row(share: Share) -> tuple[str, ...]:
    here = {True: "yes", False: "no", None: "-"}[share.present]
    taken = str(share.taken) if share.tried else "-"
    parts = "-" if share.partitions is None else str(share.partitions)
    return (share.accelerator, here, taken, parts, share.device or "-", share.why)


def _document(
    model: Model, found: Acceleration, cost: Cost | None, estimate: Metrics | None, require: str | None, unmet: str
) -> dict[str, object]:
    measured = None if cost is None else {**plain(cost), "ratio": cost.ratio, "verdict": verdict(found, cost)}
    document: dict[str, object] = dict(report=1, model=model.name, **plain(found), measured=measured, require=require)
    if estimate is not None:
        document["estimate"] = plain(estimate)
    return {**document, "error": {"code": "requirement", "message": unmet}} if unmet else document


def _ahead(backend: ModelBackend, model: Model, options: LoadOptions, arguments: argparse.Namespace) -> int:
    """Ask a vendor's compiler what it would take; with a file to write, let it."""
    output: Path | None = arguments.output
    found = False
    if output is None:
        with working(f"asking the compiler of {arguments.aot}"):
            counts, written = backend.partition(model, arguments.aot, options), b""
    else:
        check_output(output, [model.path])
        result, found = _precompiled(backend, model, options, arguments)
        counts, written = result.counts, result.data
        write_file(output, written)
    full = counts.taken == counts.operators
    unmet = "" if full or arguments.require != "full" else f"--require full: {_taken(counts)}"
    if arguments.json:
        document = dict(report=1, model=model.name, vendor=arguments.aot, **plain(counts), fully=full,
                        file=None if output is None else str(output), size_bytes=len(written) or None,
                        cached=found)  # fmt: skip
        print_json({**document, "error": {"code": "requirement", "message": unmet}} if unmet else document)
    else:
        print(f"{safe(model.name)}   {arguments.aot} takes {_taken(counts)}")
        if output is not None:
            how = ", compiled before" if found else ""
            print(f"wrote {safe(str(output))}   {format_size(len(written))}{how}")
        if unmet:
            sys.stdout.flush()
            print(f"Error: {unmet}", file=sys.stderr)
    return 1 if unmet else 0


def _precompiled(
    backend: ModelBackend, model: Model, options: LoadOptions, arguments: argparse.Namespace
) -> tuple[Precompiled, bool]:
    from stowplan.build.ahead import precompile

    store = open_store(arguments)
    cache = None if arguments.no_cache else open_cache(store)
    with working(f"compiling for {arguments.aot}"):
        return precompile(backend, model, arguments.aot, options, cache, arguments.recache)


def _taken(counts: Partitioning) -> str:
    parts = "1 part" if counts.partitions == 1 else f"{counts.partitions} parts"
    return f"{counts.taken} of {counts.operators} operators, in {parts}"
