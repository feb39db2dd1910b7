"""How tensors are cut into rows, and which input rows each unit of an operator reads.

Schedulers, lowering and reports ask here. The checker (`build/verify.py`) derives the same facts on its own.

A tensor's *form* is (rows, row bytes). By default a row is the slice under the first axes of NHWC: N*H rows of W*C
elements. A reshape that its readers can follow costs nothing: its output is a *view* of the same rows.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

from stowplan.build.moves import MOVES, Source, source_of
from stowplan.errors import UnsupportedError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import ABSENT, Graph, Operator
from stowplan.flow.operators import BINARY, UNARY
from stowplan.nouns import dataclass

WINDOWED = frozenset({"conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d"})
POINTWISE = UNARY | {"quantize", "dequantize", "cast", "copy"}
"""Operators on one tensor that keep the form of their input."""
GROUPED = frozenset({"softmax", "log_softmax"})
"""Operators that need whole runs along the last axis, and keep the form of their input."""
ARGUMENTS = frozenset({"arg_max", "arg_min"})
"""Operators that make one element of each run along the last axis."""
ANY_FORM = MOVES | ARGUMENTS | {"bitcast", "reduce", "gather", "batch_matmul", "select", "l2_normalization"}
"""Operators that find elements by number, and so read rows of any length and fill rows of any length."""

MOST_LINES = 4096
"""An input is cut into no more lines than this: each has an address of its own."""

TAKES_ANY_FORM = ANY_FORM | {"detection_postprocess"}
WHOLE = TAKES_ANY_FORM | {"svdf_state", "svdf_output", "lstm"}
"""Operators of which each unit reads all of its inputs (those with a closer rule excepted)."""


@dataclass(frozen=True)
class Form:
    """A tensor as `rows` segments of `row_bytes` bytes each."""

    rows: int
    row_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Units:
    """How an operator is fired: `count` units, rows of its output, or rows of its input when `by_input`.

    An operator that runs by input rows keeps its partial sums in `accumulator_bytes` between firings; when all its
    units run in one firing it needs none.
    """

    count: int
    by_input: bool = False
    accumulator_bytes: int = 0


def nhwc(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return a shape as N, H, W, C: [F] is one row, [N,F] is N rows, [H,W,C] is one image."""
    if len(shape) >= 4:
        return prod(shape[:-3]), shape[-3], shape[-2], shape[-1]
    if len(shape) == 3:
        return 1, shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return 1, shape[0], 1, shape[1]
    return 1, 1, 1, prod(shape)


def default_form(shape: tuple[int, ...], dtype: str) -> Form:
    """Return the form of a tensor that nobody asked to be cut otherwise."""
    n, h, w, c = nhwc(shape)
    return Form(n * h, w * c * SIZE_BYTES[dtype])


class Layout:
    """The form of every activation of a graph, and which tensors are views of which."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.forms: dict[int, Form] = {}
        self.roots: dict[int, int] = {}
        self._units: dict[int, Units] = {}
        self._sources: dict[int, Source] = {}
        for tensor in dict.fromkeys((*graph.inputs, *_given(graph))):
            self._own(tensor, self._asked_for(tensor) or self._in_lines(tensor) or self.default(tensor))
        for operator in graph.operators:
            self._place(operator)

    def form(self, tensor: int) -> Form:
        return self.forms[tensor]

    def root(self, tensor: int) -> int:
        """Return the tensor whose memory this tensor is a view of; itself, mostly."""
        return self.roots[tensor]

    def is_view(self, operator: Operator) -> bool:
        """Say whether an operator costs nothing because its output is a view of its input."""
        return operator.kind == "reshape" and self.roots[operator.outputs[0]] != operator.outputs[0]

    def default(self, tensor: int) -> Form:
        return default_form(self.graph.tensors[tensor].shape, self.graph.tensors[tensor].dtype)

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """Map each root tensor to the operators (views left out) that read it or a view of it, in order."""
        found: dict[int, list[int]] = {}
        for index, operator in enumerate(self.graph.operators):
            if self.is_view(operator):
                continue
            for tensor in operator.inputs:
                if self.graph.is_activation(tensor):
                    found.setdefault(self.roots[tensor], []).append(index)
        return {root: tuple(dict.fromkeys(readers)) for root, readers in found.items()}

    def units(self, index: int) -> Units:
        """Return how the operator with this index is fired."""
        if index not in self._units:
            self._units[index] = self._count_units(self.graph.operators[index])
        return self._units[index]

    def reads(self, index: int, position: int, unit: int) -> range:
        """Return the rows of the operator's input at `position` that one unit reads; empty for a constant."""
        operator = self.graph.operators[index]
        tensor = operator.inputs[position]
        if not self.graph.is_activation(tensor):
            return range(0)
        rows = self.forms[tensor].rows
        if self.units(index).by_input:
            return range(unit, unit + 1)
        if operator.kind in WINDOWED:
            return self._window(operator, unit)
        if operator.kind == "fully_connected":
            return self._vectors(operator, unit) if self.batched(operator) else range(rows)
        if operator.kind in POINTWISE or operator.kind in GROUPED:
            return range(unit, unit + 1)
        if operator.kind in BINARY:
            return self._broadcast(operator, tensor, unit)
        if operator.kind in MOVES:
            return self._moved(index, tensor, unit)
        if operator.kind in ARGUMENTS:
            return self._runs(operator, unit)
        if operator.kind == "resize_bilinear":
            return self._between(operator, unit)
        if operator.kind == "transpose_conv_2d":
            return self._spread(operator, unit)
        if operator.kind == "mean":
            out_rows = self.forms[operator.outputs[0]].rows
            return range(unit * rows // out_rows, (unit + 1) * rows // out_rows)
        if operator.kind in ("pad", "pad_with"):
            return self._padded(operator, unit)
        if operator.kind == "reshape":
            return _bytes_to_rows(unit, self.forms[operator.outputs[0]], 0, self.forms[tensor])
        if operator.kind == "concatenation":
            return self._concatenated(operator, position, unit)
        if operator.kind == "svdf_state" and position == 2:
            return range(unit, unit + 1)
        if operator.kind in WHOLE:
            return range(rows)
        raise UnsupportedError(f"operator {index} ({operator.source or operator.kind}): no rule for the rows it reads")

    def touches(self, index: int, position: int, unit: int) -> list[range]:
        """Return the rows that one unit reads as `reads` does, but without those between that it leaves out."""
        operator, tensor = self.graph.operators[index], self.graph.operators[index].inputs[position]
        if operator.kind not in MOVES or not self.graph.is_activation(tensor):
            return [self.reads(index, position, unit)]
        size = SIZE_BYTES[self.graph.tensors[tensor].dtype]
        width, row = (self.forms[t].row_bytes // size for t in (operator.outputs[0], tensor))
        runs = self.source(index).runs(unit * width, (unit + 1) * width)
        return [range(run.start // row, (run.stop - 1) // row + 1) for run in runs]

    def batched(self, operator: Operator) -> bool:
        """Say whether a fully connected operator maps several vectors; rows then hold whole ones, or parts of one."""
        weights = self.graph.tensors[operator.inputs[1]]
        return self.graph.tensors[operator.inputs[0]].elements > weights.shape[-1]

    def streams(self, operator: Operator) -> bool:
        """Say whether a concatenation is its inputs' bytes one after another, so that any form will do."""
        shape = self.graph.tensors[operator.outputs[0]].shape
        return prod(shape[: operator.integer("axis")]) == 1

    def joins(self, operator: Operator) -> bool:
        """Say whether a concatenation takes rows of several images in turn, so that it goes by bytes."""
        shape = self.graph.tensors[operator.outputs[0]].shape
        return not self.streams(operator) and operator.integer("axis") < len(shape) - 2

    # Forms, in the order of the operators.

    def _own(self, tensor: int, form: Form) -> None:
        self.forms[tensor] = form
        self.roots[tensor] = tensor

    def _place(self, operator: Operator) -> None:
        output = operator.outputs[0]
        first = next((t for t in operator.inputs if self.graph.is_activation(t)), ABSENT)
        if operator.kind == "reshape" and first != ABSENT and self._follows(output, first):
            self.forms[output] = self.forms[first]
            self.roots[output] = self.roots[first]
        else:
            self._own(output, self._produced(operator, first))

    def _follows(self, output: int, source: int) -> bool:
        """A view is possible if all readers accept the source's rows; an input cannot be an output as well."""
        if output in self.graph.outputs and self.roots[source] in self.graph.inputs:
            return False
        return self._accepted(output, self.forms[source])

    def _produced(self, operator: Operator, first: int) -> Form:
        output = operator.outputs[0]
        tensor = self.graph.tensors[output]
        if operator.kind in POINTWISE or operator.kind in GROUPED or operator.kind in BINARY:
            same = {
                self.forms[t].rows
                for t in operator.inputs
                if self.graph.is_activation(t) and self.graph.tensors[t].shape == tensor.shape
            }
            if first != ABSENT and len(same) == 1:
                rows = same.pop()
                return Form(rows, tensor.size_bytes // rows)
        if operator.kind == "fully_connected":
            if self.batched(operator):
                rows = self.forms[first].rows
                like_input = Form(rows, tensor.size_bytes // rows)
                whole = self.forms[first].row_bytes % self._vector_bytes(operator) == 0
                return like_input if whole and self._accepted(output, like_input) else self.default(output)
            return self._asked_for(output) or Form(1, tensor.size_bytes)
        if operator.kind in ARGUMENTS:
            rows = self.forms[first].rows if first != ABSENT else 1
            like_input = Form(rows, tensor.size_bytes // rows)
            even = tensor.elements % rows == 0
            return like_input if even and self._accepted(output, like_input) else self.default(output)
        if operator.kind in ANY_FORM:
            return self._asked_for(output) or self.default(output)
        return self.default(output)

    def _in_lines(self, tensor: int) -> Form | None:
        """The form of an input that is only moved: its innermost lines, where a row of a result needs few of them.

        Planes of pixels that are transposed at once need not all stay until the last row is made.
        """
        readers = self.graph.consumers.get(tensor, ())
        *outer, width = self.graph.tensors[tensor].shape or (1,)
        lines = Form(prod(outer), width * SIZE_BYTES[self.graph.tensors[tensor].dtype])
        moved = all(self.graph.operators[reader].kind in MOVES for reader in readers)
        if tensor in self.graph.outputs or not readers or not moved or not 1 < lines.rows <= MOST_LINES:
            return None
        return lines if all(self._gains(reader, width) for reader in readers) else None

    def _gains(self, reader: int, width: int) -> bool:
        """Say whether the first row of a result is made of several lines that lie apart."""
        output = self.graph.operators[reader].outputs[0]
        row = self.default(output).row_bytes // SIZE_BYTES[self.graph.tensors[output].dtype]
        runs = self.source(reader).runs(0, row)
        return len(runs) > 1 and runs[0].stop + width <= runs[1].start

    def _asked_for(self, tensor: int) -> Form | None:
        """The form a flexible producer should give a tensor that is only read through one reshape."""
        readers = self.graph.consumers.get(tensor, ())
        if len(readers) != 1 or tensor in self.graph.outputs:
            return None
        reader = self.graph.operators[readers[0]]
        if reader.kind != "reshape" or self._accepted(reader.outputs[0], self.default(tensor)):
            return None
        return self.default(reader.outputs[0])

    def _accepted(self, tensor: int, form: Form) -> bool:
        return all(self._accepts(self.graph.operators[i], tensor, form) for i in self.graph.consumers.get(tensor, ()))

    def _accepts(self, operator: Operator, tensor: int, form: Form) -> bool:
        """Say whether a reader of `tensor` works when its rows are cut like `form`."""
        if form == self.default(tensor):
            return True
        itself = self.graph.tensors[tensor]
        if operator.kind == "reshape":
            return True
        if operator.kind == "fully_connected":
            vector = self._vector_bytes(operator)
            return not self.batched(operator) or form.row_bytes % vector == 0 or vector % form.row_bytes == 0
        if operator.kind == "concatenation":
            return self.streams(operator) or self.joins(operator)
        if operator.kind in TAKES_ANY_FORM:
            return True
        output = self.graph.tensors[operator.outputs[0]]
        if operator.kind in POINTWISE or operator.kind in GROUPED:
            group = itself.shape[-1] * SIZE_BYTES[itself.dtype] if operator.kind in GROUPED else 1
            if form.row_bytes % group:
                return False
            return self._accepted(operator.outputs[0], Form(form.rows, output.size_bytes // form.rows))
        return False

    # Units and the rows they read.

    def _count_units(self, operator: Operator) -> Units:
        output = operator.outputs[0]
        source = operator.inputs[0]
        if self._accumulates(operator):
            width = self.graph.tensors[output].elements * 4
            return Units(self.forms[source].rows, by_input=True, accumulator_bytes=width)
        return Units(self.forms[output].rows)

    def _accumulates(self, operator: Operator) -> bool:
        """A pool, mean or depthwise convolution over the whole height of one image can take its input row by row.

        It does where its sums take less memory than the rows that would have to wait for each other.
        """
        kinds = ("average_pool_2d", "mean", "depthwise_conv_2d")
        if operator.kind not in kinds or not self.graph.is_activation(operator.inputs[0]):
            return False
        source, output = self.graph.tensors[operator.inputs[0]], self.graph.tensors[operator.outputs[0]]
        n, height, _, _ = nhwc(source.shape)
        if source.dtype not in ("int8", "float32") or n != 1 or height == 1 or len(source.shape) < 3:
            return False
        if output.elements * 4 >= source.size_bytes:
            return False
        if operator.kind == "mean":
            return len(source.shape) - 3 in operator.integers("axes")
        pads = (operator.integer("pad_top"), operator.integer("pad_bottom"))
        if operator.kind == "depthwise_conv_2d":
            plain = source.dtype == "int8" and operator.integer("dilation_h") == 1
            return plain and pads == (0, 0) and self.graph.tensors[operator.inputs[1]].shape[1] == height
        return operator.integer("kernel_h") == height and pads == (0, 0)

    def _vector_bytes(self, operator: Operator) -> int:
        """The size of one input vector of a fully connected operator."""
        source, weights = (self.graph.tensors[t] for t in operator.inputs[:2])
        return weights.shape[-1] * SIZE_BYTES[source.dtype]

    def _vectors(self, operator: Operator, unit: int) -> range:
        output, source = operator.outputs[0], self.forms[operator.inputs[0]]
        result = self.graph.tensors[operator.inputs[1]].shape[0] * SIZE_BYTES[self.graph.tensors[output].dtype]
        width = self.forms[output].row_bytes // result * self._vector_bytes(operator)
        return range(unit * width // source.row_bytes, -(-(unit + 1) * width // source.row_bytes))

    def _joined(self, operator: Operator, position: int, unit: int) -> range:
        """Rows with the bytes between the first and the last that an output row takes from one input."""
        sizes = [self.graph.tensors[t].size_bytes for t in operator.inputs]
        outer = prod(self.graph.tensors[operator.outputs[0]].shape[: operator.integer("axis")])
        chunk, total, before = sizes[position] // outer, sum(sizes) // outer, sum(sizes[:position]) // outer
        width, line = self.forms[operator.outputs[0]].row_bytes, self.forms[operator.inputs[position]].row_bytes
        start, end = unit * width, (unit + 1) * width
        first = start // total * chunk + min(max(start % total - before, 0), chunk)
        last = (end - 1) // total * chunk + min(max((end - 1) % total + 1 - before, 0), chunk)
        return range(first // line, -(-last // line)) if first < last else range(0)

    def source(self, index: int) -> Source:
        """Return where the elements of a `rearrange` or `sample` come from."""
        if index not in self._sources:
            operator = self.graph.operators[index]
            shapes = (self.graph.tensors[t].shape for t in (operator.inputs[0], operator.outputs[0]))
            self._sources[index] = source_of(operator, *shapes)
        return self._sources[index]

    def _moved(self, index: int, tensor: int, unit: int) -> range:
        size = SIZE_BYTES[self.graph.tensors[tensor].dtype]
        width = self.forms[self.graph.operators[index].outputs[0]].row_bytes // size
        elements = self.source(index).span(unit * width, (unit + 1) * width)
        row = self.forms[tensor].row_bytes // size
        return range(elements.start // row, -(-elements.stop // row))

    def _runs(self, operator: Operator, unit: int) -> range:
        """Rows that hold the runs of which a row of the output has one element each."""
        source, output = (self.graph.tensors[t] for t in (operator.inputs[0], operator.outputs[0]))
        width = self.forms[operator.outputs[0]].row_bytes // SIZE_BYTES[output.dtype]
        row = self.forms[operator.inputs[0]].row_bytes
        run = source.shape[-1] * SIZE_BYTES[source.dtype]
        return range(unit * width * run // row, -(-(unit + 1) * width * run // row))

    def _between(self, operator: Operator, unit: int) -> range:
        _, in_h, _, _ = nhwc(self.graph.tensors[operator.inputs[0]].shape)
        _, out_h, _, _ = nhwc(self.graph.tensors[operator.outputs[0]].shape)
        image, row = divmod(unit, out_h)
        low, high = neighbours(operator, in_h, out_h, row)
        return range(image * in_h + low, image * in_h + high + 1)

    def _spread(self, operator: Operator, unit: int) -> range:
        _, in_h, _, _ = nhwc(self.graph.tensors[operator.inputs[0]].shape)
        _, out_h, _, _ = nhwc(self.graph.tensors[operator.outputs[0]].shape)
        image, row = divmod(unit, out_h)
        stride, kernel = operator.integer("stride_h"), self.graph.tensors[operator.inputs[1]].shape[1]
        place = row + operator.integer("pad_top")
        first, last = max(-(-(place - kernel + 1) // stride), 0), min(place // stride + 1, in_h)
        return range(image * in_h + first, image * in_h + last) if first < last else range(0)

    def _window(self, operator: Operator, unit: int) -> range:
        _, in_h, _, _ = nhwc(self.graph.tensors[operator.inputs[0]].shape)
        _, out_h, _, _ = nhwc(self.graph.tensors[operator.outputs[0]].shape)
        image, row = divmod(unit, out_h)
        if operator.kind in ("conv_2d", "depthwise_conv_2d"):
            reach = (self.graph.tensors[operator.inputs[1]].shape[1] - 1) * operator.integer("dilation_h") + 1
        else:
            reach = operator.integer("kernel_h")
        top = row * operator.integer("stride_h") - operator.integer("pad_top")
        first, last = max(top, 0), min(top + reach, in_h)
        return range(image * in_h + first, image * in_h + last) if first < last else range(0)

    def _broadcast(self, operator: Operator, tensor: int, unit: int) -> range:
        rows = self.forms[tensor].rows
        out_shape = self.graph.tensors[operator.outputs[0]].shape
        shape = self.graph.tensors[tensor].shape
        if shape == out_shape:
            return range(unit, unit + 1)
        padded = (1,) * (len(out_shape) - len(shape)) + shape
        _, out_h, _, _ = nhwc(out_shape)
        n, h, _, _ = nhwc(padded)
        image, row = divmod(unit, out_h)
        first = (image if n > 1 else 0) * h + (row if h > 1 else 0)
        return range(first, min(first + 1, rows))

    def _padded(self, operator: Operator, unit: int) -> range:
        in_n, in_h, _, _ = nhwc(self.graph.tensors[operator.inputs[0]].shape)
        _, out_h, _, _ = nhwc(self.graph.tensors[operator.outputs[0]].shape)
        image, row = divmod(unit, out_h)
        before = (0, 0, 0, 0, *operator.integers("before"))
        if len(operator.integers("before")) == 2:
            before = (0, before[-2], 0, before[-1])
        image -= before[-4]
        row -= before[-3]
        inside = 0 <= image < in_n and 0 <= row < in_h
        return range(image * in_h + row, image * in_h + row + 1) if inside else range(0)

    def _concatenated(self, operator: Operator, position: int, unit: int) -> range:
        if self.joins(operator):
            return self._joined(operator, position, unit)
        if not self.streams(operator):
            return range(unit, unit + 1)
        before = sum(self.graph.tensors[t].size_bytes for t in operator.inputs[:position])
        return _bytes_to_rows(unit, self.forms[operator.outputs[0]], before, self.forms[operator.inputs[position]])


def _given(graph: Graph) -> list[int]:
    """Return what is read and never made: model inputs, and in a tiled graph those that arrive once more."""
    read = (t for operator in graph.operators for t in operator.inputs if graph.is_activation(t))
    return [t for t in read if t not in graph.producers]


def neighbours(operator: Operator, source: int, result: int, place: int) -> tuple[int, int]:
    """Return the two positions along an axis between which `resize_bilinear` interpolates.

    In quarters and halves of exact integers: the kernels' rounding cannot reach beyond, see `build/lower/resize.py`.
    """
    numerator, denominator = source, result
    if operator.attributes["align_corners"] and result > 1:
        numerator, denominator = source - 1, result - 1
    position = place * numerator * 2
    if operator.attributes["half_pixel_centers"]:
        position = (2 * place + 1) * numerator - denominator
    low = position // (2 * denominator)
    # One position further down and up: a factor rounded to 10 bits (int8) or to float32 may end there.
    return max(min(low - 1, source - 1), 0), max(min(low + 2, source - 1), 0)


def _bytes_to_rows(unit: int, output: Form, start: int, source: Form) -> range:
    """Rows of a source at byte `start` of the output's byte stream that share bytes with output row `unit`."""
    first = max(unit * output.row_bytes - start, 0)
    last = min((unit + 1) * output.row_bytes - start, source.size_bytes)
    if first >= last:
        return range(0)
    return range(first // source.row_bytes, -(-last // source.row_bytes))
