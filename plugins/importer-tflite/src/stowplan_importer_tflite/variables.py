"""What a model keeps from one run to the next: resource variables, and tensors that the file calls variable.

Each becomes a state of the graph: a tensor that the run reads, one that it makes, and the bytes the first run finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Quantization
from stowplan.nouns import NamedTuple
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.parse import FileOperator, FileSubgraph, FileTensor, shown
from stowplan_importer_tflite.site import NewTensor, Refusal, Value

Key = tuple[str, str]
RESOURCE_KINDS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"})


class Initial(NamedTuple):
    """What a variable holds before the first run."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes


class Kept(NamedTuple):
    """One state so far: the tensor that the run reads, the latest that it made, and the first value."""

    name: str
    before: int
    after: int
    initial: bytes


class Variables:
    """The variables of a subgraph while its operators are walked through in order."""

    def __init__(self, subgraphs: Sequence[FileSubgraph], new: NewTensor) -> None:
        self._subgraphs = subgraphs
        self._new = new
        self._handles: dict[int, Key] = {}
        self._initial: dict[Key, Initial] = {}
        self.kept: dict[Key | int, Kept] = {}

    def handle(self, operator: FileOperator) -> None:
        """Note which variable a VAR_HANDLE names."""
        self._handles[operator.outputs[0]] = key_of(operator)

    def once(self, operator: FileOperator) -> None:
        """Take the first values from the subgraph that a CALL_ONCE runs."""
        number = 0 if operator.options is None else operator.options.integer(schema.CALL_ONCE_SUBGRAPH)
        if not 0 < number < len(self._subgraphs):
            raise Refusal(f"subgraph {number} of {len(self._subgraphs)}")
        subgraph, handles = self._subgraphs[number], dict[int, Key]()
        for part in subgraph.operators:
            if part.kind == "VAR_HANDLE" and part.outputs:
                handles[part.outputs[0]] = key_of(part)
            elif part.kind == "ASSIGN_VARIABLE" and len(part.inputs) == 2 and part.inputs[0] in handles:
                self._initial[handles[part.inputs[0]]] = first_value(subgraph.tensors[part.inputs[1]])
            else:
                raise Refusal(f"{part.kind} before the first run; assigning constants would be supported")

    def read(self, handle: int, output: Value) -> int:
        """Return the tensor that holds a variable now; `output` says what it looks like where it is read."""
        key = self._key(handle)
        if key not in self.kept:
            size = output.elements * SIZE_BYTES.get(output.dtype, 0)
            first = self._initial.get(key, Initial(output.shape, output.dtype, bytes(size)))
            if (first.dtype, len(first.data)) != (output.dtype, size):
                raise Refusal(
                    f"variable {shown(key[1])} is read as {output.dtype} of {size} bytes but was set otherwise"
                )
            self._keep(key, key[1], output.shape, output.dtype, output.quantization, first.data)
        return self.kept[key].after

    def assign(self, handle: int, value: Value) -> None:
        key = self._key(handle)
        if key not in self.kept:
            self.read(handle, value)
        self.change(key, value)

    def tensor(self, index: int, tensor: FileTensor) -> int:
        """Return what a tensor that the file calls variable holds now; it begins as zeros."""
        if index not in self.kept:
            if tensor.dtype not in SIZE_BYTES or any(n < 1 for n in tensor.shape):
                raise Refusal(f"tensor {shown(tensor.name)} keeps state as {tensor.dtype}")
            size = SIZE_BYTES[tensor.dtype]
            for n in tensor.shape:
                size *= n
            scales, points = tensor.quantization.scales, tensor.quantization.zero_points
            quantization = Quantization(scales=scales[:1], zero_points=points[:1] or (0,)) if scales else None
            first = points[0] if points and size and tensor.dtype == "int8" else 0
            self._keep(index, tensor.name, tensor.shape, tensor.dtype, quantization, bytes([first & 0xFF]) * size)
        return self.kept[index].after

    def change(self, key: Key | int, value: Value) -> None:
        """Note what a variable holds from here on."""
        found = self.kept[key]
        self.kept[key] = found._replace(after=value.tensor)

    def _keep(
        self,
        key: Key | int,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        quantization: Quantization | None,
        first: bytes,
    ) -> None:
        before = self._new(shape, dtype, quantization, None)
        self.kept[key] = Kept(name, before.tensor, before.tensor, first)

    def _key(self, handle: int) -> Key:
        if handle not in self._handles:
            raise Refusal("a variable that no VAR_HANDLE names")
        return self._handles[handle]


def key_of(operator: FileOperator) -> Key:
    """Return what tells variables apart: container and name."""
    if operator.options is None:
        return "", ""
    return operator.options.text(schema.VAR_HANDLE_CONTAINER), operator.options.text(schema.VAR_HANDLE_NAME)


def first_value(tensor: FileTensor) -> Initial:
    if tensor.data is None:
        raise Refusal(f"tensor {shown(tensor.name)} has no value before the first run")
    return Initial(tensor.shape, tensor.dtype, bytes(tensor.data))


def final(variables: Mapping[Key | int, Kept]) -> list[Kept]:
    """Return the variables that a run changes; what never changes is a constant, and stays out of the states."""
    return [kept for kept in variables.values() if kept.after != kept.before]
