"""Cuts operators into tiles: a graph in which each is an operator of its own, beside those that bring parts together.

A tile computes a box of its operator's output (columns x channels, all rows) into a tensor of its own. What it reads is
a box of each input: the tensor that holds exactly that box, else a slice of a larger one, else a concatenation of
several. Slices and concatenations move rows only, so all of them run row by row like everything else. The tiled graph
has the tensors of the original under their old numbers, and the same inputs and outputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from math import prod

from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import ABSENT, Attribute, Graph, Operator, Tensor
from stowplan.flow.operators import BINARY, UNARY
from stowplan.flow.schedule import Range, Tile
from stowplan.nouns import dataclass, replace

WINDOWS = frozenset({"conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d"})
ELEMENTWISE = UNARY | {"copy", "quantize", "dequantize"}
CARRIER = -1
"""In `TiledGraph.origins`: an operator that only moves what tiles made."""


@dataclass(frozen=True)
class Box:
    """Columns and channels [first, last) of a tensor, all of its rows."""

    columns: Range
    channels: Range

    def holds(self, other: Box) -> bool:
        return _within(other.columns, self.columns) and _within(other.channels, self.channels)


@dataclass(frozen=True)
class TiledGraph:
    """`origins[i]` is the tile that operator i of the graph computes, or CARRIER.

    `places[i]` is the tile that it belongs to in any case: the one that it brings inputs to, or whose output it cuts.
    `turns` are pairs of a tensor whose rows arrive and the model input that they are rows of, once more.
    """

    graph: Graph
    origins: tuple[int, ...]
    places: tuple[int, ...]
    turns: tuple[tuple[int, int], ...] = ()

    @property
    def carriers(self) -> frozenset[int]:
        return frozenset(i for i, origin in enumerate(self.origins) if origin == CARRIER)


@dataclass(frozen=True)
class _Part:
    """A tensor of the tiled graph that holds a box of a tensor of the original; made by the operator with this key."""

    tensor: int
    box: Box
    made: tuple[int, int, int]


def tiled_graph(graph: Graph, tiles: Sequence[Tile]) -> TiledGraph:
    """Return the graph that computes the tiles in this order. Raises `ValueError` for tiles that cannot be."""
    return _Cutting(graph, tiles).run()


def whole_box(tensor: Tensor) -> Box:
    """Return the box of a whole tensor; columns are the last axis but one of what has a height as well."""
    return Box((0, tensor.shape[-2] if len(tensor.shape) >= 3 else 1), (0, tensor.shape[-1] if tensor.shape else 1))


def can_cut_columns(graph: Graph, operator: Operator) -> bool:
    """Say whether tiles of an operator may hold some of its columns."""
    if len(graph.tensors[operator.outputs[0]].shape) != 4:
        return False
    return operator.kind in WINDOWS or operator.kind in ELEMENTWISE or _is_even(graph, operator)


def can_cut_channels(graph: Graph, operator: Operator) -> bool:
    """Say whether tiles of an operator may hold some of its channels."""
    output = graph.tensors[operator.outputs[0]]
    if operator.kind == "fully_connected":
        weights = graph.tensors[operator.inputs[1]]
        return weights.constant is not None and output.elements == weights.shape[0] == output.shape[-1]
    if len(output.shape) != 4:
        return False
    if operator.kind == "conv_2d":
        weights, source = graph.tensors[operator.inputs[1]], graph.tensors[operator.inputs[0]]
        return weights.constant is not None and weights.shape[-1] == source.shape[-1]
    if operator.kind == "depthwise_conv_2d":
        return graph.tensors[operator.inputs[1]].constant is not None
    return operator.kind in WINDOWS or operator.kind in ELEMENTWISE or _is_even(graph, operator)


def needs(graph: Graph, operator: Operator, position: int, box: Box) -> Box:
    """Return the box of an input that a box of the output is computed from."""
    source, output = graph.tensors[operator.inputs[position]], graph.tensors[operator.outputs[0]]
    whole = whole_box(source)
    if operator.kind == "fully_connected" or box == whole_box(output):
        return whole
    if operator.kind not in WINDOWS:
        return box
    columns = _columns_read(graph, operator, box.columns)
    if operator.kind == "conv_2d":
        return Box(columns, whole.channels)
    multiplier = operator.integer("multiplier") if operator.kind == "depthwise_conv_2d" else 1
    return Box(columns, (box.channels[0] // multiplier, -(-box.channels[1] // multiplier)))


def _columns_read(graph: Graph, operator: Operator, columns: Range) -> Range:
    width = graph.tensors[operator.inputs[0]].shape[2]
    stride, pad = operator.integer("stride_w"), operator.integer("pad_left")
    first = columns[0] * stride - pad
    last = (columns[1] - 1) * stride - pad + _reach(graph, operator)
    # A tile that lies in the padding altogether still needs a column to be an operator.
    first = min(max(first, 0), width - 1)
    return first, max(min(last, width), first + 1)


def _reach(graph: Graph, operator: Operator) -> int:
    """Return from how many columns in a row a window takes elements."""
    if operator.kind in ("conv_2d", "depthwise_conv_2d"):
        return (graph.tensors[operator.inputs[1]].shape[2] - 1) * operator.integer("dilation_w") + 1
    return operator.integer("kernel_w")


def _is_even(graph: Graph, operator: Operator) -> bool:
    """Say whether a binary operator takes one element of each of two activations for one of its output."""
    shapes = {graph.tensors[t].shape for t in (*operator.inputs, *operator.outputs)}
    return operator.kind in BINARY and len(shapes) == 1 and all(map(graph.is_activation, operator.inputs))


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class _Cutting:
    """Operators have keys (tile, place, number) and are sorted by them at the end.

    Place 0 is what brings a tile's inputs together, 1 the tile itself, 2 slices of what it made: they are cut at once,
    so that the rest of it need not wait in memory.
    """

    def __init__(self, graph: Graph, tiles: Sequence[Tile]) -> None:
        self.graph, self.tiles = graph, tiles
        self.tensors = list(graph.tensors)
        self.constants = dict(graph.constants)
        self.operators: dict[tuple[int, int, int], Operator] = {}
        self.parts: dict[int, list[_Part]] = {t: [self._given(t)] for t in graph.inputs}
        self.turns: dict[tuple[int, int], int] = {}
        self.index = 0

    def run(self) -> TiledGraph:
        for tile in self.tiles:
            self._tile(tile)
            self.index += 1
        for tensor in self.graph.outputs:
            self._whole(tensor)
        keys = sorted(self.operators)
        graph = replace(
            self.graph,
            tensors=tuple(self.tensors),
            operators=tuple(self.operators[key] for key in keys),
            constants=self.constants,
        )
        last = len(self.tiles) - 1
        return TiledGraph(
            graph,
            origins=tuple(key[0] if key[1] == 1 else CARRIER for key in keys),
            places=tuple(min(key[0], last) for key in keys),
            turns=tuple((made, tensor) for (_, tensor), made in sorted(self.turns.items())),
        )

    def _given(self, tensor: int) -> _Part:
        return _Part(tensor, whole_box(self.graph.tensors[tensor]), (-1, 1, 0))

    def _tile(self, tile: Tile) -> None:
        operator = self.graph.operators[tile.operator]
        output, whole = operator.outputs[0], whole_box(self.graph.tensors[operator.outputs[0]])
        box = Box(tile.columns or whole.columns, tile.channels or whole.channels)
        self._check(operator, box, whole)
        inputs = [self._input(operator, position, box, tile.turn) for position in range(len(operator.inputs))]
        if box == whole:
            if any(part.tensor == output for part in self.parts.get(output, ())):
                raise ValueError(f"{operator.source or operator.kind} is computed twice as a whole")
            made, changed = output, operator
        else:
            made = self._tensor(output, box)
            changed = replace(operator, attributes=self._attributes(operator, box), source=_named(operator.source, box))
            inputs[1:] = self._constants(operator, inputs, box)
        key = (self.index, 1, 0)
        self.operators[key] = replace(changed, inputs=tuple(inputs), outputs=(made,))
        self.parts.setdefault(output, []).append(_Part(made, box, key))

    def _check(self, operator: Operator, box: Box, whole: Box) -> None:
        good = box.columns[0] < box.columns[1] and box.channels[0] < box.channels[1] and whole.holds(box)
        good = good and (box.columns == whole.columns or can_cut_columns(self.graph, operator))
        good = good and (box.channels == whole.channels or can_cut_channels(self.graph, operator))
        if operator.kind == "depthwise_conv_2d":
            multiplier = operator.integer("multiplier")
            good = good and not box.channels[0] % multiplier and not box.channels[1] % multiplier
        if not good:
            raise ValueError(f"{operator.source or operator.kind} has no tile of {box}")

    def _input(self, operator: Operator, position: int, box: Box, turn: int) -> int:
        tensor = operator.inputs[position]
        if not self.graph.is_activation(tensor):
            return tensor
        wanted = needs(self.graph, operator, position, box)
        if turn and tensor in self.graph.entries:
            tensor = self._again(tensor, turn)
        if wanted == whole_box(self.tensors[tensor]):
            return self._whole(tensor)
        return self._gather(tensor, wanted)

    def _again(self, tensor: int, turn: int) -> int:
        """Return the tensor whose rows are those of a model input when they arrive once more."""
        if (turn, tensor) not in self.turns:
            original = self.graph.tensors[tensor]
            made = len(self.tensors)
            self.tensors.append(replace(original, name=f"{original.name} (turn {turn + 1})"))
            self.turns[turn, tensor] = made
            self.parts[made] = [_Part(made, whole_box(original), (-1, 1, 0))]
        return self.turns[turn, tensor]

    def _attributes(self, operator: Operator, box: Box) -> dict[str, Attribute]:
        """Return the attributes of a tile: its first column may no longer lie in the padding, nor its last."""
        attributes = dict(operator.attributes)
        if operator.kind in WINDOWS:
            first, last = _columns_read(self.graph, operator, box.columns)
            start = box.columns[0] * operator.integer("stride_w") - operator.integer("pad_left")
            end = (box.columns[1] - 1) * operator.integer("stride_w") - operator.integer("pad_left")
            if start > first:
                raise ValueError(f"{operator.source or operator.kind}: columns {box.columns} read padding only")
            attributes["pad_left"] = first - start
            attributes["pad_right"] = max(end + _reach(self.graph, operator) - last, 0)
        return attributes

    # Constants of some channels.

    def _constants(self, operator: Operator, inputs: Sequence[int], box: Box) -> list[int]:
        if operator.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
            return list(inputs[1:])
        if box.channels == whole_box(self.graph.tensors[operator.outputs[0]]).channels:
            return list(inputs[1:])
        axes = (3 if operator.kind == "depthwise_conv_2d" else 0, 0)
        pairs = zip(inputs[1:], axes, strict=False)
        return [t if t == ABSENT else self._constant(t, axis, box.channels) for t, axis in pairs]

    def _constant(self, index: int, axis: int, channels: Range) -> int:
        """Return a constant with only these indices along an axis."""
        tensor, (first, last) = self.tensors[index], channels
        inner = prod(tensor.shape[axis + 1 :]) * SIZE_BYTES[tensor.dtype]
        line = tensor.shape[axis] * inner
        data = self.graph.constant_bytes(index)
        part = b"".join(data[at + first * inner : at + last * inner] for at in range(0, len(data), line))
        digest = hashlib.sha256(part).hexdigest()
        self.constants[digest] = part
        quantization = tensor.quantization
        if quantization is not None and quantization.per_channel:
            points = quantization.zero_points
            quantization = replace(
                quantization,
                scales=quantization.scales[first:last],
                zero_points=points[first:last] if len(points) > 1 else points,
            )
        shape = (*tensor.shape[:axis], last - first, *tensor.shape[axis + 1 :])
        self.tensors.append(replace(tensor, shape=shape, constant=digest, quantization=quantization))
        return len(self.tensors) - 1

    # Boxes of activations.

    def _tensor(self, original: int, box: Box) -> int:
        tensor = self.tensors[original]
        columns, channels = box.columns[1] - box.columns[0], box.channels[1] - box.channels[0]
        shape = (*tensor.shape[:-1], channels)
        if len(shape) >= 3:
            shape = (*shape[:-2], columns, channels)
        self.tensors.append(replace(tensor, name=_named(tensor.name, box), shape=shape))
        return len(self.tensors) - 1

    def _whole(self, tensor: int) -> int:
        """Return a tensor of the original itself, put together where it was made in parts."""
        box = whole_box(self.tensors[tensor])
        if not any(part.tensor == tensor for part in self._parts(tensor)):
            self._join(tensor, box, tensor)
        return tensor

    def _gather(self, tensor: int, box: Box) -> int:
        """Return a tensor with exactly this box."""
        parts = self._parts(tensor)
        for part in reversed(parts):
            if part.box == box:
                return part.tensor
        for part in reversed(parts):
            if part.box.holds(box):
                return self._slice(tensor, part, box)
        return self._join(tensor, box, self._tensor(tensor, box))

    def _parts(self, tensor: int) -> list[_Part]:
        if tensor not in self.parts:
            raise ValueError(f"{self.tensors[tensor].name} is read before it is made")
        return self.parts[tensor]

    def _slice(self, tensor: int, part: _Part, box: Box) -> int:
        shape = self.tensors[part.tensor].shape
        made = self._tensor(tensor, box)
        width, depth = part.box.columns[1] - part.box.columns[0], part.box.channels[1] - part.box.channels[0]
        rows = prod(shape) // (width * depth)
        offset = (box.columns[0] - part.box.columns[0]) * depth + box.channels[0] - part.box.channels[0]
        sizes = (rows, box.columns[1] - box.columns[0], box.channels[1] - box.channels[0])
        attributes: dict[str, Attribute] = {"sizes": sizes, "strides": (width * depth, depth, 1), "offset": offset}
        # What comes from elsewhere may lie in slow memory; what stays in the section is cut out at once.
        inner = part.made[0] >= 0 and part.tensor >= len(self.graph.tensors)
        together = inner and self._section(part.made[0]) == self._section(self.index)
        key = self._key((part.made[0], 2) if together else (self.index, 0))
        self._carry("rearrange", (part.tensor,), made, attributes, key)
        self.parts[tensor].append(_Part(made, box, key))
        return made

    def _join(self, tensor: int, box: Box, made: int) -> int:
        """Fill a tensor with a box that several parts hold together: side by side, or channel after channel."""
        pieces = list(self._columns(tensor, box))
        if len(pieces) > 1:
            found, axis = [self._gather(tensor, piece) for piece in pieces], len(self.tensors[made].shape) - 2
        else:
            found = [self._gather(tensor, piece) for piece in self._channels(tensor, box)]
            axis = len(self.tensors[made].shape) - 1
        key = self._key((self.index, 0))
        self._carry("concatenation", tuple(found), made, {"axis": axis}, key)
        self.parts[tensor].append(_Part(made, box, key))
        return made

    def _columns(self, tensor: int, box: Box) -> Iterator[Box]:
        """Cut a box into runs of columns, each as long as parts reach that hold its channels."""
        at = box.columns[0]
        while at < box.columns[1]:
            here = [p.box for p in self.parts[tensor] if p.box.columns[0] <= at < p.box.columns[1]]
            full = [other.columns[1] for other in here if _within(box.channels, other.channels)]
            end = max(full) if full else min((other.columns[1] for other in here), default=at)
            end = min(end, box.columns[1])
            if end <= at:
                raise ValueError(f"column {at} of {self.tensors[tensor].name} is read before it is made")
            yield Box((at, end), box.channels)
            at = end

    def _channels(self, tensor: int, box: Box) -> Iterator[Box]:
        at = box.channels[0]
        while at < box.channels[1]:
            ends = (
                part.box.channels[1]
                for part in self.parts[tensor]
                if part.box.channels[0] <= at < part.box.channels[1] and _within(box.columns, part.box.columns)
            )
            end = min(max(ends, default=at), box.channels[1])
            if end <= at:
                raise ValueError(f"channel {at} of {self.tensors[tensor].name} is read before it is made")
            yield Box(box.columns, (at, end))
            at = end

    def _section(self, index: int) -> int:
        return self.tiles[index].section if index < len(self.tiles) else -1

    def _key(self, place: tuple[int, int]) -> tuple[int, int, int]:
        return (*place, len(self.operators))

    def _carry(
        self, kind: str, inputs: tuple[int, ...], made: int, attributes: dict[str, Attribute], key: tuple[int, int, int]
    ) -> None:
        name = self.tensors[made].name
        source = f"{'slice' if kind == 'rearrange' else 'join'} of {name}"
        operator = Operator(kind=kind, inputs=inputs, outputs=(made,), attributes=attributes, source=source)
        self.operators[key] = operator


def _named(name: str, box: Box) -> str:
    return f"{name}[{box.columns[0]}:{box.columns[1]},{box.channels[0]}:{box.channels[1]}]"
