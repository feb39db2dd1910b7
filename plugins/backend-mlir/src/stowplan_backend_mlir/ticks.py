"""Has a model read the processor's counter between its operators, which are known by the places they come from."""

from __future__ import annotations

import platform
import re
from typing import Any

from stowplan.errors import UnsupportedError
from stowplan_backend_mlir.importing import ENTRY
from stowplan_backend_mlir.vetting import MOST_NAME

FUNCTION = "ticks"
"""The function that says what the counter was, before each part of the last run and after it."""
_NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"\(')
_COUNTERS = {"x86_64": "llvm.readcyclecounter", "AMD64": "llvm.readcyclecounter"}


def add_ticks(module: Any, operators: list[list[str]]) -> list[int]:
    """Read the counter wherever another operator begins; return the number of the operator of each part.

    `operators` are kind and output name. What belongs to none is counted with the part before it.
    """
    known = {name: number for number, (_, name) in reversed(list(enumerate(operators)))}
    function = next(one for one in module.body.operations if _is_entry(one.operation))
    parts: list[tuple[int, Any]] = []
    last: Any = None
    for one in function.operation.regions[0].blocks[0].operations:
        number = known.get(_place(one.operation))
        if one.operation.name.startswith("linalg.") and number is not None:
            last = one.operation
            if not parts or parts[-1][0] != number:
                parts.append((number, one.operation))
    if not parts:
        raise UnsupportedError("nothing of it can be told apart for a profile", ["profile"])
    size = len(parts) + 1
    following = list(function.operation.regions[0].blocks[0].operations)
    after = following[[one.operation for one in following].index(last) + 1].operation
    for index, operation in enumerate([*(one for _, one in parts), after]):
        _read(operation, index, size)
    kind = f"memref<{size}xi64>"
    _add(module, f"""
      memref.global "private" @stowplan_ticks : {kind} = uninitialized
      func.func @{FUNCTION}(%out: {kind}) {{
        %0 = memref.get_global @stowplan_ticks : {kind}
        linalg.copy ins(%0 : {kind}) outs(%out : {kind})
        return
      }}""")  # fmt: skip
    return [number for number, _ in parts]


def _read(before: Any, index: int, size: int) -> None:
    """Store the counter in front of an operation."""
    from torch_mlir import ir

    wide, place = ir.IntegerType.get_signless(64), ir.IndexType.get()
    counter = _COUNTERS.get(platform.machine(), "llvm.readsteadycounter")
    with ir.InsertionPoint(before), before.location:
        values = {"intrin": ir.StringAttr.get(counter), "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
                  "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}  # fmt: skip
        now = ir.Operation.create("llvm.call_intrinsic", results=[wide], attributes=values)
        kind = ir.MemRefType.get([size], wide)
        name = ir.FlatSymbolRefAttr.get("stowplan_ticks")
        memory = ir.Operation.create("memref.get_global", results=[kind], attributes={"name": name})
        where = {"value": ir.IntegerAttr.get(place, index)}
        at = ir.Operation.create("arith.constant", results=[place], attributes=where)
        ir.Operation.create("memref.store", operands=[now.results[0], memory.results[0], at.results[0]])


def _add(module: Any, text: str) -> None:
    """Put functions and globals into a module."""
    from torch_mlir import ir

    made = ir.Module.parse(f"module {{ {text} }}")
    for one in list(made.body.operations):
        module.body.append(one)


def _is_entry(operation: Any) -> bool:
    return operation.name == "func.func" and str(operation.attributes["sym_name"]) == f'"{ENTRY}"'


def _place(operation: Any) -> str:
    """Return the name of the tensor that an operation comes from, as far as vetting reads names."""
    found = _NAMED.search(str(operation.location))
    if found is None:
        return ""
    data = re.sub(rb"\\([0-9A-Fa-f]{2}|.)", _unescaped, found[1].encode("utf-8", "surrogateescape"))
    return data[:MOST_NAME].decode("utf-8", "replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode()) if len(found[1]) == 2 else found[1]
