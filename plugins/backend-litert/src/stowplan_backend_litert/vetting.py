"""What LiteRT's verifier leaves open and LiteRT then trusts: names that are missing, shapes that contradict each other.

A signature without a name, or that names other tensors than its subgraph, ends the process. One flipped bit in a shape
makes LiteRT ask for tens of gigabytes and minutes: it computes shapes anew from the inputs and allocates what results.
Only sizes are judged here, and only where the file contradicts itself; what is merely wrong is for LiteRT to refuse.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod

from stowplan_backend_litert.errors import ModelRefusedError

MOST_TENSOR_BYTES = 1 << 30
_CONV, _DEPTHWISE, _FULLY_CONNECTED = 3, 4, 9
_POOLS = (1, 12, 17)
_BYTES = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 8: 8, 9: 1, 10: 8, 11: 16, 12: 8, 15: 4, 16: 2}
"""Bytes of an element by the file's number for its type; others count as one."""


class Table:
    """A table of a verified flatbuffer; fields by their number in the schema."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._fields = position - int(struct.unpack_from("<i", data, position)[0])
        self._size = int(struct.unpack_from("<H", data, self._fields)[0])

    @classmethod
    def root(cls, data: bytes) -> Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def has(self, field: int) -> bool:
        return self._place(field) != 0

    def number(self, field: int, code: str, default: int = 0) -> int:
        place = self._place(field)
        return int(struct.unpack_from("<" + code, self._data, place)[0]) if place else default

    def table(self, field: int) -> Table | None:
        place = self._place(field)
        return Table(self._data, self._target(place)) if place else None

    def tables(self, field: int) -> list[Table]:
        start, count = self._vector(field)
        return [Table(self._data, self._target(start + 4 * index)) for index in range(count)]

    def numbers(self, field: int) -> tuple[int, ...]:
        start, count = self._vector(field)
        return struct.unpack_from(f"<{count}i", self._data, start) if count else ()

    def _place(self, field: int) -> int:
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self._data, self._fields + entry)[0] if entry < self._size else 0
        return self._position + int(offset) if offset else 0

    def _target(self, place: int) -> int:
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def _vector(self, field: int) -> tuple[int, int]:
        place = self._place(field)
        if not place:
            return 0, 0
        start = self._target(place)
        return start + 4, int(struct.unpack_from("<I", self._data, start)[0])


def vet(name: str, data: bytes) -> None:
    """Raise `ModelRefusedError` for a verified model that LiteRT would crash or drown on."""
    try:
        problem = next(_problems(Table.root(data)), "")
    except (struct.error, IndexError, OverflowError, MemoryError) as err:
        problem = f"the file is damaged ({err})"
    if problem:
        raise ModelRefusedError(f"{name}: {problem}; export it again")


def _problems(model: Table) -> Iterator[str]:
    subgraphs = model.tables(2)
    for index, signature in enumerate(model.tables(7)):
        yield from _signature(signature, index, subgraphs)
    filled = [buffer.has(0) or buffer.has(1) for buffer in model.tables(4)]
    codes = [max(code.number(0, "b"), code.number(3, "i")) for code in model.tables(1)]
    for subgraph in subgraphs:
        tensors = [_Shape(tensor, filled) for tensor in subgraph.tables(0)]
        yield from (f"{what} of {tensor.size_bytes} bytes is more than LiteRT can be trusted with"
                    for what, tensor in ((f"tensor {n}", t) for n, t in enumerate(tensors))
                    if not tensor.constant and tensor.size_bytes > MOST_TENSOR_BYTES)  # fmt: skip
        inputs = [number for number in subgraph.numbers(1) if 0 <= number < len(tensors)]
        yield from (f"input tensor {number} has two shapes" for number in inputs if tensors[number].contradicts)
        for number, operator in enumerate(subgraph.tables(3)):
            if not _consistent(operator, tensors, codes):
                yield f"operator {number}: its input is larger than its output allows; the shapes are damaged"


def _signature(signature: Table, index: int, subgraphs: list[Table]) -> Iterator[str]:
    if not signature.has(2):
        yield f"signature {index} has no key"
    if not all(argument.has(0) for argument in (*signature.tables(0), *signature.tables(1))):
        yield f"signature {index} has an argument without a name"
    subgraph = subgraphs[signature.number(4, "I")]
    takes, gives = ([argument.number(1, "I") for argument in signature.tables(role)] for role in (0, 1))
    if len(set(takes)) < len(takes) or not set(takes) <= set(subgraph.numbers(1)):
        yield f"the inputs of signature {index} are not those of its subgraph"
    if not set(gives) <= set(subgraph.numbers(2)):
        yield f"the outputs of signature {index} are not those of its subgraph"


class _Shape:
    """What counts of a tensor here."""

    def __init__(self, tensor: Table, filled: list[bool]) -> None:
        self.dims = tensor.numbers(0)
        signature = tensor.numbers(7) or self.dims
        self.open = tuple(dim < 0 for dim in signature)
        self.contradicts = len(signature) != len(self.dims) or any(
            wanted >= 0 and wanted != dim for wanted, dim in zip(signature, self.dims, strict=False)
        )
        buffer = tensor.number(2, "I")
        self.constant = buffer < len(filled) and filled[buffer]
        self.count = prod(max(dim, 1) for dim in self.dims)
        self.size_bytes = self.count * _BYTES.get(tensor.number(1, "b"), 1)


def _consistent(operator: Table, tensors: list[_Shape], codes: list[int]) -> bool:
    """Say whether an operator's input can shrink to the output that the file states."""
    inputs, outputs, index = operator.numbers(1), operator.numbers(2), operator.number(0, "I")
    kind = codes[index] if index < len(codes) else -1
    known = [tensors[i] if 0 <= i < len(tensors) else None for i in (*inputs[:2], *outputs[:1])]
    if kind in _POOLS and len(inputs) == 1:
        known.insert(1, None)
    if len(known) != 3 or known[0] is None or known[2] is None:
        return True
    source, weights, target = known[0], known[1], known[2]
    if source.count <= target.count or len(target.open) != len(target.dims) or len(source.open) != len(source.dims):
        return True
    options = operator.table(4)
    if kind == _FULLY_CONNECTED and weights is not None and len(weights.dims) == 2:
        if any(target.open) and not any(source.open):
            return True  # what is open is written as 1, and says nothing
        return source.count * max(weights.dims[0], 1) <= target.count * max(weights.dims[1], 1)
    if kind not in (_CONV, _DEPTHWISE, *_POOLS) or options is None:
        return True
    return len(source.dims) == len(target.dims) == 4 and _slides(kind, options, source, weights, target)


def _slides(kind: int, options: Table, source: _Shape, weights: _Shape | None, target: _Shape) -> bool:
    """Compare height and width with what stride and window make of them."""
    strides = options.number(2, "i"), options.number(1, "i")
    if kind in _POOLS:
        windows = (options.number(4, "i"), options.number(3, "i"))
    elif weights is None or len(weights.dims) != 4:
        return True
    else:
        first = 4 if kind == _CONV else 5
        dilations = options.number(first + 1, "i", 1), options.number(first, "i", 1)
        windows = (weights.dims[1] * dilations[0], weights.dims[2] * dilations[1])
    known = [not free or also for free, also in zip(target.open, source.open, strict=True)]
    fits = (
        before <= (after + 1) * max(stride, 1) + max(window, 1)
        for before, after, stride, window, counts in zip(
            source.dims[1:3], target.dims[1:3], strides, windows, known[1:3], strict=True
        )
        if counts
    )
    return (source.dims[0] <= target.dims[0] or not known[0]) and all(fits)
