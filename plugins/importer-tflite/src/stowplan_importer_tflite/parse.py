"""From a file's bytes to plain records: every index checked, nothing judged yet about what operators mean.

Records are named tuples here, since making a dataclass takes ten times as long and this runs at every start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stowplan.errors import ModelError
from stowplan.flow.model import Model
from stowplan.nouns import NamedTuple
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.flatbuffer import Buffer, Damaged, Table

MAX_RANK = 8


class FileQuantization(NamedTuple):
    """Quantization as the file has it. `details` is set for schemes beyond scale and zero point."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    details: bool


class FileTensor(NamedTuple):
    """`signature` is the shape with -1 for free dimensions, where the file has one; `data` is None without a buffer."""

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    dtype: str
    buffer: int
    data: memoryview | None
    quantization: FileQuantization
    variable: bool
    sparse: bool
    external: bool
    sparsity: Table | None = None

    @property
    def free(self) -> tuple[bool, ...]:
        """Say of each dimension whether the file leaves it open."""
        signature = self.signature if len(self.signature) == len(self.shape) else self.shape
        return tuple(size < 1 or stated < 0 for size, stated in zip(self.shape, signature, strict=True))

    @property
    def bound(self) -> tuple[int, ...]:
        """The shape with free dimensions bound to 1."""
        return tuple(1 if free else size for size, free in zip(self.shape, self.free, strict=True))


class FileOperator(NamedTuple):
    """`kind` is the builtin's name, or CUSTOM:code. `options` is None where the file has none.

    `options_2` is where operators that came late to the schema have theirs, `custom` where custom operators do.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options_type: int
    options: Table | None
    options_2: Table | None = None
    custom: memoryview = memoryview(b"")


class FileSubgraph(NamedTuple):
    name: str
    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class FileSignature(NamedTuple):
    """Pairs of (argument name, tensor of the subgraph)."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


class FileModel(NamedTuple):
    description: str
    subgraphs: tuple[FileSubgraph, ...]
    signatures: tuple[FileSignature, ...]


def parse(model: Model) -> FileModel:
    """Read a file. Raises `ModelError` when it is damaged or not a TensorFlow Lite model."""
    if model.data[4:8] != schema.IDENTIFIER:
        raise ModelError(f"{model.name}: not a TensorFlow Lite model (the bytes TFL3 are missing at byte 4)")
    with reading(model.name):
        return _model(Buffer(model.data))


@contextmanager
def reading(model_name: str) -> Iterator[None]:
    """Turn damage into a `ModelError`, wherever it is met: options of operators are read when these are converted."""
    try:
        yield
    except Damaged as err:
        raise ModelError(f"{model_name}: damaged: {err}. Export or download the model again") from err


def _model(buffer: Buffer) -> FileModel:
    root = buffer.root()
    version = root.integer(schema.ModelField.VERSION, "I")
    if version != schema.VERSION:
        raise Damaged(f"schema version {version}, only {schema.VERSION} exists in the field")
    codes = [_kind(code) for code in root.tables(schema.ModelField.OPERATOR_CODES)]
    buffers = [_data(buffer, table) for table in root.tables(schema.ModelField.BUFFERS)]
    subgraphs = tuple(_subgraph(table, codes, buffers) for table in root.tables(schema.ModelField.SUBGRAPHS))
    if not subgraphs:
        raise Damaged("no subgraph, so there is nothing to run")
    signatures = tuple(_signature(table, subgraphs) for table in root.tables(schema.ModelField.SIGNATURES))
    return FileModel(description=root.text(schema.ModelField.DESCRIPTION), subgraphs=subgraphs, signatures=signatures)


def _kind(code: Table) -> str:
    # Codes above 127 do not fit the old field, which files of both ages carry: the larger of the two is meant.
    number = max(code.integer(schema.CodeField.OLD_CODE, "b"), code.integer(schema.CodeField.CODE))
    if number == schema.CUSTOM:
        return f"CUSTOM:{code.text(schema.CodeField.CUSTOM_CODE)}"
    return schema.OPERATORS[number] if 0 <= number < len(schema.OPERATORS) else f"OPERATOR_{number}"


def _data(buffer: Buffer, table: Table) -> memoryview:
    """Return a buffer's bytes, which lie in its vector or, in large files, behind the FlatBuffer."""
    offset, size = (table.integer(number, "Q") for number in (schema.BufferField.OFFSET, schema.BufferField.SIZE))
    if offset > 1:
        buffer.take(offset, size)
        return memoryview(buffer.data)[offset : offset + size]
    return table.blob(schema.BufferField.DATA)


def _subgraph(table: Table, codes: Sequence[str], buffers: Sequence[memoryview]) -> FileSubgraph:
    tensors = tuple(_tensor(t, buffers) for t in table.tables(schema.SubgraphField.TENSORS))
    operators = tuple(
        _operator(t, index, codes, len(tensors)) for index, t in enumerate(table.tables(schema.SubgraphField.OPERATORS))
    )
    inputs = table.integers(schema.SubgraphField.INPUTS)
    outputs = table.integers(schema.SubgraphField.OUTPUTS)
    _check_indices("the list of inputs", inputs, len(tensors))
    _check_indices("the list of outputs", outputs, len(tensors))
    name = table.text(schema.SubgraphField.NAME)
    return FileSubgraph(name=name, tensors=tensors, operators=operators, inputs=inputs, outputs=outputs)


def _tensor(table: Table, buffers: Sequence[memoryview]) -> FileTensor:
    name = table.text(schema.TensorField.NAME)
    shape = table.integers(schema.TensorField.SHAPE)
    if len(shape) > MAX_RANK or any(size < -1 for size in shape):
        raise Damaged(f"tensor {shown(name)}: shape {shape[:MAX_RANK]} (rank {len(shape)}) cannot be")
    kind = table.integer(schema.TensorField.TYPE, "b")
    buffer = table.integer(schema.TensorField.BUFFER, "I")
    if buffer and buffer >= len(buffers):
        raise Damaged(f"tensor {shown(name)}: buffer {buffer} of {len(buffers)}")
    data = buffers[buffer] if buffer < len(buffers) else None
    return FileTensor(
        name=name,
        shape=shape,
        signature=table.integers(schema.TensorField.SHAPE_SIGNATURE),
        dtype=schema.TENSOR_TYPES[kind] if 0 <= kind < len(schema.TENSOR_TYPES) else f"type_{kind}",
        buffer=buffer,
        data=data if data else None,
        quantization=_quantization(table.table(schema.TensorField.QUANTIZATION)),
        variable=table.flag(schema.TensorField.IS_VARIABLE),
        sparse=table.has(schema.TensorField.SPARSITY),
        sparsity=table.table(schema.TensorField.SPARSITY),
        external=table.integer(schema.TensorField.EXTERNAL_BUFFER, "I") != 0,
    )


def _quantization(table: Table | None) -> FileQuantization:
    if table is None:
        return FileQuantization(scales=(), zero_points=(), axis=0, details=False)
    return FileQuantization(
        scales=table.numbers(schema.QuantizationField.SCALE, "f"),
        zero_points=table.integers(schema.QuantizationField.ZERO_POINT, "q"),
        axis=table.integer(schema.QuantizationField.AXIS),
        details=table.integer(schema.QuantizationField.DETAILS_TYPE, "B") != 0,
    )


def _operator(table: Table, index: int, codes: Sequence[str], tensors: int) -> FileOperator:
    code = table.integer(schema.OperatorField.CODE, "I")
    if code >= len(codes):
        raise Damaged(f"operator {index}: code {code} of {len(codes)}")
    inputs, outputs = table.integers(schema.OperatorField.INPUTS), table.integers(schema.OperatorField.OUTPUTS)
    _check_indices(f"the inputs of operator {index}", inputs, tensors, least=-1)
    _check_indices(f"the outputs of operator {index}", outputs, tensors)
    return FileOperator(
        kind=codes[code],
        inputs=inputs,
        outputs=outputs,
        options_type=table.integer(schema.OperatorField.OPTIONS_TYPE, "B"),
        options=table.table(schema.OperatorField.OPTIONS),
        options_2=table.table(schema.OperatorField.OPTIONS_2),
        custom=table.blob(schema.OperatorField.CUSTOM_OPTIONS),
    )


def _signature(table: Table, subgraphs: Sequence[FileSubgraph]) -> FileSignature:
    key, subgraph = table.text(schema.SignatureField.KEY), table.integer(schema.SignatureField.SUBGRAPH, "I")
    if subgraph >= len(subgraphs):
        raise Damaged(f"signature {shown(key)}: subgraph {subgraph} of {len(subgraphs)}")
    inputs, outputs = (
        tuple(
            (argument.text(schema.ArgumentField.NAME), argument.integer(schema.ArgumentField.TENSOR, "I"))
            for argument in table.tables(number)
        )
        for number in (schema.SignatureField.INPUTS, schema.SignatureField.OUTPUTS)
    )
    _check_indices(f"signature {shown(key)}", [t for _, t in (*inputs, *outputs)], len(subgraphs[subgraph].tensors))
    return FileSignature(key=key, subgraph=subgraph, inputs=inputs, outputs=outputs)


def _check_indices(where: str, indices: Sequence[int], tensors: int, least: int = 0) -> None:
    for index in indices:
        if not least <= index < tensors:
            raise Damaged(f"{where}: there is no tensor {index} among {tensors}")


def shown(name: str) -> str:
    """Return a name from a file, in quotes and short enough for a message."""
    return f'"{name}"' if len(name) <= 80 else f'"{name[:77]}..."'


def spelled(shape: Sequence[int]) -> str:
    """Return a shape as people write it: 1x96x96x3, with ? for what is free."""
    return "x".join("?" if size < 0 else str(size) for size in shape) or "scalar"
