"""One operator with its operands at hand, as a lowering function sees it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

from stowplan.flow.graph import Quantization
from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.parse import Array, FileGraph, FileNode, spelled

if TYPE_CHECKING:
    from stowplan_importer_onnx.convert import Walk

FLOAT = ("float32",)
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
NUMBERS = (*FLOAT, *INTEGERS)
ANYTHING = (*NUMBERS, "bool")
MAX_LIST = 1 << 16


class Tail(NamedTuple):
    """What follows an operator and is computed with it: nothing else reads what lies between.

    `scale` and `shift` are a batch normalization's, per channel. `quantization` is that of int8 numbers, also where
    `dtype` is uint8. `nodes` are the operators that are done with it, `name` what the last of them is called.
    """

    nodes: tuple[int, ...]
    name: str
    activation: str = "none"
    scale: Array | None = None
    shift: Array | None = None
    quantization: Quantization | None = None
    dtype: str = ""


class Tailed(NamedTuple):
    """The result of an operator together with its tail."""

    value: Value
    tail: Tail


Result = Union[Value, "list[Value]", Tailed]
Lowering = Callable[["Site"], Result]


class Site(NamedTuple):
    """`inputs` has None for what is left out. `version` is that of the operator set."""

    walk: Walk
    node: FileNode
    inputs: tuple[Value | None, ...]
    version: int

    @property
    def builder(self) -> Builder:
        return self.walk.builder

    def value(self, position: int = 0, dtypes: Sequence[str] = ANYTHING) -> Value:
        """Return an input, which must have one of these types."""
        found = self.optional(position)
        if found is None:
            raise Refusal(f"input {position} is missing")
        if found.dtype not in dtypes:
            raise Refusal(_untyped(found.dtype, dtypes))
        return found

    def optional(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def array(self, position: int, what: str) -> Array:
        """Return an input that must be known now; `what` names it in the refusal."""
        found = self.builder.array(self.value(position, (*ANYTHING, "float16", "float64")))
        if found is None:
            raise Refusal(f"{what} {self.node.inputs[position]!r} must be constant")
        return found

    def numbers(self, position: int, what: str) -> tuple[int, ...]:
        """Return the integers of a small constant."""
        array = self.array(position, what)
        if array.dtype.kind not in "iu" or array.size > MAX_LIST:
            raise Refusal(f"{what} of {array.dtype} and {array.size} elements")
        return tuple(int(n) for n in array.reshape(-1))

    def scalar(self, position: int, what: str) -> float:
        array = self.array(position, what)
        if array.size != 1:
            raise Refusal(f"{what} has {array.size} elements; one is defined")
        return float(array.reshape(-1)[0])

    # Attributes.

    def has(self, name: str) -> bool:
        return self.node.attributes.get(name) is not None

    def integer(self, name: str, default: int) -> int:
        found: int = self._attribute(name, default, int, "an integer")
        return found

    def number(self, name: str, default: float) -> float:
        found = float(self._attribute(name, default, (int, float), "a number"))
        if not math.isfinite(found):
            raise Refusal(f"its attribute {name} is {found}")
        return found

    def text(self, name: str, default: str) -> str:
        found: str = self._attribute(name, default, str, "a word")
        return found

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        found = self.node.attributes.get(name, default)
        if not isinstance(found, (list, tuple)) or len(found) > MAX_LIST or not all(isinstance(n, int) for n in found):
            raise Refusal(f"its attribute {name} is no list of integers")
        return tuple(found)

    def graph(self, name: str) -> FileGraph:
        found: FileGraph = self._attribute(name, None, FileGraph, "a graph")
        return found

    def axis(self, rank: int, default: int = 0, name: str = "axis", inclusive: bool = False) -> int:
        return axis_of(self.integer(name, default), rank, inclusive)

    def _attribute(self, name: str, default: Any, kinds: Any, what: str) -> Any:
        found = self.node.attributes.get(name, default)
        if not isinstance(found, kinds):
            raise Refusal(
                f"its attribute {name} is not {what}" if name in self.node.attributes else f"it has no {name}"
            )
        return found

    def tail(self, *, batch: bool = False, quantize: bool = False, activation: bool = True) -> Tail:
        """Return what may be computed together with this operator's first output."""
        from stowplan_importer_onnx.tails import tail_of

        return tail_of(self.walk, self.node.outputs[0], batch=batch, quantize=quantize, activation=activation)


def axis_of(axis: int, rank: int, inclusive: bool = False) -> int:
    """Return an axis counted from the front. Refuses one that does not exist."""
    most = rank + 1 if inclusive else rank
    if not -most <= axis < most:
        raise Refusal(f"axis {axis} of a tensor with {rank} axes")
    return axis % most if most else 0


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    found = tuple(sorted({axis_of(axis, rank) for axis in axes}))
    if len(found) != len(axes):
        raise Refusal(f"axes {list(axes[:8])} of a tensor with {rank} axes")
    return found


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(shape) for shape in shapes)
    result = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        large = {size for size in sizes if size != 1}
        if len(large) > 1:
            raise Refusal(f"shapes {' and '.join(spelled(shape) for shape in shapes)} do not go together")
        result.append(large.pop() if large else 1)
    return tuple(result)


def _untyped(dtype: str, dtypes: Sequence[str]) -> str:
    known = " and ".join(dtypes) if len(dtypes) < 4 else "float32, integers and bool"
    return f"{dtype} tensors; {known} would be supported"
