"""The text form of a graph: one line per tensor and operator, the same for the same meaning; for diffs and reports."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.flow.graph import ABSENT, Attribute, Graph, Operator, Quantization, Tensor


def graph_lines(graph: Graph) -> Iterator[str]:
    """Yield the lines. Tensors are numbered as the graph has them; constants are shown by digest."""
    yield f"graph {graph.digest[:16]} {graph.name!r}"
    for role, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for number in tensors:
            yield f"{role} %{number} {graph.tensors[number].name!r}"
    for index, tensor in enumerate(graph.tensors):
        yield f"tensor %{index} {_tensor(tensor)}"
    for index, operator in enumerate(graph.operators):
        yield f"operator {index} {_operator(operator)}"
    for state in graph.states:
        yield f"state %{state.before} from %{state.after} first {state.initial[:16]} {state.name!r}"
    for signature in graph.signatures:
        inputs = ", ".join(f"{name!r}=%{tensor}" for name, tensor in signature.inputs)
        outputs = ", ".join(f"{name!r}=%{tensor}" for name, tensor in signature.outputs)
        yield f"signature {signature.key!r} ({inputs}) -> ({outputs})"
    for note in graph.notes:
        yield f"note {note}"


def _tensor(tensor: Tensor) -> str:
    parts = [f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"]
    if tensor.quantization is not None:
        parts.append(_quantization(tensor.quantization))
    if tensor.constant is not None:
        parts.append(f"constant {tensor.constant[:16]}")
    return " ".join([*parts, repr(tensor.name)])


def _quantization(quantization: Quantization) -> str:
    scales = ",".join(f"{scale:.9g}" for scale in quantization.scales)
    points = ",".join(map(str, dict.fromkeys(quantization.zero_points)))
    axis = "" if quantization.axis is None else f" axis {quantization.axis}"
    return f"scale {scales} zero point {points}{axis}"


def _operator(operator: Operator) -> str:
    inputs = ", ".join("-" if tensor == ABSENT else f"%{tensor}" for tensor in operator.inputs)
    outputs = ", ".join(f"%{tensor}" for tensor in operator.outputs)
    attributes = "".join(f" {name}={_attribute(value)}" for name, value in sorted(operator.attributes.items()))
    return f"{outputs} = {operator.kind}({inputs}){attributes}"


def _attribute(value: Attribute) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
