"""From bytes to records: nodes with plain attributes, constants as arrays, inputs with their dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from stowplan.errors import ModelError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.model import Model
from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.external import Folder
from stowplan_importer_onnx.wire import check_wire

Array = NDArray[Any]
SHOWN = 80
MAX_ELEMENTS = 1 << 29
NARROW = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
"""Types of less than a byte, and the one that holds their numbers here."""
DEFAULT_DOMAINS = ("", "ai.onnx")


class FileInput(NamedTuple):
    """An input or output as the file declares it. A dimension is a number, or a name, or "" where it is left open."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]


class FileNode(NamedTuple):
    """One operator. `attributes` are numbers, words, sequences of those, arrays or graphs."""

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    references: Mapping[str, str] = {}

    @property
    def full_kind(self) -> str:
        return bearable(self.kind if self.domain in DEFAULT_DOMAINS else f"{self.domain}::{self.kind}")


class FileGraph(NamedTuple):
    """Nodes in the order of the file; `constants` are the initializers."""

    name: str
    nodes: tuple[FileNode, ...]
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileInput, ...]
    constants: Mapping[str, Array]
    narrow: frozenset[str] = frozenset()
    """Constants of less than a byte an element, held as int8 or uint8."""


class FileFunction(NamedTuple):
    """A function that the model defines for itself."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[FileNode, ...]
    defaults: Mapping[str, Any]
    opsets: Mapping[str, int]


class FileModel(NamedTuple):
    """A whole file. `opsets` are versions by domain."""

    graph: FileGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], FileFunction]
    ir_version: int


def shown(name: str) -> str:
    """Return a name as messages quote it."""
    return f'"{bearable(name)}"'


def bearable(name: str) -> str:
    """Return a name in one line and of a bearable length."""
    printable = "".join(c if c.isprintable() else "?" for c in name[: SHOWN + 1])
    return printable if len(printable) <= SHOWN else printable[: SHOWN - 1] + "…"


def text(value: Any) -> str:
    """Return a string of a file; libraries hand over bytes where it is no UTF-8."""
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def spelled(shape: Sequence[int | str]) -> str:
    return f"[{','.join(str(size) or '?' for size in shape)}]"


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what the libraries say of a damaged file into one line."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as err:
        text = str(err).splitlines()[0][:200] if str(err) else type(err).__name__
        raise ModelError(f"{name}: damaged: {text}. Export the model again") from err


def parse(model: Model) -> FileModel:
    """Return the records of a model. Raises `ModelError` when it is damaged."""
    check_wire(model.name, model.data)
    try:
        proto = onnx.ModelProto.FromString(model.data)
    except Exception as err:  # protobuf has an exception of its own for each of its implementations
        raise ModelError(f"{model.name}: damaged, or no ONNX file. Export the model again") from err
    if not proto.graph.node and not proto.graph.output:
        raise ModelError(f"{model.name}: holds no graph; is it an ONNX model?")
    reader = Reader(Folder(model.path, model.name))
    with reading(model.name):
        opsets = {text(entry.domain): int(entry.version) for entry in proto.opset_import}
        functions = {(text(f.domain), text(f.name)): reader.function(f) for f in proto.functions}
        return FileModel(reader.graph(proto.graph), opsets, functions, int(proto.ir_version))


class Reader:
    """Makes records of protobuf messages; `folder` is where external data may lie."""

    def __init__(self, folder: Folder | None) -> None:
        self.folder = folder

    def graph(self, proto: Any) -> FileGraph:
        if proto.sparse_initializer:
            raise ValueError("sparse initializers are not supported")
        constants = {text(tensor.name): self.array(tensor) for tensor in proto.initializer}
        return FileGraph(
            name=text(proto.name),
            nodes=tuple(self.node(node) for node in proto.node),
            inputs=tuple(_declared(value) for value in proto.input),
            outputs=tuple(_declared(value) for value in proto.output),
            constants=constants,
            narrow=frozenset(text(t.name) for t in proto.initializer if dtype_name(t.data_type) in NARROW),
        )

    def node(self, proto: Any) -> FileNode:
        plain = {text(a.name): self.attribute(a) for a in proto.attribute if not a.ref_attr_name}
        references = {text(a.name): text(a.ref_attr_name) for a in proto.attribute if a.ref_attr_name}
        domain = "" if text(proto.domain) in DEFAULT_DOMAINS else text(proto.domain)
        inputs, outputs = tuple(map(text, proto.input)), tuple(map(text, proto.output))
        return FileNode(text(proto.op_type), domain, text(proto.name), inputs, outputs, plain, references)

    def function(self, proto: Any) -> FileFunction:
        defaults: dict[str, Any] = {text(a.name): self.attribute(a) for a in proto.attribute_proto}
        opsets = {text(entry.domain): int(entry.version) for entry in proto.opset_import}
        nodes = tuple(self.node(node) for node in proto.node)
        return FileFunction(tuple(map(text, proto.input)), tuple(map(text, proto.output)), nodes, defaults, opsets)

    def attribute(self, proto: Any) -> Any:
        kinds = onnx.AttributeProto
        if proto.type == kinds.TENSOR and dtype_name(proto.t.data_type) in NARROW:
            return None
        if proto.type == kinds.TENSOR:
            return self.array(proto.t)
        if proto.type == kinds.GRAPH:
            return self.graph(proto.g)
        if proto.type == kinds.STRING:
            return proto.s.decode("utf-8", "replace")
        if proto.type == kinds.STRINGS:
            return [text.decode("utf-8", "replace") for text in proto.strings]
        if proto.type in (kinds.INTS, kinds.FLOATS):
            return list(proto.ints if proto.type == kinds.INTS else proto.floats)
        if proto.type == kinds.INT:
            return int(proto.i)
        if proto.type == kinds.FLOAT:
            return float(proto.f)
        return None  # sparse tensors, types, lists of graphs: no operator that converts has any

    def array(self, proto: Any) -> Array:
        """Return a constant. Raises `ValueError` unless it has exactly the bytes that its shape says."""
        shape = tuple(int(size) for size in proto.dims)
        if any(size < 0 for size in shape) or prod(shape) > MAX_ELEMENTS:
            raise ValueError(f"constant {shown(text(proto.name))} of shape {spelled(shape[:8])}")
        name = dtype_name(proto.data_type)
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(proto, shape, name)
        if proto.HasField("raw_data"):
            _check_length(text(proto.name), shape, name, len(proto.raw_data))
        array = numpy_helper.to_array(proto)
        if array.shape != shape:
            raise ValueError(f"constant {shown(text(proto.name))} does not fill its shape {spelled(shape[:8])}")
        return array.astype(NARROW[name]) if name in NARROW else np.asarray(array)

    def _external(self, proto: Any, shape: tuple[int, ...], dtype: str) -> Array:
        if self.folder is None or dtype not in SIZE_BYTES:
            raise ValueError(f"constant {shown(text(proto.name))} ({dtype}) lies in another file")
        size = prod(shape) * SIZE_BYTES[dtype]
        facts = {text(entry.key): text(entry.value) for entry in proto.external_data}
        data = self.folder.read(text(proto.name), facts, size)
        return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def dtype_name(code: int) -> str:
    """Return the type's name, in this project's words where it has one."""
    try:
        name = onnx.TensorProto.DataType.Name(code).lower()
    except ValueError:
        return f"type {code}"
    return {"float": "float32", "double": "float64"}.get(name, str(name))


def _check_length(name: str, shape: tuple[int, ...], dtype: str, length: int) -> None:
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(dtype, 8 * SIZE_BYTES.get(dtype, 0))
    if bits and (prod(shape) * bits + 7) // 8 != length:
        raise ValueError(f"constant {shown(name)} has {length} bytes, its shape {spelled(shape[:8])} says otherwise")


def _declared(value: Any) -> FileInput:
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type":
        return FileInput(text(value.name), value.type.WhichOneof("value") or "no type", ())
    dims = (d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else d.dim_param for d in tensor.shape.dim)
    known = tuple(int(d) if isinstance(d, int) else text(d) for d in dims)
    return FileInput(text(value.name), dtype_name(tensor.elem_type), known)
