"""`stowplan compile`: fits a model, proves the plan, prints the report, and only then writes the file."""

from __future__ import annotations

import argparse
from pathlib import Path

from stowplan.cli.options import add_model, add_plot, compressor, input_shapes
from stowplan.cli.output import check_outputs, print_error, print_json, safe, write_files
from stowplan.cli.report import document, print_report, refusal, wrote
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
        required=True,
        help="fast memory, then slow memory: -m 32K -m 1M or -m 32K+1M",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="plan to write (default MODEL with .stow)")
    parser.add_argument("-c", "--compress", metavar="NAME", default="none", help="none or lz4: pack weights per stage")
    parser.add_argument("--xip", action="store_true", help="weights are read in place from flash at run time")
    parser.add_argument("--keep-names", action="store_true", help="keep all operator and tensor names in the plan")
    parser.add_argument("--no-prove", action="store_true", help="do not run the plan before it is written")
    add_plot(parser, "the memory map of the plan")


def run(arguments: argparse.Namespace) -> int:
    output: Path = arguments.output or arguments.model.with_suffix(".stow")
    pools = parse_pools(arguments.mem)
    flash_bytes = None if arguments.flash is None else parse_size(arguments.flash, "-f")
    shapes = input_shapes(arguments.input_shape)
    plot: Path | None = arguments.plot
    check_outputs([output, *([plot] if plot else [])], [arguments.model])
    from stowplan.build.causes import compile_explaining
    from stowplan.build.pipeline import CompileRequest, Session

    request = CompileRequest(
        model_path=arguments.model,
        pools=pools,
        flash_bytes=flash_bytes,
        compressor=compressor(arguments.compress),
        xip=arguments.xip,
        input_shapes=shapes,
        keep_names=arguments.keep_names,
        prove=not arguments.no_prove,
        scheduler=arguments.scheduler,
    )
    try:
        with working(f"compiling {safe(arguments.model.name)}"):
            result = compile_explaining(Session(request))
            files = {output: result.data}
            if plot is not None:
                from stowplan.build.map_plot import plan_svg

                files[plot] = plan_svg(result.plan).encode()
        write_files(files)
    except DoesNotFit as err:
        return _does_not_fit(err, arguments.json)
    if arguments.json:
        plotted = {} if plot is None else {"plot_written": str(plot)}
        print_json(document(result.facts, file_written=str(output), **plotted))
        return 0
    print_report(result.facts)
    print(f"\n{wrote(result.facts, str(output))}")
    if plot is not None:
        print(f"wrote {safe(str(plot))}   memory map")
    return 0


def _does_not_fit(err: DoesNotFit, as_json: bool) -> int:
    """Print what is known of a model that gets no plan: the report as far as it goes, and the cause."""
    message = f"no plan written: {err}"
    if as_json:
        print_json(refusal(message, err.code, err.details(), err.facts))
        return err.exit_code
    if err.facts is not None:
        print_report(err.facts)
    print_error(err, as_json=False, message=message)
    return err.exit_code
