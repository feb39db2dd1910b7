"""The independent checker of tiled graphs: says of every tensor which elements of which original tensor it holds.

It shares no code with `build/tiling.py`. Starting from the model's inputs it follows the tiled graph operator by
operator; each must compute, of the operator that it claims to be a tile of, exactly the columns and channels that its
tile names, from inputs that hold what that needs, with the weights of those channels. What belongs to no tile may only
move elements. At the end the model's outputs must be whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from stowplan.errors import InternalFault
from stowplan.flow.graph import Graph, Operator, Tensor
from stowplan.flow.operators import BINARY, UNARY
from stowplan.flow.schedule import Range, Tile
from stowplan.nouns import dataclass, replace

SLIDING = ("conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d")
ELEMENTWISE = UNARY | BINARY | {"copy", "quantize", "dequantize"}
FILTERS = ("conv_2d", "depthwise_conv_2d", "fully_connected")


class TilingFault(InternalFault):
    """A tiled graph does not compute the model; `rule` is a stable word (operator, columns, weights, move, ...)."""

    code = "bad-tiling"

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"the tiles are wrong ({rule}): {message}")
        self.rule = rule


@dataclass(frozen=True)
class Held:
    """Columns and channels [first, last) of the original tensor with this index, in all rows."""

    tensor: int
    columns: Range
    channels: Range


def check_tiles(
    graph: Graph,
    tiles: Sequence[Tile],
    tiled: Graph,
    origins: Sequence[int],
    turns: Sequence[tuple[int, int]] = (),
) -> None:
    """Return if `tiled` computes `graph`. Raises `TilingFault` naming the first operator that does not.

    `turns` are pairs of a tensor and the model input whose rows arrive in it once more.
    """
    follower = _Follower(graph, tiles, tiled)
    follower.arrive(turns)
    follower.follow(origins)


def _extent(tensor: Tensor) -> tuple[int, int, int]:
    """Return rows, columns and channels: one of each for what has fewer axes."""
    shape = tensor.shape or (1,)
    columns = shape[-2] if len(shape) > 2 else 1
    return prod(shape) // max(columns * shape[-1], 1), columns, shape[-1]


class _Follower:
    def __init__(self, graph: Graph, tiles: Sequence[Tile], tiled: Graph) -> None:
        self.graph, self.tiles, self.tiled = graph, tiles, tiled
        self.held: dict[int, Held] = {t: self._all_of(t) for t in graph.inputs}

    def arrive(self, turns: Sequence[tuple[int, int]]) -> None:
        for again, tensor in turns:
            made = self.tiled.tensors[again]
            alike = replace(made, name="") == replace(self.graph.tensors[tensor], name="")
            if tensor not in self.graph.entries or again in self.held or not alike:
                raise TilingFault("turns", f"{made.name} is no model input that arrives again")
            self.held[again] = self._all_of(tensor)

    def follow(self, origins: Sequence[int]) -> None:
        if len(origins) != len(self.tiled.operators):
            raise TilingFault("operator", f"{len(origins)} origins of {len(self.tiled.operators)} operators")
        for index, (operator, origin) in enumerate(zip(self.tiled.operators, origins, strict=True)):
            where = f"operator {index} ({operator.source})"
            if len(operator.outputs) != 1 or operator.outputs[0] in self.held:
                raise TilingFault("operator", f"{where} fills what is filled already")
            held = self._moved(operator, where) if origin < 0 else self._computed(operator, origin, where)
            self._fits(operator.outputs[0], held, where)
            self.held[operator.outputs[0]] = held
        if (self.tiled.inputs, self.tiled.outputs) != (self.graph.inputs, self.graph.outputs):
            raise TilingFault("ports", "inputs and outputs are not the model's")
        if self.tiled.states != self.graph.states:
            raise TilingFault("ports", "the state is not the model's")
        for tensor in self.graph.outputs:
            if self.held.get(tensor) != self._all_of(tensor):
                raise TilingFault("ports", f"the output {self.graph.tensors[tensor].name} is not whole")

    def _all_of(self, tensor: int) -> Held:
        _, columns, channels = _extent(self.graph.tensors[tensor])
        return Held(tensor, (0, columns), (0, channels))

    def _fits(self, index: int, held: Held, where: str) -> None:
        """The tensor that is filled must be what it says: shape, type, quantization."""
        made, original = self.tiled.tensors[index], self.graph.tensors[held.tensor]
        expected = (_extent(original)[0], held.columns[1] - held.columns[0], held.channels[1] - held.channels[0])
        same = (made.dtype, made.quantization) == (original.dtype, original.quantization)
        if _extent(made) != expected or len(made.shape) != len(original.shape) or not same or made.constant:
            raise TilingFault("shape", f"{where} fills {list(made.shape)} with something else of {original.name}")

    def _input(self, tensor: int, where: str) -> Held:
        if tensor not in self.held:
            raise TilingFault("order", f"{where} reads what is not made yet")
        return self.held[tensor]

    # What only moves.

    def _moved(self, operator: Operator, where: str) -> Held:
        if operator.kind == "rearrange":
            return self._slice(operator, where)
        if operator.kind == "concatenation":
            return self._join(operator, where)
        raise TilingFault("move", f"{where} belongs to no tile and computes {operator.kind}")

    def _slice(self, operator: Operator, where: str) -> Held:
        source = self._input(operator.inputs[0], where)
        rows, columns, channels = _extent(self.tiled.tensors[operator.inputs[0]])
        sizes, strides = operator.integers("sizes"), operator.integers("strides")
        column, channel = divmod(operator.integer("offset"), channels)
        good = len(sizes) == 3 and strides == (columns * channels, channels, 1) and sizes[0] == rows
        if not good or column + sizes[1] > columns or channel + sizes[2] > channels:
            raise TilingFault("move", f"{where} is no slice of columns and channels")
        left, deep = source.columns[0] + column, source.channels[0] + channel
        return Held(source.tensor, (left, left + sizes[1]), (deep, deep + sizes[2]))

    def _join(self, operator: Operator, where: str) -> Held:
        pieces = [self._input(t, where) for t in operator.inputs]
        rank, axis = len(self.tiled.tensors[operator.inputs[0]].shape), operator.integer("axis")
        if axis not in (rank - 1, rank - 2) or (axis == rank - 2 and rank < 3):
            raise TilingFault("move", f"{where} joins along axis {axis}")
        joined = pieces[0]
        for piece in pieces[1:]:
            if axis == rank - 1:
                good = piece.columns == joined.columns and piece.channels[0] == joined.channels[1]
                after = Held(joined.tensor, joined.columns, (joined.channels[0], piece.channels[1]))
            else:
                good = piece.channels == joined.channels and piece.columns[0] == joined.columns[1]
                after = Held(joined.tensor, (joined.columns[0], piece.columns[1]), joined.channels)
            if not good or piece.tensor != joined.tensor:
                raise TilingFault("move", f"{where} joins what does not lie side by side")
            joined = after
        return joined

    # What computes.

    def _computed(self, operator: Operator, origin: int, where: str) -> Held:
        if origin >= len(self.tiles):
            raise TilingFault("operator", f"{where} claims tile {origin}, which does not exist")
        tile = self.tiles[origin]
        original = self.graph.operators[tile.operator]
        output = self._all_of(original.outputs[0])
        held = Held(output.tensor, tile.columns or output.columns, tile.channels or output.channels)
        if operator.kind != original.kind or len(operator.inputs) != len(original.inputs):
            raise TilingFault("operator", f"{where} is no tile of {original.source}")
        self._same_attributes(operator, original, where)
        if held == output:
            self._whole(operator, original, where)
        elif original.kind in SLIDING:
            self._window(operator, original, held, where)
        elif original.kind == "fully_connected":
            self._dense(operator, original, where)
        else:
            self._elementwise(operator, original, held, where)
        if held != output and original.kind in FILTERS:
            self._weights(operator, original, held, where)
        return held

    def _same_attributes(self, operator: Operator, original: Operator, where: str) -> None:
        free = ("pad_left", "pad_right")
        mine, theirs = (
            {k: v for k, v in op.attributes.items() if op.kind not in SLIDING or k not in free}
            for op in (operator, original)
        )
        if mine != theirs:
            raise TilingFault("operator", f"{where} has other attributes than {original.source}")

    def _whole(self, operator: Operator, original: Operator, where: str) -> None:
        if operator.attributes != original.attributes or operator.outputs != original.outputs:
            raise TilingFault("operator", f"{where} is not {original.source} as it was")
        for mine, theirs in zip(operator.inputs, original.inputs, strict=True):
            # Rows that arrive once more are in a tensor of their own, which holds the same.
            moved = self.graph.is_activation(theirs)
            if (self._input(mine, where) != self._all_of(theirs)) if moved else mine != theirs:
                raise TilingFault("operands", f"{where} reads something else than {original.source}")

    def _elementwise(self, operator: Operator, original: Operator, held: Held, where: str) -> None:
        if original.kind not in ELEMENTWISE:
            raise TilingFault("operands", f"{where}: {original.kind} does not work element by element")
        shape = self.graph.tensors[held.tensor].shape
        for mine, theirs in zip(operator.inputs, original.inputs, strict=True):
            if not self.graph.is_activation(theirs) or self.graph.tensors[theirs].shape != shape:
                raise TilingFault("operands", f"{where}: {original.kind} does not work element by element")
            if self._input(mine, where) != Held(theirs, held.columns, held.channels):
                raise TilingFault("operands", f"{where} reads other elements than it fills")

    def _dense(self, operator: Operator, original: Operator, where: str) -> None:
        source, out = (self.graph.tensors[t] for t in (original.inputs[0], original.outputs[0]))
        weights = self.graph.tensors[original.inputs[1]]
        if source.elements != weights.shape[1] or out.elements != weights.shape[0]:
            raise TilingFault("operands", f"{where}: only of a single vector some outputs can be computed")
        if self._input(operator.inputs[0], where) != self._all_of(original.inputs[0]):
            raise TilingFault("operands", f"{where} does not read the whole vector")

    def _window(self, operator: Operator, original: Operator, held: Held, where: str) -> None:
        """Every tap of every column must fall on the same element as in the original, or as there on padding."""
        source = self._input(operator.inputs[0], where)
        if source.tensor != original.inputs[0]:
            raise TilingFault("operands", f"{where} reads another tensor than {original.source}")
        self._depth(original, source, held, where)
        width = _extent(self.graph.tensors[source.tensor])[1]
        stride, pad, mine = original.integer("stride_w"), original.integer("pad_left"), operator.integer("pad_left")
        for column in range(*held.columns):
            for tap in self._taps(original):
                truth = column * stride + tap - pad
                place = (column - held.columns[0]) * stride + tap - mine
                inside = 0 <= place < source.columns[1] - source.columns[0]
                if inside != (0 <= truth < width) or (inside and place + source.columns[0] != truth):
                    raise TilingFault("columns", f"{where} takes column {place} of its input for column {truth}")

    def _taps(self, original: Operator) -> range:
        if original.kind in FILTERS:
            step = original.integer("dilation_w")
            return range(0, self.graph.tensors[original.inputs[1]].shape[2] * step, step)
        return range(original.integer("kernel_w"))

    def _depth(self, original: Operator, source: Held, held: Held, where: str) -> None:
        if original.kind == "conv_2d":
            weights = self.graph.tensors[original.inputs[1]]
            grouped = weights.shape[3] != _extent(self.graph.tensors[source.tensor])[2]
            wanted = self._all_of(source.tensor).channels
            if grouped and held.channels != self._all_of(held.tensor).channels:
                raise TilingFault("channels", f"{where} computes some channels of a convolution in groups")
        else:
            times = original.integer("multiplier") if original.kind == "depthwise_conv_2d" else 1
            wanted = (held.channels[0] // times, held.channels[1] // times)
            if (wanted[0] * times, wanted[1] * times) != held.channels:
                raise TilingFault("channels", f"{where} computes a part of what one input channel makes")
        if source.channels != wanted:
            raise TilingFault("channels", f"{where} reads channels {source.channels} instead of {wanted}")

    def _weights(self, operator: Operator, original: Operator, held: Held, where: str) -> None:
        """Constants must be those of the tile's channels: bytes, and scales where there is one per channel."""
        channels = range(*held.channels)
        for position in range(1, len(original.inputs)):
            mine, theirs = operator.inputs[position], original.inputs[position]
            if (mine < 0) != (theirs < 0):
                raise TilingFault("weights", f"{where} has other operands than {original.source}")
            if mine < 0:
                continue
            last = original.kind == "depthwise_conv_2d" and position == 1
            a, b = self.tiled.tensors[mine], self.graph.tensors[theirs]
            if a.constant is None or b.constant is None or a.dtype != b.dtype:
                raise TilingFault("weights", f"{where} has weights that are not constant")
            truth = _of_channels(self.graph.constant_bytes(theirs), b, channels, last)
            cut = (*b.shape[:-1], len(channels)) if last else (len(channels), *b.shape[1:])
            if a.shape != cut or self.tiled.constant_bytes(mine) != truth or not _same_scales(a, b, channels):
                raise TilingFault("weights", f"{where} has weights of other channels than {held.channels}")


def _of_channels(data: bytes, tensor: Tensor, channels: range, last: bool) -> bytes:
    """Pick the elements of some channels one by one; they are counted along the first axis or the last."""
    count = tensor.shape[-1] if last else tensor.shape[0]
    size = len(data) // max(tensor.elements, 1)
    per = tensor.elements // count
    if not last:
        return data[channels.start * per * size : channels.stop * per * size]
    return b"".join(data[(p * count + c) * size : (p * count + c + 1) * size] for p in range(per) for c in channels)


def _same_scales(mine: Tensor, theirs: Tensor, channels: range) -> bool:
    a, b = mine.quantization, theirs.quantization
    if a is None or b is None:
        return a is b
    if len(b.scales) == 1:
        return (a.scales, a.zero_points) == (b.scales, b.zero_points)
    wanted = tuple(b.scales[c] for c in channels)
    points = tuple(b.zero_points[c] for c in channels) if len(b.zero_points) > 1 else b.zero_points
    return (a.scales, a.zero_points, a.axis) == (wanted, points, b.axis)
