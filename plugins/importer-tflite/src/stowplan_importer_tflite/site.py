"""One operator with its operands at hand, as a lowering function sees it, and the checks that all of them share."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from stowplan.flow.dtypes import RANGE, SIZE_BYTES
from stowplan.flow.graph import Attribute, Quantization
from stowplan.nouns import NamedTuple
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.flatbuffer import Table
from stowplan_importer_tflite.parse import FileTensor, shown, spelled

MAX_TENSOR_BYTES = 2**31 - 1
MAX_RESCALE = 2.0**30
"""TFLite Micro's multiplier cannot express more; a sound model stays far below 1."""

WAY_OUT = {
    "uint8": "uint8 without a scale; convert the model again with int8",
    "int16": "int16 activations; convert the model again with int8 activations",
    "float16": "float16 activations; convert the model again in float32 or int8",
}


class Refusal(Exception):
    """Why one operator does not convert. An empty text means: only because of another operator, which is named."""


class Mismatch(Refusal):
    """A refusal because of shapes; behind a refused operator they may be wrong, and then it says nothing."""


class Value(NamedTuple):
    """A tensor where an operator reads or writes it. `shape` is resolved; `broken` is set behind a refused operator."""

    tensor: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None
    data: memoryview | None
    broken: bool = False

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class Conversion(NamedTuple):
    """What an operator becomes: a canonical kind, the operands it keeps, and the shape of its output.

    `output` is the tensor it fills where that is not the operator's first output. `data` are the bytes of an output
    that is known already; the kind is then `constant`.
    """

    kind: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    attributes: Mapping[str, Attribute] = MappingProxyType({})
    output: int | None = None
    data: bytes | None = None


NewTensor = Callable[[tuple[int, ...], str, "Quantization | None", "bytes | None"], Value]
INT8_FLOAT32 = ("int8", "float32")
COMPUTED = ("int8", "int16", "float32")
REALS = ("int8", "int16", "float32", "int32")
ANYTHING = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool", "float16")


class Site(NamedTuple):
    """`output` has the file's shape, which lowering does not trust; it computes its own.

    `outputs` are all of them. `new` makes a tensor that the file does not have, for what lies between two canonical
    operators, or for a constant in another form. `keep` says what a variable input holds afterwards. `custom` are the
    options of a custom operator, in whatever form its author chose.
    """

    kind: str
    inputs: tuple[Value | None, ...]
    output: Value
    table: Table | None
    outputs: tuple[Value, ...]
    new: NewTensor
    keep: Callable[[int, Value], None]
    custom: memoryview

    def arity(self, least: int, most: int) -> None:
        """Refuse another number of inputs."""
        if not least <= len(self.inputs) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            raise Refusal(f"{len(self.inputs)} inputs where {expected} are defined")

    def value(self, position: int) -> Value:
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise Refusal(f"input {position} is missing")
        return value

    def optional(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def activation(self, position: int = 0, dtypes: Sequence[str] = INT8_FLOAT32) -> Value:
        """Return an input of one of these types."""
        return check_activation(self.value(position), dtypes)

    def constant(self, position: int, what: str) -> Value:
        """Return an input that must be known now; `what` names it in the refusal."""
        value = self.value(position)
        if value.data is None and value.elements:
            raise Refusal("" if value.broken else f"{what} {shown(value.name)} must be constant")
        return value

    def constant_integers(self, position: int, what: str) -> tuple[int, ...]:
        """Return the numbers of a small constant, in row-major order."""
        value = self.constant(position, what)
        code = {"int32": "i", "int64": "q"}.get(value.dtype)
        if code is None:
            raise Refusal(f"{what} {shown(value.name)} is {value.dtype}; int32 or int64 is defined")
        return struct.unpack(f"<{value.elements}{code}", value.data or b"")

    def result(self, dtype: str) -> Value:
        """Return the output, which must have this dtype."""
        if self.output.dtype != dtype:
            raise Refusal(f"{dtype} input but {self.output.dtype} output")
        return check_activation(self.output, (dtype,))

    def options(self) -> Table:
        """Return the options table. Refuses when it is missing."""
        if self.table is None:
            raise Refusal("its options are missing")
        return self.table

    def integer(self, number: int, default: int = 0) -> int:
        return self.options().integer(number, "i", default)

    def activation_word(self, number: int) -> str:
        """Return the schema's word for a fused activation, NONE where the options are missing."""
        code = 0 if self.table is None else self.table.integer(number, "b")
        return schema.ACTIVATIONS[code] if 0 <= code < len(schema.ACTIVATIONS) else str(code)

    def activation_function(self, number: int) -> str:
        """Return the fused activation, none where the options are missing."""
        word = self.activation_word(number)
        if word not in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
            raise Refusal(f"fused activation {word}; NONE, RELU, RELU6 and RELU_N1_TO_1 would be supported")
        return word.lower()


def check_activation(value: Value, dtypes: Sequence[str] = INT8_FLOAT32) -> Value:
    """Refuse other dtypes than these, and int8 or int16 without one scale for all unless any type will do."""
    if value.dtype not in dtypes:
        *others, last = dtypes
        known = f"{', '.join(others)} and {last} would be supported" if others else f"{last} would be supported"
        raise Refusal(WAY_OUT.get(value.dtype, f"{value.dtype} activations; {known}"))
    if value.dtype in ("int8", "int16") and tuple(dtypes) != ANYTHING:
        if value.quantization is None:
            raise Refusal(
                f"{value.dtype} tensor {shown(value.name)} has no scale; convert the model again with full quantization"
            )
        if value.quantization.per_channel:
            raise Refusal(f"activation {shown(value.name)} has a scale per channel; one scale would be supported")
    return value


def scale_of(value: Value) -> float:
    """Return the scale of an int8 activation that was checked."""
    assert value.quantization is not None, value.name
    return value.quantization.scale


def check_rescale(ratio: float) -> None:
    """Refuse a factor between scales that fixed-point arithmetic cannot express."""
    if not ratio < MAX_RESCALE:
        raise Refusal(f"the scales of inputs and output are {ratio:.3g} apart, which int8 arithmetic cannot bridge")


def check_same_quantization(first: Value, second: Value) -> None:
    """Refuse int8 tensors with unlike quantization where the operator moves bytes as they are."""
    if first.dtype in ("int8", "int16") and first.quantization != second.quantization:
        names = f"{shown(first.name)} and {shown(second.name)}"
        raise Refusal(f"{names} differ in scale or zero point, which must be equal here; insert a QUANTIZE")


def resolve(index: int, tensor: FileTensor, shape: tuple[int, ...], broken: bool) -> Value:
    """Return a tensor as a value. Refuses what no operator can use: no bytes behind it, bad quantization, too large."""
    if tensor.variable:
        raise Refusal(f"tensor {shown(tensor.name)} keeps state between runs")
    if tensor.sparse or tensor.external:
        how = "in sparse form" if tensor.sparse else "outside the file"
        raise Refusal(f"tensor {shown(tensor.name)} is stored {how}")
    if tensor.data is None:
        check_size(tensor.name, shape, tensor.dtype)
    else:
        _check_data(tensor, tensor.data)
    return Value(
        tensor=index,
        name=tensor.name,
        shape=shape,
        dtype=tensor.dtype,
        quantization=_quantization(tensor),
        data=tensor.data,
        broken=broken,
    )


def check_size(name: str, shape: tuple[int, ...], dtype: str) -> None:
    if math.prod(shape) * SIZE_BYTES.get(dtype, 1) > MAX_TENSOR_BYTES:
        raise Refusal(f"tensor {shown(name)} of shape {spelled(shape)} takes 2 GiB or more")


def _check_data(tensor: FileTensor, data: memoryview) -> None:
    width = SIZE_BYTES.get(tensor.dtype)
    if width is None:
        raise Refusal(f"constant {shown(tensor.name)} is {tensor.dtype}; int8, int32 and float32 would be supported")
    if any(size < 0 for size in tensor.shape) or math.prod(tensor.shape) * width != len(data):
        raise Refusal(
            f"constant {shown(tensor.name)} has {len(data)} bytes, "
            f"its shape {spelled(tensor.shape)} in {tensor.dtype} says otherwise"
        )


def _quantization(tensor: FileTensor) -> Quantization | None:
    found = tensor.quantization
    if tensor.dtype not in RANGE:
        return None
    if found.details:
        raise Refusal(
            f"tensor {shown(tensor.name)} is quantized by blocks; per tensor or per channel would be supported"
        )
    if not found.scales:
        return None
    if not all(map(math.isfinite, found.scales)) or min(found.scales) <= 0:
        scale = next(scale for scale in found.scales if not (math.isfinite(scale) and scale > 0))
        raise Refusal(f"tensor {shown(tensor.name)} has scale {scale}, which is no positive number")
    low, high = RANGE[tensor.dtype]
    for point in (min(found.zero_points, default=low), max(found.zero_points, default=low)):
        if not low <= point <= high:
            raise Refusal(
                f"tensor {shown(tensor.name)}: zero point {point} does not fit {tensor.dtype} ({low}..{high})"
            )
    points = found.zero_points * (len(found.scales) if len(found.zero_points) == 1 else 1)
    if len(points) != len(found.scales):
        raise Refusal(
            f"tensor {shown(tensor.name)} has {len(found.scales)} scales but {len(found.zero_points)} zero points"
        )
    return _per_axis(tensor, Quantization(scales=found.scales, zero_points=points, axis=found.axis))


def _per_axis(tensor: FileTensor, quantization: Quantization) -> Quantization:
    if not quantization.per_channel:
        # Converters leave any axis there (person_detect has 3 on a vector); with one scale it means nothing.
        return Quantization(scales=quantization.scales, zero_points=quantization.zero_points)
    # A bias is a vector, whatever axis of the weights the file repeats there.
    axis = 0 if len(tensor.shape) == 1 else quantization.axis or 0
    if not 0 <= axis < len(tensor.shape) or tensor.shape[axis] != len(quantization.scales):
        raise Refusal(
            f"tensor {shown(tensor.name)} has {len(quantization.scales)} scales along axis {axis} "
            f"of shape {spelled(tensor.shape)}"
        )
    return Quantization(scales=quantization.scales, zero_points=quantization.zero_points, axis=axis)
