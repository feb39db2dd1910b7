"""Walks the operators of a subgraph in order: shapes from the inputs on, and each operator converted or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.build.fold import Folding, Known, fold
from stowplan.flow.graph import Quantization
from stowplan.nouns import NamedTuple, dataclass, field
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.lower import LOWERINGS, MANY_OUTPUTS, unsupported
from stowplan_importer_tflite.parse import FileOperator, FileSubgraph, FileTensor, shown, spelled
from stowplan_importer_tflite.site import (
    ANYTHING,
    Conversion,
    Mismatch,
    Refusal,
    Site,
    Value,
    check_activation,
    check_size,
    resolve,
)
from stowplan_importer_tflite.variables import RESOURCE_KINDS, Kept, Variables, final


class Converted(NamedTuple):
    """`conversions` and `refusals` by operator index; `shapes` of all tensors, as computed where that was possible.

    Each conversion names its output. `known` are the bytes of tensors that were computed here, `added` the tensors
    that the file does not have, numbered from the file's last one on, `kept` what runs leave to each other.
    """

    conversions: Mapping[int, tuple[Conversion, ...]]
    refusals: Mapping[int, str]
    shapes: Sequence[tuple[int, ...]]
    known: Mapping[int, bytes]
    added: Sequence[Value]
    kept: Sequence[Kept]


@dataclass
class Walk:
    """What is known so far. `trusted` says that the file's shapes were made for these input shapes."""

    subgraph: FileSubgraph
    subgraphs: Sequence[FileSubgraph]
    trusted: bool
    shapes: list[tuple[int, ...]]
    broken: set[int] = field(default_factory=set)
    known: dict[int, bytes] = field(default_factory=dict)
    added: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.variables = Variables(self.subgraphs, self.new)

    def value(self, index: int) -> Value | None:
        if index < 0:
            return None
        if index < len(self.subgraph.tensors) and self.subgraph.tensors[index].variable:
            index = self.variables.tensor(index, self.subgraph.tensors[index])
        if index >= len(self.subgraph.tensors):
            value = self.added[index - len(self.subgraph.tensors)]
        else:
            value = resolve(index, self.subgraph.tensors[index], self.shapes[index], index in self.broken)
        data = self.known.get(index)
        return value if data is None else value._replace(data=memoryview(data))

    def new(
        self, shape: tuple[int, ...], dtype: str, quantization: Quantization | None = None, data: bytes | None = None
    ) -> Value:
        """Add a tensor that the file does not have."""
        index = len(self.subgraph.tensors) + len(self.added)
        known = None if data is None else memoryview(data)
        check_size(f"inner_{index}", shape, dtype)
        self.added.append(Value(index, f"inner_{index}", shape, dtype, quantization, known))
        self.shapes.append(shape)
        if data is not None:
            self.known[index] = data
        return self.added[-1]

    def unknown(self, value: Value) -> bool:
        """Say that nobody knows a tensor's shape: no operator computed it, and the file leaves it open."""
        return value.broken and not (self.trusted and not any(self.subgraph.tensors[value.tensor].free))


def convert(subgraphs: Sequence[FileSubgraph], input_shapes: Mapping[int, tuple[int, ...]]) -> Converted:
    """Convert all operators of the first subgraph, given the shapes of its inputs by tensor index."""
    subgraph = subgraphs[0]
    written = {*subgraph.inputs, *(tensor for operator in subgraph.operators for tensor in operator.outputs)}
    # Nothing to bind in a constant, which an empty list (of axes, or a scalar's dimensions) is without having bytes.
    shapes = [input_shapes.get(i, t.bound if i in written else t.shape) for i, t in enumerate(subgraph.tensors)]
    trusted = all(shape == subgraph.tensors[i].bound for i, shape in input_shapes.items())
    walk = Walk(subgraph=subgraph, subgraphs=subgraphs, trusted=trusted, shapes=shapes)
    conversions: dict[int, tuple[Conversion, ...]] = {}
    refusals: dict[int, str] = {}
    for index, operator in enumerate(subgraph.operators):
        try:
            conversions[index] = _convert(walk, operator)
        except Refusal as refusal:
            refusals[index] = str(refusal)
            walk.broken.update(operator.outputs)
    for kept in walk.variables.kept.values():
        if kept.after == kept.before:  # never changed: a constant
            walk.known[kept.before] = kept.initial
    kept_states = final(walk.variables.kept)
    for index in _unread(subgraph, conversions, refusals, {kept.after for kept in kept_states}):
        conversions[index] = ()
        del refusals[index]
    return Converted(conversions, refusals, shapes, walk.known, walk.added, kept_states)


def _unread(
    subgraph: FileSubgraph,
    conversions: Mapping[int, tuple[Conversion, ...]],
    refusals: Mapping[int, str],
    kept: set[int],
) -> list[int]:
    """Return the refused operators on which no output depends and that change nothing a run leaves to the next."""
    wanted, dead = {*subgraph.outputs, *kept}, []
    for index in reversed(range(len(subgraph.operators))):
        operator = subgraph.operators[index]
        if index not in refusals:
            for step in reversed(conversions[index]):
                if step.output in wanted:
                    wanted.update(step.inputs)
            continue
        lasting = operator.kind in RESOURCE_KINDS or not operator.outputs
        lasting |= any(t >= 0 and subgraph.tensors[t].variable for t in (*operator.inputs, *operator.outputs))
        if lasting or not wanted.isdisjoint(operator.outputs):
            wanted.update(operator.inputs)
        else:
            dead.append(index)
    return dead


def _variable(walk: Walk, operator: FileOperator) -> tuple[Conversion, ...]:
    """Follow what happens to resource variables; reading one is another name for the tensor it holds."""
    counts = {"VAR_HANDLE": (0, 1), "READ_VARIABLE": (1, 1), "ASSIGN_VARIABLE": (2, 0), "CALL_ONCE": (0, 0)}
    if (len(operator.inputs), len(operator.outputs)) != counts[operator.kind]:
        raise Refusal(f"{len(operator.inputs)} inputs and {len(operator.outputs)} outputs")
    if operator.kind == "VAR_HANDLE":
        walk.variables.handle(operator)
    elif operator.kind == "CALL_ONCE":
        walk.variables.once(operator)
    elif operator.kind == "ASSIGN_VARIABLE":
        value = walk.value(operator.inputs[1])
        assert value is not None
        if value.broken:
            raise Refusal("")
        walk.variables.assign(operator.inputs[0], value)
    else:
        output = walk.value(operator.outputs[0])
        assert output is not None
        check_activation(output, ANYTHING)
        tensor = walk.variables.read(operator.inputs[0], output)
        step = Conversion("reshape", (tensor,), output.shape, output=output.tensor)
        return () if _settled(walk, step) else (step,)
    return ()


def _convert(walk: Walk, operator: FileOperator) -> tuple[Conversion, ...]:
    if operator.kind in RESOURCE_KINDS:
        return _variable(walk, operator)
    lowering = LOWERINGS.get(operator.kind)
    if lowering is None:
        raise Refusal(unsupported.reason(operator.kind))
    expected = schema.OPTIONS.get(operator.kind, 0)
    if expected and operator.options is not None and operator.options_type != expected:
        raise Refusal(f"its options are those of another operator (type {operator.options_type})")
    if not operator.outputs or (len(operator.outputs) > 1 and operator.kind not in MANY_OUTPUTS):
        raise Refusal(f"{len(operator.outputs)} outputs where 1 is defined")
    for index in operator.outputs:
        if walk.subgraph.tensors[index].variable:
            raise Refusal(f"its output {shown(walk.subgraph.tensors[index].name)} keeps state between runs")
    inputs = tuple(walk.value(i) for i in operator.inputs)
    outputs = tuple(value for value in map(walk.value, operator.outputs) if value is not None)

    def keep(position: int, value: Value) -> None:
        index = operator.inputs[position]
        if not (0 <= index < len(walk.subgraph.tensors) and walk.subgraph.tensors[index].variable):
            raise Refusal(f"input {position} should keep state between runs")
        walk.variables.change(index, value)

    site = Site(operator.kind, inputs, outputs[0], operator.options, outputs, walk.new, keep, operator.custom)
    try:
        found = lowering(site)
        steps = tuple(_with_output(step, outputs[0]) for step in ((found,) if isinstance(found, Conversion) else found))
        return tuple(step for step in steps if not _settled(walk, step))
    except Mismatch:
        if any(value is not None and walk.unknown(value) for value in inputs):
            raise Refusal("") from None
        raise


def _with_output(step: Conversion, first: Value) -> Conversion:
    return step if step.output is not None else step._replace(output=first.tensor)


def _settled(walk: Walk, step: Conversion) -> bool:
    """Note the shape of a step's output; say whether its value is known, so that nothing is left to run."""
    assert step.output is not None
    if step.output < len(walk.subgraph.tensors):
        _check_shape(walk.subgraph.tensors[step.output], step.shape, walk.trusted)
        walk.shapes[step.output] = step.shape
    if step.kind == "constant":
        assert step.data is not None
        walk.known[step.output] = step.data
        return True
    inputs = [walk.value(index) for index in step.inputs if index >= 0]
    known = [v for v in inputs if v is not None and (v.data is not None or not v.elements)]
    if len(known) < len(step.inputs):
        return False
    output = walk.value(step.output)
    assert output is not None
    operands = [Known(v.shape, v.dtype, v.data or b"", v.quantization) for v in known]
    result = Known(step.shape, output.dtype, b"", output.quantization)
    data = fold(Folding(step.kind, step.attributes, operands, result))
    if data is None:
        raise Refusal("all inputs are constants, which is not supported here; fold them before the export")
    walk.known[step.output] = data
    return True


def _check_shape(tensor: FileTensor, computed: tuple[int, ...], trusted: bool) -> None:
    check_size(tensor.name, computed, tensor.dtype)
    if 0 in computed and tensor.dtype not in ("int32", "int64"):
        raise Refusal(f"its output of shape {spelled(computed)} is empty")
    if not trusted or not tensor.shape:  # no shape at all is how files leave even the rank open
        return
    free = tensor.free
    if len(computed) != len(free) or any(
        size != stated and not open_ for size, stated, open_ in zip(computed, tensor.shape, free, strict=True)
    ):
        raise Mismatch(
            f"output {shown(tensor.name)} has shape {spelled(tensor.shape)} in the file, "
            f"the inputs make it {spelled(computed)}"
        )


def check_order(subgraph: FileSubgraph) -> str:
    """Return what is wrong with the order of operators, or nothing: read before written, or written twice."""
    written = set(subgraph.inputs)
    if len(written) != len(subgraph.inputs):
        return "a tensor is an input twice"
    for index in subgraph.inputs:
        if subgraph.tensors[index].data is not None:
            return f"input {shown(subgraph.tensors[index].name)} is a constant"
    for index, operator in enumerate(subgraph.operators):
        for tensor in operator.inputs if operator.kind in LOWERINGS else ():  # others may have scratch memory there
            if tensor >= 0 and tensor not in written and _needs_writing(subgraph.tensors[tensor]):
                name = shown(subgraph.tensors[tensor].name)
                return f"operator {index} ({operator.kind}) reads tensor {name} before it is written"
        for tensor in operator.outputs:
            if tensor in written or subgraph.tensors[tensor].data is not None:
                name = shown(subgraph.tensors[tensor].name)
                return f"operator {index} ({operator.kind}) writes tensor {name}, which has a value already"
            written.add(tensor)
    for tensor in subgraph.outputs:
        if tensor not in written and _needs_writing(subgraph.tensors[tensor]):
            return f"output {shown(subgraph.tensors[tensor].name)} is never written"
    return "" if subgraph.outputs else "it has no outputs"


def _needs_writing(tensor: FileTensor) -> bool:
    """An empty constant has no bytes either; and what a variable holds, or lies elsewhere, is refused by name later."""
    return tensor.data is None and 0 not in tensor.shape and not (tensor.variable or tensor.external)
