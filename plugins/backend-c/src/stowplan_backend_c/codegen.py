"""Generates C from a plan: a source and header to link into firmware, or a program in one file."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from stowplan.errors import PlanError, UsageError
from stowplan.planfile import layout
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import PlanView, read_plan
from stowplan.plugins.kinds import Port, SourceOptions
from stowplan_backend_c.amalgam import amalgamate, pruned

ABI = 1
"""Goes up when code written against a generated header would have to change."""
FORMATS = ("core", "app")
WHOLE_NUMBERS, STREAMING_NUMBERS = 18, 24
"""32-bit words in the runtime's structures beside their pointers; the compiler of the source checks that."""
MAX_NAME = 64
TEMPLATES = Path(__file__).parent / "templates"


def generate(plan: bytes, options: SourceOptions) -> dict[str, bytes]:
    """Return `NAME.c`, and `NAME.h` for format `core`.

    An empty name stands for the model's name made fit for C. Raises `UsageError` for a name that is no C identifier or
    a format that does not exist, `PlanError` for a plan that is damaged or needs kernels unknown here.
    """
    if options.format not in FORMATS:
        raise UsageError(f"no source format {options.format!r}: choose {' or '.join(FORMATS)}")
    view = read_plan(plan)
    name = checked_name(options.name) if options.name else safe_name(view.name)
    values = _values(view, name)
    streamed = any(port.streamed for port in view.inputs)
    header = _fill("core.h.in", values, streamed)
    source = _fill("core.c.in", values | _bulk(view), streamed)
    if options.format == "core":
        return {f"{name}.c": source.encode(), f"{name}.h": header.encode()}
    core = source.replace(f'#include "{name}.h"\n', header)
    return {f"{name}.c": _fill("app.c.in", values | {"CORE": core}, streamed).encode()}


def checked_name(name: str) -> str:
    """Return a name that can begin every symbol of a generated source, or raise `UsageError`."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII) or len(name) > MAX_NAME:
        raise UsageError(
            f"--name {name}: is no C identifier of at most {MAX_NAME} letters, digits and underscores; "
            f"try --name {safe_name(name)}"
        )
    if re.match(r"stow(_|$)", name.lower()):
        raise UsageError(f"--name {name}: would clash with the runtime's own names; try --name {safe_name(name)}")
    return name


def safe_name(text: str) -> str:
    """Return a C identifier that resembles a model's name."""
    stem = re.sub(r"\.(tflite|onnx|stow)$", "", text, flags=re.IGNORECASE)
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")[: MAX_NAME - len("model_")].rstrip("_")
    if not name:
        return "model"
    return f"model_{name}" if name[0].isdigit() or re.match(r"stow(_|$)", name) else name


def _fill(template: str, values: Mapping[str, str], streamed: bool) -> str:
    """Return a template with its words filled in, for plans with or without streamed inputs."""
    text = pruned((TEMPLATES / template).read_text("utf-8"), {"STOW_WITH_RECEIVE": streamed})
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _values(view: PlanView, name: str) -> dict[str, str]:
    macro = name.upper()
    streamed = [index for index, port in enumerate(view.inputs) if port.streamed]
    return {
        "NAME": name,
        "MACRO": macro,
        "TITLE": _comment(view.name) or name,
        "WHAT": _interface(view),
        "ABI": str(ABI),
        "PLAN_SHORT": view.digest[:16],
        "PLAN_DIGEST": view.digest,
        "MODEL_DIGEST": view.model_digest,
        "FAST_BYTES": str(view.fast_bytes),
        "SLOW_BYTES": str(view.slow_bytes),
        "PORTS": "\n\n".join([_ports(macro, "INPUT", view.inputs), _ports(macro, "OUTPUT", view.outputs)]),
        "INPUT_BYTES": ", ".join(str(port.size_bytes) for port in view.inputs) or "0",
        "OUTPUT_BYTES": ", ".join(str(port.size_bytes) for port in view.outputs) or "0",
        "STREAMED": str(streamed[0]) if streamed else "",
        "OR_STREAMED": ", or it is streamed" if streamed else "",
        "ROW_BYTES": ", ".join(str(port.row_bytes) for port in view.inputs),
        "MOST_ROW_BYTES": str(max((port.row_bytes for port in view.inputs), default=0)),
        "CONTEXT_NUMBERS": str(STREAMING_NUMBERS if streamed else WHOLE_NUMBERS),
    }


def _bulk(view: PlanView) -> dict[str, str]:
    """Return the long texts: the runtime and the plan's bytes."""
    known = {kind.code: kind.name for kind in NODE_KINDS.values()}
    codes = {node["kind"] for node in view.records("nodes")}
    unknown = sorted(codes - known.keys())
    if unknown:
        raise PlanError(f"the plan has nodes of kind {unknown[0]}, for which there is no kernel here; compile it again")
    kinds = {known[code] for code in codes} | {"copy"}  # never none at all: C has no empty tables
    padded = view.data + bytes(-len(view.data) % 4)
    words = struct.unpack(f"<{len(padded) // 4}I", padded)
    lines = ("    " + ", ".join(f"0x{word:08x}" for word in words[i : i + 8]) + "," for i in range(0, len(words), 8))
    return {
        "RUNTIME": amalgamate(kinds, lz4=bool(view.flags & layout.FLAG_COMPRESSED)),
        "PLAN": "\n".join(lines),
        "PLAN_WORDS": str(len(words)),
        "PLAN_BYTES": str(len(view.data)),
    }


def _interface(view: PlanView) -> str:
    def said(ports: Sequence[Port]) -> str:
        return ", ".join(f"{'x'.join(map(str, port.shape)) or 'scalar'} {port.dtype}" for port in ports) or "nothing"

    return f"{said(view.inputs)} to {said(view.outputs)}."


def _ports(macro: str, side: str, ports: Sequence[Port]) -> str:
    """Return the macros of all inputs or all outputs; each has a number, and an enumerator made from its name."""
    lines = [f"#define {macro}_{side}_COUNT {len(ports)}"]
    for index, port in enumerate(ports):
        lines += _port(f"{macro}_{side}_{index}", port)
    if ports:
        lines += ["", f"enum {{{', '.join(_enumerators(macro, side, ports))}}};"]
    return "\n".join(lines)


def _port(prefix: str, port: Port) -> list[str]:
    dims = port.shape or (1,)
    lines = [
        f'#define {prefix}_NAME "{_comment(port.name)}"',
        f"#define {prefix}_BYTES {port.size_bytes}",
        f'#define {prefix}_DTYPE "{port.dtype}"',
        f"#define {prefix}_RANK {len(port.shape)}",
        f"#define {prefix}_SHAPE {{{', '.join(map(str, dims))}}}",
    ]
    if port.streamed:
        lines += [f"#define {prefix}_ROWS {port.rows}", f"#define {prefix}_ROW_BYTES {port.row_bytes}"]
    if port.scale is not None:
        lines += [
            f"#define {prefix}_SCALE {_float(port.scale, port.name)}",
            f"#define {prefix}_ZERO_POINT ({port.zero_point})",
        ]
    return lines


def _enumerators(macro: str, side: str, ports: Sequence[Port]) -> list[str]:
    """Return `NET_INPUT_IMAGE = 0` and so on; a name that C cannot tell from an earlier one gets its number."""
    taken: set[str] = set()
    found = []
    for index, port in enumerate(ports):
        word = re.sub(r"[^A-Z0-9]+", "_", port.name.upper()).strip("_")
        # A first digit could give the name of another macro (..._INPUT_0_BYTES), as could the word COUNT.
        if not word or word[0].isdigit() or word == "COUNT" or word in taken:
            word = f"NUMBER_{index}"
        taken.add(word)
        found.append(f"{macro}_{side}_{word} = {index}")
    return found


def _float(value: float, name: str) -> str:
    if not isfinite(value):
        raise PlanError(f"the plan is damaged: the scale of {_comment(name)} is {value}")
    text = f"{value:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def _comment(text: str) -> str:
    """Return text that can stand in a C comment or string: nothing in it ends or begins either."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+=/()\[\]-]", "_", text)[:200].strip()
