"""The plan file, as one table: the writer, the reader, the C header and the format page all follow it.

Little-endian; sections start at multiples of 16 bytes; nothing holds a pointer, so a plan is read where it lies.
Version rule: a reader refuses a higher major version, and a higher minor version only if a flag it does not know is
set. The digest is the SHA-256 of the whole file with the digest's own 32 bytes set to zero.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from stowplan.nouns import dataclass

MAGIC = b"STOW"
VERSION_MAJOR = 1
VERSION_MINOR = 3
SECTION_ALIGNMENT_BYTES = 16
NOTHING_16 = 0xFFFF
NOTHING_32 = 0xFFFFFFFF

FLAG_XIP = 1
FLAG_PROVEN = 2
FLAG_NAMES = 4
FLAG_COMPRESSED = 8
FLAG_STATE = 16
FLAG_STREAMED = 32
FLAG_TURNS = 64
FLAG_RANGE = 128
KNOWN_FLAGS = (
    FLAG_XIP | FLAG_PROVEN | FLAG_NAMES | FLAG_COMPRESSED | FLAG_STATE | FLAG_STREAMED | FLAG_TURNS | FLAG_RANGE
)
DECODERS: Mapping[str, int] = {"lz4": 0, "range": FLAG_RANGE}
"""Compressors that the C runtime has decoders for, and the flag beside FLAG_COMPRESSED that tells them apart."""

MAX_STREAMED_INPUTS = 32
"""Only the first so many inputs of a plan can be streamed: readers keep them in the bits of one word."""

DTYPE_CODES: Mapping[str, int] = {
    "int8": 1,
    "uint8": 2,
    "int16": 3,
    "int32": 4,
    "float32": 5,
    "bool": 6,
    "int64": 7,
    "float16": 8,
}

BUFFER_CONTIGUOUS = 1
BUFFER_ACCUMULATOR = 2
BUFFER_TABLE = 4
POOL_CONSTANT = 2
"""Besides the pools of `flow/target.py` a buffer may lie in the plan itself: a constant read like an activation."""

NODE_BY_INPUT = 1
STAGE_TILED = 1


@dataclass(frozen=True)
class Field:
    """One member of a record: its C name, its type (u8 u16 u32 i32 f32, or bytesN), and what it means."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Record:
    """A fixed-size record with natural alignment; `size_bytes` is what one takes in the file."""

    name: str
    meaning: str
    fields: tuple[Field, ...]

    @property
    def packing(self) -> struct.Struct:
        return _packing(self)

    @property
    def size_bytes(self) -> int:
        return self.packing.size

    def offset_of(self, field: str) -> int:
        """Return where a field begins, in bytes from the record's start."""
        names = [f.name for f in self.fields]
        return struct.calcsize("<" + "".join(_format(f.type) for f in self.fields[: names.index(field)]))

    def pack(self, *values: int | float | bytes) -> bytes:
        """Return the record's bytes. Raises `struct.error` when a value does not fit its field."""
        return self.packing.pack(*values)

    def unpack(self, data: bytes | memoryview, offset_bytes: int = 0) -> dict[str, int | bytes]:
        values = self.packing.unpack_from(data, offset_bytes)
        return dict(zip((f.name for f in self.fields), values, strict=True))


_FORMATS = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f"}
_CACHE: dict[str, struct.Struct] = {}


def _packing(record: Record) -> struct.Struct:
    if record.name not in _CACHE:
        _CACHE[record.name] = struct.Struct("<" + "".join(_format(f.type) for f in record.fields))
    return _CACHE[record.name]


def _format(type_name: str) -> str:
    return f"{type_name[5:]}s" if type_name.startswith("bytes") else _FORMATS[type_name]


def _record(name: str, meaning: str, *fields: tuple[str, str, str]) -> Record:
    return Record(name, meaning, tuple(Field(*f) for f in fields))


HEADER = _record(
    "header",
    "The first 144 bytes of a plan.",
    ("magic", "bytes4", "STOW"),
    ("version_major", "u16", "readers refuse a higher one"),
    ("version_minor", "u16", "readers refuse a higher one only with flags they do not know"),
    (
        "flags",
        "u32",
        "1 weights in place, 2 proven, 4 names, 8 compressed, 16 state, 32 inputs streamed, 64 in turns, 128 by range",
    ),
    ("file_bytes", "u32", "length of the whole file"),
    ("digest", "bytes32", "SHA-256 of the file with these bytes zero"),
    ("model_digest", "bytes32", "SHA-256 of the model file"),
    ("graph_digest", "bytes32", "SHA-256 of the graph's canonical form"),
    ("section_count", "u32", "entries of the directory that follows the header"),
    ("alignment_bytes", "u32", "alignment of segments in the pools; arenas are aligned to 16"),
    ("fast_bytes", "u32", "size of the fast arena, decompressed weights included"),
    ("slow_bytes", "u32", "size of the slow arena, 0 for none"),
    ("reserved_bytes", "u32", "bytes at the start of the fast arena for decompressed weights"),
    ("input_count", "u16", "leading ports that are inputs"),
    ("output_count", "u16", "ports after them that are outputs"),
    ("name", "u32", "the model's name: byte offset into strings"),
    ("padding", "u32", "zero"),
)
SECTION = _record(
    "section",
    "One entry of the directory.",
    ("kind", "u32", "which section, see the list"),
    ("offset_bytes", "u32", "from the start of the file, a multiple of 16"),
    ("size_bytes", "u32", "length without padding"),
    ("count", "u32", "how many records"),
)
TENSOR = _record(
    "tensor",
    "An activation of the model.",
    ("name", "u32", "byte offset into strings, 0 for none"),
    ("first_dim", "u32", "index into dims"),
    ("rank", "u8", "how many dims"),
    ("dtype", "u8", "see the dtype codes"),
    ("quantized", "u8", "1 when scale and zero point mean something"),
    ("padding", "u8", "zero"),
    ("scale", "f32", "real = scale * (q - zero_point)"),
    ("zero_point", "i32", ""),
)
BUFFER = _record(
    "buffer",
    "One place the rows of a tensor are kept.",
    ("tensor", "u16", "index into tensors; 65535 for a constant"),
    ("pool", "u8", "0 fast, 1 slow, 2 constant"),
    ("flags", "u8", "1 contiguous, 2 accumulator, 4 offsets from a table"),
    ("rows", "u32", "how many rows"),
    ("row_bytes", "u32", "bytes of one row"),
    ("base", "u32", "ring: offset of row 0; table: index of the first entry in row_offsets; constant: its index"),
    ("stride", "u32", "ring: bytes from one row to the next"),
    ("height", "u32", "ring: rows until it starts over (row r lies at base + (r mod height) * stride)"),
)
NODE = _record(
    "node",
    "Something that fills one buffer.",
    ("kind", "u8", "which kernel, see the node kinds"),
    ("flags", "u8", "1 units are rows of the first input"),
    ("input_count", "u16", "how many entries of `operands`"),
    ("first_input", "u32", "index into operands (buffers)"),
    ("output", "u16", "buffer that is filled"),
    ("accumulator", "u16", "buffer of partial sums, 65535 for none"),
    ("units", "u32", "how many units make it complete"),
    ("first_param", "u32", "index into params"),
    ("param_count", "u32", "how many"),
    ("operator", "u16", "index of the operator in the model, 65535 for a copy or an arrival"),
    ("block", "u16", "compressed block its constants come from, 65535 for none"),
)
FIRING = _record(
    "firing",
    "One execution of a node for some of its units.",
    ("node", "u16", "index into nodes"),
    ("count", "u16", "how many units"),
    ("first", "u32", "the first unit"),
)
STAGE = _record(
    "stage",
    "A run of firings with one working set.",
    ("first_firing", "u32", "index into firings"),
    ("firing_count", "u32", "how many"),
    ("flags", "u16", "1 operators run row by row"),
    ("block", "u16", "compressed block to unpack before it starts, 65535 for none"),
)
CONSTANT = _record(
    "constant",
    "Bytes known at compile time.",
    ("offset_bytes", "u32", "into the weights section, or into its unpacked block; a multiple of 16"),
    ("size_bytes", "u32", ""),
    ("block", "u32", "compressed block it belongs to, 4294967295 for none"),
)
BLOCK = _record(
    "block",
    "The weights of one stage, compressed together.",
    ("offset_bytes", "u32", "into the weights section"),
    ("packed_bytes", "u32", "length there"),
    ("unpacked_bytes", "u32", "length in the fast arena"),
)

PORT = _record(
    "port",
    "A model input or output. Its buffer is contiguous, unless a `receive` node fills it: such an input is streamed.",
    ("tensor", "u16", "index into tensors: its name, shape and quantization"),
    ("buffer", "u16", "index into buffers; its tensor may be another one with the same bytes (a view)"),
)

STATE = _record(
    "state",
    "What a run leaves to the next: at its end the bytes of one buffer go to another, where the next run reads them.",
    ("before", "u16", "buffer that a run reads; contiguous"),
    ("after", "u16", "buffer that a run fills; contiguous, and as large"),
    ("initial", "u32", "what the first run reads, a constant outside all blocks; 4294967295 for zeros"),
)

RECORDS = (HEADER, SECTION, TENSOR, BUFFER, NODE, FIRING, STAGE, CONSTANT, BLOCK, PORT, STATE)

SECTION_KINDS: Mapping[str, int] = {
    "tensors": 1, "dims": 2, "buffers": 3, "row_offsets": 4, "nodes": 5, "operands": 6, "params": 7, "firings": 8,
    "stages": 9, "constants": 10, "blocks": 11, "ports": 12, "strings": 13, "weights": 14, "provenance": 15,
    "states": 16,
}  # fmt: skip
"""Sections by number. dims, row_offsets: u32; operands: u16 (buffer indices); params: i32;
strings: UTF-8, each ended by a zero byte, offset 0 is the empty string; provenance: JSON that no runtime reads."""
OPTIONAL_SECTIONS = frozenset({"states"})
"""Left out where there is nothing to say."""
ELEMENT_BYTES: Mapping[str, int] = {
    "tensors": TENSOR.size_bytes, "dims": 4, "buffers": BUFFER.size_bytes, "row_offsets": 4, "nodes": NODE.size_bytes,
    "operands": 2, "params": 4, "firings": FIRING.size_bytes, "stages": STAGE.size_bytes,
    "constants": CONSTANT.size_bytes, "blocks": BLOCK.size_bytes, "ports": PORT.size_bytes, "strings": 1, "weights": 1,
    "provenance": 1, "states": STATE.size_bytes,
}  # fmt: skip
