"""From a parsed file to a graph: all refusals in one message, dead operators dropped, outputs made real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from stowplan.errors import ModelError, UnsupportedError
from stowplan.flow.graph import ABSENT, Graph, Operator, Tensor
from stowplan.flow.model import Model
from stowplan.nouns import replace
from stowplan_importer_onnx.binding import Binding, bind, entries
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.convert import Walk, source, start
from stowplan_importer_onnx.lower import LOWERINGS
from stowplan_importer_onnx.parse import FileModel, parse, shown
from stowplan_importer_onnx.site import ANYTHING

GROUPS_SHOWN = 12
INDICES_SHOWN = 8
OLDEST = 7


def load(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the model's graph; see the Importer protocol for what is raised."""
    file = parse(model)
    check_whole(model.name, file)
    binding = bind(model.name, file, input_shapes)
    try:
        walk = start(file, binding.shapes)
    except Refusal as refusal:
        raise UnsupportedError(f"{model.name}: {refusal}", (str(refusal),)) from None
    outputs = refuse(model.name, file, walk, binding.advice)
    return _graph(PurePath(model.name).stem, file, walk, outputs, binding)


def check_whole(name: str, file: FileModel) -> None:
    """Raise `ModelError` for names that stand for two things, or that nothing makes."""
    made = {value.name for value in file.graph.inputs} | set(file.graph.constants)
    if len(entries(file)) != len({value.name for value in entries(file)}):
        raise ModelError(f"{name}: damaged: a tensor is an input twice. Export the model again")
    for node in file.graph.nodes:
        for output in node.outputs:
            if output and output in made:
                raise ModelError(f"{name}: damaged: {shown(output)} is made twice. Export the model again")
            made.add(output)
    if not file.graph.outputs:
        raise ModelError(f"{name}: damaged: it has no outputs. Export the model again")
    for value in file.graph.outputs:
        if value.name not in made:
            raise ModelError(f"{name}: damaged: output {shown(value.name)} is never made. Export the model again")


def refuse(model_name: str, file: FileModel, walk: Walk, advice: str = "") -> list[Value]:
    """Return the outputs. Raises `UnsupportedError` with everything that does not convert, and `advice`, if anything
    does not.
    """
    outputs, general = exits(file, walk)
    named = [(index, reason) for index, reason in walk.refusals.items() if reason]
    needed = general or any(output is None for output in outputs)
    if not needed:
        return [output for output in outputs if output is not None]
    nodes = file.graph.nodes
    reasons = [*general, *(f"operator {i} ({source(nodes[i])}): {reason}" for i, reason in named)]
    groups: dict[tuple[str, str], list[int]] = {}
    for index, reason in named:
        groups.setdefault((nodes[index].full_kind, reason), []).append(index)
    lines = [*general, *(_group(file, found, reason) for (_, reason), found in groups.items())]
    more = [f"and {len(lines) - GROUPS_SHOWN} more"] if len(lines) > GROUPS_SHOWN else []
    supported = f"{len(LOWERINGS)} operators are supported; stowplan inspect shows what converts"
    raise UnsupportedError(f"{model_name}: {'; '.join(lines[:GROUPS_SHOWN] + more)}.{advice} {supported}", reasons)


def exits(file: FileModel, walk: Walk) -> tuple[list[Value | None], list[str]]:
    """Return the values of the outputs, and what is unsupported about inputs, outputs or the file as a whole."""
    reasons = []
    version = file.opsets.get("", file.opsets.get("ai.onnx", 0))
    if version and version < OLDEST:
        reasons.append(
            f"operator set {version}; {OLDEST} and newer are supported: convert it with onnx.version_converter"
        )
    values: list[Value | None] = []
    for declared in entries(file):
        if declared.dtype not in ANYTHING:
            reasons.append(f"input {shown(declared.name)}: {declared.dtype}; float32, integers and bool are supported")
    for declared in file.graph.outputs:
        try:
            value = walk.lookup(declared.name)
        except Refusal as refusal:
            reasons.append(f"output {shown(declared.name)}: {refusal}")
            continue
        values.append(value)
        if value is not None and (not value.elements or value.dtype not in ANYTHING):
            reasons.append(f"output {shown(declared.name)}: {value.dtype} of shape {list(value.shape)}")
    return values, reasons


def _group(file: FileModel, indices: Sequence[int], reason: str) -> str:
    nodes = file.graph.nodes
    if len(indices) == 1:
        return f"operator {indices[0]} ({source(nodes[indices[0]])}): {reason}"
    more = f" and {len(indices) - INDICES_SHOWN} more" if len(indices) > INDICES_SHOWN else ""
    listed = ", ".join(str(index) for index in indices[:INDICES_SHOWN])
    return f"operators {listed}{more} ({nodes[indices[0]].full_kind}): {reason}"


def _graph(name: str, file: FileModel, walk: Walk, outputs: Sequence[Value], binding: Binding) -> Graph:
    builder = walk.builder
    inputs = [walk.values[declared.name] for declared in entries(file)]
    sources = [value.tensor for value in inputs if value is not None]
    made = {output: source(node) for node in file.graph.nodes for output in node.outputs}
    labels = [made.get(declared.name, f"output {shown(declared.name)}") for declared in file.graph.outputs]
    ends = [_end(builder, value, label) for value, label in zip(outputs, labels, strict=True)]
    taken: set[int] = set()
    for position, tensor in enumerate(ends):
        if tensor in taken or tensor in sources or builder.tensors[tensor].constant is not None:
            ends[position] = _copy(builder, tensor, file.graph.outputs[position].name, labels[position])
        taken.add(ends[position])
    for tensor, declared in zip(ends, file.graph.outputs, strict=True):
        builder.tensors[tensor] = replace(builder.tensors[tensor], name=declared.name)
    return _numbered(name, builder, sources, ends, _names(walk), binding.notes)


def _end(builder: Builder, value: Value, label: str) -> int:
    """Return the tensor of an output in the model's order; `label` is what messages call its operator."""
    builder.source = label
    return builder.natural(value)


def _copy(builder: Builder, tensor: int, name: str, label: str) -> int:
    found = builder.tensors[tensor]
    builder.tensors.append(replace(found, name=name, constant=None))
    builder.operators.append(Operator(kind="copy", inputs=(tensor,), outputs=(len(builder.tensors) - 1,), source=label))
    return len(builder.tensors) - 1


def _names(walk: Walk) -> Mapping[int, str]:
    """Map tensors to the names that the model has for what they hold, the first of each."""
    found: dict[int, str] = {}
    for name, value in walk.values.items():
        if value is not None:
            found.setdefault(value.tensor, name)
    return found


def _numbered(
    name: str,
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    names: Mapping[int, str],
    notes: tuple[str, ...],
) -> Graph:
    """Return the graph of what the outputs depend on, tensors numbered in the order in which they appear."""
    wanted, live = set(outputs), []
    for operator in reversed(builder.operators):
        if wanted.intersection(operator.outputs):
            live.append(operator)
            wanted.update(operator.inputs)
    live.reverse()
    numbers = {tensor: number for number, tensor in enumerate(dict.fromkeys(inputs))}
    for operator in live:
        for tensor in (*operator.inputs, *operator.outputs):
            if tensor != ABSENT:
                numbers.setdefault(tensor, len(numbers))
    for tensor in outputs:
        numbers.setdefault(tensor, len(numbers))
    tensors = _named([builder.tensors[t] for t in numbers], [names.get(t, "") for t in numbers])
    operators = tuple(
        replace(
            op,
            inputs=tuple(ABSENT if t == ABSENT else numbers[t] for t in op.inputs),
            outputs=tuple(numbers[t] for t in op.outputs),
        )
        for op in live
    )
    digests = {tensor.constant for tensor in tensors if tensor.constant is not None}
    return Graph(
        name=name,
        tensors=tensors,
        operators=operators,
        inputs=tuple(numbers[t] for t in inputs),
        outputs=tuple(numbers[t] for t in outputs),
        constants={digest: data for digest, data in builder.constants.items() if digest in digests},
        notes=notes,
    )


def _named(tensors: Sequence[Tensor], names: Sequence[str]) -> tuple[Tensor, ...]:
    """Return tensors with a name each, no two alike; inputs and outputs have theirs already."""
    taken = {tensor.name for tensor in tensors if tensor.name}
    found = []
    for index, (tensor, wish) in enumerate(zip(tensors, names, strict=True)):
        if tensor.name:
            found.append(tensor)
            continue
        name = wish or f"inner_{index}"
        while name in taken:
            name = f"{name}_{index}"
        taken.add(name)
        found.append(replace(tensor, name=name))
    return tuple(found)
