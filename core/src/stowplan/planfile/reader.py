"""Reads a `.stow` file back: its ports, and everything that `inspect` shows. A damaged file is a `PlanError`.

The C runtime has a checker of its own and never sees this code; here the digest is verified first, so that what
follows is only ever wrong when somebody made it so on purpose; even then nothing but a `PlanError` comes out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from stowplan.errors import PlanError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.nouns import dataclass, replace
from stowplan.planfile import layout
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.writer import digest_of
from stowplan.plugins.kinds import Port

_DTYPES = {code: name for name, code in layout.DTYPE_CODES.items()}
_KINDS = {kind.code: kind for kind in NODE_KINDS.values()}
Row = Mapping[str, int]


@dataclass(frozen=True)
class PlanView:
    """A plan file that passed its digest, read section by section when asked."""

    data: bytes
    header: Mapping[str, int | bytes]
    sections: Mapping[str, tuple[int, int, int]]

    @property
    def digest(self) -> str:
        return self._hex("digest")

    @property
    def model_digest(self) -> str:
        return self._hex("model_digest")

    @property
    def graph_digest(self) -> str:
        return self._hex("graph_digest")

    @property
    def name(self) -> str:
        return self.string(self.number("name"))

    @property
    def fast_bytes(self) -> int:
        return self.number("fast_bytes")

    @property
    def slow_bytes(self) -> int:
        return self.number("slow_bytes")

    @property
    def reserved_bytes(self) -> int:
        return self.number("reserved_bytes")

    @property
    def flags(self) -> int:
        return self.number("flags")

    def number(self, field: str) -> int:
        value = self.header[field]
        assert isinstance(value, int)
        return value

    def _hex(self, field: str) -> str:
        value = self.header[field]
        assert isinstance(value, bytes)
        return value.hex()

    def string(self, offset: int) -> str:
        start, size, _ = self.sections["strings"]
        if offset >= size:
            raise PlanError("the plan is damaged: a name lies outside its strings")
        end = self.data.find(b"\0", start + offset, start + size)
        if end < 0:
            raise PlanError("the plan is damaged: a name has no end")
        return self.data[start + offset : end].decode("utf-8", "replace")

    def records(self, section: str) -> list[dict[str, int]]:
        """Return a section of records, each a mapping from field to number (float for a scale)."""
        record = _RECORDS[section]
        start, _, count = self.sections.get(section, (0, 0, 0))
        return [record.unpack(self.data, start + i * record.size_bytes) for i in range(count)]  # type: ignore[misc]

    def words(self, section: str) -> tuple[int, ...]:
        """Return a section of plain integers."""
        start, _, count = self.sections[section]
        return struct.unpack_from(f"<{count}{_WORDS[section]}", self.data, start)

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        tensors, dims, streamed = self.records("tensors"), self.words("dims"), self._streamed()
        ports = (self._port(tensors, dims, port["tensor"]) for port in self.records("ports"))
        return tuple(self._cut(port, streamed.get(index)) for index, port in enumerate(ports))

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self.ports[: self.number("input_count")]

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self.ports[self.number("input_count") :]

    @cached_property
    def provenance(self) -> Mapping[str, object]:
        start, size, _ = self.sections["provenance"]
        try:
            found = json.loads(self.data[start : start + size] or b"{}")
        except (ValueError, RecursionError) as err:
            raise PlanError(f"the plan is damaged: its provenance is no JSON ({err})") from err
        return found if isinstance(found, dict) else {}

    def node_kind(self, code: int) -> str:
        return _KINDS[code].name if code in _KINDS else f"kind {code}"

    def _streamed(self) -> dict[int, list[dict[str, int]]]:
        """Map the number of each streamed input to the buffers in which its rows arrive, one for each turn."""
        if not self.flags & layout.FLAG_STREAMED:
            return {}
        params, buffers = self.words("params"), self.records("buffers")
        found: dict[int, list[dict[str, int]]] = {}
        for node in self.records("nodes"):
            if node["kind"] != NODE_KINDS["receive"].code:
                continue
            if node["first_param"] >= len(params) or node["output"] >= len(buffers):
                raise PlanError("the plan is damaged: rows arrive for no input or in no buffer")
            found.setdefault(params[node["first_param"]], []).append(buffers[node["output"]])
        return found

    def _cut(self, port: Port, turns: list[dict[str, int]] | None) -> Port:
        if not turns:
            return port
        first = turns[0]
        return replace(port, streamed=True, rows=first["rows"], row_bytes=first["row_bytes"], turns=len(turns))

    def _port(self, tensors: list[dict[str, int]], dims: tuple[int, ...], index: int) -> Port:
        if index >= len(tensors):
            raise PlanError("the plan is damaged: a port names no tensor")
        tensor = tensors[index]
        shape = dims[tensor["first_dim"] : tensor["first_dim"] + tensor["rank"]]
        dtype = _DTYPES.get(tensor["dtype"])
        if dtype is None or len(shape) != tensor["rank"]:
            raise PlanError("the plan is damaged: a tensor has no valid type or shape")
        size = SIZE_BYTES[dtype]
        for dim in shape:
            size *= dim
        return Port(
            name=self.string(tensor["name"]), shape=shape, dtype=dtype, size_bytes=size,
            scale=tensor["scale"] if tensor["quantized"] else None, zero_point=tensor["zero_point"],
        )  # fmt: skip


_RECORDS = {
    "tensors": layout.TENSOR, "buffers": layout.BUFFER, "nodes": layout.NODE, "firings": layout.FIRING,
    "stages": layout.STAGE, "constants": layout.CONSTANT, "blocks": layout.BLOCK, "ports": layout.PORT,
    "states": layout.STATE,
}  # fmt: skip
_WORDS = {"dims": "I", "row_offsets": "I", "operands": "H", "params": "i"}


@contextmanager
def following(name: str) -> Iterator[None]:
    """Turn an index that leads nowhere, while the block follows a plan's tables, into a `PlanError` naming `name`."""
    try:
        yield
    except (IndexError, KeyError, ZeroDivisionError) as err:
        raise PlanError(f"{name}: the plan is damaged: its tables lead nowhere; compile it again") from err


def is_plan(data: bytes) -> bool:
    """Say by content whether this is a plan file."""
    return data[:4] == layout.MAGIC


def read_plan(data: bytes, name: str = "plan") -> PlanView:
    """Open a plan file. Raises `PlanError` naming `name` and what is wrong with it."""
    if not is_plan(data):
        raise PlanError(f"{name}: is not a plan file")
    if len(data) < layout.HEADER.size_bytes:
        raise PlanError(f"{name}: the plan is truncated ({len(data)} bytes); compile it again")
    header = layout.HEADER.unpack(data)
    if header["version_major"] != layout.VERSION_MAJOR:
        raise PlanError(f"{name}: plan version {header['version_major']!r} is unknown here; compile the model again")
    if header["file_bytes"] != len(data):
        raise PlanError(f"{name}: the plan is {len(data)} bytes, it says {header['file_bytes']!r}; compile it again")
    if digest_of(data) != header["digest"]:
        raise PlanError(f"{name}: the plan is damaged (its digest does not match); compile it again")
    return PlanView(data=data, header=header, sections=_sections(data, header, name))


def _sections(data: bytes, header: Mapping[str, int | bytes], name: str) -> dict[str, tuple[int, int, int]]:
    count = header["section_count"]
    assert isinstance(count, int)
    by_kind = {number: key for key, number in layout.SECTION_KINDS.items()}
    found: dict[str, tuple[int, int, int]] = {}
    if layout.HEADER.size_bytes + count * layout.SECTION.size_bytes > len(data):
        raise PlanError(f"{name}: the plan is damaged: its directory is longer than the file")
    for index in range(count):
        entry = layout.SECTION.unpack(data, layout.HEADER.size_bytes + index * layout.SECTION.size_bytes)
        kind, offset, size, items = (int(entry[k]) for k in ("kind", "offset_bytes", "size_bytes", "count"))
        key = by_kind.get(kind, "")
        if offset + size > len(data) or (key and items * layout.ELEMENT_BYTES[key] != size):
            raise PlanError(f"{name}: the plan is damaged: section {kind} lies outside the file")
        if key:
            found[key] = (offset, size, items)
    missing = sorted(set(layout.SECTION_KINDS) - layout.OPTIONAL_SECTIONS - set(found))
    if missing:
        raise PlanError(f"{name}: the plan is damaged: it has no section {missing[0]}")
    return found
