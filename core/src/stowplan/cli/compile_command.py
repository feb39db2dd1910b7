"""`stowplan compile`: fits a model, proves the plan, prints the report, and only then writes the file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.build.artifact import Artifact
from stowplan.build.depfile import write_depfile
from stowplan.build.request import CompileRequest
from stowplan.cache.files import sha256
from stowplan.cli.caching import add_cache, check_choice, name_folder, open_cache, open_store, read_only
from stowplan.cli.options import add_model, add_plot, compressor, input_shapes, time_limit
from stowplan.cli.output import Coloured, beside, check_outputs, print_error, print_json, safe, write_files
from stowplan.cli.report import document, kept, print_report, refusal, wrote
from stowplan.cli.warm import is_answerable, paint, wants_colour
from stowplan.cli.working import working
from stowplan.errors import DoesNotFit, UsageError
from stowplan.nouns import replace
from stowplan.units import parse_pools, parse_recompute, parse_size

if TYPE_CHECKING:
    from stowplan.build.facts import Facts
    from stowplan.build.incremental import Inputs
    from stowplan.build.telemetry import Telemetry
    from stowplan.cache.layers import Layered
    from stowplan.cache.store import Store


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
    parser.add_argument(
        "-c", "--compress", metavar="NAME", default="none", help="none, lz4 or range: pack weights per stage"
    )
    parser.add_argument("--xip", action="store_true", help="weights are read in place from flash at run time")
    parser.add_argument("--keep-names", action="store_true", help="keep all operator and tensor names in the plan")
    parser.add_argument("--no-prove", action="store_true", help="do not run the plan before it is written")
    add_plot(parser, "the memory map of the plan")
    parser.add_argument("--explain", action="store_true", help="say what changed since this file was last compiled")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write what took how long, to open in Perfetto")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors and warnings")
    parser.add_argument("--codegen", metavar="FILE.c", type=Path, help="write C too, as stowplan codegen does")
    parser.add_argument("--name", help="with --codegen: prefix of the functions (default from FILE)")
    parser.add_argument("--depfile", metavar="FILE", type=Path, help="write all inputs as a rule for make or ninja")
    parser.add_argument("--depfile-target", metavar="FILE", help="what that rule is for (default the plan)")
    add_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    output: Path = arguments.output or beside(arguments.model, ".stow")
    pools = parse_pools(arguments.mem)
    flash_bytes = None if arguments.flash is None else parse_size(arguments.flash, "-f")
    shapes = input_shapes(arguments.input_shape)
    plot: Path | None = arguments.plot
    check_outputs([output, *_besides(arguments), *filter(None, [arguments.codegen])], [arguments.model])
    check_choice(arguments, "compile")
    _check_extras(arguments)
    store = _store(arguments)
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
        stream_inputs=tuple(arguments.stream_input),
        recompute=parse_recompute(arguments.recompute, "--recompute"),
        optimal=arguments.optimal,
        time_limit_s=time_limit(arguments.time_limit),
    )
    try:
        with ExitStack() as stack:
            telemetry = _telemetry(arguments, stack)
            with working(f"compiling {safe(arguments.model.name)}", request.time_limit_s):
                artifact = _compiled(arguments, request, store, telemetry)
                files = {output: artifact.data, **_drawn(plot, artifact), **_sources(arguments, artifact.data, output)}
        write_files(files)
    except DoesNotFit as err:
        return _does_not_fit(err, arguments)
    _finish(arguments, request, store, artifact, output)
    return 0


def _store(arguments: argparse.Namespace) -> Store | None:
    """Return the cache on disk, or None: without one its modules, a tenth of a small model's time, stay unread."""
    if not arguments.no_cache:
        return open_store(arguments)
    name_folder(arguments)
    return None


def _compiled(
    arguments: argparse.Namespace, request: CompileRequest, store: Store | None, telemetry: Telemetry
) -> Artifact:
    if store is None:
        from stowplan.build.uncached import compile_uncached

        return compile_uncached(request, telemetry)
    from stowplan.build.identity import Identities
    from stowplan.build.incremental import compile_incremental
    from stowplan.plugins.host import host

    cache = open_cache(store)
    if arguments.verify:
        artifact = _verified(request, cache, telemetry)
    else:
        artifact = compile_incremental(
            request,
            cache,
            telemetry=telemetry,
            recache=arguments.recache,
            identities=Identities(host(), remembered=True),
        )
    if arguments.plot is not None and artifact.plan is None:
        artifact = _with_plan(request, cache, artifact, telemetry)
    cache.finish()
    return artifact


def _verified(request: CompileRequest, cache: Layered, telemetry: Telemetry) -> Artifact:
    from stowplan.build.reproduce import compile_verified
    from stowplan.plugins.host import host

    return compile_verified(request, cache, plugins=host(), telemetry=telemetry)


def _with_plan(request: CompileRequest, cache: Layered, artifact: Artifact, telemetry: Telemetry) -> Artifact:
    """Return an artifact that holds its plan in memory: from the schedule in the cache, else compiled anew."""
    from stowplan.build.incremental import compile_incremental, plan_again

    plan = plan_again(request, cache, artifact)
    if plan is None:
        return compile_incremental(request, cache, telemetry=telemetry, recache=True)
    return replace(artifact, plan=plan)


def _check_extras(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` or `OutputError` for options that make no sense together, before any work is done."""
    if arguments.quiet and arguments.json:
        raise UsageError("-q: goes not with --json, which is there to be read")
    if arguments.depfile_target is not None and arguments.depfile is None:
        raise UsageError("--depfile-target: goes with --depfile FILE")
    if arguments.codegen is None:
        if arguments.name is not None:
            raise UsageError("--name: goes with --codegen FILE.c")
        return
    from stowplan.cli.sources import check_source

    check_source(arguments.codegen)


def _besides(arguments: argparse.Namespace) -> list[Path]:
    """Return the files to be written beside the plan and its C source."""
    return [path for path in (arguments.plot, arguments.depfile, arguments.trace) if path is not None]


def _sources(arguments: argparse.Namespace, plan: bytes, output: Path) -> dict[Path, bytes]:
    if arguments.codegen is None:
        return {}
    from stowplan.cli.sources import generated, prefix_of
    from stowplan.plugins.kinds import SourceOptions

    options = SourceOptions(name=prefix_of(arguments.codegen, arguments.name))
    files = generated(plan, arguments.codegen, options, "c")
    check_outputs([output, *_besides(arguments), *files])  # a header may meet one of the others
    return files


def _drawn(plot: Path | None, artifact: Artifact) -> dict[Path, bytes]:
    if plot is None or artifact.plan is None:
        return {}
    from stowplan.build.map_plot import plan_svg

    return {plot: plan_svg(artifact.plan).encode()}


def _telemetry(arguments: argparse.Namespace, stack: ExitStack) -> Telemetry:
    from stowplan.build.telemetry import Recorder, Telemetry, write_trace
    from stowplan.plugins.host import host

    if arguments.trace is None:
        return Telemetry(host().event)
    recorder = Recorder()
    stack.callback(lambda: write_trace(arguments.trace, recorder.events))
    return Telemetry(host().event, recorder)


def _finish(
    arguments: argparse.Namespace, request: CompileRequest, store: Store | None, artifact: Artifact, output: Path
) -> None:
    """Print the report, and remember what it stands on for the next time."""
    reasons = _reasons(arguments, store, artifact, output)
    said = _report(arguments, artifact, reasons, str(output), wrote)
    complaints = "".join(f"Warning: {safe(line)}\n" for line in artifact.diagnostics)
    sys.stderr.write(complaints)
    sys.stdout.write(paint(said.encode("utf-8", "surrogateescape"), wants_colour()).decode("utf-8", "surrogateescape"))
    if arguments.depfile is not None or _is_remembered(arguments, artifact):
        from stowplan.build.incremental import inputs_of

        inputs = inputs_of(request)  # asked again: what changed during the build has another key by now
        if arguments.depfile is not None:
            write_depfile(arguments.depfile, arguments.depfile_target or output, [*inputs.files, *inputs.tools])
        if _is_remembered(arguments, artifact):
            texts = [
                _report(arguments, replace(artifact, cache="unchanged", layer=""), (), str(output), kept),
                _report(arguments, replace(artifact, cache="hit", layer="disk"), (), str(output), wrote),
            ]
            _remember(arguments, artifact, output, inputs, [*texts, complaints])


def _is_remembered(arguments: argparse.Namespace, artifact: Artifact) -> bool:
    return bool(arguments.words) and artifact.cache != "off" and is_answerable(arguments.words)


def _remember(
    arguments: argparse.Namespace, artifact: Artifact, output: Path, inputs: Inputs, texts: list[str]
) -> None:
    """Leave a note for the same command, unless a plugin wants to be told of every build."""
    from stowplan.cli.warming import leave_note
    from stowplan.plugins.host import host

    if host().observed or read_only(arguments) or inputs.key != artifact.key:
        return
    warned = "".join(f"Warning: {safe(line)}\n" for line in host().warnings)
    leave_note(
        arguments.words,
        document=artifact.document,
        saved_ns=artifact.metadata.get("cost_ns", 0),
        files=inputs.files,
        output=(output, sha256(artifact.data)),
        tools=inputs.tools,
        texts=[*texts[:-1], warned + texts[-1]],
    )


def _report(
    arguments: argparse.Namespace,
    artifact: Artifact,
    reasons: Sequence[str],
    output: str,
    last_line: Callable[[Facts, str], str],
) -> str:
    """Return what the command prints, with colours that are taken out again where nobody wants them."""
    if arguments.quiet:
        return ""
    facts = artifact.facts
    with redirect_stdout(Coloured()) as said:
        if arguments.json:
            status = {"status": artifact.cache, "layer": artifact.layer, "key": artifact.key}
            more = {} if arguments.plot is None else {"plot_written": str(arguments.plot)}
            if arguments.codegen is not None:
                more["source_written"] = str(arguments.codegen)
            print_json(document(facts, file_written=output, cache=status, reasons=list(reasons), **more))
        else:
            print_report(facts)
            if arguments.explain:
                print("\n" + "\n".join(f"because {safe(reason)}" for reason in reasons))
            print(f"\n{last_line(facts, output)}")
            if arguments.verify:
                print(f"verified: {safe(output)} equals the cached one")
            if arguments.plot is not None:
                print(f"wrote {safe(str(arguments.plot))}   memory map")
            if arguments.codegen is not None:
                print(f"wrote {safe(str(arguments.codegen))}   C source, its header beside it")
    return said.getvalue()


def _reasons(arguments: argparse.Namespace, store: Store | None, artifact: Artifact, output: Path) -> tuple[str, ...]:
    """Return what differs from the last time this output was made, and remember this time."""
    if store is None:
        return ()
    from stowplan.cache import subjects

    name = os.path.abspath(output)
    before = subjects.recall(store.folder, name)
    reasons = subjects.compared(before, artifact.document)
    if arguments.recache:
        reasons = (*reasons, "--recache was given")
    if not read_only(arguments) and (before is None or before.key != artifact.key):
        subjects.remember(store.folder, name, artifact.document, reasons)
    return reasons or ("no input changed",)


def _does_not_fit(err: DoesNotFit, arguments: argparse.Namespace) -> int:
    """Print what is known of a model that gets no plan: the report as far as it goes, and the cause."""
    if arguments.json:
        print_json(refusal(err.refusal, err.code, err.details(), err.facts))
        return err.exit_code
    if err.facts is not None and not arguments.quiet:
        print_report(err.facts)
    print_error(err, as_json=False, message=err.refusal)
    return err.exit_code
