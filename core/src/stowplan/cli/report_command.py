"""`stowplan report`: one HTML page about a model or a plan, to look at and to send to others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.cli.options import add_ascii, add_model, input_shapes, time_limit
from stowplan.cli.output import beside, check_output, print_error, print_json, safe, write_file
from stowplan.cli.report import document, refusal, verdict
from stowplan.cli.working import working
from stowplan.errors import DoesNotFit, UsageError
from stowplan.flow.model import Model
from stowplan.nouns import dataclass, replace
from stowplan.units import format_size, parse_pools, parse_recompute, parse_size

if TYPE_CHECKING:
    from stowplan.build.costs import NodeCost
    from stowplan.build.facts import Facts
    from stowplan.build.memory_map import MemoryMap

MOST_RUNS = 100_000
_WARM_UP = 10


@dataclass(frozen=True)
class Subject:
    """What a page is about: facts, and where there is a plan its map, its bytes and what its nodes cost."""

    facts: Facts
    memory: MemoryMap | None = None
    data: bytes = b""
    note: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "model or plan")
    parser.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="page to write (default MODEL.html)")
    parser.add_argument(
        "-m", "--mem", metavar="SIZE", action="append", default=[],
        help="fast memory, then slow memory: -m 32K -m 1M or -m 32K+1M; a model without it is shown at its minimum",
    )  # fmt: skip
    parser.add_argument("--minimum", action="store_true", help="the least memory, too")
    parser.add_argument("--pareto", action="store_true", help="fast memory against slow traffic, over many budgets")
    parser.add_argument("--runs", metavar="N", type=int, default=0, help="measure each node here, over so many runs")
    add_ascii(parser)


def run(arguments: argparse.Namespace) -> int:
    from stowplan.planfile.reader import is_plan

    output: Path = arguments.output or beside(arguments.model, ".html")
    pools = dict(parse_pools(arguments.mem))
    flash_bytes = None if arguments.flash is None else parse_size(arguments.flash, "-f")
    if not 0 <= arguments.runs <= MOST_RUNS:
        raise UsageError(f"--runs {arguments.runs}: give a number from 1 to {MOST_RUNS}")
    if arguments.ascii and arguments.json:
        raise UsageError("--ascii: a map for people; leave out --json")
    check_output(output, [arguments.model])
    file = Model.read(arguments.model)
    with working(f"looking at {safe(file.name)}"):
        if is_plan(file.data) or file.path.suffix.lower() == ".stow":
            subject = _of_plan(arguments, file, pools, flash_bytes)
        else:
            subject = _of_model(arguments, pools, flash_bytes)
        costs = _costs(subject.data, arguments.runs, file.name)
    from stowplan.cli.page import page

    write_file(output, page(subject.facts, subject.memory, costs, subject.note).encode())
    return _say(arguments, subject, output)


def _of_plan(arguments: argparse.Namespace, file: Model, pools: dict[str, int], flash_bytes: int | None) -> Subject:
    from stowplan.build.plan_map import plan_map
    from stowplan.build.plan_report import facts_of_plan
    from stowplan.planfile.reader import following, read_plan

    _check_unused(arguments, file)
    plan = read_plan(file.data, file.name)
    note = "Read from a plan file: rows are shown for as long as their bytes lie there and may still be read."
    with following(file.name):
        memory = plan_map(plan, pools)
        return Subject(facts_of_plan(file.name, plan, memory, pools, flash_bytes), memory, file.data, note)


def _check_unused(arguments: argparse.Namespace, file: Model) -> None:
    """Refuse options that ask for another plan than the one in the file."""
    given = (
        ("--minimum", arguments.minimum), ("--pareto", arguments.pareto), ("--optimal", arguments.optimal),
        ("--input-shape", arguments.input_shape), ("--stream-input", arguments.stream_input),
        ("--time-limit", arguments.time_limit is not None), ("--scheduler", arguments.scheduler != "stream"),
        ("--recompute", arguments.recompute != "1.0"),
    )  # fmt: skip
    for option, is_given in given:
        if is_given:
            raise UsageError(f"{option}: {safe(file.name)} is a plan, which is fixed; give its model instead")


def _of_model(arguments: argparse.Namespace, pools: dict[str, int], flash_bytes: int | None) -> Subject:
    from stowplan.build.analyze import Questions, analyze_model
    from stowplan.build.memory_map import memory_map
    from stowplan.build.pipeline import CompileRequest
    from stowplan.planfile.writer import write_plan

    request = CompileRequest(
        model_path=arguments.model, pools=tuple(pools.items()), flash_bytes=flash_bytes,
        input_shapes=input_shapes(arguments.input_shape), scheduler=arguments.scheduler,
        stream_inputs=tuple(arguments.stream_input), optimal=arguments.optimal,
        time_limit_s=time_limit(arguments.time_limit), keep_names=True,
        recompute=parse_recompute(arguments.recompute, "--recompute"),
    )  # fmt: skip
    questions = Questions(minimum=arguments.minimum or not pools, pareto=arguments.pareto)
    analysis = analyze_model(request, questions)
    if analysis.plan is None:
        return Subject(analysis.facts, note="No plan meets this budget. With --minimum the smallest plan is drawn.")
    plan, facts = analysis.plan, analysis.facts
    note = ""
    if not pools or not facts.fits:
        note = f"This is the smallest plan with one memory: {format_size(plan.schedule.pool_bytes[0])}."
    return Subject(facts, memory_map(plan.graph, plan.schedule), write_plan(replace(plan, keep_names=True)), note)


def _costs(data: bytes, runs: int, name: str) -> Sequence[NodeCost]:
    """Return what each node costs; its time too when it is to be measured."""
    if not data:
        return ()
    from stowplan.build.costs import node_costs
    from stowplan.planfile.reader import following, read_plan

    with following(name):
        costs = node_costs(read_plan(data))
    if not runs:
        return costs
    from stowplan.cli.profile_command import record
    from stowplan.plugins.host import host

    with closing(host().backends()["c"].compile(data)) as compiled:
        recording = host().profilers()["host"].attach(compiled)
        record(compiled, recording, _WARM_UP, runs)
        times = {total.order: total.duration_ns / 1000 / runs for total in recording.by_operator()}
    return tuple(replace(cost, duration_us=times.get(cost.index, 0.0)) for cost in costs)


def _say(arguments: argparse.Namespace, subject: Subject, output: Path) -> int:
    facts = subject.facts
    refused = None if facts.fits else DoesNotFit(facts.cause or verdict(facts))
    if arguments.json:
        written = {"page_written": str(output)}
        print_json(refusal(str(refused), refused.code, {}, facts, **written) if refused else document(facts, **written))
        return refused.exit_code if refused else 0
    if arguments.ascii and subject.memory is not None:
        from stowplan.build.map_text import text_lines

        print("\n".join([*map(safe, text_lines(subject.memory)), ""]))
    print(f"{safe(verdict(facts))}\nwrote {safe(str(output))}")
    if refused:
        print_error(refused, as_json=False)
    return refused.exit_code if refused else 0
