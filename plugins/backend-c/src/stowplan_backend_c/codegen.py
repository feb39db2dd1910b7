"""Generates C from a plan: a source and header to link into firmware, a program in one file, or a package."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from stowplan.errors import PlanError, UsageError
from stowplan.planfile import layout
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView, following, read_plan
from stowplan.plugins.kinds import SourceOptions
from stowplan_backend_c.amalgam import KERNELS, amalgamate, pruned
from stowplan_backend_c.cases import cases
from stowplan_backend_c.golden import golden_digest
from stowplan_backend_c.names import checked_name, comment, safe_name
from stowplan_backend_c.packages import PACKAGES, package
from stowplan_backend_c.ports import interface, port_macros
from stowplan_backend_c.specialize import CHOICES as SPECIALIZED
from stowplan_backend_c.specialize import specialized
from stowplan_backend_c.weights import CHOICES as WEIGHTS
from stowplan_backend_c.weights import plan_words, weights_files

ABI = 1
"""Goes up when code written against a generated header would have to change."""
FORMATS = ("core", "app")
WHOLE_NUMBERS, STREAMING_NUMBERS = 18, 24
"""32-bit words in the runtime's structures beside their pointers; the compiler of the source checks that."""
STACK_BYTES = 2176
"""What init, a run and the self test need at most on 32-bit Arm cores, built by gcc with -O2 or -Os; a test adds up the
frames of every kernel."""
TEMPLATES = Path(__file__).parent / "templates"


def generate(plan: bytes, options: SourceOptions) -> dict[str, bytes]:
    """Return the files by name: `NAME.c`, for format `core` also `NAME.h`, and what the options ask for.

    An empty name stands for the model's name made fit for C. Raises `UsageError` for a name that is no C identifier or
    options that do not exist or go together, `PlanError` for a plan that is damaged or needs kernels unknown here.
    """
    _check_options(options)
    view = read_plan(plan)
    name = checked_name(options.name) if options.name else safe_name(view.name)
    # Without a self test the C runtime never sees the plan: what it would refuse may still lead nowhere here.
    with following(view.name):
        return _files(view, name, options)


def _files(view: PlanView, name: str, options: SourceOptions) -> dict[str, bytes]:
    kinds = _kinds(view)
    values = _values(view, name)
    values["GOLDEN"] = golden_digest(view.data) if options.selftest else ""
    settings = _settings(view, options)
    header = _fill("core.h.in", values, settings)
    compressed, by_range = bool(view.flags & layout.FLAG_COMPRESSED), bool(view.flags & layout.FLAG_RANGE)
    values |= dict(
        RUNTIME=amalgamate(
            kinds,
            lz4=compressed and not by_range,
            range_coder=compressed and by_range,
            specialized=options.specialize != "none",
            kernels=options.kernels,
            cases=cases(view),
        ),
        SPECIALIZED=specialized(view, name, options.specialize),
        **plan_words(view, inline=options.weights == "inline"),
    )
    source = _fill("core.c.in", values, settings)
    if options.format == "app":
        core = source.replace(f'#include "{name}.h"\n', header)
        return {f"{name}.c": _fill("app.c.in", values | {"CORE": core}, settings).encode()}
    files = {f"{name}.c": source.encode(), f"{name}.h": header.encode()} | weights_files(view, name, options.weights)
    return package(files, values, options) if options.package else files


def _check_options(options: SourceOptions) -> None:
    for flag, value, choices in (
        ("format", options.format, FORMATS),
        ("package", options.package or "none", ("none", *PACKAGES)),
        ("weights", options.weights, WEIGHTS),
        ("specialize", options.specialize, SPECIALIZED),
        ("kernels", options.kernels, KERNELS),
    ):
        if value not in choices:
            raise UsageError(f"--{flag} {value}: there is no such choice; choose {', '.join(choices)}")
    if options.format == "app" and options.package:
        raise UsageError(
            f"--format app: is no --package {options.package}, a program is one file; leave one of them out"
        )
    if options.format == "app" and options.weights != "inline":
        raise UsageError(f"--format app: is one file; --weights {options.weights} goes with --format core")


def _settings(view: PlanView, options: SourceOptions) -> dict[str, bool]:
    """Return the conditions in templates that are decided here; see `amalgam.pruned`."""
    return {
        "STOW_WITH_RECEIVE": any(port.streamed for port in view.inputs),
        "STOW_WITH_SELFTEST": options.selftest,
        "STOW_WITH_FLOAT_INPUT": any(port.dtype == "float32" for port in view.inputs),
        "STOW_WITH_INLINE_WEIGHTS": options.weights == "inline",
        "STOW_WITH_SPECIALIZED": options.specialize != "none",
    }


def _fill(template: str, values: Mapping[str, str], settings: Mapping[str, bool]) -> str:
    """Return a template with its words filled in and its conditions on settings decided."""
    text = pruned((TEMPLATES / template).read_text("utf-8"), settings)
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _values(view: PlanView, name: str) -> dict[str, str]:
    macro = name.upper()
    streamed = [index for index, port in enumerate(view.inputs) if port.streamed]
    return {
        "NAME": name,
        "MACRO": macro,
        "TITLE": comment(view.name) or name,
        "WHAT": interface(view),
        "ABI": str(ABI),
        "PLAN_SHORT": view.digest[:16],
        "PLAN_DIGEST": view.digest,
        "PLAN_DIGEST_BYTES": ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(view.digest)),
        "DIGEST_OFFSET": str(layout.HEADER.offset_of("digest")),
        "MODEL_DIGEST": view.model_digest,
        "FAST_BYTES": str(view.fast_bytes),
        "SLOW_BYTES": str(view.slow_bytes),
        "STACK_BYTES": str(STACK_BYTES + sum(port.row_bytes for port in view.inputs)),
        "STAGES": str(len(view.records("stages"))),
        "NODES": str(len(view.records("nodes"))),
        "PORTS": "\n\n".join([port_macros(macro, "INPUT", view.inputs), port_macros(macro, "OUTPUT", view.outputs)]),
        "INPUT_BYTES": ", ".join(str(port.size_bytes) for port in view.inputs) or "0",
        "OUTPUT_BYTES": ", ".join(str(port.size_bytes) for port in view.outputs) or "0",
        "INPUT_CODES": ", ".join(str(layout.DTYPE_CODES[port.dtype]) for port in view.inputs) or "0",
        "TURNS": ", ".join(str(port.turns) for port in view.inputs),
        "STREAMED": str(streamed[0]) if streamed else "",
        "OR_STREAMED": ", or it is streamed" if streamed else "",
        "ROW_BYTES": ", ".join(str(port.row_bytes) for port in view.inputs),
        "MOST_ROW_BYTES": str(max((port.row_bytes for port in view.inputs), default=0)),
        "CONTEXT_NUMBERS": str(STREAMING_NUMBERS if streamed else WHOLE_NUMBERS),
    }


def _kinds(view: PlanView) -> Collection[str]:
    """Return the names of the kernels that a plan needs."""
    known = {kind.code: kind.name for kind in NODE_KINDS.values()}
    codes = {node["kind"] for node in view.records("nodes")}
    unknown = sorted(codes - known.keys())
    if unknown:
        raise PlanError(f"the plan has nodes of kind {unknown[0]}, for which there is no kernel here; compile it again")
    return {known[code] for code in codes}
