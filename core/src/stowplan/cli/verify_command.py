"""`stowplan verify`: a plan and another runtime side by side, on the same inputs."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.cli.arrays import labelled, read_samples, values
from stowplan.cli.assigning import assign, require_all
from stowplan.cli.options import add_json, input_shapes
from stowplan.cli.output import columns, print_json, safe
from stowplan.cli.working import working
from stowplan.errors import PlanError, RuntimeFailure, UnsupportedError, UsageError
from stowplan.nouns import NamedTuple
from stowplan.plugins.kinds import Port

if TYPE_CHECKING:
    from stowplan.build.agreement import Difference, Tracing
    from stowplan.flow.model import Model
    from stowplan.plugins.kinds import Compiled, Importer

SAMPLES = 5
MOST_SAMPLES = 1000
Samples = Sequence[Sequence[bytes]]


class Found(NamedTuple):
    """The differences from every runtime that takes the model, why others were left out, and where one begins."""

    samples: int
    differences: Sequence[Difference]
    left_out: Sequence[str]
    tracing: Tracing | None = None
    untraced: Sequence[str] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="model file")
    parser.add_argument(
        "--inputs", metavar="[NAME=]FILE", action="append", default=[],
        help=".npy or .bin file with one or more samples of an input, repeatable (default: random inputs)",
    )  # fmt: skip
    parser.add_argument(
        "--samples", metavar="N", type=int, help=f"how many, one after another (default {SAMPLES}, or all of the files)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which random inputs (default 0)")
    parser.add_argument("--input-shape", metavar="NAME:1x96x96x3", action="append", default=[], help="as for compile")
    parser.add_argument("-v", "--verbose", action="store_true", help="also the first operator that differs")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.samples is not None and not 1 <= arguments.samples <= MOST_SAMPLES:
        raise UsageError(f"--samples {arguments.samples}: give 1 to {MOST_SAMPLES}")
    with working(f"verifying {safe(arguments.model.name)}"):
        found = _found(arguments)
    if not found.differences:
        raise RuntimeFailure(f"{arguments.model}: nothing to compare with: {'; '.join(found.left_out)}")
    if arguments.json:
        print_json(_document(arguments.model, found))
    else:
        _print(found, "random inputs" if not arguments.inputs else "samples")
    # The runtimes differ from each other at times: agreeing with one of them is agreeing.
    agreed = {d.oracle for d in found.differences} - {d.oracle for d in found.differences if d.verdict == "differs"}
    return 0 if agreed else 1


def _found(arguments: argparse.Namespace) -> Found:
    from stowplan.build.pipeline import CompileRequest, Session, compile_session
    from stowplan.plugins.host import host

    request = CompileRequest(model_path=arguments.model, input_shapes=input_shapes(arguments.input_shape))
    session = Session(request)
    plan = compile_session(session).data
    importer = host().importer_for(session.model)
    with closing(host().backends()["c"].compile(plan)) as compiled:
        samples = _samples(arguments, labelled(compiled.inputs, "input"))
        found = _compared(importer, session.model, compiled, samples)
    if not arguments.verbose:
        return found
    tracing, why = _traced(importer, session.model, request.input_shapes, samples)
    return found._replace(tracing=tracing, untraced=why)


def _samples(arguments: argparse.Namespace, ports: Sequence[Port]) -> Samples:
    """Return the inputs of each run: what the user's files hold, or random ones."""
    if not arguments.inputs:
        from stowplan.build.prove import random_bytes

        generators = (random.Random(f"{arguments.seed}/{n}") for n in range(arguments.samples or SAMPLES))
        return [[random_bytes(port, generator) for port in ports] for generator in generators]
    files = assign(arguments.inputs, ports, "inputs", "input")
    require_all(files, ports, "inputs")
    most = arguments.samples or MOST_SAMPLES
    found = {port.name: read_samples(files[port.name], port, most) for port in ports}
    counts = {len(samples) for samples in found.values()}
    if len(counts) > 1:
        listed = ", ".join(f"{name} {len(samples)}" for name, samples in found.items())
        raise UsageError(f"--inputs: the files hold unlike numbers of samples ({listed}); give each as many")
    if arguments.samples is not None and counts != {arguments.samples}:
        raise UsageError(f"--samples {arguments.samples}: the files of --inputs hold {min(counts)}")
    return list(zip(*found.values(), strict=True))


def _compared(importer: Importer, model: Model, compiled: Compiled, samples: Samples) -> Found:
    from stowplan.build.agreement import Run, differences

    offers: Callable[[], Sequence[tuple[str, Callable[[bytes], Run]]]] | None = getattr(importer, "oracles", None)
    if offers is None:
        return Found(len(samples), [], [f"the importer {importer.name} knows no other runtime"])
    found: list[Difference] = []
    left_out: list[str] = []
    for name, opener in offers():
        try:
            found += differences(name, opener(model.data), compiled.run, compiled.outputs, samples, values)
        except ImportError:
            left_out.append(f"{name} is not installed (pip install {name})")
        except (RuntimeFailure, RuntimeError, ValueError) as err:
            left_out.append(str(err).splitlines()[0])
    return Found(len(samples), found, left_out)


def _traced(
    importer: Importer, model: Model, shapes: Mapping[str, tuple[int, ...]], samples: Samples
) -> tuple[Tracing | None, list[str]]:
    """Compare operator by operator with the first runtime that shows its tensors; else say why none does."""
    from stowplan.build.agreement import Witness, trace

    offers: Callable[[], Sequence[tuple[str, Callable[[Model], Witness]]]] | None
    offers = getattr(importer, "witnesses", None)
    if offers is None:
        return None, [f"the importer {importer.name} knows no runtime that shows its tensors"]
    exposed: Callable[[Model], Model] | None = getattr(importer, "exposed", None)
    if exposed is not None:
        model = exposed(model)
    try:
        graph, why = importer.load(model, shapes), list[str]()
    except UnsupportedError as err:
        return None, [f"with all that is between them shown: {err}"]
    for name, opener in offers():
        try:
            return trace(model, graph, name, opener(model), samples, values, complete=exposed is None), []
        except ImportError:
            why.append(f"{name} is not installed (pip install {name})")
        except (PlanError, RuntimeFailure, RuntimeError, ValueError) as err:
            why.append(str(err).splitlines()[0])
    return None, why


def _document(model: Path, found: Found) -> dict[str, object]:
    outputs = [{**d._asdict(), "verdict": d.verdict} for d in found.differences]
    document: dict[str, object] = {"model": str(model), "samples": found.samples, "outputs": outputs,
                                   "left_out": list(found.left_out)}  # fmt: skip
    if found.tracing is not None:
        firsts = {
            key: None if pair is None else {"operator": pair[0], **pair[1]._asdict(), "verdict": pair[1].verdict}
            for key, pair in (("first_unequal", found.tracing.first_unequal),
                              ("first_differing", found.tracing.first_differing))
        }  # fmt: skip
        document["operators"] = {**found.tracing._asdict(), **firsts}
    elif found.untraced:
        document["operators_left_out"] = list(found.untraced)
    return document


def _print(found: Found, what: str) -> None:
    print(f"{found.samples} {what}, one after another")
    rows = [("runtime", "output", "differing", "largest difference", "of", "")]
    for d in found.differences:
        differing = f"{d.differing} of {d.elements}"
        rows.append((d.oracle, d.output, differing, f"{d.largest:.4g}", f"{d.magnitude:.4g}", d.verdict))
    print("\n".join(columns(rows)))
    for reason in found.left_out:
        print(f"  left out: {safe(reason)}")
    if found.tracing is not None:
        _print_tracing(found.tracing)
    for reason in found.untraced:
        print(f"  operators left out: {safe(reason)}")


def _print_tracing(tracing: Tracing) -> None:
    others = tracing.compared - tracing.equal - tracing.close
    print(f"{tracing.compared} operators beside {tracing.oracle}: {tracing.equal} equal, {tracing.close} close, "
          f"{others} differ")  # fmt: skip
    firsts = (("not equal", tracing.first_unequal), ("differing", tracing.first_differing))
    for word, pair in firsts:
        if pair is not None:
            source, d = pair
            print(safe(f"  first {word}: {source}: {d.differing} of {d.elements} numbers, by up to {d.largest:.4g} "
                       f"of {d.magnitude:.4g}"))  # fmt: skip
