"""`stowplan analyze`: the report of `compile`, and what takes extra work: other budgets, traffic, compression."""

from __future__ import annotations

import argparse

from stowplan.cli.options import add_model, input_shapes
from stowplan.cli.output import print_error, print_json, safe
from stowplan.cli.report import document, print_report, refusal
from stowplan.cli.working import working
from stowplan.errors import DoesNotFit
from stowplan.units import parse_pools, parse_size


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
    parser.add_argument("-v", "--verbose", action="store_true", help="a table of all stages")


def run(arguments: argparse.Namespace) -> int:
    pools = parse_pools(arguments.mem)
    flash_bytes = None if arguments.flash is None else parse_size(arguments.flash, "-f")
    shapes = input_shapes(arguments.input_shape)
    from stowplan.build.analyze import analyze_model
    from stowplan.build.pipeline import CompileRequest

    request = CompileRequest(
        model_path=arguments.model,
        pools=pools,
        flash_bytes=flash_bytes,
        input_shapes=shapes,
        scheduler=arguments.scheduler,
        stream_inputs=tuple(arguments.stream_input),
    )
    with working(f"analyzing {safe(arguments.model.name)}"):
        facts = analyze_model(request)
    refused = None if facts.fits else DoesNotFit(facts.cause)
    if arguments.json:
        print_json(refusal(str(refused), refused.code, {}, facts) if refused else document(facts))
    else:
        print_report(facts, verbose=arguments.verbose)
        if refused:
            print_error(refused, as_json=False)
    return refused.exit_code if refused else 0
