"""What a file holds, for `stowplan inspect`: works for every file that parses, convertible or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.model import Model
from stowplan.plugins.kinds import Description, OperatorFact
from stowplan_importer_tflite.binding import stated_shape
from stowplan_importer_tflite.convert import Converted, check_order, convert
from stowplan_importer_tflite.load import general_reasons, unique_names, whole
from stowplan_importer_tflite.parse import FileSubgraph, FileTensor, parse, reading
from stowplan_importer_tflite.prepare import SHIFT, number
from stowplan_importer_tflite.schema import VERSION
from stowplan_importer_tflite.site import Conversion

LARGEST_SHOWN = 3


def describe(model: Model) -> Description:
    """Return the facts about the first subgraph. Raises `ModelError` when the file does not parse."""
    with reading(model.name):
        file = whole(parse(model))
    main = file.subgraphs[0]
    names = unique_names(main)
    wrong = check_order(main)
    with reading(model.name):
        converted = convert(file.subgraphs, {tensor: main.tensors[tensor].bound for tensor in main.inputs})
    constants = {t: main.tensors[t] for operator in main.operators for t in operator.inputs if t >= 0}
    return Description(
        format="tflite",
        version=str(VERSION),
        inputs=tuple((names[t], stated_shape(main.tensors[t]), main.tensors[t].dtype) for t in main.inputs),
        outputs=tuple((names[t], stated_shape(main.tensors[t]), main.tensors[t].dtype) for t in main.outputs),
        operators=tuple(_fact(main, converted, i) for i, o in enumerate(main.operators) if o.kind != SHIFT),
        subgraph_count=len(file.subgraphs),
        weight_bytes=sum({tensor.buffer: _constant_bytes(tensor) for tensor in constants.values()}.values()),
        quantization=Counter(_quantized(tensor) for tensor in main.tensors),
        signatures=tuple(signature.key for signature in file.signatures),
        reasons=(*([wrong] if wrong else []), *general_reasons(file)),
        largest=_largest(main, names, converted),
    )


def _largest(
    main: FileSubgraph, names: Sequence[str], converted: Converted
) -> tuple[tuple[str, tuple[int, ...], str, int], ...]:
    """Return the largest activations, with the shapes that lowering made out."""
    written = dict.fromkeys([*main.inputs, *(t for operator in main.operators for t in operator.outputs)])
    sizes = {
        t: prod(converted.shapes[t]) * SIZE_BYTES.get(main.tensors[t].dtype, 0)
        for t in written
        if t not in converted.known
    }
    most = sorted(sizes, key=lambda t: -sizes[t])[:LARGEST_SHOWN]
    return tuple((names[t], converted.shapes[t], main.tensors[t].dtype, sizes[t]) for t in most if sizes[t] > 0)


def _fact(main: FileSubgraph, converted: Converted, index: int) -> OperatorFact:
    operator = main.operators[index]
    outputs = [main.tensors[t] for t in operator.outputs]
    inputs = {t: main.tensors[t] for t in operator.inputs if t >= 0}
    return OperatorFact(
        index=number(main, index),
        kind=operator.kind,
        name=outputs[0].name if outputs else "",
        outputs=tuple((stated_shape(tensor), tensor.dtype) for tensor in outputs),
        weight_bytes=sum(_constant_bytes(tensor) for tensor in inputs.values()),
        macs=_macs(converted, index),
        reason=converted.refusals.get(index, "")
        or ("follows an unsupported operator" if index in converted.refusals else ""),
    )


def _macs(converted: Converted, index: int) -> int:
    """Return how many products are added up: of weights with inputs, or of two matrices; 0 for all else."""
    return sum(_products(converted, step) for step in converted.conversions.get(index, ()))


def _products(converted: Converted, step: Conversion) -> int:
    shapes = [converted.shapes[tensor] for tensor in step.inputs if tensor >= 0]
    if step.kind in ("conv_2d", "fully_connected"):
        return prod(step.shape) * prod(shapes[1][1:])
    if step.kind == "depthwise_conv_2d":
        return prod(step.shape) * prod(shapes[1][:-1])
    if step.kind == "transpose_conv_2d":
        return prod(shapes[0]) * prod(shapes[1][:-1])
    if step.kind == "batch_matmul":
        return prod(step.shape) * shapes[0][-2 if step.attributes["adjoint_x"] else -1]
    if step.kind in ("svdf_state", "svdf_output"):
        return shapes[0][0] * prod(shapes[1])
    if step.kind == "lstm":  # of each gate the weights of inputs, of outputs, and a bias
        batch, time = shapes[0][:2]
        return batch * time * sum(prod(shape) for shape in shapes[3:] if len(shape) == 2)
    return 0


def _constant_bytes(tensor: FileTensor) -> int:
    return 0 if tensor.data is None else len(tensor.data)


def _quantized(tensor: FileTensor) -> str:
    scales = len(tensor.quantization.scales)
    if tensor.dtype.startswith("float") or not scales:
        return tensor.dtype
    return f"{tensor.dtype} per {'tensor' if scales == 1 else 'channel'}"
