"""The C header of a model's object file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from stowplan.plugins.kinds import Port
from stowplan_backend_mlir.artifact import Artifact

_TYPES = {"bool": "bool", "float16": "uint16_t", "float32": "float", "float64": "double"}


def header(artifact: Artifact, name: str) -> str:
    """Return the declaration of a model's function; "" for what was no model."""
    if artifact.inputs is None or artifact.outputs is None:
        return ""
    names = _identifiers([port.name for port in (*artifact.inputs, *artifact.outputs)])
    sides = [*((port, True) for port in artifact.inputs), *((port, False) for port in artifact.outputs)]
    parameters = [_parameter(port, one, source) for (port, source), one in zip(sides, names, strict=True)]
    guard = f"{name.upper()}_H"
    sizes = [_size(port, one, name) for (port, _), one in zip(sides, names, strict=True)]
    return "\n".join([
        f"#ifndef {guard}", f"#define {guard}", "#include <stdbool.h>", "#include <stdint.h>", "", *sizes, "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif",
        "/* Computes outputs from inputs, rows first. Not in place: no output may overlap another tensor. */",
        f"void {name}({', '.join(parameters) or 'void'});",
        "#ifdef __cplusplus", "}", "#endif", "#endif", "",
    ])  # fmt: skip


def _parameter(port: Port, name: str, source: bool) -> str:
    kind = _TYPES.get(port.dtype, f"{port.dtype}_t")
    return f"{'const ' if source else ''}{kind} *{name}"


def _size(port: Port, name: str, model: str) -> str:
    return f"#define {model.upper()}_{name.upper()}_ELEMENTS {prod(port.shape)}"


def _identifiers(names: Sequence[str]) -> list[str]:
    """Return names as C identifiers, each once."""
    found: list[str] = []
    for number, name in enumerate(names):
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:40] or f"tensor_{number}"
        plain = plain if plain[0].isalpha() else f"t_{plain}"
        taken = plain in _WORDS or plain.upper() in [one.upper() for one in found]
        found.append(f"{plain}_{number}" if taken else plain)
    return found


_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false class new delete this template".split()
)
