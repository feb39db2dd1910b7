"""From a parsed file to a graph: all refusals in one message, dead operators dropped, outputs made real."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from stowplan.errors import ModelError, UnsupportedError
from stowplan.flow.graph import ABSENT, Graph, Operator, Signature, State, Tensor
from stowplan.flow.model import Model
from stowplan.nouns import dataclass, field, replace
from stowplan_importer_tflite.binding import Binding, bind
from stowplan_importer_tflite.convert import Converted, check_order, convert
from stowplan_importer_tflite.inlining import inlined
from stowplan_importer_tflite.lower import LOWERINGS
from stowplan_importer_tflite.parse import FileModel, FileSubgraph, parse, reading, shown
from stowplan_importer_tflite.prepare import number, prepare
from stowplan_importer_tflite.site import ANYTHING, WAY_OUT, Conversion, Refusal, resolve

GROUPS_SHOWN = 12
INDICES_SHOWN = 8
SUPPORTED = (
    f"{len(LOWERINGS)} operators are supported, in int8, int16x8 and float32; stowplan inspect shows what converts"
)


def load(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the model's graph; see the Importer protocol for what is raised."""
    with reading(model.name):
        file = whole(parse(model))
    main = file.subgraphs[0]
    wrong = check_order(main)
    if wrong:
        raise ModelError(f"{model.name}: damaged: {wrong}. Convert the model again")
    names = unique_names(main)
    binding = bind(model.name, file, names, input_shapes)
    with reading(model.name):
        converted = convert(file.subgraphs, binding.shapes)
    refuse(model.name, file, converted, binding.advice)
    return _Assembly(main, names, converted).graph(PurePath(model.name).stem, file, binding)


def whole(file: FileModel) -> FileModel:
    """Return a file as lowering expects it, all in its first subgraph."""
    return prepare(inlined(file))


def other_entries(file: FileModel) -> list[str]:
    """Return a note for each signature whose subgraph is not the first one."""
    keys = [shown(signature.key) for signature in file.signatures if signature.subgraph != 0]
    return [f"signature {key} left out: it enters another subgraph than the first" for key in keys[:INDICES_SHOWN]]


def unique_names(subgraph: FileSubgraph) -> tuple[str, ...]:
    """Return a name for each tensor; where the file has none, or one twice, the index tells them apart."""
    names: list[str] = []
    taken: set[str] = set()
    for index, tensor in enumerate(subgraph.tensors):
        name = tensor.name or f"tensor_{index}"
        while name in taken:
            name = f"{name}_{index}"
        names.append(name)
        taken.add(name)
    return tuple(names)


def refuse(model_name: str, file: FileModel, converted: Converted, advice: str = "") -> None:
    """Raise `UnsupportedError` with everything that does not convert, and `advice`, if anything does not."""
    general = general_reasons(file)
    named = [(index, reason) for index, reason in converted.refusals.items() if reason]
    if not general and not converted.refusals:
        return
    operators = file.subgraphs[0].operators
    main = file.subgraphs[0]
    reasons = [*general, *(f"operator {number(main, i)} ({source(main, i)}): {reason}" for i, reason in named)]
    groups: dict[tuple[str, str], list[int]] = {}
    for index, reason in named:
        groups.setdefault((operators[index].kind, reason), []).append(index)
    lines = [*general, *(_group(file.subgraphs[0], found, reason) for (_, reason), found in groups.items())]
    more = [f"and {len(lines) - GROUPS_SHOWN} more"] if len(lines) > GROUPS_SHOWN else []
    raise UnsupportedError(f"{model_name}: {'; '.join(lines[:GROUPS_SHOWN] + more)}.{advice} {SUPPORTED}", reasons)


def general_reasons(file: FileModel) -> list[str]:
    """Return what is unsupported about the file as a whole."""
    reasons = []
    main = file.subgraphs[0]
    read = {tensor for operator in main.operators for tensor in operator.inputs}
    copied = [t for t in main.outputs if t in main.inputs or main.tensors[t].data is not None]
    kept = [t for t in (*main.inputs, *main.outputs) if main.tensors[t].variable]
    for tensor in dict.fromkeys([*(t for t in main.inputs if t not in read), *copied, *kept]):
        reason = _unusable(main, tensor)
        if reason:
            reasons.append(reason)
    return reasons


def _unusable(main: FileSubgraph, index: int) -> str:
    """Judge a tensor that no operator judges: an input nobody reads, or an output that is only passed on."""
    tensor = main.tensors[index]
    where = f"{'input' if index in main.inputs else 'output'} {shown(tensor.name)}"
    if tensor.dtype not in ANYTHING:
        return f"{where}: {WAY_OUT.get(tensor.dtype, f'{tensor.dtype}; int8 and float32 would be supported')}"
    try:
        resolve(index, tensor, tensor.bound, broken=False)
    except Refusal as refusal:
        return f"{where}: {refusal}"
    return ""


def source(subgraph: FileSubgraph, index: int) -> str:
    """Return how messages call an operator: its kind and, having no name of its own, its first output."""
    operator = subgraph.operators[index]
    name = subgraph.tensors[operator.outputs[0]].name if operator.outputs else ""
    return f"{operator.kind} {shown(name)}"


def _group(subgraph: FileSubgraph, indices: Sequence[int], reason: str) -> str:
    if len(indices) == 1:
        return f"operator {number(subgraph, indices[0])} ({source(subgraph, indices[0])}): {reason}"
    more = f" and {len(indices) - INDICES_SHOWN} more" if len(indices) > INDICES_SHOWN else ""
    listed = ", ".join(str(number(subgraph, index)) for index in indices[:INDICES_SHOWN])
    return f"operators {listed}{more} ({subgraph.operators[indices[0]].kind}): {reason}"


@dataclass
class _Assembly:
    """Collects the tensors that live operators use, numbered in the order in which they appear."""

    subgraph: FileSubgraph
    names: Sequence[str]
    converted: Converted
    tensors: list[Tensor] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    constants: dict[str, bytes] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)

    def graph(self, name: str, file: FileModel, binding: Binding) -> Graph:
        inputs = tuple(self.number(tensor) for tensor in self.subgraph.inputs)
        operators = [self.operator(index, step) for index, step in self.live()]
        outputs = tuple(self.output(position, operators) for position in range(len(self.subgraph.outputs)))
        # Of several outputs that are one tensor, the first is the tensor itself; signatures mean any of them.
        exits = dict(reversed(list(zip(self.subgraph.outputs, outputs, strict=True))))
        states = self.states(operators, {*inputs, *outputs})
        signatures, stale = self.signatures(file, exits)
        return Graph(
            name=name,
            tensors=tuple(self.tensors),
            operators=tuple(operators),
            inputs=(*inputs, *(state.before for state in states)),
            outputs=(*outputs, *(t for state in states for t in (state.before, state.after))),
            constants=self.constants,
            signatures=signatures,
            notes=(*binding.notes, *stale, *other_entries(file)),
            states=states,
        )

    def states(self, operators: list[Operator], taken: set[int]) -> tuple[State, ...]:
        """Return what runs leave to each other. What is used for anything else as well gets a copy."""
        found = []
        befores = [self.number(kept.before) for kept in self.converted.kept]
        taken |= set(befores)
        produced = {tensor for operator in operators for tensor in operator.outputs}
        for before, kept in zip(befores, self.converted.kept, strict=True):
            after = self.number(kept.after)
            if after in taken or after not in produced:
                self.tensors.append(replace(self.tensors[after], name=f"{kept.name}_next", constant=None))
                copy = len(self.tensors) - 1
                operators.append(Operator(kind="copy", inputs=(after,), outputs=(copy,), source=f"state {kept.name}"))
                after = copy
            taken.add(after)
            initial = self.digest(-1 - before - (1 << 32), memoryview(kept.initial))
            found.append(State(name=kept.name, before=before, after=after, initial=initial))
        return tuple(found)

    def signatures(self, file: FileModel, exits: Mapping[int, int]) -> tuple[tuple[Signature, ...], list[str]]:
        """Return the signatures, and a note for each that tools left behind when they changed inputs or outputs."""
        entries = {tensor: self.numbers[tensor] for tensor in self.subgraph.inputs}
        found, stale = [], []
        for signature in file.signatures:
            if signature.subgraph != 0:
                continue
            fits = all(t in entries for _, t in signature.inputs) and all(t in exits for _, t in signature.outputs)
            if not fits:
                stale.append(
                    f"signature {shown(signature.key)} left out: it names tensors that are no inputs or outputs"
                )
                continue
            inputs = tuple((name, entries[tensor]) for name, tensor in signature.inputs)
            outputs = tuple((name, exits[tensor]) for name, tensor in signature.outputs)
            found.append(Signature(key=signature.key, inputs=inputs, outputs=outputs))
        return tuple(found), stale

    def live(self) -> list[tuple[int, Conversion]]:
        """Return the steps, each with its operator's index, that some output depends on."""
        wanted = {*self.subgraph.outputs, *(kept.after for kept in self.converted.kept)}
        kept = []
        for index in reversed(range(len(self.subgraph.operators))):
            for step in reversed(self.converted.conversions[index]):
                if step.output in wanted:
                    kept.append((index, step))
                    wanted.update(step.inputs)
        return kept[::-1]

    def operator(self, index: int, step: Conversion) -> Operator:
        assert step.output is not None
        return Operator(
            kind=step.kind,
            inputs=tuple(ABSENT if tensor == ABSENT else self.number(tensor) for tensor in step.inputs),
            outputs=(self.number(step.output),),
            attributes=step.attributes,
            source=source(self.subgraph, index),
        )

    def output(self, position: int, operators: list[Operator]) -> int:
        """Return the tensor of an output; a constant gets a copy, and so does what is an output already."""
        tensor = self.subgraph.outputs[position]
        number = self.number(tensor)
        known = self.subgraph.tensors[tensor].data is not None or tensor in self.converted.known
        if not known and tensor not in self.subgraph.outputs[:position]:
            return number
        name = f"{self.names[tensor]}_output_{position}"
        self.tensors.append(replace(self.tensors[number], name=name, constant=None))
        copy = len(self.tensors) - 1
        operators.append(Operator(kind="copy", inputs=(number,), outputs=(copy,), source=f"output {shown(name)}"))
        return copy

    def number(self, tensor: int) -> int:
        if tensor not in self.numbers:
            self.numbers[tensor] = len(self.tensors)
            self.tensors.append(self.tensor(tensor))
        return self.numbers[tensor]

    def tensor(self, index: int) -> Tensor:
        count = len(self.subgraph.tensors)
        if index >= count:
            value, name = self.converted.added[index - count], self.converted.added[index - count].name
        else:
            file = self.subgraph.tensors[index]
            value, name = resolve(index, file, self.converted.shapes[index], broken=False), self.names[index]
        known = self.converted.known.get(index)
        constant = None
        if known is not None:
            constant = self.digest(-1 - index, memoryview(known))
        elif value.data is not None:
            buffer = self.subgraph.tensors[index].buffer
            constant = self.digest(buffer if buffer >= 0 else -1 - index, value.data)
        return Tensor(
            name=name, shape=value.shape, dtype=value.dtype, quantization=value.quantization, constant=constant
        )

    def digest(self, key: int, data: memoryview) -> str:
        """Store a constant once, however many tensors share its buffer."""
        if key not in self.digests:
            found = bytes(data)
            self.digests[key] = hashlib.sha256(found).hexdigest()
            self.constants.setdefault(self.digests[key], found)
        return self.digests[key]
