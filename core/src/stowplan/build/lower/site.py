"""One operator where it stands in its graph: the questions that every lowering asks, and how it refuses."""

from __future__ import annotations

from stowplan.build.lower.nodes import Operand
from stowplan.build.rows import Form, Layout, default_form
from stowplan.errors import UnsupportedError
from stowplan.flow.dtypes import RANGE
from stowplan.flow.graph import ABSENT, Graph, Operator, Quantization, Tensor
from stowplan.nouns import dataclass


@dataclass(frozen=True)
class Site:
    """An operator, its graph and the forms of its tensors. Questions about what is not there are refusals."""

    graph: Graph
    layout: Layout
    index: int

    @property
    def operator(self) -> Operator:
        return self.graph.operators[self.index]

    def refusal(self, why: str) -> UnsupportedError:
        """Return the error that says why this operator cannot be lowered."""
        name = self.operator.source or self.operator.kind
        return UnsupportedError(f"operator {self.index} ({name}): {why}", (f"operator {self.index} ({name}): {why}",))

    def has(self, position: int) -> bool:
        inputs = self.operator.inputs
        return position < len(inputs) and inputs[position] != ABSENT

    def input(self, position: int = 0) -> Tensor:
        if not self.has(position):
            raise self.refusal(f"input {position} is missing")
        return self.graph.tensors[self.operator.inputs[position]]

    @property
    def output(self) -> Tensor:
        return self.graph.tensors[self.operator.outputs[0]]

    @property
    def output_form(self) -> Form:
        return self.layout.form(self.operator.outputs[0])

    def input_form(self, position: int = 0) -> Form:
        """Return the rows of an input; a constant has its default form."""
        tensor = self.operator.inputs[position]
        if self.graph.is_activation(tensor):
            return self.layout.form(tensor)
        return default_form(self.graph.tensors[tensor].shape, self.graph.tensors[tensor].dtype)

    def operand(self, position: int = 0, constant_form: Form | None = None) -> Operand:
        """Return an input that is read by rows; a constant is cut like `constant_form`, or as any tensor is."""
        if self.graph.is_activation(self.operator.inputs[position]):
            return Operand(position=position)
        return Operand(position=position, form=constant_form or self.input_form(position))

    def constant(self, position: int, dtype: str, what: str) -> bytes:
        """Return the bytes of an input that has to be known now."""
        tensor = self.input(position)
        if tensor.constant is None:
            raise self.refusal(f"its {what} are computed by the model; they have to be constants")
        if tensor.dtype != dtype:
            raise self.refusal(f"its {what} are {tensor.dtype}, not {dtype}")
        data = self.graph.constant_bytes(self.operator.inputs[position])
        if len(data) != tensor.size_bytes:
            raise self.refusal(f"its {what} have {len(data)} bytes for shape {list(tensor.shape)}")
        return data

    def dtype(self, *positions: int) -> str:
        """Return the dtype that the inputs at `positions` and the output share, int8 or float32."""
        dtypes = {self.input(p).dtype for p in positions} | {self.output.dtype}
        if len(dtypes) != 1 or not dtypes <= {"int8", "float32"}:
            found = ", ".join(sorted(dtypes))
            raise self.refusal(f"tensors of {found}; supported are int8 and float32 throughout")
        return dtypes.pop()

    def one_dtype(self, *allowed: str) -> str:
        """Return the dtype that the first input and the output share, one of `allowed`."""
        found = {self.input(0).dtype, self.output.dtype}
        if len(found) != 1 or not found <= set(allowed):
            raise self.refusal(f"tensors of {', '.join(sorted(found))}; supported are {' and '.join(allowed)}")
        return found.pop()

    def quantization(self, tensor: Tensor) -> Quantization:
        """Return the per-tensor quantization of an activation, its numbers checked."""
        quantization = tensor.quantization
        if quantization is None:
            raise self.refusal(f'tensor "{tensor.name}" is {tensor.dtype} without a quantization')
        if quantization.per_channel:
            raise self.refusal(f'tensor "{tensor.name}" is quantized per channel; only weights may be')
        self._check_numbers(tensor, quantization)
        return quantization

    def weight_quantization(self, position: int, channels: int) -> Quantization:
        """Return the quantization of symmetric weights: one scale, or one for each of `channels`."""
        quantization = self.filter_quantization(position, channels)
        if any(quantization.zero_points):
            raise self.refusal("its weights have a zero point other than 0; export them symmetrically")
        return quantization

    def filter_quantization(self, position: int, channels: int) -> Quantization:
        """Return the quantization of weights: one scale and zero point, or a scale for each of `channels`."""
        tensor = self.input(position)
        quantization = tensor.quantization
        if quantization is None:
            raise self.refusal(f'weights "{tensor.name}" are {tensor.dtype} without a quantization')
        if len(quantization.scales) not in (1, channels):
            raise self.refusal(f"{len(quantization.scales)} scales for {channels} output channels")
        if any(quantization.zero_points) and len(quantization.scales) > 1:
            raise self.refusal("its weights have zero points per channel; one for all would be supported")
        self._check_numbers(tensor, quantization)
        return quantization

    def same_quantization(self, position: int = 0, tolerance: float = 0.0) -> Quantization:
        """Return the quantization that an input shares with the output. Kernels that only move values rely on it."""
        source, result = self.quantization(self.input(position)), self.quantization(self.output)
        if source.zero_point != result.zero_point or abs(source.scale - result.scale) > tolerance:
            raise self.refusal("its input and output are quantized differently; export it with one quantization")
        return source

    def _check_numbers(self, tensor: Tensor, quantization: Quantization) -> None:
        if not all(0.0 < scale < float("inf") for scale in quantization.scales):
            raise self.refusal(f'tensor "{tensor.name}" has a scale that is not a positive number')
        low, high = RANGE.get(tensor.dtype, (0, 0))
        if not all(low <= point <= high for point in quantization.zero_points):
            raise self.refusal(f'tensor "{tensor.name}" has a zero point that does not fit {tensor.dtype}')
