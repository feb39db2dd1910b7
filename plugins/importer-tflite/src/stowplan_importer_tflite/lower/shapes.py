"""SHAPE, SQUEEZE, PACK and their like: operators about shapes, most of which fold away."""

from __future__ import annotations

import math
import struct

from stowplan.build.fold import FORMATS, packed
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.lower.rearranging import moved
from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.site import ANYTHING, Conversion, Mismatch, Refusal, Site

MAX_FILLED = 1 << 24


def shape(site: Site) -> Conversion:
    site.arity(1, 1)
    x = site.value(0)
    if x.broken:
        raise Refusal("")
    if site.output.dtype not in ("int32", "int64"):
        raise Refusal(f"{site.output.dtype} output; int32 and int64 are defined")
    return Conversion("constant", (), (len(x.shape),), data=packed(x.shape, site.output.dtype))


def rank(site: Site) -> Conversion:
    site.arity(1, 1)
    if site.value(0).broken:
        raise Refusal("")
    return Conversion("constant", (), (), data=struct.pack("<i", len(site.value(0).shape)))


def squeeze(site: Site) -> Conversion:
    site.arity(1, 1)
    x = moved(site)
    stated = site.table.integers(schema.SQUEEZE_DIMS) if site.table is not None else ()
    axes = {axis % len(x.shape) for axis in stated if -len(x.shape) <= axis < len(x.shape)}
    if len(axes) != len(set(stated)) or any(x.shape[axis] != 1 for axis in axes):
        raise Mismatch(f"axes {stated[:8]} of an input of shape {spelled(x.shape)}")
    gone = axes if stated else {axis for axis, size in enumerate(x.shape) if size == 1}
    return Conversion("reshape", (x.tensor,), tuple(n for i, n in enumerate(x.shape) if i not in gone))


def expand_dims(site: Site) -> Conversion:
    site.arity(2, 2)
    x, axes = moved(site), site.constant_integers(1, "the axis")
    if len(axes) != 1 or not -len(x.shape) - 1 <= axes[0] <= len(x.shape):
        raise Mismatch(f"axis {axes[:8]} of an input of shape {spelled(x.shape)}")
    axis = axes[0] % (len(x.shape) + 1)
    return Conversion("reshape", (x.tensor,), (*x.shape[:axis], 1, *x.shape[axis:]))


def pack(site: Site) -> list[Conversion]:
    parts = [moved(site, position) for position in range(len(site.inputs))]
    if not parts or any(part.shape != parts[0].shape for part in parts):
        raise Mismatch("inputs of different shapes")
    inner, stated = parts[0].shape, site.integer(schema.PackField.AXIS)
    if not -len(inner) - 1 <= stated <= len(inner):
        raise Mismatch(f"axis {stated} of inputs of shape {spelled(inner)}")
    axis = stated % (len(inner) + 1)
    wide = (*inner[:axis], 1, *inner[axis:])
    views = [site.new(wide, part.dtype, part.quantization, None) for part in parts]
    steps = [Conversion("reshape", (p.tensor,), wide, output=v.tensor) for p, v in zip(parts, views, strict=True)]
    result = (*inner[:axis], len(parts), *inner[axis:])
    return [*steps, Conversion("concatenation", tuple(v.tensor for v in views), result, {"axis": axis})]


def fill(site: Site) -> Conversion:
    site.arity(2, 2)
    sizes, value = site.constant_integers(0, "the shape"), site.constant(1, "the value")
    if value.elements != 1 or any(n < 0 for n in sizes) or math.prod(sizes) > MAX_FILLED:
        raise Refusal(f"a constant of shape {spelled(sizes[:8])}")
    return Conversion("constant", (), sizes, data=bytes(value.data or b"") * math.prod(sizes))


def zeros_like(site: Site) -> Conversion:
    site.arity(1, 1)
    x = site.value(0)
    if x.broken or x.elements > MAX_FILLED or x.dtype not in ANYTHING or x.quantization is not None:
        raise Refusal("" if x.broken else f"zeros in the shape {spelled(x.shape)} of {x.dtype}")
    return Conversion("constant", (), x.shape, data=bytes(x.elements * SIZE_BYTES[x.dtype]))


def range_(site: Site) -> Conversion:
    site.arity(3, 3)
    words = ("the start", "the limit", "the step")
    values = [site.constant(position, word) for position, word in enumerate(words)]
    dtype = site.output.dtype
    if any(v.dtype != dtype or v.elements != 1 for v in values) or dtype not in ("int32", "int64", "float32"):
        raise Refusal(f"a range of {dtype}")
    start, limit, step = (struct.unpack(f"<{FORMATS[dtype]}", v.data or b"")[0] for v in values)
    count = max(0, math.ceil((limit - start) / step)) if step and step == step else 0
    if not 0 < count <= MAX_FILLED:
        raise Refusal(f"a range of {count} numbers")
    return Conversion("constant", (), (count,), data=packed([start + i * step for i in range(count)], dtype))
