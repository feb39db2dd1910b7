"""Evaluates canonical operators whose inputs are all known: shape arithmetic, widened weights, tables of indices.

Pure Python on purpose, as the compile path imports no numpy. What is folded is small (shapes), moved (constants in
another order) or widened element by element (weights stored in 16 or 8 bits).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from stowplan.build.lower.fixed_point import float32
from stowplan.build.moves import source_of
from stowplan.flow.dtypes import RANGE, SIZE_BYTES
from stowplan.flow.graph import Attribute, Operator, Quantization
from stowplan.nouns import NamedTuple

FORMATS = {
    "bool": "B", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
MAX_ELEMENTS = 1 << 27
"""More than any model's weights; keeps a file that declares terabytes from being unfolded."""

Number = int | float


class Known(NamedTuple):
    """A tensor whose bytes are known; a result's `data` is empty until it is."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes | memoryview = b""
    quantization: Quantization | None = None

    def numbers(self) -> Sequence[Number]:
        return struct.unpack(f"<{prod(self.shape)}{FORMATS[self.dtype]}", self.data)


class Folding(NamedTuple):
    """One operator under evaluation; `attributes` are the canonical operator's."""

    kind: str
    attributes: Mapping[str, Attribute]
    inputs: Sequence[Known]
    result: Known

    @property
    def operator(self) -> Operator:
        return Operator(kind=self.kind, inputs=(), outputs=(), attributes=self.attributes)


def fold(folding: Folding) -> bytes | None:
    """Return the bytes of an operator's output, or None when there is no rule for it here."""
    rule = _RULES.get(folding.kind)
    tensors = (*folding.inputs, folding.result)
    if rule is None or any(t.dtype not in FORMATS or prod(t.shape) > MAX_ELEMENTS for t in tensors):
        return None
    return rule(folding)


def packed(numbers: Sequence[Number], dtype: str) -> bytes:
    """Return numbers as a tensor's bytes. Integers wrap, as the runtimes' do."""
    if dtype.startswith("float"):
        return struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *numbers)
    bits = 8 * SIZE_BYTES[dtype]
    low = 0 if dtype.startswith("u") or dtype == "bool" else -(1 << (bits - 1))
    return struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *((int(n) - low) % (1 << bits) + low for n in numbers))


def _same_bytes(folding: Folding) -> bytes:
    return bytes(folding.inputs[0].data)


def _moved(folding: Folding) -> bytes:
    known, size = folding.inputs[0], SIZE_BYTES[folding.result.dtype]
    source = source_of(folding.operator, known.shape, folding.result.shape)
    *outer, inner = source.axes or (range(1),)
    steps = tuple(inner)
    result = bytearray()
    run = steps == tuple(range(len(steps)))
    for place in product(*outer):
        start = source.base + sum(place)
        if run:
            result += known.data[start * size : (start + len(steps)) * size]
        else:
            result += b"".join(bytes(known.data[(start + s) * size : (start + s + 1) * size]) for s in steps)
    return bytes(result)


def _concatenation(folding: Folding) -> bytes:
    axis = folding.operator.integer("axis")
    size = SIZE_BYTES[folding.result.dtype]
    chunks = [prod(known.shape[axis:]) * size for known in folding.inputs]
    parts = []
    for outer in range(prod(folding.result.shape[:axis])):
        for known, chunk in zip(folding.inputs, chunks, strict=True):
            parts.append(bytes(known.data[outer * chunk : (outer + 1) * chunk]))
    return b"".join(parts)


def _padded(folding: Folding) -> bytes | None:
    known, result = folding.inputs[0], folding.result
    before = folding.operator.integers("before")
    filler = folding.attributes.get("value", 0)
    if folding.kind == "pad" and known.quantization is not None:
        filler = known.quantization.zero_point
    assert isinstance(filler, (int, float))
    numbers: list[Number] = [filler] * prod(result.shape)
    for number, place in zip(known.numbers(), product(*(range(n) for n in known.shape)), strict=True):
        at = 0
        for index, shift, size in zip(place, before, result.shape, strict=True):
            at = at * size + index + shift
        numbers[at] = number
    return packed(numbers, result.dtype)


def _cast(folding: Folding) -> bytes:
    numbers, dtype = folding.inputs[0].numbers(), folding.result.dtype
    if dtype == "bool":
        numbers = [int(n != 0) for n in numbers]
    elif dtype in RANGE and folding.inputs[0].dtype.startswith("float"):
        low, high = RANGE[dtype]
        numbers = [0 if n != n else int(min(max(n, low), high)) for n in numbers]
    return packed(numbers, dtype)


def _dequantize(folding: Folding) -> bytes | None:
    """Widen weights as the reference kernels do: the difference to the zero point times the scale, in float32."""
    known = folding.inputs[0]
    if folding.result.dtype != "float32":
        return None
    if known.dtype == "float16":
        return packed(known.numbers(), "float32")
    if known.quantization is None or known.dtype not in ("int8", "uint8", "int16", "int32"):
        return None
    q = known.quantization
    outer = 1 if q.axis is None else prod(known.shape[: q.axis])
    inner = prod(known.shape) // outer // len(q.scales)
    if SIZE_BYTES[known.dtype] == 1:
        return _widened_bytes(known, outer, inner)
    values, numbers = known.numbers(), []
    for position, value in enumerate(values):
        channel = position // inner % len(q.scales)
        numbers.append(float32(float32(value - q.zero_points[channel]) * q.scales[channel]))
    return packed(numbers, "float32")


def _widened_bytes(known: Known, outer: int, inner: int) -> bytes:
    """Each channel has a table of 256 floats; bytes pick from it."""
    q = known.quantization
    assert q is not None
    offset = 128 if known.dtype == "int8" else 0
    tables = []
    for scale, point in zip(q.scales, q.zero_points, strict=True):
        values = ((byte ^ 128) - offset if offset else byte for byte in range(256))
        tables.append([struct.pack("<f", float32(scale * float32(v - point))) for v in values])
    parts = []
    data = bytes(known.data)
    for block in range(outer * len(tables)):
        table = tables[block % len(tables)]
        parts += [table[byte] for byte in data[block * inner : (block + 1) * inner]]
    return b"".join(parts)


def _broadcast(folding: Folding) -> Iterator[tuple[Number, ...]]:
    """Yield the numbers of all inputs that meet at each element of the result."""
    shape = folding.result.shape
    values = [known.numbers() for known in folding.inputs]
    strides = []
    for known in folding.inputs:
        padded = (1,) * (len(shape) - len(known.shape)) + known.shape
        strides.append([prod(padded[i + 1 :]) if n > 1 else 0 for i, n in enumerate(padded)])
    for place in product(*(range(n) for n in shape)):
        yield tuple(
            v[sum(i * s for i, s in zip(place, steps, strict=True))] for v, steps in zip(values, strides, strict=True)
        )


def _binary(folding: Folding) -> bytes | None:
    if folding.attributes.get("activation", "none") != "none" or any(t.quantization for t in folding.inputs):
        return None
    function, real = _BINARY[folding.kind], folding.result.dtype.startswith("float")
    try:
        numbers = [function(a, b) for a, b in _broadcast(folding)]
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    if real and folding.result.dtype == "float32":
        numbers = [float32(float(n)) for n in numbers]
    return packed(numbers, folding.result.dtype)


def _div(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


_BINARY: Mapping[str, Callable[[Number, Number], Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _div,
    "floor_div": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
    "pow": lambda a, b: a**b,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
}


def _unary(folding: Folding) -> bytes | None:
    if folding.inputs[0].quantization is not None:
        return None
    try:
        numbers = [_UNARY[folding.kind](n) for n in folding.inputs[0].numbers()]
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    if folding.result.dtype == "float32":
        numbers = [float32(float(n)) for n in numbers]
    return packed(numbers, folding.result.dtype)


_UNARY: Mapping[str, Callable[[Number], Number]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "exp": math.exp,
    "log": math.log,
    "square": lambda x: x * x,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "relu": lambda x: max(x, 0),
    "reciprocal": lambda x: 1 / x,
    "logical_not": lambda x: not x,
    "sign": lambda x: (x > 0) - (x < 0),
}


def _select(folding: Folding) -> bytes:
    return packed([a if c else b for c, a, b in _broadcast(folding)], folding.result.dtype)


def _reduce(folding: Folding) -> bytes | None:
    known, axes = folding.inputs[0], folding.operator.integers("axes")
    function = _REDUCTIONS.get(folding.operator.text("function"))
    if function is None or known.quantization is not None:
        return None
    groups: dict[tuple[int, ...], list[Number]] = {}
    for number, place in zip(known.numbers(), product(*(range(n) for n in known.shape)), strict=True):
        groups.setdefault(tuple(i for axis, i in enumerate(place) if axis not in axes), []).append(number)
    numbers = [function(group) for group in groups.values()]
    return packed(numbers, folding.result.dtype) if len(numbers) == prod(folding.result.shape) else None


_REDUCTIONS: Mapping[str, Callable[[list[Number]], Number]] = {
    "sum": sum,
    "prod": prod,
    "max": max,
    "min": min,
    "any": any,
    "all": all,
}

_RULES: Mapping[str, Callable[[Folding], bytes | None]] = {
    "reshape": _same_bytes,
    "copy": _same_bytes,
    "rearrange": _moved,
    "sample": _moved,
    "concatenation": _concatenation,
    "pad": _padded,
    "pad_with": _padded,
    "cast": _cast,
    "dequantize": _dequantize,
    "select": _select,
    "reduce": _reduce,
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
}
