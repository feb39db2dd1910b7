"""Passes that the default pipeline has beside MLIR's own; they run in the worker."""

from __future__ import annotations

from typing import Any


def copies_to_linalg(module: Any, _: Any) -> None:
    """Make each copy a loop: MLIR would call a function of its runtime, which no object file here is linked with."""
    from torch_mlir import ir
    from torch_mlir.dialects import linalg

    found: list[Any] = []

    def note(operation: Any) -> Any:
        if operation.name == "memref.copy":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.walk(note)
    for operation in found:
        with ir.InsertionPoint(operation), operation.location:
            source, target = operation.operands
            linalg.copy(source, outs=[target])
        operation.erase()
