"""The meaning of a model: tensors, operators and signatures, with no order of memory and no chip in it.

Layout is NHWC. Operators are canonical (`flow/operators.py` says what each means), so that importers lower into
one vocabulary and kernels implement it once. A graph is made once by an importer; passes return new graphs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from math import prod

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.nouns import dataclass, field

ABSENT = -1
"""The tensor index of an optional input that an operator does not have (a bias, say)."""

Attribute = int | float | str | bool | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """`real = scale * (q - zero_point)`: one pair for the tensor, or one per slice along `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        return self.zero_points[0]

    @property
    def per_channel(self) -> bool:
        return len(self.scales) > 1


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A named value. `constant` is the SHA-256 of its bytes in `Graph.constants`, or None for an activation."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None
    constant: str | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * SIZE_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One computation. `inputs` and `outputs` are tensor indices; `source` is its name in the model, for messages."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    source: str = ""

    def integer(self, name: str) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes[name]
        assert isinstance(value, int), f"{self.kind}.{name} is {value!r}"
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a tuple of integers."""
        value = self.attributes[name]
        assert isinstance(value, tuple), f"{self.kind}.{name} is {value!r}"
        return value

    def text(self, name: str) -> str:
        """Return an attribute that is a word."""
        value = self.attributes[name]
        assert isinstance(value, str), f"{self.kind}.{name} is {value!r}"
        return value

    def number(self, name: str) -> float:
        """Return an attribute that is a real number."""
        value = self.attributes[name]
        assert isinstance(value, (int, float)), f"{self.kind}.{name} is {value!r}"
        return float(value)


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A named entry of the model: pairs of (argument name, tensor index)."""

    key: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class State:
    """What one run leaves to the next: it reads `before` and makes `after`, two tensors of the same size.

    `initial` is the SHA-256 in `Graph.constants` of what the first run reads. `before` is among the graph's inputs,
    and both are among its outputs: nothing else may lie where `before` does until `after` has been copied there.
    """

    name: str
    before: int
    after: int
    initial: str


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Operators in an order in which each input exists before it is read; `inputs` and `outputs` are tensor indices.

    `constants` maps SHA-256 to bytes. `notes` are remarks for the report (a free dimension that was bound, say).
    """

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[str, bytes] = field(repr=False)
    signatures: tuple[Signature, ...] = ()
    notes: tuple[str, ...] = ()
    states: tuple[State, ...] = ()

    @property
    def state_tensors(self) -> tuple[int, ...]:
        """The tensors among inputs and outputs that no user sees."""
        return tuple(t for state in self.states for t in (state.before, state.after))

    @property
    def entries(self) -> tuple[int, ...]:
        """The inputs that the user gives."""
        return tuple(t for t in self.inputs if t not in self.state_tensors)

    @property
    def exits(self) -> tuple[int, ...]:
        """The outputs that the user gets."""
        return tuple(t for t in self.outputs if t not in self.state_tensors)

    def constant_bytes(self, tensor: int) -> bytes:
        """Return the bytes of a constant tensor, little-endian, in its shape's row-major order."""
        digest = self.tensors[tensor].constant
        assert digest is not None, f"tensor {tensor} is an activation"
        return self.constants[digest]

    def is_activation(self, tensor: int) -> bool:
        return tensor != ABSENT and self.tensors[tensor].constant is None

    @cached_property
    def producers(self) -> Mapping[int, int]:
        """Map each tensor that an operator writes to the index of that operator."""
        return {t: i for i, op in enumerate(self.operators) for t in op.outputs}

    @cached_property
    def consumers(self) -> Mapping[int, tuple[int, ...]]:
        """Map each tensor to the indices of the operators that read it, each once, in order."""
        found: dict[int, list[int]] = {}
        for index, operator in enumerate(self.operators):
            for tensor in dict.fromkeys(operator.inputs):
                if tensor != ABSENT:
                    found.setdefault(tensor, []).append(index)
        return {tensor: tuple(readers) for tensor, readers in found.items()}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the meaning: operators, shapes, types, quantization, constants; no names, no storage order."""
        return hashlib.sha256(json.dumps(self._canonical(), separators=(",", ":")).encode()).hexdigest()

    def _canonical(self) -> object:
        numbers: dict[int, int] = {ABSENT: -1}
        order = [*self.inputs, *(t for op in self.operators for t in (*op.inputs, *op.outputs)), *self.outputs]
        for tensor in order:
            numbers.setdefault(tensor, len(numbers) - 1)

        def describe(tensor: Tensor) -> object:
            q = tensor.quantization
            quantization = [[s.hex() for s in q.scales], q.zero_points, q.axis] if q else None
            return [tensor.shape, tensor.dtype, quantization, tensor.constant]

        def describe_operator(operator: Operator) -> object:
            inputs, outputs = ([numbers[t] for t in side] for side in (operator.inputs, operator.outputs))
            return [operator.kind, inputs, outputs, sorted(operator.attributes.items())]

        return [
            [describe(self.tensors[t]) for t in numbers if t != ABSENT],
            [describe_operator(operator) for operator in self.operators],
            list(map(numbers.get, self.inputs)),
            list(map(numbers.get, self.outputs)),
            *([[[numbers.get(s.before), numbers.get(s.after), s.initial] for s in self.states]] if self.states else []),
            [[s.key, [(n, numbers.get(t)) for n, t in (*s.inputs, *s.outputs)]] for s in self.signatures],
        ]
