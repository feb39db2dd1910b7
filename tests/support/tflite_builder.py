"""Writes .tflite files for tests and examples: tensors, operators with any options, signatures; nothing is checked.

Uses the schema module of `ai-edge-litert`, so files come from other code than the reader under test.

    model = ModelBuilder()
    x = model.input("x", (1, 8, 8, 1), "int8", scale=0.1)
    w = model.constant("w", weights, scale=[0.1, 0.2], axis=0)
    y = model.tensor("y", (1, 8, 8, 2), "int8", scale=0.3, zero_point=-5)
    model.operator("CONV_2D", [x, w, -1], [y], padding="SAME", stride_h=1, stride_w=1, fused_activation_function="RELU")
    data = model.outputs(y).build()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

Scales = float | Sequence[float] | None

OPTIONS = {
    "CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions", "ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions",
    "DIV": "DivOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions", "MAX_POOL_2D": "Pool2DOptions", "L2_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions", "SUM": "ReducerOptions", "REDUCE_MAX": "ReducerOptions", "SOFTMAX": "SoftmaxOptions",
    "RESHAPE": "ReshapeOptions", "PAD": "PadOptions", "PADV2": "PadV2Options", "CONCATENATION": "ConcatenationOptions",
    "QUANTIZE": "QuantizeOptions", "DEQUANTIZE": "DequantizeOptions", "LEAKY_RELU": "LeakyReluOptions",
    "TRANSPOSE": "TransposeOptions", "STRIDED_SLICE": "StridedSliceOptions", "HARD_SWISH": "HardSwishOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions", "SQUEEZE": "SqueezeOptions", "SPLIT": "SplitOptions",
    "PACK": "PackOptions", "VAR_HANDLE": "VarHandleOptions", "READ_VARIABLE": "ReadVariableOptions",
    "ASSIGN_VARIABLE": "AssignVariableOptions", "CALL_ONCE": "CallOnceOptions", "GATHER": "GatherOptions",
    "IF": "IfOptions", "WHILE": "WhileOptions",
}  # fmt: skip
"""The options table of each operator that has one; others can be given with `options=`."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "Conv2DOptions": {"strideH": 1, "strideW": 1},
    "DepthwiseConv2DOptions": {"strideH": 1, "strideW": 1, "depthMultiplier": 1},
    "Pool2DOptions": {"strideH": 1, "strideW": 1, "filterHeight": 1, "filterWidth": 1},
    "SoftmaxOptions": {"beta": 1.0},
}
"""Where the schema's own default makes no working operator."""


class ModelBuilder:
    """Collects one subgraph (more through `subgraph()`), then `build()` returns the file's bytes.

    Methods that add a tensor return its index, which operators name; -1 is an input that is left out.
    """

    def __init__(self, description: str = "stowplan test model") -> None:
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = description
        self.model.operatorCodes = []
        self.model.buffers = [_Buffer()]
        self.model.subgraphs = []
        self.model.signatureDefs = []
        self.model.metadata = []
        self._codes: dict[tuple[int, str, int], int] = {}
        self.subgraph("main")

    def subgraph(self, name: str) -> int:
        """Start another subgraph; what is added from now on belongs to it. Returns its index."""
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators, graph.inputs, graph.outputs = name, [], [], [], []
        self.model.subgraphs.append(graph)
        return len(self.model.subgraphs) - 1

    @property
    def current(self) -> Any:
        return self.model.subgraphs[-1]

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "int8",
        *,
        scale: Scales = None,
        zero_point: int | Sequence[int] = 0,
        axis: int = 0,
        data: bytes | None = None,
        shape_signature: Sequence[int] | None = None,
        is_variable: bool = False,
    ) -> int:
        """Add a tensor. `scale` is a number, or one per slice along `axis`; `shape_signature` has -1 where free."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), getattr(schema.TensorType, dtype.upper())
        tensor.shapeSignature = list(shape_signature) if shape_signature is not None else None
        tensor.isVariable = is_variable
        tensor.hasRank = True
        tensor.quantization = _quantization(scale, zero_point, axis)
        tensor.buffer = 0
        if data is not None:
            tensor.buffer = self.buffer(data)
        self.current.tensors.append(tensor)
        return len(self.current.tensors) - 1

    def buffer(self, data: bytes) -> int:
        """Add a buffer and return its index; two constants may share one by setting `TensorT.buffer`."""
        buffer = _Buffer()
        buffer.data = data
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def input(self, name: str, shape: Sequence[int], dtype: str = "int8", **more: Any) -> int:
        """Add a tensor that is an input of the subgraph."""
        index = self.tensor(name, shape, dtype, **more)
        self.current.inputs.append(index)
        return index

    def constant(self, name: str, array: Any, **more: Any) -> int:
        """Add a constant; shape and dtype are those of the numpy array."""
        values = np.ascontiguousarray(array)
        shape = np.shape(array)  # ascontiguousarray makes a scalar one-dimensional
        return self.tensor(name, shape, str(values.dtype), data=values.tobytes(), **more)

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        options: str | None = None,
        version: int = 1,
        custom_code: str = "",
        custom_options: bytes | None = None,
        **fields: Any,
    ) -> int:
        """Add an operator. Keywords are fields of its options table in snake case; enums may be given as words.

        `options` names another table ("NONE" for no table at all). Returns the operator's index.
        """
        operator = schema.OperatorT()
        operator.opcodeIndex = self._code(kind, custom_code, version)
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        operator.customOptions = None if custom_options is None else list(custom_options)
        table = options or OPTIONS.get(kind, "NONE")
        if table != "NONE":
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            operator.builtinOptions = _options(table, fields)
        elif fields:
            raise TypeError(f"{kind} has no options table, but was given {sorted(fields)}")
        self.current.operators.append(operator)
        return len(self.current.operators) - 1

    def outputs(self, *tensors: int) -> ModelBuilder:
        """Set the outputs of the subgraph."""
        self.current.outputs = list(tensors)
        return self

    def signature(
        self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int], subgraph: int = 0
    ) -> ModelBuilder:
        """Add a signature: argument names to tensor indices."""
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = key, subgraph
        signature.inputs = [_argument(name, tensor) for name, tensor in inputs.items()]
        signature.outputs = [_argument(name, tensor) for name, tensor in outputs.items()]
        self.model.signatureDefs.append(signature)
        return self

    def build(self) -> bytes:
        """Return the file; the builder can go on afterwards."""
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _code(self, kind: str, custom_code: str, version: int) -> int:
        number = getattr(schema.BuiltinOperator, kind)
        key = (number, custom_code, version)
        if key not in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.version = number, version
            code.deprecatedBuiltinCode = min(number, schema.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)
            code.customCode = custom_code or None
            self._codes[key] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(code)
        return self._codes[key]


class _Buffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose data lie at a multiple of 16 bytes, as converters write them and runtimes expect."""

    def Pack(self, builder: Any) -> Any:  # noqa: N802  (the schema module's name)
        vector = None
        if self.data is not None:
            vector = _aligned(builder, self.data)
        schema.BufferStart(builder)
        if vector is not None:
            schema.BufferAddData(builder, vector)
        if self.offset:
            schema.BufferAddOffset(builder, self.offset)
            schema.BufferAddSize(builder, self.size)
        return schema.BufferEnd(builder)


def _aligned(builder: Any, data: bytes) -> Any:
    builder.StartVector(1, len(data), 16)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return builder.EndVector()


def _quantization(scale: Scales, zero_point: int | Sequence[int], axis: int) -> Any:
    quantization = schema.QuantizationParametersT()
    if scale is None:
        return quantization
    scales = [scale] if isinstance(scale, (int, float)) else list(scale)
    points = [zero_point] * len(scales) if isinstance(zero_point, int) else list(zero_point)
    quantization.scale, quantization.zeroPoint = [float(s) for s in scales], [int(p) for p in points]
    quantization.quantizedDimension = axis
    return quantization


def _options(table: str, fields: Mapping[str, Any]) -> Any:
    options = getattr(schema, table + "T")()
    for field, value in DEFAULTS.get(table, {}).items():
        setattr(options, field, value)
    for name, value in fields.items():
        field = _camel(name)
        if not hasattr(options, field):
            raise TypeError(f"{table} has no field {field}")
        setattr(options, field, _enum(name, value))
    return options


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    special = {"stride_h": "strideH", "stride_w": "strideW"}
    return special.get(name, first + "".join(word.capitalize() for word in rest))


def _enum(name: str, value: Any) -> Any:
    if name == "padding" and isinstance(value, str):
        return getattr(schema.Padding, value)
    if name == "fused_activation_function" and isinstance(value, str):
        return getattr(schema.ActivationFunctionType, value)
    return value


def _argument(name: str, tensor: int) -> Any:
    argument = schema.TensorMapT()
    argument.name, argument.tensorIndex = name, tensor
    return argument
