"""What `accelerate` and `profile` share: the options for a backend that compiles model files by itself."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from stowplan.cli.options import add_json
from stowplan.errors import RuntimeFailure, UsageError
from stowplan.flow.model import Model
from stowplan.nouns import replace
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Accelerated, Compiled, LoadOptions, Metrics, ModelBackend
from stowplan.units import format_size

MOST_RUNS = 1_000_000


def add_loading(parser: argparse.ArgumentParser, on: str | None, what: str = "TFLite model") -> None:
    """Add the options; `on` is the default of --on, None where there is another way without it."""
    parser.add_argument("model", metavar="MODEL", type=Path, help=what)
    default = f"accelerators in order of preference (default {on})" if on else "accelerators in order of preference"
    parser.add_argument("--on", metavar="LIST", default=on, help=default)
    parser.add_argument(
        "--precision", metavar="NAME", default="default", help="default, fp16, fp32, ...: see the backend"
    )
    parser.add_argument("--signature", metavar="KEY", help="which signature, by key or index (default the first)")
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="threads for the CPU (default 1)")
    parser.add_argument("--device", metavar="NAME", default="", help="which device of an accelerator that has several")
    parser.add_argument(
        "-b", "--backend", metavar="NAME", default="litert" if on else None, help="what runs it (default litert)"
    )
    add_json(parser)


def load_options(arguments: argparse.Namespace) -> LoadOptions:
    names = tuple(part.strip() for part in arguments.on.split(","))
    if not all(names):
        raise UsageError(f"--on {arguments.on}: write accelerators with commas between, such as npu,gpu,cpu")
    key = arguments.signature
    signature: int | str = 0 if key is None else int(key) if key.isascii() and key.isdigit() and len(key) < 10 else key
    return LoadOptions(
        accelerators=names, precision=arguments.precision, signature=signature, threads=arguments.threads,
        device=arguments.device, isolated=set(names) != {"cpu"},
    )  # fmt: skip


def model_backend(name: str) -> ModelBackend:
    """Return a backend that loads models itself. Raises `UsageError`, or `RuntimeFailure` if it does not work here."""
    backend = host().backends()[name]
    if not hasattr(backend, "load_model"):
        raise UsageError(f"-b {name}: runs plans, not models: stowplan compile MODEL, then stowplan run PLAN -b {name}")
    availability = backend.available()
    if not availability.ok:
        raise RuntimeFailure(f"backend {name} does not work on this machine: {availability.why}")
    return cast(ModelBackend, backend)


def cpu_only(backend: ModelBackend, model: Model, options: LoadOptions) -> Accelerated:
    """Return the same model on the CPU alone, to compare with."""
    return backend.load_model(model, replace(options, accelerators=("cpu",)))


def estimate_of(loaded: Compiled) -> Metrics | None:
    """Return what a compiler expects of a run elsewhere, None for a model that runs here."""
    found: Metrics | None = getattr(loaded, "estimate", None)
    return found


def estimate_line(estimate: Metrics, used: str) -> str:
    """Return an estimate in a line: the time of a run, and what it uses of each memory."""
    sizes = {name.removesuffix("_bytes"): int(size) for name, size in estimate.counters.items()
             if name.endswith("_bytes") and isinstance(size, int)}  # fmt: skip
    memories = "".join(f", {name.replace('_', ' ')} {format_size(size)}" for name, size in sizes.items())
    return f"estimated   {estimate.duration_ns / 1e6:.3g} ms a run on {used}{memories}; it does not run here"


def count_of(text: int, option: str) -> int:
    if not 1 <= text <= MOST_RUNS:
        raise UsageError(f"{option} {text}: give a number from 1 to {MOST_RUNS}")
    return text
