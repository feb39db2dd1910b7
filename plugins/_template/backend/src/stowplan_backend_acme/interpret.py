"""Interprets a plan firing by firing; `stowplan.planfile.layout` describes the file, `kinds` what each node does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import prod

from stowplan.errors import PlanError, RuntimeFailure
from stowplan.flow.graph import Graph
from stowplan.planfile.layout import FLAG_COMPRESSED, FLAG_STATE, FLAG_STREAMED
from stowplan.planfile.reader import read_plan
from stowplan.plugins.kinds import Coverage, Metrics, Port

TABLES = ("relu", "relu6", "logistic", "tanh")
FROM_TABLE = 4
"""The flag of a buffer whose rows lie anywhere: their offsets are in a table of the plan."""


def coverage(graph: Graph) -> Coverage:
    """Return which operators are tables or move nothing but bytes, and why the others are left."""
    reasons = {}
    for index, operator in enumerate(graph.operators):
        dtypes = {graph.tensors[tensor].dtype for tensor in (operator.inputs[0], operator.outputs[0])}
        if operator.kind not in (*TABLES, "reshape", "copy"):
            reasons[index] = f"{operator.kind} is no table"
        elif dtypes != {"int8"}:
            reasons[index] = f"{operator.kind} of {'and '.join(sorted(dtypes))}: only int8 is a table"
    return Coverage(taken=tuple(i for i in range(len(graph.operators)) if i not in reasons), reasons=reasons)


class Interpreted:
    """A plan with its two arenas; see `stowplan.plugins.kinds.Compiled`. Not for two threads at once."""

    def __init__(self, plan: bytes, poison: int) -> None:
        self._view = view = read_plan(plan)
        if view.flags & (FLAG_COMPRESSED | FLAG_STATE | FLAG_STREAMED):
            raise PlanError(f"{view.name}: has packed weights, state or streamed inputs, which this backend cannot run")
        self._nodes, self._buffers = view.records("nodes"), view.records("buffers")
        for node in self._nodes:
            if view.node_kind(node["kind"]) not in ("table_s8", "copy"):
                raise PlanError(f"{view.name}: has {view.node_kind(node['kind'])}, which this backend cannot run")
        self.inputs: tuple[Port, ...] = view.inputs
        self.outputs: tuple[Port, ...] = view.outputs
        self.fully_accelerated = True
        fill = bytes((poison,))
        self._arenas = [bytearray(fill * view.fast_bytes), bytearray(fill * view.slow_bytes)]

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        return self.run_with_metrics(inputs)[0]

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
        if [len(data) for data in inputs] != [port.size_bytes for port in self.inputs]:
            wanted = ", ".join(f"{port.name}: {port.size_bytes}" for port in self.inputs)
            raise RuntimeFailure(f"the inputs have to have these sizes in bytes: {wanted}")
        ports = [port["buffer"] for port in self._view.records("ports")]
        for number, data in zip(ports, inputs, strict=False):
            self._write(number, 0, data)
        began = time.perf_counter_ns()
        for firing in self._view.records("firings"):
            self._fire(self._nodes[firing["node"]], firing["first"], firing["count"])
        duration = time.perf_counter_ns() - began
        outputs = [self._read(number, 0, self._size(number)) for number in ports[len(self.inputs) :]]
        return outputs, Metrics(duration_ns=duration)

    def close(self) -> None:
        self._arenas = [bytearray(), bytearray()]

    def _fire(self, node: dict[str, int], first: int, count: int) -> None:
        row_bytes = self._buffers[node["output"]]["row_bytes"]
        source = self._view.words("operands")[node["first_input"]]
        data = self._read(source, first * row_bytes, count * row_bytes)
        if self._view.node_kind(node["kind"]) == "table_s8":
            table = self._constant(self._view.words("params")[node["first_param"]])
            data = bytes(table[byte ^ 0x80] for byte in data)  # as int8, plus 128
        self._write(node["output"], first * row_bytes, data)

    def _constant(self, number: int) -> bytes:
        entry, (start, _, _) = self._view.records("constants")[number], self._view.sections["weights"]
        return self._view.data[start + entry["offset_bytes"] :][: entry["size_bytes"]]

    def _read(self, number: int, start: int, size: int) -> bytes:
        arena = self._arenas[self._buffers[number]["pool"]]
        return b"".join(bytes(arena[a:b]) for a, b in self._pieces(number, start, size))

    def _write(self, number: int, start: int, data: bytes) -> None:
        arena, done = self._arenas[self._buffers[number]["pool"]], 0
        for a, b in self._pieces(number, start, len(data)):
            arena[a:b] = data[done : done + b - a]
            done += b - a

    def _pieces(self, number: int, start: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield where bytes [start, start + size) of a tensor lie, row by row."""
        row_bytes, end = self._buffers[number]["row_bytes"], start + size
        while start < end:
            row, column = divmod(start, row_bytes)
            length = min(row_bytes - column, end - start)
            address = self._row(self._buffers[number], row) + column
            yield address, address + length
            start += length

    def _row(self, buffer: dict[str, int], row: int) -> int:
        if buffer["flags"] & FROM_TABLE:
            return self._view.words("row_offsets")[buffer["base"] + row]
        return buffer["base"] + row % buffer["height"] * buffer["stride"]

    def _size(self, number: int) -> int:
        return prod((self._buffers[number]["rows"], self._buffers[number]["row_bytes"]))
