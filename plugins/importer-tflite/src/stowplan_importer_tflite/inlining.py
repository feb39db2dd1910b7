"""One subgraph out of several: composites, calls, branches and loops are replaced by the operators they stand for.

A branch on a constant becomes the branch taken; on anything else both are computed and `IF` chooses between their
outputs. A loop is unrolled if its condition can be computed for each turn from what is constant. `IF` and `WHILE` that
stay as they were are refused by their lowering.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stowplan_importer_tflite import schema
from stowplan_importer_tflite.convert import convert
from stowplan_importer_tflite.parse import FileModel, FileOperator, FileSubgraph, FileTensor
from stowplan_importer_tflite.variables import RESOURCE_KINDS

MAX_OPERATORS, MAX_TENSORS = 1 << 16, 1 << 18
MAX_DEPTH = 8
MAX_TURNS = 1000
MAX_CARRIED_BYTES = 1024
"""Of each tensor that a condition depends on: counters, not images."""
CALLS = {"STABLEHLO_COMPOSITE": schema.COMPOSITE_SUBGRAPH, "CALL": schema.CALL_SUBGRAPH}
BRANCH, LOOP = "IF", "WHILE"
Known = Mapping[int, bytes]


def inlined(file: FileModel) -> FileModel:
    """Return the file with its first subgraph made whole; the others stay, for what refers to them by number."""
    main = file.subgraphs[0]
    for _ in range(MAX_DEPTH):
        if not any(_is_open(operator) for operator in main.operators):
            break
        before, main = main, _Splicing(main, file.subgraphs).whole()
        if main.operators == before.operators:
            break
    return file._replace(subgraphs=(main, *file.subgraphs[1:]))


def _is_open(operator: FileOperator) -> bool:
    """Say whether an operator stands for a subgraph; the parts of branches and loops have no options any more."""
    return operator.kind in CALLS or (operator.kind in (BRANCH, LOOP) and operator.options is not None)


class _Splicing:
    """The tensors and operators of a subgraph while those of others are put between them."""

    def __init__(self, main: FileSubgraph, subgraphs: Sequence[FileSubgraph]) -> None:
        self._main = main
        self._subgraphs = subgraphs
        self._tensors = list(main.tensors)
        self._operators: list[FileOperator] = []

    def whole(self) -> FileSubgraph:
        for operator in self._main.operators:
            if not self._replaced(operator):
                self._operators.append(operator)
        return self._main._replace(tensors=tuple(self._tensors), operators=tuple(self._operators))

    def _replaced(self, operator: FileOperator) -> bool:
        if operator.kind in CALLS:
            return self._call(operator)
        if operator.options is None or -1 in operator.inputs:
            return False
        if operator.kind == BRANCH:
            return self._branch(operator)
        return operator.kind == LOOP and self._loop(operator)

    def _call(self, operator: FileOperator) -> bool:
        """Replace a call that its subgraph stands for in full: no output that is an input."""
        options = operator.options or operator.options_2
        inner = None if options is None else self._subgraph(options.integer(CALLS[operator.kind]))
        if inner is None or -1 in operator.inputs or not self._fits(inner, operator.inputs, operator.outputs):
            return False
        if not {tensor for part in inner.operators for tensor in part.outputs}.issuperset(inner.outputs):
            return False
        self._splice(inner, operator.inputs, dict(zip(inner.outputs, operator.outputs, strict=True)))
        return True

    def _branch(self, operator: FileOperator) -> bool:
        assert operator.options is not None
        fields = (schema.IfField.THEN_SUBGRAPH, schema.IfField.ELSE_SUBGRAPH)
        branches = [self._subgraph(operator.options.integer(field)) for field in fields]
        condition, inputs = (*operator.inputs, -1)[0], operator.inputs[1:]
        if condition < 0:
            return False
        found = [b for b in branches if b is not None and self._fits(b, inputs, operator.outputs) and _is_pure(b)]
        if len(found) < len(branches):
            return False
        taken = self._tensors[condition].data
        if taken is not None:
            found = found[:1] if any(taken) else found[1:]
        sides = [self._splice(branch, inputs, {}) for branch in found]
        for output, *sources in zip(operator.outputs, *sides, strict=True):
            chosen = tuple(sources) if taken is not None else (condition, *sources)
            self._operators.append(FileOperator(BRANCH, chosen, (output,), 0, None))
        return True

    def _loop(self, operator: FileOperator) -> bool:
        assert operator.options is not None
        fields = (schema.WhileField.CONDITION_SUBGRAPH, schema.WhileField.BODY_SUBGRAPH)
        condition, body = (self._subgraph(operator.options.integer(field)) for field in fields)
        if condition is None or body is None or not self._fits(body, operator.inputs, operator.outputs):
            return False
        if len(condition.inputs) != len(operator.inputs) or len(condition.outputs) != 1 or not _is_pure(body):
            return False
        turns = self._turns(condition, body, operator.inputs)
        if turns is None:
            return False
        carried = tuple(operator.inputs)
        for known in turns:
            made = self._splice(body, carried, {})
            carried = tuple(
                self._constant(tensor, known[position]) if position in known else tensor
                for position, tensor in enumerate(made)
            )
        for output, source in zip(operator.outputs, carried, strict=True):
            self._operators.append(FileOperator(LOOP, (source,), (output,), 0, None))
        return True

    def _turns(self, condition: FileSubgraph, body: FileSubgraph, inputs: Sequence[int]) -> list[Known] | None:
        """Return what is known of the carried tensors after each turn; None if the condition is not, at any turn."""
        condition, counted = _needed(condition, {0})
        counting, more = _needed(body, counted)
        while not more <= counted:
            counted |= more
            counting, more = _needed(body, counted)
        data = {position: self._tensors[inputs[position]].data for position in counted}
        known: Known = {position: bytes(found) for position, found in data.items() if found is not None}
        turns: list[Known] = []
        while len(known) == len(counted):
            goes_on = self._computed(condition, known).get(0)
            if goes_on is None or len(turns) > MAX_TURNS:
                return None
            if not any(goes_on):
                return turns
            if not self._has_room(body, times=len(turns) + 1):
                return None
            made = self._computed(counting, known)
            known = {position: made[position] for position in counted if position in made}
            turns.append(known)
        return None

    def _computed(self, subgraph: FileSubgraph, known: Known) -> Known:
        """Return the outputs of a subgraph, by position, that follow from what is known of its inputs."""
        tensors = list(subgraph.tensors)
        for position, data in known.items():
            tensors[subgraph.inputs[position]] = _holding(tensors[subgraph.inputs[position]], data)
        open_ = tuple(tensor for position, tensor in enumerate(subgraph.inputs) if position not in known)
        closed = subgraph._replace(tensors=tuple(tensors), inputs=open_)
        shapes = {tensor: tensors[tensor].bound for tensor in open_}
        found = convert((closed, *self._subgraphs[1:]), shapes).known
        outputs: dict[int, bytes] = {}
        for position, tensor in enumerate(subgraph.outputs):
            made: bytes | memoryview | None = found.get(tensor, b"") or tensors[tensor].data
            if made is not None and len(made) <= MAX_CARRIED_BYTES:
                outputs[position] = bytes(made)
        return outputs

    def _subgraph(self, index: int) -> FileSubgraph | None:
        return self._subgraphs[index] if 0 < index < len(self._subgraphs) else None

    def _fits(self, inner: FileSubgraph, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
        counts = (len(inner.inputs), len(inner.outputs)) == (len(inputs), len(outputs))
        return counts and self._has_room(inner)

    def _has_room(self, inner: FileSubgraph, times: int = 1) -> bool:
        """Say whether a subgraph may be put in so many times: a small file may ask for very much."""
        operators = len(self._operators) + len(inner.operators) * times
        return operators <= MAX_OPERATORS and len(self._tensors) + len(inner.tensors) * times <= MAX_TENSORS

    def _splice(self, inner: FileSubgraph, inputs: Sequence[int], outputs: Mapping[int, int]) -> tuple[int, ...]:
        """Append the operators of a subgraph; return the tensors that hold its outputs."""
        numbers = {**outputs, **dict(zip(inner.inputs, inputs, strict=True))}
        for index, tensor in enumerate(inner.tensors):
            if index not in numbers:
                numbers[index] = self._added(tensor)
        self._operators += _renumbered(inner.operators, numbers)
        return tuple(numbers[tensor] for tensor in inner.outputs)

    def _constant(self, tensor: int, data: bytes) -> int:
        return self._added(_holding(self._tensors[tensor], data))

    def _added(self, tensor: FileTensor) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1


def _renumbered(operators: Iterable[FileOperator], numbers: Mapping[int, int]) -> list[FileOperator]:
    return [
        part._replace(
            inputs=tuple(numbers.get(t, -1) for t in part.inputs), outputs=tuple(numbers[t] for t in part.outputs)
        )
        for part in operators
    ]


def _needed(subgraph: FileSubgraph, outputs: set[int]) -> tuple[FileSubgraph, set[int]]:
    """Return what some outputs, by position, depend on: the subgraph without all else, and positions of inputs."""
    wanted = {subgraph.outputs[position] for position in outputs}
    kept: list[FileOperator] = []
    for operator in reversed(subgraph.operators):
        if not wanted.isdisjoint(operator.outputs):
            kept.append(operator)
            wanted.update(operator.inputs)
    inputs = {position for position, tensor in enumerate(subgraph.inputs) if tensor in wanted}
    return subgraph._replace(operators=tuple(reversed(kept))), inputs


def _is_pure(subgraph: FileSubgraph) -> bool:
    """Say whether a subgraph keeps nothing from one run to the next, so that it may run more often, or never."""
    kept = any(tensor.variable for tensor in subgraph.tensors)
    return not kept and not any(operator.kind in RESOURCE_KINDS for operator in subgraph.operators)


def _holding(tensor: FileTensor, data: bytes) -> FileTensor:
    """Return a tensor as a constant."""
    return tensor._replace(data=memoryview(data), buffer=-1)
