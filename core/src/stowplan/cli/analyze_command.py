"""`stowplan analyze`: the report of `compile`, and what takes extra work: other budgets, traffic, compression."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stowplan.cli.options import add_ascii, add_model, add_plot, input_shapes, time_limit
from stowplan.cli.output import check_output, print_error, print_json, safe, write_file
from stowplan.cli.report import document, print_report, refusal
from stowplan.cli.working import working
from stowplan.errors import DoesNotFit, UsageError
from stowplan.units import parse_pools, parse_recompute, parse_size

if TYPE_CHECKING:
    from stowplan.build.analyze import Analysis
    from stowplan.flow.plan import Plan


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "-m",
        "--mem",
        metavar="SIZE",
        action="append",
        default=[],
        help="fast memory, then slow memory: -m 32K -m 1M or -m 32K+1M; without it memory figures only",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="a table of all stages and what bounds them")
    parser.add_argument(
        "--minimum", action="store_true", help="the least memory: one pool, fast beside slow, streamed input"
    )
    parser.add_argument("--pareto", action="store_true", help="fast memory against slow traffic, over many budgets")
    add_plot(parser, "the memory map of the plan, or the curve of --pareto,")
    add_ascii(parser)


def run(arguments: argparse.Namespace) -> int:
    pools = parse_pools(arguments.mem)
    flash_bytes = None if arguments.flash is None else parse_size(arguments.flash, "-f")
    shapes = input_shapes(arguments.input_shape)
    seconds = time_limit(arguments.time_limit)
    if arguments.ascii and arguments.json:
        raise UsageError("--ascii: a map for people; leave out --json")
    if arguments.plot is not None:
        check_output(arguments.plot, [arguments.model])
    from stowplan.build.analyze import Questions, analyze_model
    from stowplan.build.pipeline import CompileRequest

    request = CompileRequest(
        model_path=arguments.model,
        pools=pools,
        flash_bytes=flash_bytes,
        input_shapes=shapes,
        scheduler=arguments.scheduler,
        stream_inputs=tuple(arguments.stream_input),
        recompute=parse_recompute(arguments.recompute, "--recompute"),
        optimal=arguments.optimal,
        time_limit_s=seconds,
    )
    questions = Questions(minimum=arguments.minimum, pareto=arguments.pareto)
    with working(f"analyzing {safe(arguments.model.name)}") as progress:
        analysis = analyze_model(request, questions, progress)
        plot = _drawn(analysis, arguments)
    facts = analysis.facts
    if plot:
        write_file(arguments.plot, plot.encode())
    written = {"plot_written": str(arguments.plot)} if plot else {}
    refused = None if facts.fits else DoesNotFit(facts.cause)
    if arguments.json:
        print_json(refusal(str(refused), refused.code, {}, facts, **written) if refused else document(facts, **written))
    else:
        print_report(facts, verbose=arguments.verbose)
        if arguments.ascii and analysis.plan is not None:
            _print_map(analysis.plan)
        if plot:
            print(f"\nwrote {safe(str(arguments.plot))}   {'curve' if arguments.pareto else 'memory map'}")
        if refused:
            print_error(refused, as_json=False)
    return refused.exit_code if refused else 0


def _drawn(analysis: Analysis, arguments: argparse.Namespace) -> str:
    """Return what `--plot` asks for; nothing when there is no plan to draw."""
    if arguments.plot is None:
        return ""
    if arguments.pareto:
        from stowplan.build.pareto_plot import pareto_svg

        return pareto_svg(analysis.facts.name, analysis.facts.pareto)
    if analysis.plan is None:
        return ""
    from stowplan.build.map_plot import plan_svg

    return plan_svg(analysis.plan)


def _print_map(plan: Plan) -> None:
    from stowplan.build.map_text import text_lines
    from stowplan.build.memory_map import memory_map

    print("\n".join(["", *map(safe, text_lines(memory_map(plan.graph, plan.schedule)))]))
