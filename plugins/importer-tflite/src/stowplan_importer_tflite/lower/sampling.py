"""GATHER, MIRROR_PAD, RESIZE and PADV2: operators that pick elements by tables, between neighbours, or add a margin."""

from __future__ import annotations

import math
import struct

from stowplan.build.fold import FORMATS
from stowplan.build.lower.fixed_point import float32, round_away
from stowplan.flow.graph import Attribute
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.lower.rearranging import moved, steps_of
from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.site import COMPUTED, Conversion, Mismatch, Refusal, Site, Value, check_same_quantization

MAX_RESULT = 1 << 20


def gather(site: Site) -> Conversion | list[Conversion]:
    site.arity(2, 2)
    x, indices = moved(site), site.value(1)
    stated = site.integer(schema.GatherField.AXIS) if site.table is not None else 0
    if site.table is not None and site.integer(schema.GatherField.BATCH_DIMS):
        raise Refusal("batch dimensions; gathering from one tensor would be supported")
    if not -len(x.shape) <= stated < len(x.shape) or indices.dtype not in ("int32", "int64"):
        raise Mismatch(f"axis {stated} of an input of shape {spelled(x.shape)} by {indices.dtype} indices")
    axis = stated % len(x.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if indices.data is None or (x.data is not None and indices.elements > MAX_RESULT):
        return Conversion("gather", (x.tensor, indices.tensor), shape, {"axis": axis})
    numbers = tuple(n + x.shape[axis] if n < 0 else n for n in site.constant_integers(1, "the indices"))
    if any(not 0 <= n < x.shape[axis] for n in numbers):
        raise Mismatch(f"an index outside the {x.shape[axis]} elements of axis {axis}")
    flat = (*x.shape[:axis], len(numbers), *x.shape[axis + 1 :])
    picked = sampled(x, flat, {axis: numbers})
    if flat == shape:
        return picked
    inner = site.new(flat, x.dtype, x.quantization, None)
    return [picked._replace(output=inner.tensor), Conversion("reshape", (inner.tensor,), shape)]


def embedding_lookup(site: Site) -> Conversion:
    """Rows of a table, by indices that come first."""
    site.arity(2, 2)
    indices, table = site.value(0), site.activation(1, ("float32", "int8"))
    check_same_quantization(table, site.result(table.dtype))
    if indices.dtype != "int32" or not table.shape:
        raise Mismatch(f"{indices.dtype} indices into shape {spelled(table.shape)}")
    return Conversion("gather", (table.tensor, indices.tensor), (*indices.shape, *table.shape[1:]), {"axis": 0})


def gather_nd(site: Site) -> list[Conversion]:
    """The last axis of the indices lists places along the first axes of the input; those are counted as one axis."""
    site.arity(2, 2)
    x, indices = moved(site), site.value(1)
    depth = indices.shape[-1] if indices.shape else 0
    if not 0 < depth <= len(x.shape) or indices.dtype != "int32":
        raise Mismatch(f"{indices.dtype} indices of shape {spelled(indices.shape)} into shape {spelled(x.shape)}")
    merged = (math.prod(x.shape[:depth]), *x.shape[depth:])
    shape = (*indices.shape[:-1], *x.shape[depth:])
    steps = steps_of(x.shape[:depth])
    flat = site.new(merged, x.dtype, x.quantization, None)
    first = Conversion("reshape", (x.tensor,), merged, output=flat.tensor)
    if indices.data is not None:
        numbers = site.constant_integers(1, "the indices")
        places = tuple(
            sum(n * step for n, step in zip(numbers[i : i + depth], steps, strict=True))
            for i in range(0, len(numbers), depth)
        )
        if any(not 0 <= place < merged[0] for place in places):
            raise Mismatch(f"an index outside shape {spelled(x.shape)}")
        wide = (len(places), *merged[1:])
        inner = site.new(wide, x.dtype, x.quantization, None)
        picked = sampled(flat, wide, {0: places})._replace(output=inner.tensor)
        return [first, picked, Conversion("reshape", (inner.tensor,), shape)]
    scale = site.new((depth,), "int32", None, struct.pack(f"<{depth}i", *steps))
    scaled, places_ = site.new(indices.shape, "int32", None, None), site.new(indices.shape[:-1], "int32", None, None)
    axes = (len(indices.shape) - 1,)
    return [
        first,
        Conversion("mul", (indices.tensor, scale.tensor), indices.shape, {"activation": "none"}, scaled.tensor),
        Conversion("reduce", (scaled.tensor,), places_.shape, {"function": "sum", "axes": axes}, places_.tensor),
        Conversion("gather", (flat.tensor, places_.tensor), shape, {"axis": 0}),
    ]


def sampled(x: Value, shape: tuple[int, ...], tables: dict[int, tuple[int, ...]]) -> Conversion:
    """Return the conversion that takes indices along some axes from tables."""
    axes = tuple(sorted(tables))
    attributes: dict[str, Attribute] = {"axes": axes, "indices": tuple(i for axis in axes for i in tables[axis])}
    return Conversion("sample", (x.tensor,), shape, attributes)


def mirror_pad(site: Site) -> Conversion:
    site.arity(2, 2)
    x, pads = moved(site), site.constant_integers(1, "the list of paddings")
    skip = 1 if site.options().integer(schema.MIRROR_PAD_MODE, "b") == 0 else 0  # REFLECT leaves the edge out
    if len(pads) != 2 * len(x.shape):
        raise Mismatch(f"paddings {pads[:16]} for an input of shape {spelled(x.shape)}")
    tables, shape = {}, []
    for axis, size in enumerate(x.shape):
        before, after = pads[2 * axis : 2 * axis + 2]
        if min(before, after) < 0 or max(before, after) > size - skip:
            raise Mismatch(f"paddings {before} and {after} along an axis of {size} elements")
        end = size - 1 - skip
        places = [*range(before + skip - 1, skip - 1, -1), *range(size), *range(end, end - after, -1)]
        shape.append(len(places))
        if before or after:
            tables[axis] = tuple(places)
    return sampled(x, tuple(shape), tables)


def pad_v2(site: Site) -> Conversion:
    site.arity(3, 3)
    x, pads, value = moved(site), site.constant_integers(1, "the list of paddings"), site.constant(2, "the value")
    if len(pads) != 2 * len(x.shape) or min(pads, default=0) < 0 or value.elements != 1 or value.dtype != x.dtype:
        raise Mismatch(f"paddings {pads[:16]} of {value.dtype} for an input of shape {spelled(x.shape)}")
    check_same_quantization(x, value)
    before, after = pads[::2], pads[1::2]
    number = struct.unpack(f"<{FORMATS[x.dtype]}", value.data or b"")[0]
    shape = tuple(a + size + b for a, size, b in zip(before, x.shape, after, strict=True))
    return Conversion("pad_with", (x.tensor,), shape, {"before": before, "after": after, "value": number})


def _resized(site: Site) -> tuple[Value, int, int]:
    site.arity(2, 2)
    x, size = moved(site), site.constant_integers(1, "the new size")
    if len(x.shape) != 4 or len(size) != 2 or min(size) < 1:
        raise Mismatch(f"a new size of {size[:4]} for an input of shape {spelled(x.shape)}")
    return x, size[0], size[1]


def resize_nearest_neighbor(site: Site) -> Conversion:
    x, height, width = _resized(site)
    aligned, centred = (site.table is not None and site.table.flag(number) for number in (0, 1))
    n, in_h, in_w, c = x.shape
    tables = {1: _nearest(in_h, height, aligned, centred), 2: _nearest(in_w, width, aligned, centred)}
    return sampled(x, (n, height, width, c), tables)


def _nearest(size: int, result: int, aligned: bool, centred: bool) -> tuple[int, ...]:
    """In float32, as the runtimes compute the places."""
    scale = float32((size - 1) / (result - 1)) if aligned and result > 1 else float32(size / result)
    points = (float32(float32(i + (0.5 if centred else 0.0)) * scale) for i in range(result))
    places = (round_away(p) if aligned else math.floor(p) for p in points)
    return tuple(max(min(place, size - 1), 0) for place in places)


def resize_bilinear(site: Site) -> Conversion:
    x, height, width = _resized(site)
    if x.dtype not in COMPUTED:
        raise Refusal(f"{x.dtype} activations; int8, int16 and float32 would be supported")
    flags = {
        "align_corners": site.table is not None and site.table.flag(schema.ResizeBilinearField.ALIGN_CORNERS),
        "half_pixel_centers": site.table is not None and site.table.flag(schema.ResizeBilinearField.HALF_PIXEL_CENTERS),
    }
    return Conversion("resize_bilinear", (x.tensor,), (x.shape[0], height, width, x.shape[3]), flags)
