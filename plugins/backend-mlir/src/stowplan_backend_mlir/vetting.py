"""Which operators are trusted to the converter: those whose results were compared with TFLite's own kernels.

The converter makes something of many more, and of some that is wrong without a word. So the list says what goes in,
and a comparison of each entry with two other runtimes is a test; so is each operator that is refused for being wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from stowplan.errors import ModelError, UnsupportedError
from stowplan.nouns import dataclass
from stowplan_backend_mlir.flat import Table, root

_FLOATS = ("float32", "float16")
_BYTES = (*_FLOATS, "int8", "uint8")
_ACTIVATIONS = (*_BYTES, "int16")
_ANY = (*_ACTIVATIONS, "int32", "int64", "bool")
_NUMBERS = (*_ACTIVATIONS, "int32")
TYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 5: "string", 6: "bool", 7: "int16", 8: "complex64",
    9: "int8", 10: "float64", 17: "int4",
}  # fmt: skip

COMPARED: Mapping[str, tuple[str, ...]] = {
    "ADD": _NUMBERS, "AVERAGE_POOL_2D": _ACTIVATIONS, "CONCATENATION": _ANY, "CONV_2D": _ACTIVATIONS,
    "DEPTHWISE_CONV_2D": _ACTIVATIONS, "DEPTH_TO_SPACE": _ANY, "DEQUANTIZE": _ACTIVATIONS,
    "FLOOR": _FLOATS, "FULLY_CONNECTED": _ACTIVATIONS, "L2_NORMALIZATION": _FLOATS,
    "LOGISTIC": _ACTIVATIONS, "MAX_POOL_2D": _ACTIVATIONS, "MUL": _NUMBERS, "RELU": _ACTIVATIONS,
    "RELU_N1_TO_1": _FLOATS, "RELU6": _BYTES, "RESHAPE": _ANY, "RESIZE_BILINEAR": _BYTES,
    "SOFTMAX": _ACTIVATIONS, "SPACE_TO_DEPTH": _ANY, "TANH": _ACTIVATIONS, "PAD": _ANY,
    "GATHER": _ANY, "BATCH_TO_SPACE_ND": _ANY, "SPACE_TO_BATCH_ND": _ANY, "TRANSPOSE": _ANY,
    "MEAN": _BYTES, "SUB": _NUMBERS, "DIV": _FLOATS, "SQUEEZE": _ANY,
    "STRIDED_SLICE": _ANY, "EXP": _FLOATS, "SPLIT": _ANY, "LOG_SOFTMAX": _FLOATS,
    "CAST": _ANY, "PRELU": _FLOATS, "MAXIMUM": _NUMBERS, "ARG_MAX": _BYTES,
    "MINIMUM": _NUMBERS, "LESS": _FLOATS, "NEG": _FLOATS, "PADV2": _ANY,
    "GREATER": _FLOATS, "GREATER_EQUAL": _FLOATS, "LESS_EQUAL": _FLOATS, "SLICE": _ANY,
    "SIN": _FLOATS, "TILE": _ANY, "EXPAND_DIMS": _ANY, "EQUAL": _FLOATS,
    "NOT_EQUAL": _FLOATS, "LOG": _FLOATS, "SUM": _FLOATS, "SQRT": _FLOATS,
    "RSQRT": _FLOATS, "REDUCE_PROD": _FLOATS, "REDUCE_MAX": _BYTES, "PACK": _ANY,
    "UNPACK": _ANY, "REDUCE_MIN": _BYTES, "FLOOR_DIV": _FLOATS, "SQUARE": _FLOATS,
    "RESIZE_NEAREST_NEIGHBOR": _ANY, "LEAKY_RELU": _ACTIVATIONS, "SQUARED_DIFFERENCE": _FLOATS,
    "MIRROR_PAD": _ANY, "ABS": _FLOATS, "SPLIT_V": _ANY, "CEIL": _FLOATS,
    "GATHER_ND": _FLOATS, "COS": _FLOATS, "ELU": _FLOATS, "QUANTIZE": _ACTIVATIONS,
    "ROUND": _FLOATS, "HARD_SWISH": _BYTES, "SELECT_V2": _ANY,
    "BATCH_MATMUL": _FLOATS, "REDUCE_ALL": ("bool",), "GELU": _FLOATS, "SIGN": _FLOATS,
}  # fmt: skip
"""Operators by name, with the types of their first input."""

NAMES = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL 127 CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND
    HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE
    BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1
    UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST
    BITWISE_XOR RIGHT_SHIFT
""".split()
"""Operators by their code in files; those after them are StableHLO's, and no model for a device has one."""
_CUSTOM = 32
SOFTMAX_SPAN = 10
MOST_NAME = 1024
MOST_CONSTANT = 256
"""What is read of a constant: strides are at most eight numbers."""
_HYBRID = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL")
_INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "bool")


@dataclass(frozen=True, kw_only=True)
class Vetted:
    """What is known of a subgraph: its operators, and how many compute in float with weights of 8 bits or fewer.

    `outputs` are kind and first output's name of each.
    """

    operators: int
    outputs: tuple[tuple[str, str], ...] = ()
    dequantized: int


@dataclass(frozen=True)
class _Operator:
    """One operator of a file, as its conditions look at it."""

    table: Table
    tensors: list[Table]
    buffers: list[Table]

    def input(self, number: int) -> Table | None:
        indices = self.table.integers(1, number + 1)
        index = indices[number] if number < len(indices) else -1
        if index >= len(self.tensors):
            raise ModelError("is damaged: an operator names a tensor that it does not have; export it again")
        return None if index < 0 else self.tensors[index]

    def type_of(self, number: int) -> str:
        tensor = self.input(number)
        return "" if tensor is None else _type(tensor)

    @property
    def result(self) -> Table | None:
        indices = self.table.integers(2, 1)
        return self.tensors[indices[0]] if indices and 0 <= indices[0] < len(self.tensors) else None

    @property
    def result_type(self) -> str:
        return "" if self.result is None else _type(self.result)

    @property
    def output(self) -> str:
        return "" if self.result is None else self.result.bytes(3, MOST_NAME).decode("utf-8", "replace")

    def constant(self, number: int) -> list[int]:
        """Return a constant input of 32-bit integers; nothing where it is computed."""
        tensor = self.input(number)
        index = -1 if tensor is None else tensor.value(2, "<I")
        data = self.buffers[index].bytes(0, MOST_CONSTANT) if 0 <= index < len(self.buffers) else b""
        return [one for (one,) in struct.iter_unpack("<i", data[: len(data) // 4 * 4])]

    @property
    def scale(self) -> float:
        """Return the scale of the first input; 0 where it has none."""
        tensor = self.input(0)
        quantization = None if tensor is None else tensor.table(4)
        return 0.0 if quantization is None else quantization.real(2)

    @property
    def options(self) -> Table | None:
        return self.table.table(4)


def vet(data: bytes) -> tuple[Vetted, ...]:
    """Return what each subgraph has. Raises `ModelError`, and `UnsupportedError` naming all that is not trusted."""
    model = root(data)
    codes, buffers, subgraphs = model.tables(1), model.tables(4), model.tables(2)
    if not subgraphs:
        raise ModelError("has no subgraph; export it again")
    untested: dict[str, None] = {}
    wrong: dict[str, None] = {}
    vetted: list[Vetted] = []
    seen = 0
    for subgraph in subgraphs:
        tensors, operators = subgraph.tables(0), subgraph.tables(3)
        seen += len(tensors) + len(operators)
        if seen > len(data):
            raise ModelError("is damaged: its subgraphs share what they are made of; export it again")
        dequantized, outputs = 0, list[tuple[str, str]]()
        for table in operators:
            operator, name = _Operator(table, tensors, buffers), _name(codes, table)
            found, why = _untested(name, operator), _wrong(name, operator)
            untested.update({found: None} if found and not why else {})
            wrong.update({f"{name}: {why}": None} if why else {})
            dequantized += name in _HYBRID and operator.type_of(0) in _FLOATS and operator.type_of(1) in _INTEGERS
            outputs.append((name, operator.output))
        vetted.append(Vetted(operators=len(operators), outputs=tuple(outputs), dequantized=dequantized))
    if untested or wrong:
        never = [f"{', '.join(untested)} (never compared with TFLite's own)"] if untested else []
        words = "; ".join([*wrong, *never])
        raise UnsupportedError(
            f"the converter to TOSA is not trusted with {words[:400]}; run it with backend c or litert",
            [*wrong, *untested],
        )
    return tuple(vetted)


def _untested(name: str, operator: _Operator) -> str:
    """Return what was never compared of an operator: its kind, or its kind with that type; "" for one that was."""
    if name not in COMPARED:
        return name
    found = operator.type_of(0)
    return f"{name} of {found}" if found and found not in COMPARED[name] else ""


def _wrong(name: str, operator: _Operator) -> str:
    """Return what the converter is known to do wrong; "" where nothing is."""
    condition = _CONDITIONS.get(name)
    return condition(operator) if condition else ""


def _pool(operator: _Operator) -> str:
    options = operator.options
    return "the converter drops its fused activation" if options is not None and options.value(5, "<b") else ""


def _nearest(operator: _Operator) -> str:
    options = operator.options
    if options is not None and (options.flag(0) or options.flag(1)):
        return ""
    return "without align_corners or half_pixel_centers the converter takes other pixels"


def _strided(operator: _Operator) -> str:
    options = operator.options
    if options is not None and (options.value(2, "<i") or options.value(3, "<i")):
        return "ellipsis and new axes were never compared with TFLite's"
    strides = operator.constant(3)
    return "" if strides and min(strides) > 0 else "the converter takes strides for positive"


def _gelu(operator: _Operator) -> str:
    options = operator.options
    return "" if options is not None and options.flag(0) else "the converter approximates it"


def _remainder(_: _Operator) -> str:
    return "the converter leaves out the product with the divisor"


def _softmax(operator: _Operator) -> str:
    if operator.type_of(0) != "int16" or operator.scale * 65535 <= SOFTMAX_SPAN:
        return ""
    return f"in int16 the converter's table wraps where inputs can differ by more than {SOFTMAX_SPAN}"


def _cast(operator: _Operator) -> str:
    from_float = operator.type_of(0) in _FLOATS and operator.result_type in _INTEGERS
    return "of float to integers: the converter rounds where TFLite cuts off" if from_float else ""


_CONDITIONS: Mapping[str, Callable[[_Operator], str]] = {
    "AVERAGE_POOL_2D": _pool, "MAX_POOL_2D": _pool, "RESIZE_NEAREST_NEIGHBOR": _nearest, "STRIDED_SLICE": _strided,
    "GELU": _gelu, "CAST": _cast, "FLOOR_MOD": _remainder, "SOFTMAX": _softmax,
}  # fmt: skip


def _name(codes: list[Table], operator: Table) -> str:
    index = operator.value(0, "<I")
    if index >= len(codes):
        raise ModelError("is damaged: an operator has a kind that the file does not list; export it again")
    code = max(codes[index].value(0, "<b"), codes[index].value(3, "<i"))
    if code == _CUSTOM:
        custom = codes[index].bytes(1, 60).decode("utf-8", "replace")
        return f"custom operator {''.join(c if c.isprintable() else '?' for c in custom)}"
    return NAMES[code] if 0 <= code < len(NAMES) else f"operator {code}"


def _type(tensor: Table) -> str:
    code = tensor.value(1, "<b")
    return TYPES.get(code, f"type {code}")
