"""What a file holds, for `stowplan inspect`: works for every file that parses, convertible or not."""

from __future__ import annotations

from collections import Counter
from math import prod

from stowplan.errors import ModelError
from stowplan.flow.graph import Operator
from stowplan.flow.model import Model
from stowplan.plugins.kinds import Description, OperatorFact
from stowplan_importer_onnx.binding import bind, entries, stated_shape
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.convert import Walk, start
from stowplan_importer_onnx.load import check_whole, exits
from stowplan_importer_onnx.parse import Array, FileGraph, FileModel, FileNode, parse

LARGEST_SHOWN = 3


def describe(model: Model) -> Description:
    """Return the facts about the graph. Raises `ModelError` when the file does not parse."""
    file = parse(model)
    check_whole(model.name, file)
    binding = bind(model.name, file, {})
    try:
        walk = start(file, binding.shapes)
    except Refusal as refusal:
        raise ModelError(f"{model.name}: {refusal}") from None
    graph = file.graph
    return Description(
        format="onnx",
        version=f"opset {file.opsets.get('', 0)}",
        inputs=tuple((v.name, stated_shape(v), v.dtype) for v in entries(file)),
        outputs=tuple((v.name, stated_shape(v), v.dtype) for v in graph.outputs),
        operators=tuple(_fact(file, walk, index, node) for index, node in enumerate(graph.nodes)),
        subgraph_count=_graphs(graph),
        weight_bytes=sum(array.nbytes for array in graph.constants.values()),
        quantization=Counter(_kinds(walk)),
        reasons=tuple(exits(file, walk)[1]),
        largest=_largest(walk),
    )


def _graphs(graph: FileGraph) -> int:
    inner = (v for node in graph.nodes for v in node.attributes.values() if isinstance(v, FileGraph))
    return 1 + sum(_graphs(other) for other in inner)


def _values(walk: Walk) -> list[tuple[str, Value]]:
    return [(name, value) for name, value in walk.values.items() if value is not None]


def _kinds(walk: Walk) -> list[str]:
    """Return how each value is held: its type, and whether one scale or several give its real numbers."""
    found = []
    for _, value in _values(walk):
        held = walk.builder.tensors[value.tensor]
        q = held.quantization
        found.append(held.dtype if q is None else f"{held.dtype} per {'channel' if q.per_channel else 'tensor'}")
    return found


def _largest(walk: Walk) -> tuple[tuple[str, tuple[int, ...], str, int], ...]:
    builder = walk.builder
    sizes = {
        value.tensor: (name, value.shape, builder.tensors[value.tensor].dtype, builder.tensors[value.tensor].size_bytes)
        for name, value in reversed(_values(walk))
        if not builder.is_constant(value)
    }
    most = sorted(sizes.values(), key=lambda found: -found[3])[:LARGEST_SHOWN]
    return tuple(found for found in most if found[3] > 0)


def _fact(file: FileModel, walk: Walk, index: int, node: FileNode) -> OperatorFact:
    outputs = [walk.values.get(name) for name in node.outputs]
    weights: dict[str, Array] = {n: file.graph.constants[n] for n in node.inputs if n in file.graph.constants}
    made = [op for op, owner in zip(walk.builder.operators, walk.owners, strict=True) if owner == index]
    reason = walk.refusals.get(index)
    return OperatorFact(
        index=index,
        kind=node.full_kind,
        name=node.name or next(iter(node.outputs), ""),
        outputs=tuple((value.shape, value.dtype) for value in outputs if value is not None),
        weight_bytes=sum(array.nbytes for array in weights.values()),
        macs=sum(_macs(walk.builder, operator) for operator in made),
        reason=reason or ("follows an unsupported operator" if reason is not None else ""),
    )


def _macs(builder: Builder, operator: Operator) -> int:
    """Return multiplications of weights with inputs, for the operators that have weights; 0 for all others."""
    if operator.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
        return 0
    weights = builder.tensors[operator.inputs[1]].shape
    outputs = prod(builder.tensors[operator.outputs[0]].shape)
    return outputs * (weights[1] * weights[2] if operator.kind == "depthwise_conv_2d" else prod(weights[1:]))
