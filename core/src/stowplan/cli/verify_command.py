"""`stowplan verify`: a plan and another runtime side by side, on the same random inputs."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from stowplan.cli.arrays import values
from stowplan.cli.options import add_json, input_shapes
from stowplan.cli.output import columns, print_json, safe
from stowplan.cli.working import working
from stowplan.errors import RuntimeFailure, UsageError
from stowplan.plugins.kinds import Port

Run = Callable[[Sequence[bytes]], list[bytes]]
MOST_SAMPLES = 1000
CLOSE = 1e-4
"""Floats: of the largest number of an output. Integers may be one step off."""


class Difference(NamedTuple):
    """How far one output of one runtime is from the plan's, over all samples."""

    oracle: str
    output: str
    dtype: str
    largest: float
    magnitude: float
    differing: int
    elements: int

    @property
    def verdict(self) -> str:
        if self.differing == 0:
            return "equal"
        limit = CLOSE * self.magnitude if self.dtype.startswith("float") else 1.0
        return "close" if self.largest <= limit else "differs"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="model file")
    parser.add_argument(
        "--samples", metavar="N", type=int, default=5, help="random inputs, one after another (default 5)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which random inputs (default 0)")
    parser.add_argument("--input-shape", metavar="NAME:1x96x96x3", action="append", default=[], help="as for compile")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.samples <= MOST_SAMPLES:
        raise UsageError(f"--samples {arguments.samples}: give 1 to {MOST_SAMPLES}")
    from stowplan.build.pipeline import CompileRequest, compile_model
    from stowplan.flow.model import Model

    request = CompileRequest(model_path=arguments.model, input_shapes=input_shapes(arguments.input_shape))
    with working(f"verifying {safe(arguments.model.name)}"):
        plan = compile_model(request).data
        found, left_out = _compared(Model.read(arguments.model), plan, arguments.samples, arguments.seed)
    if not found:
        raise RuntimeFailure(f"{arguments.model}: nothing to compare with: {'; '.join(left_out)}")
    if arguments.json:
        differences = [{**d._asdict(), "verdict": d.verdict} for d in found]
        print_json({"model": str(arguments.model), "samples": arguments.samples, "outputs": differences,
                    "left_out": left_out})  # fmt: skip
    else:
        _print(found, left_out, arguments.samples)
    # The runtimes differ from each other at times: agreeing with one of them is agreeing.
    agreed = {d.oracle for d in found} - {d.oracle for d in found if d.verdict == "differs"}
    return 0 if agreed else 1


def _compared(model: object, plan: bytes, samples: int, seed: int) -> tuple[list[Difference], list[str]]:
    """Return the differences from every runtime that is installed and takes the model, and why others do not."""
    from stowplan.flow.model import Model
    from stowplan.plugins.host import host

    assert isinstance(model, Model)
    importer = host().importer_for(model)
    offers: Callable[[], Sequence[tuple[str, Callable[[bytes], Run]]]] | None = getattr(importer, "oracles", None)
    if offers is None:
        return [], [f"the importer {importer.name} knows no other runtime"]
    found: list[Difference] = []
    left_out: list[str] = []
    for name, opener in offers():
        try:
            found += _differences(name, opener(model.data), plan, samples, seed)
        except ImportError:
            left_out.append(f"{name} is not installed (pip install {name})")
        except (RuntimeFailure, RuntimeError, ValueError) as err:
            left_out.append(str(err).splitlines()[0])
    return found, left_out


def _differences(name: str, oracle: Run, plan: bytes, samples: int, seed: int) -> list[Difference]:
    from stowplan.build.prove import random_bytes
    from stowplan.plugins.host import host

    with closing(host().backends()["c"].compile(plan)) as compiled:
        found = [Difference(name, port.name, port.dtype, 0.0, 0.0, 0, 0) for port in compiled.outputs]
        for sample in range(samples):
            generator = random.Random(f"{seed}/{sample}")
            inputs = [random_bytes(port, generator) for port in compiled.inputs]
            pairs = zip(found, compiled.outputs, compiled.run(inputs), oracle(inputs), strict=True)
            found = [_more(so_far, port, mine, theirs) for so_far, port, mine, theirs in pairs]
    return found


def _more(so_far: Difference, port: Port, mine: bytes, theirs: bytes) -> Difference:
    largest, magnitude, differing = so_far.largest, so_far.magnitude, so_far.differing
    for a, b in zip(values(port, mine), values(port, theirs), strict=True):
        magnitude = max(magnitude, abs(b)) if math.isfinite(b) else magnitude
        if a != b and not (a != a and b != b):
            differing += 1
            apart = abs(a - b)
            largest = max(largest, apart if math.isfinite(apart) else math.inf)
    elements = so_far.elements + math.prod(port.shape)
    return so_far._replace(largest=largest, magnitude=magnitude, differing=differing, elements=elements)


def _print(found: Sequence[Difference], left_out: Sequence[str], samples: int) -> None:
    print(f"{samples} random inputs, one after another")
    rows = [("runtime", "output", "differing", "largest difference", "of", "")]
    for d in found:
        differing = f"{d.differing} of {d.elements}"
        rows.append((d.oracle, d.output, differing, f"{d.largest:.4g}", f"{d.magnitude:.4g}", d.verdict))
    print("\n".join(columns(rows)))
    for reason in left_out:
        print(f"  left out: {safe(reason)}")
