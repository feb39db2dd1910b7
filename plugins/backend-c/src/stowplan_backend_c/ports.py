"""A model's inputs and outputs as macros of a generated header: names, shapes, bytes, scales, numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from stowplan.errors import PlanError
from stowplan.planfile.reader import PlanView
from stowplan.plugins.kinds import Port
from stowplan_backend_c.names import comment


def interface(view: PlanView) -> str:
    def said(ports: Sequence[Port]) -> str:
        return ", ".join(f"{'x'.join(map(str, port.shape)) or 'scalar'} {port.dtype}" for port in ports) or "nothing"

    return f"{said(view.inputs)} to {said(view.outputs)}."


def port_macros(macro: str, side: str, ports: Sequence[Port]) -> str:
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
        f'#define {prefix}_NAME "{comment(port.name)}"',
        f"#define {prefix}_BYTES {port.size_bytes}",
        f'#define {prefix}_DTYPE "{port.dtype}"',
        f"#define {prefix}_RANK {len(port.shape)}",
        f"#define {prefix}_SHAPE {{{', '.join(map(str, dims))}}}",
    ]
    if port.streamed:
        lines += [f"#define {prefix}_ROWS {port.rows}", f"#define {prefix}_ROW_BYTES {port.row_bytes}"]
        lines += [f"#define {prefix}_TURNS {port.turns}"] if port.turns > 1 else []
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
        raise PlanError(f"the plan is damaged: the scale of {comment(name)} is {value}")
    text = f"{value:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")
