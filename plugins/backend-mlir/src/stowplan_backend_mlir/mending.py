"""Mends what the converter leaves wrong: quantization that wraps, slices of a free size, indices out of range."""

from __future__ import annotations

from typing import Any

_RANGES = {"i8": (-128, 127), "i16": (-32768, 32767)}


def mend(function: Any) -> None:
    """Mend one function. Its types must be static."""
    for operation in _named(function, "tosa.cast"):
        _saturate(operation)
    for operation in _named(function, "tosa.slice"):
        _state_size(operation)
    for operation in _named(function, "tosa.gather"):
        _keep_inside(operation)


def _saturate(narrowing: Any) -> None:
    """Keep a float that is quantized within its range before the zero point is added and bits are cut off.

    TFLite's QUANTIZE saturates. The converter casts to 32 bits, adds the zero point, and makes a cast that wraps.
    """
    from torch_mlir import ir

    element = str(narrowing.results[0].type.element_type)
    total = narrowing.operands[0].owner
    if element not in _RANGES or isinstance(total, ir.Block) or total.name != "tosa.add":
        return
    wide, point = total.operands[0].owner, total.operands[1].owner
    if isinstance(wide, ir.Block) or isinstance(point, ir.Block) or point.name != "tosa.const":
        return
    if wide.name != "tosa.cast" or not isinstance(wide.operands[0].type.element_type, ir.F32Type):
        return
    low, high = _RANGES[element]
    zero_point = int(ir.DenseIntElementsAttr(point.attributes["values"])[0])
    value = wide.results[0]
    limits = (low - zero_point, high - zero_point)
    total.operands[0] = _between(value, limits, point.results[0].type, total)


def _keep_inside(operation: Any) -> None:
    """Take an index outside of the table for the nearest one; TFLite refuses to run, TOSA reads whatever is there."""
    from torch_mlir import ir

    values, indices = operation.operands[0].type, operation.operands[1]
    kind = ir.RankedTensorType.get([1] * indices.type.rank, indices.type.element_type)
    operation.operands[1] = _between(indices, (0, values.shape[1] - 1), kind, operation)


def _between(value: Any, limits: tuple[int, int], kind: Any, before: Any) -> Any:
    """Return a value that is kept between two limits, which are constants of a type."""
    from torch_mlir import ir

    with ir.InsertionPoint(before), before.location:
        for name, bound in zip(("tosa.maximum", "tosa.minimum"), limits, strict=True):
            made = ir.Operation.create(name, results=[value.type], operands=[value, _constant(kind, bound)])
            value = made.results[0]
    return value


def _state_size(operation: Any) -> None:
    """Write the result's sizes where the converter left -1, which stands for a dimension that was free."""
    from torch_mlir import ir

    owner = operation.operands[2].owner
    sizes = list(operation.results[0].type.shape)
    if isinstance(owner, ir.Block) or owner.name != "tosa.const_shape" or min(sizes, default=0) < 0:
        return
    with ir.InsertionPoint(operation), operation.location:
        kind = ir.RankedTensorType.get([len(sizes)], ir.IndexType.get())
        values = ir.DenseElementsAttr.get([ir.IntegerAttr.get(ir.IndexType.get(), size) for size in sizes], kind)
        made = ir.Operation.create(
            "tosa.const_shape", results=[owner.results[0].type], attributes={"values": values}
        )  # fmt: skip
    operation.operands[2] = made.results[0]


def _constant(kind: Any, value: int) -> Any:
    from torch_mlir import ir

    values = ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, value))
    return ir.Operation.create("tosa.const", results=[kind], attributes={"values": values}).results[0]


def _named(function: Any, name: str) -> list[Any]:
    from torch_mlir import ir

    found: list[Any] = []

    def note(operation: Any) -> Any:
        if operation.name == name:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    function.operation.walk(note)
    return found
