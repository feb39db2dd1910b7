"""Operators that stand for others: functions of the model, of the standard, and graphs behind If and Loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import defs

from stowplan_importer_onnx.builder import Refusal, Value
from stowplan_importer_onnx.parse import FileFunction, FileNode, Reader
from stowplan_importer_onnx.site import Result, Site

MAX_TURNS = 1024
"""How often a loop is unrolled."""


def called(site: Site, function: FileFunction) -> Result:
    """Put the body of a function in place of its call."""
    from stowplan_importer_onnx.convert import walk_function

    return walk_function(site, function, {**function.defaults, **site.node.attributes})


def resolved(node: FileNode, attributes: Mapping[str, Any]) -> FileNode:
    """Return a node of a function with the attributes that the call gives it."""
    if not node.references:
        return node
    given = {name: attributes[ref] for name, ref in node.references.items() if attributes.get(ref) is not None}
    return node._replace(attributes={**node.attributes, **given}, references={})


def standard_body(site: Site) -> FileFunction | None:
    """Return the body that the standard gives an operator, for these types of inputs."""
    node = site.node
    if node.domain or not defs.has(node.kind):
        return None
    try:
        schema: Any = defs.get_schema(node.kind, site.version)
    except (defs.SchemaError, RuntimeError, ValueError):
        return None
    defaults = {name: _plain(a.default_value) for name, a in schema.attributes.items() if a.default_value.name}
    if schema.has_function:
        return Reader(None).function(schema.function_body)._replace(defaults=defaults)
    if not schema.has_context_dependent_function:
        return None
    body = _contextual(schema, _proto(node), tuple(v.dtype if v else "" for v in site.inputs),
                       tuple(v.shape if v else None for v in site.inputs))  # fmt: skip
    return None if body is None else body._replace(defaults=defaults)


def _plain(attribute: Any) -> Any:
    return Reader(None).attribute(attribute)


def _contextual(
    schema: Any, proto: Any, dtypes: tuple[str, ...], shapes: tuple[tuple[int, ...] | None, ...]
) -> FileFunction | None:
    types = []
    for dtype, shape in zip(dtypes, shapes, strict=True):
        code = {"float32": 1, "float64": 11}.get(dtype)
        found = onnx.TypeProto()
        if dtype:
            found.tensor_type.elem_type = code or onnx.TensorProto.DataType.Value(dtype.upper())
            for size in shape or ():
                found.tensor_type.shape.dim.add().dim_value = size
        types.append(found.SerializeToString())
    try:
        data = schema.get_context_dependent_function(proto.SerializeToString(), types)
    except Exception:
        return None
    if not data:
        return None
    return Reader(None).function(onnx.FunctionProto.FromString(data))


def _proto(node: FileNode) -> Any:
    plain: dict[str, Any] = {
        k: v for k, v in node.attributes.items() if isinstance(v, (int, float, str, list)) and v != []
    }
    return onnx.helper.make_node(node.kind, node.inputs, node.outputs, domain=node.domain, **plain)


def if_(site: Site) -> Result:
    """Take the branch that a constant condition chooses."""
    from stowplan_importer_onnx.convert import walk_graph

    condition = site.array(0, "its condition")
    if condition.size != 1:
        raise Refusal(f"a condition of {condition.size} elements")
    branch = site.graph("then_branch" if condition.reshape(-1)[0] else "else_branch")
    return walk_graph(branch, site.walk, {})


def loop(site: Site) -> Result:
    """Unroll a loop whose number of turns is known, the condition that it computes included."""
    from stowplan_importer_onnx.convert import walk_graph

    body = site.graph("body")
    limit = _once(site, 0, "its number of turns")
    going = _once(site, 1, "its condition")
    carried = [site.value(position) for position in range(2, len(site.inputs))]
    count = len(carried)
    if len(body.inputs) != 2 + count or len(body.outputs) < 1 + count:
        raise Refusal(f"a body with {len(body.inputs)} inputs and {len(body.outputs)} outputs for {count} values")
    scans: list[list[Value]] = [[] for _ in range(len(body.outputs) - 1 - count)]
    turn = 0
    while (going is None or going) and (limit is None or turn < limit):
        if turn >= MAX_TURNS:
            raise Refusal(f"more than {MAX_TURNS} turns")
        names = [declared.name for declared in body.inputs]
        number, still = site.builder.constant(np.array(turn)), site.builder.constant(np.array(True))
        found = walk_graph(body, site.walk, dict(zip(names, (number, still, *carried), strict=True)))
        held = site.builder.array(found[0])
        if held is None or held.size != 1:
            raise Refusal("its condition is computed while it runs; a constant one would be supported")
        going, carried, turn = bool(held.reshape(-1)[0]), found[1 : 1 + count], turn + 1
        for scan, value in zip(scans, found[1 + count :], strict=True):
            scan.append(value)
    return [*carried, *(_stacked(site, scan) for scan in scans)]


def _once(site: Site, position: int, what: str) -> int | None:
    if site.optional(position) is None:
        return None
    array = site.array(position, what)
    if array.size != 1:
        raise Refusal(f"{what} has {array.size} elements")
    return int(array.reshape(-1)[0])


def _stacked(site: Site, parts: list[Value]) -> Value:
    from stowplan_importer_onnx.lower.joining import joined

    if not parts:
        raise Refusal("it collects outputs but makes no turn")
    if any(part.shape != parts[0].shape for part in parts):
        raise Refusal("it collects outputs of different shapes")
    return joined(site.builder, [site.builder.reshaped(part, (1, *part.shape)) for part in parts], 0)
