"""Walks the operators of a graph in order and converts each; what is in other graphs or functions is put in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stowplan_importer_onnx import inlining
from stowplan_importer_onnx.builder import Builder, Refusal, Value, check_size
from stowplan_importer_onnx.parse import Array, FileFunction, FileGraph, FileModel, FileNode, shown
from stowplan_importer_onnx.site import Result, Site, Tailed

MAX_DEPTH = 12
"""Graphs and functions within each other."""
SURPRISES = (ValueError, TypeError, IndexError, OverflowError, MemoryError)
"""What numpy raises for numbers that no check foresaw; each is a refusal of the operator, with numpy's words."""
EMPTY = np.zeros(0, np.float32)
"""Stands for an output that a function is not asked for."""


class Walk:
    """One graph or function body. `outer` is the walk in which it stands, whose values it may read."""

    def __init__(
        self, nodes: Sequence[FileNode], exits: Sequence[str], model: FileModel, opsets: Mapping[str, int], *,
        outer: Walk | None = None, builder: Builder | None = None,
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.exits = frozenset(exits)
        self.model = model
        self.opsets = opsets
        self.outer = outer
        self.depth: int = outer.depth + 1 if outer else 0
        self.builder: Builder = builder or (outer.builder if outer else Builder())
        self.values: dict[str, Value | None] = {}
        self.constants: Mapping[str, Array] = {}
        self.narrow: frozenset[str] = frozenset()
        self.readers = _readers(nodes)
        self.refusals: dict[int, str] = {}
        self.done: set[int] = set()
        self.owners: list[int] = []
        if self.depth > MAX_DEPTH:
            raise Refusal(f"graphs and functions lie {MAX_DEPTH} deep in each other")

    # Values.

    def lookup(self, name: str) -> Value | None:
        """Return a value by name; None behind a refused operator. Raises `Refusal` for a name that nothing makes."""
        if name in self.values:
            return self.values[name]
        if name in self.constants:
            self.values[name] = self.builder.constant(self.constants[name])
            return self.values[name]
        if self.outer is not None and self.captures:
            return self.outer.lookup(name)
        raise Refusal(f"it reads {shown(name)}, which nothing makes before")

    captures = True
    """Whether names of the outer walk are seen here; not in functions."""

    def known(self, name: str) -> Array | None:
        """Return a constant by name, None if it is none or not there yet."""
        try:
            value = self.lookup(name)
        except Refusal:
            return None
        return None if value is None else self.builder.array(value)

    def bind(self, name: str, value: Value | None) -> None:
        if name:
            self.values[name] = value

    # Operators.

    def run(self) -> None:
        """Convert all operators in order; refusals are kept by the operator's index.

        Constants come first: exporters put them just before who reads them, which is after the operator that it is
        computed with.
        """
        for index, node in enumerate(self.nodes):
            if node.full_kind == "Constant":
                self._one(index, node)
                self.done.add(index)
        for index, node in enumerate(self.nodes):
            if index not in self.done:
                self._one(index, node)

    def finished(self, names: Sequence[str]) -> list[Value]:
        """Run to the end and return these values. Raises `Refusal` with the first reason why there are none."""
        self.run()
        for index, reason in self.refusals.items():
            if reason:
                raise Refusal(f"inside it operator {index} ({self.nodes[index].full_kind}): {reason}")
        found = [self.lookup(name) for name in names]
        if any(value is None for value in found):
            raise Refusal("")
        return [value for value in found if value is not None]

    def _one(self, index: int, node: FileNode) -> None:
        first = len(self.builder.operators)
        outer_source = self.builder.source
        if self.outer is None:
            self.builder.source = source(node)
        try:
            self._bind(node, convert(self, node))
        except (Refusal, *SURPRISES) as refusal:
            self.refusals[index] = str(refusal) if isinstance(refusal, Refusal) else surprising(refusal)
            for name in node.outputs:
                self.bind(name, None)
        finally:
            self.builder.source = outer_source
            self.owners += [index] * (len(self.builder.operators) - first)

    def _bind(self, node: FileNode, result: Result) -> None:
        if isinstance(result, Tailed):
            self.done.update(result.tail.nodes)
            self.bind(result.tail.name, result.value)
            return
        values = [result] if isinstance(result, Value) else result
        wanted = [name for name in node.outputs if name]
        if len(values) < len(node.outputs) and any(node.outputs[len(values) :]):
            raise Refusal(f"{len(wanted)} outputs; the first {len(values)} would be supported")
        for name, value in zip(node.outputs, values):  # noqa: B905 - trailing outputs may be left out
            self.bind(name, value)


def surprising(error: BaseException) -> str:
    text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return f"its numbers make no sense together: {text}"


def source(node: FileNode) -> str:
    """Return how messages call an operator: its kind and its name, or its first output's."""
    name = node.name or next(iter(node.outputs), "")
    return f"{node.full_kind} {shown(name)}"


def convert(walk: Walk, node: FileNode) -> Result:
    """Return what an operator makes. Raises `Refusal`."""
    from stowplan_importer_onnx.lower import LOWERINGS

    inputs = tuple(walk.lookup(name) if name else None for name in node.inputs)
    if any(value is None and name for value, name in zip(inputs, node.inputs, strict=True)):
        raise Refusal("")
    narrow = [name for name in node.inputs if name in walk.narrow]
    if narrow and node.kind != "DequantizeLinear":
        raise Refusal(f"constant {shown(narrow[0])} has less than a byte an element; only DequantizeLinear may read it")
    site = Site(walk, node, inputs, walk.opsets.get(node.domain, 1 if node.domain else 7))
    own = walk.model.functions.get((node.domain, node.kind))
    if own is not None:
        return inlining.called(site, own)
    lowering = LOWERINGS.get(node.full_kind)
    if lowering is not None:
        return lowering(site)
    body = inlining.standard_body(site)
    if body is not None:
        return inlining.called(site, body)
    raise Refusal("not a supported operator")


def walk_graph(graph: FileGraph, outer: Walk, values: Mapping[str, Value], *, extra: Sequence[str] = ()) -> list[Value]:
    """Convert a graph inside an operator, its inputs bound to `values`, and return its outputs."""
    names = [output.name for output in graph.outputs]
    inner = Walk(graph.nodes, names, outer.model, outer.opsets, outer=outer)
    inner.values.update(values)
    inner.constants, inner.narrow = graph.constants, graph.narrow
    return inner.finished(names)


def walk_function(site: Site, function: FileFunction, attributes: Mapping[str, Any]) -> list[Value]:
    """Convert the body of a function with the operands of a site, and return its outputs."""
    names = [name for name, wanted in zip(function.outputs, site.node.outputs) if wanted]  # noqa: B905
    nodes = [inlining.resolved(node, attributes) for node in function.nodes]
    opsets = {**site.walk.opsets, **function.opsets}
    inner = Walk(nodes, function.outputs, site.walk.model, opsets, outer=site.walk)
    inner.captures = False
    for name, value in zip(function.inputs, site.inputs):  # noqa: B905 - trailing inputs may be left out
        if value is not None:
            inner.values[name] = value
    found = dict(zip(names, inner.finished(names), strict=True))
    return [found[name] if name in found else site.builder.constant(EMPTY) for name in function.outputs]


def start(model: FileModel, shapes: Mapping[str, tuple[int, ...]]) -> Walk:
    """Return the walk over a model's graph with its inputs bound to these shapes, and run it."""
    graph = model.graph
    walk = Walk(graph.nodes, [output.name for output in graph.outputs], model, model.opsets)
    walk.constants, walk.narrow = graph.constants, graph.narrow
    for declared in graph.inputs:
        if declared.name in shapes:
            shape = shapes[declared.name]
            check_size(declared.name, shape, declared.dtype)
            tensor = walk.builder.tensor(shape, declared.dtype, name=declared.name)
            walk.values[declared.name] = Value(tensor, shape, declared.dtype, tuple(range(len(shape))))
    walk.run()
    return walk


def _readers(nodes: Sequence[FileNode]) -> dict[str, tuple[int, ...]]:
    """Map each name to the operators that read it; one that is read inside an operator's graph counts twice."""
    found: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        for name in dict.fromkeys(node.inputs):
            found.setdefault(name, []).append(index)
        for name in _inner_names(node):
            found.setdefault(name, []).extend((index, index))
    return {name: tuple(readers) for name, readers in found.items()}


def _inner_names(node: FileNode) -> set[str]:
    graphs = [value for value in node.attributes.values() if isinstance(value, FileGraph)]
    names: set[str] = set()
    for graph in graphs:
        names.update(output.name for output in graph.outputs)
        for inner in graph.nodes:
            names |= {*inner.inputs, *_inner_names(inner)}
    return names
