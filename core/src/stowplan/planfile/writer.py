"""Writes a plan as the bytes of a `.stow` file, following the table in `planfile/layout.py`."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from itertools import accumulate

from stowplan.errors import PlanError
from stowplan.flow.graph import ABSENT
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import NONE, Buffer, Firing
from stowplan.planfile import layout
from stowplan.planfile.constants import ConstantPool, align
from stowplan.planfile.kinds import NODE_KINDS

NOTHING = layout.NOTHING_16
MOST_UNITS = 0xFFFF
"""Of one firing in the file."""
DIGEST_OFFSET = layout.HEADER.offset_of("digest")


def write_plan(plan: Plan) -> bytes:
    """Return the file. Raises `PlanError` when a number does not fit the format (more than 65,535 buffers, say)."""
    try:
        return _Writer(plan).file()
    except (struct.error, OverflowError) as err:
        raise PlanError(f"{plan.graph.name}: the plan is too large for the file format ({err})") from err


class _Writer:
    """Fills the sections one after another; indices are handed out in the order of first use."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.strings = bytearray(b"\0")
        self.tensor_numbers: dict[int, int] = {}
        self.tensors = bytearray()
        self.dims: list[int] = []
        self.buffers = bytearray()
        self.buffer_count = 0
        self.row_offsets: list[int] = []
        self.tables: dict[tuple[int, ...], int] = {}
        self.nodes = bytearray()
        self.operands: list[int] = []
        self.params: list[bytes] = []
        self.constants: dict[tuple[bytes, int], int] = {}
        self.constant_records = bytearray()
        self.constant_buffers: dict[tuple[int, int, int], int] = {}
        self.weights = ConstantPool()
        self.block_pools: dict[int, ConstantPool] = {}
        self.block_numbers: dict[int, int] = {}

    def file(self) -> bytes:
        schedule = self.plan.schedule
        self._check_streamed()
        self._check_sums()
        self._number_blocks()
        inner = set(self.plan.graph.state_tensors)
        outer = [(t, b) for t, b in schedule.interface if t not in inner]
        ports = b"".join(layout.PORT.pack(self._tensor(t, named=True), b) for t, b in outer)
        arriving = {node.output for node in schedule.nodes if node.is_arrival}
        count = len(self.plan.graph.inputs)
        inputs, outputs = ({b for _, b in part} for part in (schedule.interface[:count], schedule.interface[count:]))
        contiguous = inputs - arriving | outputs
        for index, buffer in enumerate(schedule.buffers):
            self._buffer(buffer, index in contiguous)
        for index in range(len(schedule.nodes)):
            self._node(index)
        name = self._string(self.plan.graph.name)
        states = self._states()
        blocks, weights = self._packed()
        sections = {
            "tensors": bytes(self.tensors),
            "dims": _words(self.dims),
            "buffers": bytes(self.buffers),
            "row_offsets": _words(self.row_offsets),
            "nodes": bytes(self.nodes),
            "operands": struct.pack(f"<{len(self.operands)}H", *self.operands),
            "params": b"".join(self.params),
            "firings": self._firings(),
            "stages": self._stages(),
            "constants": bytes(self.constant_records),
            "blocks": blocks,
            "ports": ports,
            "strings": bytes(self.strings),
            "weights": weights,
            "provenance": json.dumps(self.plan.provenance, sort_keys=True, separators=(",", ":")).encode(),
        }
        if states:
            sections["states"] = states
        return self._assemble(sections, name)

    def _check_streamed(self) -> None:
        graph, most = self.plan.graph, layout.MAX_STREAMED_INPUTS
        for tensor in self.plan.schedule.streamed:
            if graph.entries.index(tensor) >= most:
                raise PlanError(
                    f"{graph.name}: input {graph.tensors[tensor].name} cannot be streamed: it is not among the first "
                    f"{most} inputs, and a plan cannot mark others"
                )

    def _check_sums(self) -> None:
        """A node that runs by its input's rows and keeps no partial sums runs at once: it cannot be parted."""
        graph = self.plan.graph
        for node in self.plan.schedule.nodes:
            if node.by_input and node.accumulator == NONE and node.units > MOST_UNITS:
                assert node.operator is not None
                raise PlanError(
                    f"{graph.name}: {graph.operators[node.operator].source} sums {node.units} rows of its input at "
                    f"once; up to {MOST_UNITS} are supported. Give the input another shape, with longer rows"
                )

    def _assemble(self, sections: dict[str, bytes], name: int) -> bytes:
        offset = align(layout.HEADER.size_bytes + layout.SECTION.size_bytes * len(sections))
        directory, body = bytearray(), bytearray()
        for key, data in sections.items():
            count = len(data) // layout.ELEMENT_BYTES[key]
            directory += layout.SECTION.pack(layout.SECTION_KINDS[key], offset + len(body), len(data), count)
            body += data + bytes(align(len(data)) - len(data))
        header_room = offset - layout.HEADER.size_bytes - len(directory)
        file_bytes = offset + len(body)
        header = self._header(len(sections), file_bytes, name)
        data = header + bytes(directory) + bytes(header_room) + bytes(body)
        return sealed(data)

    def _header(self, section_count: int, file_bytes: int, name: int) -> bytes:
        plan, schedule = self.plan, self.plan.schedule
        flags = (
            layout.FLAG_XIP * plan.xip
            + layout.FLAG_PROVEN * plan.proven
            + layout.FLAG_NAMES * plan.keep_names
            + (layout.FLAG_COMPRESSED | layout.DECODERS[plan.compressor] if plan.blocks else 0)
            + layout.FLAG_STATE * bool(plan.graph.states)
            + layout.FLAG_STREAMED * bool(schedule.streamed)
            + layout.FLAG_TURNS * (sum(node.is_arrival for node in schedule.nodes) > len(schedule.streamed))
        )
        slow_bytes = schedule.pool_bytes[1] if len(schedule.pool_bytes) > 1 else 0
        return layout.HEADER.pack(
            layout.MAGIC, layout.VERSION_MAJOR, layout.VERSION_MINOR, flags, file_bytes, bytes(32),
            bytes.fromhex(plan.model_digest), bytes.fromhex(schedule.graph_digest), section_count,
            schedule.target.fast.alignment_bytes, schedule.pool_bytes[0], slow_bytes, schedule.weights_reserved_bytes,
            len(plan.graph.entries), len(plan.graph.exits), name, 0,
        )  # fmt: skip

    def _string(self, text: str) -> int:
        if not text:
            return 0
        data = text.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"
        found = self.strings.find(b"\0" + data)
        if found >= 0:
            return found + 1
        self.strings += data
        return len(self.strings) - len(data)

    def _tensor(self, index: int, named: bool = False) -> int:
        if index not in self.tensor_numbers:
            tensor = self.plan.graph.tensors[index]
            quantization = tensor.quantization
            self.tensor_numbers[index] = len(self.tensor_numbers)
            self.tensors += layout.TENSOR.pack(
                self._string(tensor.name) if named or self.plan.keep_names else 0,
                len(self.dims), len(tensor.shape), layout.DTYPE_CODES[tensor.dtype], quantization is not None, 0,
                quantization.scale if quantization else 0.0, quantization.zero_point if quantization else 0,
            )  # fmt: skip
            self.dims.extend(tensor.shape)
        return self.tensor_numbers[index]

    def _buffer(self, buffer: Buffer, contiguous: bool) -> None:
        flags = layout.BUFFER_CONTIGUOUS * contiguous + layout.BUFFER_ACCUMULATOR * buffer.accumulator
        ring = as_ring(buffer.offsets, buffer.row_bytes)
        if ring is None:
            flags |= layout.BUFFER_TABLE
            base, stride, height = self._table(buffer.offsets), 0, buffer.rows
        else:
            base, stride, height = ring
        self._record_buffer(
            self._tensor(buffer.tensor), buffer.pool, flags, buffer.rows, buffer.row_bytes, base, stride, height
        )

    def _record_buffer(self, *values: int) -> int:
        self.buffers += layout.BUFFER.pack(*values)
        self.buffer_count += 1
        return self.buffer_count - 1

    def _table(self, offsets: tuple[int, ...]) -> int:
        if offsets not in self.tables:
            self.tables[offsets] = len(self.row_offsets)
            self.row_offsets.extend(offsets)
        return self.tables[offsets]

    # Nodes and their constants.

    def _number_blocks(self) -> None:
        for stage, block in enumerate(self.plan.blocks):
            if block is not None:
                self.block_numbers[stage] = len(self.block_numbers)
                self.block_pools[stage] = ConstantPool()

    def _node(self, index: int) -> None:
        node, lowered = self.plan.schedule.nodes[index], self.plan.lowered[index]
        kind = NODE_KINDS[lowered.kind]
        stage = self.plan.stage_of_node[index]
        operands = self._operands(index, stage)
        words = [self._param(lowered.params.get(p.name), p.type, stage) for p in kind.params]
        flags = layout.NODE_BY_INPUT * node.by_input
        self.nodes += layout.NODE.pack(
            kind.code, flags, len(operands), len(self.operands), node.output,
            NOTHING if node.accumulator == NONE else node.accumulator, node.units, len(self.params), len(words),
            NOTHING if node.operator is None else node.operator, self.block_numbers.get(stage, NOTHING),
        )  # fmt: skip
        self.operands.extend(operands)
        self.params.extend(words)

    def _operands(self, index: int, stage: int) -> list[int]:
        node, lowered = self.plan.schedule.nodes[index], self.plan.lowered[index]
        if node.operator is None:
            return list(node.inputs)
        operator = self.plan.graph.operators[node.operator]
        found = []
        for operand in lowered.operands:
            tensor = operator.inputs[operand.position]
            if operand.form is None:
                found.append(node.inputs[operand.position])
                continue
            assert tensor != ABSENT
            constant = self._constant(self.plan.graph.constant_bytes(tensor), stage)
            key = (constant, operand.form.rows, operand.form.row_bytes)
            if key not in self.constant_buffers:
                self.constant_buffers[key] = self._record_buffer(
                    NOTHING, layout.POOL_CONSTANT, 0, operand.form.rows, operand.form.row_bytes,
                    constant, operand.form.row_bytes, operand.form.rows,
                )  # fmt: skip
            found.append(self.constant_buffers[key])
        return found

    def _param(self, value: int | float | bytes | None, kind: str, stage: int) -> bytes:
        if kind == "const":
            number = -1 if value is None else self._constant(bytes(value), stage)  # type: ignore[arg-type]
            return struct.pack("<i", number)
        assert isinstance(value, (int, float)), "a parameter has no value"
        return struct.pack("<f" if kind == "f32" else "<i", value)

    def _constant(self, data: bytes, stage: int) -> int:
        block = self.block_numbers.get(stage, layout.NOTHING_32)
        key = (data, block)
        if key not in self.constants:
            pool = self.block_pools.get(stage, self.weights)
            self.constants[key] = len(self.constants)
            self.constant_records += layout.CONSTANT.pack(pool.add(data), len(data), block)
        return self.constants[key]

    def _states(self) -> bytes:
        """Pairs of buffers, and what the first run finds: constants that no block holds, as none is unpacked yet."""
        homes = dict(self.plan.schedule.interface)
        records = bytearray()
        for state in self.plan.graph.states:
            data = self.plan.graph.constants[state.initial]
            number = self._constant(data, stage=-1) if any(data) else layout.NOTHING_32
            records += layout.STATE.pack(homes[state.before], homes[state.after], number)
        return bytes(records)

    def _packed(self) -> tuple[bytes, bytes]:
        records, weights = bytearray(), bytearray(self.weights.bytes())
        for stage in self.block_numbers:
            block = self.plan.blocks[stage]
            assert block is not None and block.unpacked_bytes == self.block_pools[stage].size_bytes
            records += layout.BLOCK.pack(len(weights), len(block.packed), block.unpacked_bytes)
            weights += block.packed + bytes(align(len(block.packed)) - len(block.packed))
        return bytes(records), bytes(weights)

    def _firings(self) -> bytes:
        return b"".join(layout.FIRING.pack(*part) for firing in self.plan.schedule.firings for part in _parts(firing))

    def _stages(self) -> bytes:
        starts = [0, *accumulate(len(_parts(firing)) for firing in self.plan.schedule.firings)]
        return b"".join(
            layout.STAGE.pack(
                starts[r.first], starts[r.last] - starts[r.first], layout.STAGE_TILED * r.tiled,
                self.block_numbers.get(i, NOTHING),
            )
            for i, r in enumerate(self.plan.schedule.regions)
        )  # fmt: skip


def _parts(firing: Firing) -> list[tuple[int, int, int]]:
    """Return a firing as (node, count, first), in as many parts as its units need."""
    firsts = range(firing.first, firing.last, MOST_UNITS)
    return [(firing.node, min(MOST_UNITS, firing.last - first), first) for first in firsts]


def sealed(data: bytes) -> bytes:
    """Return a plan file with its digest made right."""
    start = DIGEST_OFFSET
    return data[:start] + digest_of(data) + data[start + 32 :]


def digest_of(data: bytes) -> bytes:
    """Return the SHA-256 of a plan file as its header should state it."""
    start = DIGEST_OFFSET
    return hashlib.sha256(data[:start] + bytes(32) + data[start + 32 :]).digest()


def as_ring(offsets: Sequence[int], row_bytes: int) -> tuple[int, int, int] | None:
    """Return (base, stride, height) when row r lies at base + (r mod height) * stride, else None."""
    if len(offsets) == 1:
        return offsets[0], row_bytes, 1
    height = next((r for r in range(1, len(offsets)) if offsets[r] == offsets[0]), len(offsets))
    stride = offsets[1] - offsets[0] if height > 1 else row_bytes
    if stride < row_bytes:
        return None
    if all(offset == offsets[0] + (r % height) * stride for r, offset in enumerate(offsets)):
        return offsets[0], stride, height
    return None


def _words(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)
