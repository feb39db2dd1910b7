"""Collects the canonical operators of a graph while a model is walked, and keeps transpositions lazy.

A value of the model has its axes in the model's order; the tensor that holds it may have them in another one, and may
hold integers that stand for its real numbers. Nothing is moved or widened until an operator asks for it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Operator, Quantization, Tensor
from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.fold import Attributes, fold
from stowplan_importer_onnx.parse import Array, shown, spelled

MAX_TENSOR_BYTES = 2**31 - 1
MAX_OPERATORS = 1 << 16
MAX_CONSTANT_BYTES = 1 << 31
NOTHING: Attributes = {}


class Refusal(Exception):
    """Why one operator does not convert. An empty text means: only because of another operator, which is named."""


class Value(NamedTuple):
    """A value of the model: axis i of `tensor` is the model's axis `order[i]`.

    `dtype` is the model's. Where it is float32 and the tensor holds int8, the tensor's quantization gives the numbers;
    where it is uint8 and the tensor holds int8, all numbers and the zero point are 128 less.
    """

    tensor: int
    shape: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.order)

    def place(self, axis: int) -> int:
        """Return which axis of the tensor the model's `axis` is."""
        return self.order.index(axis)


def plain(rank: int) -> tuple[int, ...]:
    """Return the model's own order of axes."""
    return tuple(range(rank))


class Builder:
    """The tensors and operators so far. `source` names the operator of the model that is being converted."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.constants: dict[str, bytes] = {}
        self.source = ""
        self._known: dict[tuple[str, str, tuple[int, ...], Quantization | None], int] = {}
        self._made: dict[tuple[object, ...], int] = {}
        self._held_bytes = 0
        self._reshapes: dict[int, int] = {}

    # Tensors.

    def tensor(
        self, shape: tuple[int, ...], dtype: str, quantization: Quantization | None = None, name: str = ""
    ) -> int:
        check_size(name or "inner", shape, dtype)
        self.tensors.append(Tensor(name=name, shape=shape, dtype=dtype, quantization=quantization))
        return len(self.tensors) - 1

    def constant(self, array: Array, quantization: Quantization | None = None) -> Value:
        """Add a constant in the model's order; equal ones are kept once."""
        dtype = str(array.dtype)
        if dtype not in SIZE_BYTES:
            raise Refusal(f"constants of {dtype} are not supported")
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        digest = hashlib.sha256(data).hexdigest()
        shape = tuple(array.shape)
        key = (digest, dtype, shape, quantization)
        if key not in self._known:
            self._held_bytes += 0 if digest in self.constants else len(data)
            if self._held_bytes > MAX_CONSTANT_BYTES:
                raise Refusal("constants take more than 2 GiB")
            self.constants[digest] = data
            found = Tensor(name="", shape=shape, dtype=dtype, quantization=quantization, constant=digest)
            self.tensors.append(found)
            self._known[key] = len(self.tensors) - 1
        return Value(self._known[key], shape, dtype, plain(len(shape)))

    def is_constant(self, value: Value) -> bool:
        return self.tensors[value.tensor].constant is not None

    def held(self, tensor: int) -> Array | None:
        """Return what a constant tensor holds, as it is stored; None for an activation."""
        found = self.tensors[tensor]
        if found.constant is None:
            return None
        return np.frombuffer(self.constants[found.constant], found.dtype).reshape(found.shape)

    def array(self, value: Value) -> Array | None:
        """Return a constant's numbers in the model's order and type; None for an activation."""
        if not self.is_constant(value):
            return None
        held = self.held(self.real(value).tensor)
        assert held is not None
        return np.asarray(held.transpose([value.place(axis) for axis in range(value.rank)]))

    def quantization(self, value: Value) -> Quantization | None:
        return self.tensors[value.tensor].quantization

    def is_quantized(self, value: Value) -> bool:
        """Say whether a real value is held as int8 with one scale."""
        found = self.tensors[value.tensor]
        q = found.quantization
        return value.dtype == "float32" and found.dtype == "int8" and q is not None and not q.per_channel

    # Operators.

    def step(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        dtype: str,
        attributes: Attributes = NOTHING,
        quantization: Quantization | None = None,
    ) -> int:
        """Add an operator and return its output; what has only constants for inputs is computed now."""
        check_size("", shape, dtype)
        present = [tensor for tensor in inputs if tensor >= 0]
        known = [array for array in map(self.held, present) if array is not None]
        if len(known) == len(present):
            result = fold(kind, known, shape, dtype, attributes) if quantization is None else None
            if result is None:
                raise Refusal("all its inputs are constants, which is not supported here; fold them before the export")
            return self.constant(result).tensor
        if 0 in shape:
            raise Refusal(f"a tensor of shape {spelled(shape)} is empty")
        if kind == "reshape":  # of a reshape: one of the two is enough
            source = self._reshapes.get(inputs[0], inputs[0])
            same = self.tensors[source]
            if same.dtype == dtype and same.quantization == quantization:
                if same.shape == shape:
                    return source
                inputs = (source,)
        key = (kind, tuple(inputs), shape, dtype, tuple(sorted(attributes.items())), quantization)
        if key not in self._made:
            if len(self.operators) >= MAX_OPERATORS:
                raise Refusal(f"the model unfolds to more than {MAX_OPERATORS} operators")
            output = self.tensor(shape, dtype, quantization)
            self.operators.append(
                Operator(kind=kind, inputs=tuple(inputs), outputs=(output,), attributes=attributes, source=self.source)
            )
            self._made[key] = output
            if kind == "reshape":
                self._reshapes[output] = inputs[0]
        return self._made[key]

    def result(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        dtype: str = "float32",
        attributes: Attributes = NOTHING,
        order: tuple[int, ...] | None = None,
    ) -> Value:
        """Add an operator whose output is a value of this shape, stored in `order` (the model's if none is given)."""
        order = plain(len(shape)) if order is None else order
        tensor = self.step(kind, inputs, tuple(shape[axis] for axis in order), dtype, attributes)
        return Value(tensor, shape, dtype, order)

    # Values in another form.

    def stored(self, value: Value, order: tuple[int, ...]) -> int:
        """Return a tensor that holds the value with its axes in this order, whatever type it is stored in."""
        if order == value.order:
            return value.tensor
        steps = tuple(value.place(axis) for axis in order)
        return self.transposed(value.tensor, steps)

    def transposed(self, tensor: int, steps: tuple[int, ...]) -> int:
        """Return a tensor with axis i taken from axis `steps[i]`; axes of one element move for nothing."""
        found = self.tensors[tensor]
        shape = tuple(found.shape[axis] for axis in steps)
        held = self.held(tensor)
        if held is not None:
            return self.constant(held.transpose(steps), _turned(found.quantization, steps)).tensor
        large = [axis for axis in steps if found.shape[axis] > 1]
        if large == sorted(large):
            return self.step("reshape", (tensor,), shape, found.dtype, NOTHING, found.quantization)
        strides = [math.prod(found.shape[axis + 1 :]) for axis in steps]
        attributes: Attributes = {"sizes": shape, "strides": tuple(strides), "offset": 0}
        return self.step("rearrange", (tensor,), shape, found.dtype, attributes, found.quantization)

    def real(self, value: Value) -> Value:
        """Return the value in a tensor of its own type: integers that stand for real numbers are widened."""
        found = self.tensors[value.tensor]
        if found.dtype == value.dtype:
            return value
        held, q = self.held(value.tensor), found.quantization
        assert q is not None
        if held is not None:
            return value._replace(tensor=self.constant(_widened(held, q, value.dtype)).tensor)
        if value.dtype == "uint8":
            unsigned = Quantization(scales=q.scales, zero_points=(q.zero_point + 128,))
            return value._replace(
                tensor=self.step("quantize", (value.tensor,), found.shape, "uint8", NOTHING, unsigned)
            )
        return value._replace(tensor=self.step("dequantize", (value.tensor,), found.shape, "float32"))

    def natural(self, value: Value) -> int:
        """Return a tensor of the value's own type in the model's order."""
        found = self.real(value)
        return self.stored(found, plain(found.rank))

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Return the same elements in the model's order under another shape, moved only where the order demands it."""
        from stowplan_importer_onnx.reshaping import reshaped

        return reshaped(self, value, shape)


def _turned(quantization: Quantization | None, steps: tuple[int, ...]) -> Quantization | None:
    if quantization is None or quantization.axis is None:
        return quantization
    return Quantization(
        scales=quantization.scales, zero_points=quantization.zero_points, axis=steps.index(quantization.axis)
    )


def _widened(held: Array, q: Quantization, dtype: str) -> Array:
    """Return the numbers that stored integers stand for, in float32 arithmetic as the runtimes do it."""
    if dtype == "uint8":
        return (held.astype(np.int16) + 128).astype(np.uint8)
    shape = [1] * held.ndim
    if q.axis is not None and q.per_channel:
        shape[q.axis] = len(q.scales)
    points = np.array(q.zero_points, np.int64).reshape(shape if q.per_channel else ())
    scales = np.array(q.scales, np.float32).reshape(shape if q.per_channel else ())
    return ((held.astype(np.int64) - points).astype(np.float32) * scales).astype(np.float32)


def check_size(name: str, shape: tuple[int, ...], dtype: str) -> None:
    if dtype not in SIZE_BYTES:
        raise Refusal(f"tensors of {dtype} are not supported")
    if any(size < 0 for size in shape) or math.prod(shape) * SIZE_BYTES[dtype] > MAX_TENSOR_BYTES:
        raise Refusal(f"tensor {shown(name)} of shape {spelled(shape)} takes 2 GiB or more")
