"""Plans written by hand, record by record, so that tests can break one number at a time."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from stowplan.planfile import layout
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.writer import sealed

NONE_16 = layout.NOTHING_16
NONE_32 = layout.NOTHING_32


def _row(record: layout.Record, values: dict[str, Any]) -> bytes:
    return record.pack(*(values[f.name] for f in record.fields))


@dataclass
class Sketch:
    """The sections of a plan, each record a dict of its fields; `header` overrides what is worked out."""

    tensors: list[dict[str, Any]] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)
    buffers: list[dict[str, Any]] = field(default_factory=list)
    row_offsets: list[int] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    params: list[int] = field(default_factory=list)
    firings: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    constants: list[dict[str, Any]] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    ports: list[dict[str, Any]] = field(default_factory=list)
    strings: bytes = b"\0"
    weights: bytes = b""
    header: dict[str, Any] = field(default_factory=dict)
    leave_out: set[str] = field(default_factory=set)
    directory: list[tuple[int, int, int, int]] | None = None

    def name(self, text: str) -> int:
        offset = len(self.strings)
        self.strings += text.encode() + b"\0"
        return offset

    def tensor(self, name: str, shape: tuple[int, ...], dtype: str = "int8", scale: float | None = 0.5) -> int:
        self.tensors.append(
            {
                "name": self.name(name), "first_dim": len(self.dims), "rank": len(shape),
                "dtype": layout.DTYPE_CODES[dtype], "quantized": int(scale is not None), "padding": 0,
                "scale": scale or 0.0, "zero_point": -3 if scale is not None else 0,
            }
        )  # fmt: skip
        self.dims.extend(shape)
        return len(self.tensors) - 1

    def ring(self, tensor: int, rows: int, row_bytes: int, base: int, **more: int) -> int:
        values = {"tensor": tensor, "pool": 0, "flags": 0, "rows": rows, "row_bytes": row_bytes, "base": base}
        self.buffers.append({**values, "stride": row_bytes, "height": rows, **more})
        return len(self.buffers) - 1

    def table(self, tensor: int, row_bytes: int, offsets: tuple[int, ...], **more: int) -> int:
        start = len(self.row_offsets)
        self.row_offsets.extend(offsets)
        rows = len(offsets)
        return self.ring(tensor, rows, row_bytes, start, flags=layout.BUFFER_TABLE, stride=0, height=rows, **more)

    def node(self, kind: str, inputs: list[int], output: int, params: tuple[int, ...] = (), **more: int) -> int:
        values = {
            "kind": NODE_KINDS[kind].code, "flags": 0, "input_count": len(inputs), "first_input": len(self.operands),
            "output": output, "accumulator": NONE_16, "units": self.buffers[output]["rows"],
            "first_param": len(self.params), "param_count": len(params), "operator": NONE_16, "block": NONE_16,
        }  # fmt: skip
        self.nodes.append({**values, **more})
        self.operands.extend(inputs)
        self.params.extend(params)
        return len(self.nodes) - 1

    def receive(self, number: int, output: int, **more: int) -> int:
        """Add the arrival of input `number`'s rows in a buffer."""
        self.header["flags"] = self.header.get("flags", 0) | layout.FLAG_STREAMED
        return self.node("receive", [], output, (number,), **more)

    def stage(self, *firings: tuple[int, int, int], block: int = NONE_16) -> None:
        """Add a stage of firings (node, first, last)."""
        self.stages.append(
            {"first_firing": len(self.firings), "firing_count": len(firings), "flags": 0, "block": block}
        )
        self.firings.extend({"node": n, "first": first, "count": last - first} for n, first, last in firings)

    def constant(self, data: bytes, block: int = NONE_32) -> int:
        self.constants.append({"offset_bytes": len(self.weights), "size_bytes": len(data), "block": block})
        self.weights += data + bytes(-len(data) % 16)
        return len(self.constants) - 1

    def file(self) -> bytes:
        """Return the plan file, its digest right."""
        sections = {
            "tensors": b"".join(_row(layout.TENSOR, t) for t in self.tensors),
            "dims": struct.pack(f"<{len(self.dims)}I", *self.dims),
            "buffers": b"".join(_row(layout.BUFFER, b) for b in self.buffers),
            "row_offsets": struct.pack(f"<{len(self.row_offsets)}I", *self.row_offsets),
            "nodes": b"".join(_row(layout.NODE, n) for n in self.nodes),
            "operands": struct.pack(f"<{len(self.operands)}H", *self.operands),
            "params": struct.pack(f"<{len(self.params)}i", *self.params),
            "firings": b"".join(_row(layout.FIRING, f) for f in self.firings),
            "stages": b"".join(_row(layout.STAGE, s) for s in self.stages),
            "constants": b"".join(_row(layout.CONSTANT, c) for c in self.constants),
            "blocks": b"".join(_row(layout.BLOCK, b) for b in self.blocks),
            "ports": b"".join(_row(layout.PORT, p) for p in self.ports),
            "strings": self.strings,
            "weights": self.weights,
            "provenance": b"{}",
        }
        return self._assembled({k: v for k, v in sections.items() if k not in self.leave_out})

    def _assembled(self, sections: dict[str, bytes]) -> bytes:
        start = layout.HEADER.size_bytes + layout.SECTION.size_bytes * len(sections)
        body = b""
        entries = []
        for key, data in sections.items():
            count = len(data) // layout.ELEMENT_BYTES[key]
            entries.append((layout.SECTION_KINDS[key], start + len(body), len(data), count))
            body += data + bytes(-len(data) % 16)
        directory = b"".join(layout.SECTION.pack(*e) for e in self.directory or entries)
        values = {
            "magic": b"STOW", "version_major": 1, "version_minor": 0, "flags": 8 if self.blocks else 0,
            "file_bytes": start + len(body), "digest": bytes(32), "model_digest": bytes(range(32)),
            "graph_digest": bytes(32), "section_count": len(entries), "alignment_bytes": 4, "fast_bytes": 0,
            "slow_bytes": 0, "reserved_bytes": 0, "input_count": 1, "output_count": len(self.ports) - 1, "name": 0,
            "padding": 0,
        }  # fmt: skip
        return sealed(_row(layout.HEADER, values | self.header) + directory + body)


def copying_plan() -> Sketch:
    """Four rows of 8 bytes go: x (fast) -> slow -> a ring of two rows -> a table in any order -> y (fast).

        fast   0: x, 32 bytes; y at the same place at the end
              32: ring, 2 x 8 bytes
              48: table rows at 72, 48, 64, 56
        slow   0: 4 rows, 16 bytes apart

    Copies move 32 bytes out and 32 bytes back.
    """
    plan = Sketch()
    plan.header = {"fast_bytes": 80, "slow_bytes": 56, "name": plan.name("copying.tflite")}
    x = plan.tensor("x", (1, 4, 4, 2))
    y = plan.tensor("y", (1, 4, 4, 2))
    source = plan.ring(x, 4, 8, 0, flags=layout.BUFFER_CONTIGUOUS)
    spilled = plan.ring(x, 4, 8, 0, pool=1, stride=16)
    ring = plan.ring(x, 4, 8, 32, height=2)
    table = plan.table(x, 8, (72, 48, 64, 56))
    result = plan.ring(y, 4, 8, 0, flags=layout.BUFFER_CONTIGUOUS)
    plan.ports = [{"tensor": x, "buffer": source}, {"tensor": y, "buffer": result}]
    spill = plan.node("copy", [source], spilled)
    reload = plan.node("copy", [spilled], ring)
    scatter = plan.node("copy", [ring], table)
    gather = plan.node("copy", [table], result)
    plan.stage((spill, 0, 4))
    plan.stage((reload, 0, 2), (scatter, 0, 2), (reload, 2, 4), (scatter, 2, 4), (gather, 0, 1), (gather, 1, 4))
    return plan


def averaging_plan() -> Sketch:
    """A mean over height by input rows with partial sums: x 4 rows of 2 float32 (fast 0..32) -> y 1 row (fast 40..48).

    The accumulator is at 32..40. The input arrives in two firings.
    """
    plan = Sketch()
    plan.header = {"fast_bytes": 48, "name": plan.name("averaging")}
    x = plan.tensor("x", (1, 4, 1, 2), "float32", None)
    y = plan.tensor("y", (1, 1, 1, 2), "float32", None)
    source = plan.ring(x, 4, 8, 0, flags=layout.BUFFER_CONTIGUOUS)
    sums = plan.ring(y, 1, 8, 32, flags=layout.BUFFER_ACCUMULATOR)
    result = plan.ring(y, 1, 8, 40, flags=layout.BUFFER_CONTIGUOUS)
    plan.ports = [{"tensor": x, "buffer": source}, {"tensor": y, "buffer": result}]
    params = (4, 1, 2, 1, 1, 2)
    mean = plan.node("mean_f32", [source], result, params, flags=layout.NODE_BY_INPUT, accumulator=sums, units=4)
    plan.stage((mean, 0, 3), (mean, 3, 4))
    return plan


def arriving_plan() -> Sketch:
    """Inputs x (4 rows of 8 bytes, streamed), u (8 bytes, in memory) and z (2 rows of 4, streamed); outputs the same.

        fast   0: ring of two rows of x
              16: u
              24: rows of z at 28 and 24
              32: outputs: x 32 bytes, u 8, z 8

    Rows come as x0 x1, z0, x2 x3, z1; each is copied to its output at once. u is copied first.
    """
    plan = Sketch()
    plan.header = {"fast_bytes": 80, "name": plan.name("arriving.tflite"), "input_count": 3, "output_count": 3}
    x, u, z = plan.tensor("x", (1, 4, 4, 2)), plan.tensor("u", (1, 8)), plan.tensor("z", (1, 2, 2, 2))
    ring, held = plan.ring(x, 4, 8, 0, height=2), plan.ring(u, 1, 8, 16)
    table = plan.table(z, 4, (28, 24))
    results = [plan.ring(x, 4, 8, 32), plan.ring(u, 1, 8, 64), plan.ring(z, 2, 4, 72)]
    buffers = [ring, held, table, *results]
    plan.ports = [{"tensor": t, "buffer": b} for t, b in zip((x, u, z, x, u, z), buffers, strict=True)]
    rows_x, rows_z = plan.receive(0, ring), plan.receive(2, table)
    keep_x, keep_u, keep_z = (plan.node("copy", [b], r) for b, r in zip(buffers[:3], results, strict=True))
    plan.stage((keep_u, 0, 1), (rows_x, 0, 2), (keep_x, 0, 2), (rows_z, 0, 1), (keep_z, 0, 1))
    plan.stage((rows_x, 2, 3), (rows_x, 3, 4), (keep_x, 2, 4), (rows_z, 1, 2), (keep_z, 1, 2))
    return plan
