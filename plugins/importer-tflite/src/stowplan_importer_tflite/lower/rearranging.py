"""TRANSPOSE, SLICE, SPLIT and their like: operators that pick elements by an even step along each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stowplan.flow.graph import Attribute
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.site import ANYTHING, Conversion, Mismatch, Refusal, Site, Value, check_same_quantization

Axis = tuple[int, int]
"""How many elements, and how far apart they lie in the input."""


def steps_of(shape: Sequence[int]) -> list[int]:
    """Return how far apart neighbours along each axis lie in row-major order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def rearranged(
    x: Value, shape: tuple[int, ...], axes: Sequence[Axis], offset: int = 0, output: int | None = None
) -> Conversion:
    attributes: dict[str, Attribute] = {
        "sizes": tuple(size for size, _ in axes),
        "strides": tuple(step for _, step in axes),
        "offset": offset,
    }
    return Conversion(kind="rearrange", inputs=(x.tensor,), shape=shape, attributes=attributes, output=output)


def moved(site: Site, position: int = 0) -> Value:
    """Return an input of any type, of which each output has the quantization."""
    x = site.activation(position, ANYTHING)
    for y in site.outputs:
        if y.dtype != x.dtype:
            raise Refusal(f"{x.dtype} input but {y.dtype} output")
        check_same_quantization(x, y)
    return x


def transpose(site: Site) -> Conversion:
    site.arity(2, 2)
    x, order = moved(site), site.constant_integers(1, "the order of axes")
    rank = len(x.shape)
    order = tuple(axis % rank if rank and -rank <= axis < rank else -1 for axis in order)
    if sorted(order) != list(range(rank)):
        raise Mismatch(f"order of axes {order[:8]} for an input of shape {spelled(x.shape)}")
    steps, shape = steps_of(x.shape), tuple(x.shape[axis] for axis in order)
    long = [axis for axis in order if x.shape[axis] != 1]
    if long == sorted(long):  # only axes of one element change places
        return Conversion(kind="reshape", inputs=(x.tensor,), shape=shape)
    return rearranged(x, shape, [(x.shape[axis], steps[axis]) for axis in order])


def slice_(site: Site) -> Conversion:
    site.arity(3, 3)
    x = moved(site)
    begin = site.constant_integers(1, "where the slice begins")
    sizes = site.constant_integers(2, "the size of the slice")
    if not len(begin) == len(sizes) == len(x.shape):
        raise Mismatch(f"a slice from {begin[:8]} of an input of shape {spelled(x.shape)}")
    shape = tuple(n - b if s == -1 else s for b, s, n in zip(begin, sizes, x.shape, strict=True))
    if any(b < 0 or s < 1 or b + s > n for b, s, n in zip(begin, shape, x.shape, strict=True)):
        raise Mismatch(f"a slice from {begin[:8]} of {sizes[:8]} elements of an input of shape {spelled(x.shape)}")
    return cut(x, begin, shape)


def cut(x: Value, begin: Sequence[int], shape: tuple[int, ...], output: int | None = None) -> Conversion:
    """Return the block of `shape` that begins at `begin`."""
    steps = steps_of(x.shape)
    offset = sum(b * step for b, step in zip(begin, steps, strict=True))
    return rearranged(x, shape, list(zip(shape, steps, strict=True)), offset, output)


def strided_slice(site: Site) -> Conversion:
    site.arity(4, 4)
    x = moved(site)
    words = ("where the slice begins", "where the slice ends", "its strides")
    begin, end, stride = (site.constant_integers(i + 1, word) for i, word in enumerate(words))
    masks = {name: site.integer(number) for name, number in vars(schema.StridedSliceField).items() if name.isupper()}
    if masks["ELLIPSIS"] or masks["NEW_AXIS"]:
        raise Refusal("an ellipsis or a new axis in a slice")
    if not len(begin) == len(end) == len(stride) <= len(x.shape) or 0 in stride:
        raise Mismatch(f"a slice {begin[:8]} to {end[:8]} by {stride[:8]} of an input of shape {spelled(x.shape)}")
    axes: list[Axis] = []
    shape: list[int] = []
    offset = 0
    for axis, (size, step) in enumerate(zip(x.shape, steps_of(x.shape), strict=True)):
        if axis >= len(begin):
            axes.append((size, step))
            shape.append(size)
            continue
        first, count = _span(size, begin[axis], end[axis], stride[axis], axis, masks)
        offset += first * step
        if masks["SHRINK_AXIS"] >> axis & 1:
            continue
        axes.append((count, step * stride[axis]))
        shape.append(count)
    if 0 in shape:
        if x.data is None:
            raise Refusal("an empty slice")
        return Conversion(kind="constant", inputs=(), shape=tuple(shape), data=b"")
    return rearranged(x, tuple(shape), axes, offset)


def _span(size: int, begin: int, end: int, stride: int, axis: int, masks: dict[str, int]) -> tuple[int, int]:
    """Return the first index along an axis and how many there are."""
    low, high = (0, size) if stride > 0 else (-1, size - 1)
    first = min(max(begin + size if begin < 0 else begin, low), high)
    if masks["BEGIN"] >> axis & 1:
        first = low if stride > 0 else high
    if masks["SHRINK_AXIS"] >> axis & 1:
        if not 0 <= first < size:
            raise Mismatch(f"index {begin} along axis {axis} of {size} elements")
        return first, 1
    if masks["OFFSET"]:
        end += begin
    last = min(max(end + size if end < 0 else end, low), high)
    if masks["END"] >> axis & 1:
        last = high if stride > 0 else low
    return first, max(0, -(-(last - first) // stride))


def split(site: Site) -> list[Conversion]:
    site.arity(2, 2)
    axis, x = site.constant_integers(0, "the axis"), moved(site, 1)
    count = len(site.outputs)
    if len(axis) != 1 or not -len(x.shape) <= axis[0] < len(x.shape) or x.shape[axis[0]] % count:
        raise Mismatch(f"{count} equal parts along axis {axis[:1]} of an input of shape {spelled(x.shape)}")
    return _parts(site, x, axis[0] % len(x.shape), [x.shape[axis[0]] // count] * count)


def split_v(site: Site) -> list[Conversion]:
    site.arity(3, 3)
    x, sizes = moved(site), list(site.constant_integers(1, "the sizes of the parts"))
    axes = site.constant_integers(2, "the axis")
    if len(axes) != 1 or not -len(x.shape) <= axes[0] < len(x.shape) or len(sizes) != len(site.outputs):
        raise Mismatch(f"{len(site.outputs)} parts of sizes {sizes[:8]} of an input of shape {spelled(x.shape)}")
    axis = axes[0] % len(x.shape)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    if min(sizes) < 1 or sum(sizes) != x.shape[axis]:
        raise Mismatch(f"parts of sizes {sizes[:8]} along axis {axis} of an input of shape {spelled(x.shape)}")
    return _parts(site, x, axis, sizes)


def _parts(site: Site, x: Value, axis: int, sizes: Sequence[int]) -> list[Conversion]:
    found, first = [], 0
    for y, size in zip(site.outputs, sizes, strict=True):
        begin = [first if i == axis else 0 for i in range(len(x.shape))]
        found.append(cut(x, begin, (*x.shape[:axis], size, *x.shape[axis + 1 :]), y.tensor))
        first += size
    return found


def unpack(site: Site) -> list[Conversion]:
    site.arity(1, 1)
    x, axis = moved(site), site.integer(schema.UnpackField.AXIS)
    if not -len(x.shape) <= axis < len(x.shape) or x.shape[axis] != len(site.outputs):
        raise Mismatch(f"{len(site.outputs)} outputs along axis {axis} of an input of shape {spelled(x.shape)}")
    axis %= len(x.shape)
    steps = steps_of(x.shape)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    axes = [(n, s) for i, (n, s) in enumerate(zip(x.shape, steps, strict=True)) if i != axis]
    return [rearranged(x, shape, axes, i * steps[axis], y.tensor) for i, y in enumerate(site.outputs)]


def tile(site: Site) -> Conversion:
    site.arity(2, 2)
    x, times = moved(site), site.constant_integers(1, "the numbers of repetitions")
    if len(times) != len(x.shape) or min(times, default=1) < 1:
        raise Mismatch(f"repetitions {times[:8]} of an input of shape {spelled(x.shape)}")
    axes = [pair for n, s, t in zip(x.shape, steps_of(x.shape), times, strict=True) for pair in ((t, 0), (n, s))]
    return rearranged(x, tuple(n * t for n, t in zip(x.shape, times, strict=True)), axes)


def broadcast_to(site: Site) -> Conversion:
    site.arity(2, 2)
    x, shape = moved(site), site.constant_integers(1, "the new shape")
    padded = (1,) * (len(shape) - len(x.shape)) + x.shape
    if len(x.shape) > len(shape) or any(a not in (1, b) for a, b in zip(padded, shape, strict=True)):
        raise Mismatch(f"shape {spelled(x.shape)} cannot be broadcast to {spelled(shape[:8])}")
    axes = [(b, s if a > 1 else 0) for a, b, s in zip(padded, shape, steps_of(padded), strict=True)]
    return rearranged(x, shape, axes)


def depth_to_space(site: Site) -> Conversion:
    site.arity(1, 1)
    x, block = moved(site), site.integer(schema.BLOCK_SIZE)
    if len(x.shape) != 4 or block < 1 or x.shape[3] % (block * block):
        raise Mismatch(f"blocks of {block} of an input of shape {spelled(x.shape)}")
    n, h, w, c = x.shape
    depth = c // (block * block)
    steps = steps_of((n, h, w, block, block, depth))
    order = (0, 1, 3, 2, 4, 5)
    sizes = (n, h, w, block, block, depth)
    return rearranged(x, (n, h * block, w * block, depth), [(sizes[i], steps[i]) for i in order])


def space_to_depth(site: Site) -> Conversion:
    site.arity(1, 1)
    x, block = moved(site), site.integer(schema.BLOCK_SIZE)
    if len(x.shape) != 4 or block < 1 or x.shape[1] % block or x.shape[2] % block:
        raise Mismatch(f"blocks of {block} of an input of shape {spelled(x.shape)}")
    n, h, w, c = x.shape
    sizes = (n, h // block, block, w // block, block, c)
    steps = steps_of(sizes)
    shape = (n, h // block, w // block, c * block * block)
    return rearranged(x, shape, [(sizes[i], steps[i]) for i in (0, 1, 3, 2, 4, 5)])


def reverse(site: Site) -> Conversion:
    site.arity(2, 2)
    x, axes = moved(site), site.constant_integers(1, "the list of axes")
    if any(not -len(x.shape) <= axis < len(x.shape) for axis in axes):
        raise Mismatch(f"axes {axes[:8]} of an input of shape {spelled(x.shape)}")
    turned = {axis % len(x.shape) for axis in axes}
    steps = steps_of(x.shape)
    offset = sum((x.shape[axis] - 1) * steps[axis] for axis in turned)
    signs = [-1 if axis in turned else 1 for axis in range(len(x.shape))]
    return rearranged(x, x.shape, [(n, s * sign) for n, s, sign in zip(x.shape, steps, signs, strict=True)], offset)


def space_to_batch(site: Site) -> list[Conversion]:
    site.arity(3, 3)
    x, block, pads = moved(site), *_blocks(site, "paddings")
    before, after = pads[::2], pads[1::2]
    rest = x.shape[len(block) + 1 :]
    if min(pads, default=0) < 0:
        raise Mismatch(f"paddings {pads[:8]}")
    wide = (x.shape[0], *(b + n + a for b, n, a in zip(before, x.shape[1:], after, strict=False)), *rest)
    if any(n % b for n, b in zip(wide[1:], block, strict=False)):
        raise Mismatch(f"blocks of {block} of an input of shape {spelled(wide)}")
    found = []
    source = x
    if any(pads):
        source = site.new(wide, x.dtype, x.quantization, None)
        margins: dict[str, Attribute] = {
            "before": (0, *before, *(0 for _ in rest)),
            "after": (0, *after, *(0 for _ in rest)),
        }
        found.append(Conversion("pad", (x.tensor,), wide, margins, source.tensor))
    steps = steps_of(wide)
    spans = [(n // b, s * b) for n, b, s in zip(wide[1:], block, steps[1:], strict=False)]
    inner = [(b, s) for b, s in zip(block, steps[1:], strict=False)]
    axes = [*inner, (wide[0], steps[0]), *spans, *zip(rest, steps[len(block) + 1 :], strict=True)]
    shape = (wide[0] * math.prod(block), *(n for n, _ in spans), *rest)
    return [*found, rearranged(source, shape, axes)]


def batch_to_space(site: Site) -> list[Conversion]:
    site.arity(3, 3)
    x, block, crops = moved(site), *_blocks(site, "crops")
    batch, rest = x.shape[0] // math.prod(block), x.shape[len(block) + 1 :]
    if x.shape[0] % math.prod(block) or min(crops, default=0) < 0:
        raise Mismatch(f"blocks of {block} of an input of shape {spelled(x.shape)}")
    steps = steps_of((*block, batch, *x.shape[1:]))
    inner, outer = steps[: len(block)], steps[len(block) :]
    axes, wide, begin, shape = [(batch, outer[0])], [batch], [0], [batch]
    for i, b in enumerate(block):
        axes += [(x.shape[i + 1], outer[i + 1]), (b, inner[i])]
        wide.append(x.shape[i + 1] * b)
        begin.append(crops[2 * i])
        shape.append(wide[-1] - crops[2 * i] - crops[2 * i + 1])
    if min(shape) < 1:
        raise Mismatch(f"crops {crops[:8]} leave nothing of {spelled(wide)}")
    axes += zip(rest, outer[len(block) + 1 :], strict=True)
    if not any(crops):
        return [rearranged(x, (*wide, *rest), axes)]
    whole = site.new((*wide, *rest), x.dtype, x.quantization, None)
    return [
        rearranged(x, whole.shape, axes, output=whole.tensor),
        cut(whole, [*begin, *(0 for _ in rest)], (*shape, *rest)),
    ]


def _blocks(site: Site, word: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the block's size along each axis, and two numbers for each."""
    block, pairs = site.constant_integers(1, "the block's shape"), site.constant_integers(2, f"the {word}")
    if not block or min(block) < 1 or len(pairs) != 2 * len(block) or len(block) >= len(site.value(0).shape):
        raise Mismatch(f"blocks of {block[:8]} with {word} {pairs[:8]}")
    return block, pairs
