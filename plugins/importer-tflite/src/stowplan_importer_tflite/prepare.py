"""Brings a parsed file into the shape that lowering expects: int8 throughout, weights a byte each.

Legacy uint8 becomes int8 by flipping the
highest bit, which moves every number and every zero point down by 128 and so leaves each real number as it is; only
the model's own inputs and outputs stay uint8. Weights of 4 bits are widened to 8. Sparse weights are filled up.
"""

from __future__ import annotations

from stowplan_importer_tflite.parse import FileModel, FileOperator, FileQuantization, FileSubgraph, FileTensor
from stowplan_importer_tflite.sparse import filled

SHIFT = "SHIFT_UINT8"
"""Stands for the change between uint8 and int8 at the border of the model; no file has it."""
FLIP = bytes(byte ^ 0x80 for byte in range(256))


def prepare(file: FileModel) -> FileModel:
    """Return the file with its first subgraph prepared; the others stay, for what refers to them by number."""
    main = file.subgraphs[0]
    shifted, renamed = _without_uint8(main._replace(tensors=tuple(_widened(_filled(t)) for t in main.tensors)))
    signatures = tuple(
        s._replace(
            inputs=tuple((name, renamed.get(t, t)) for name, t in s.inputs),
            outputs=tuple((name, renamed.get(t, t)) for name, t in s.outputs),
        )
        if s.subgraph == 0
        else s
        for s in file.signatures
    )
    return file._replace(subgraphs=(shifted, *file.subgraphs[1:]), signatures=signatures)


def number(main: FileSubgraph, index: int) -> int:
    """Return an operator's number among those of the file, as messages count them."""
    return index - sum(operator.kind == SHIFT for operator in main.operators[:index])


def _filled(tensor: FileTensor) -> FileTensor:
    """Return sparse weights with their zeros."""
    if tensor.sparsity is None or tensor.data is None or tensor.dtype == "int4":
        return tensor
    data = filled(bytes(tensor.data), tensor.shape, tensor.dtype, tensor.sparsity)
    return tensor._replace(data=memoryview(data), sparse=False, sparsity=None, buffer=-1)


def _widened(tensor: FileTensor) -> FileTensor:
    """Return a constant of 4-bit numbers as one of int8; the lower half of a byte comes first."""
    if tensor.dtype != "int4" or tensor.data is None or tensor.sparse:
        return tensor
    data = bytes(tensor.data)
    size = 1
    for n in tensor.shape:
        size *= n
    if size < 0 or (size + 1) // 2 != len(data):
        return tensor
    wide = b"".join(NIBBLES[byte] for byte in data)[:size]
    return tensor._replace(dtype="int8", data=memoryview(wide), buffer=-1)


NIBBLES = [bytes(((half ^ 8) - 8) & 0xFF for half in (byte & 15, byte >> 4)) for byte in range(256)]


def _without_uint8(main: FileSubgraph) -> tuple[FileSubgraph, dict[int, int]]:
    """Return the subgraph in int8, and the tensors that take the place of its uint8 inputs and outputs."""
    legacy = {i for i, t in enumerate(main.tensors) if t.dtype == "uint8" and len(t.quantization.scales) == 1}
    if not legacy:
        return main, {}
    tensors = [_flipped(t) if i in legacy else t for i, t in enumerate(main.tensors)]
    renamed: dict[int, int] = {}
    before: list[FileOperator] = []
    after: list[FileOperator] = []
    for position, index in enumerate((*main.inputs, *main.outputs)):
        if index not in legacy or index in renamed:
            continue
        renamed[index] = len(tensors)
        tensors.append(main.tensors[index])
        tensors[index] = tensors[index]._replace(name=f"{tensors[index].name}_int8")
        entering = position < len(main.inputs)
        pair = (renamed[index], index) if entering else (index, renamed[index])
        (before if entering else after).append(FileOperator(SHIFT, pair[:1], pair[1:], 0, None))
    return (
        main._replace(
            tensors=tuple(tensors),
            operators=(*before, *main.operators, *after),
            inputs=tuple(renamed.get(t, t) for t in main.inputs),
            outputs=tuple(renamed.get(t, t) for t in main.outputs),
        ),
        renamed,
    )


def _flipped(tensor: FileTensor) -> FileTensor:
    """Return a uint8 tensor as int8 with the same real numbers."""
    found = tensor.quantization
    points = tuple(point - 128 for point in found.zero_points) if found.zero_points else (-128,)
    quantization = FileQuantization(found.scales, points, found.axis, found.details)
    data = None if tensor.data is None else memoryview(bytes(tensor.data).translate(FLIP))
    return tensor._replace(dtype="int8", quantization=quantization, data=data, buffer=-1 if data else tensor.buffer)
