"""Interpolation between neighbours: where each row and column of the output lies in the input, as a table."""

from __future__ import annotations

import math
import struct

from stowplan.build.lower.fixed_point import float32
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site

KINDS = {"float32": "resize_bilinear_f32", "int8": "resize_bilinear_s8", "int16": "resize_bilinear_s16"}
ONE = 1 << 10
"""Weights of integer interpolation are in steps of 1/1024."""


def resize_bilinear(site: Site) -> Lowered:
    source, result = site.input().shape, site.output.shape
    if len(source) != 4 or len(result) != 4 or (source[0], source[3]) != (result[0], result[3]):
        raise site.refusal(f"it does not make {list(result)} of {list(source)}")
    dtype = site.one_dtype("float32", "int8", "int16")
    if dtype != "float32":
        site.same_quantization()
    tables = [_table(site, source[axis], result[axis], dtype) for axis in (1, 2)]
    params: dict[str, ParamValue] = dict(
        in_h=source[1], in_w=source[2], channels=source[3], out_h=result[1], out_w=result[2],
        rows=tables[0], columns=tables[1],
    )  # fmt: skip
    return Lowered(kind=KINDS[dtype], params=params, operands=(site.operand(),))


def _table(site: Site, size: int, result: int, dtype: str) -> bytes:
    aligned = bool(site.operator.attributes["align_corners"]) and result > 1
    centred = bool(site.operator.attributes["half_pixel_centers"])
    place = _place_f32 if dtype == "float32" else _place_s8
    return b"".join(place(i, size, result, aligned, centred) for i in range(result))


def _place_f32(index: int, size: int, result: int, aligned: bool, centred: bool) -> bytes:
    scale = float32((size - 1) / (result - 1)) if aligned else float32(size / result)
    point = float32(float32(float32(index + 0.5) * scale) - 0.5) if centred else float32(index * scale)
    low = max(math.floor(point), 0)
    return struct.pack("<iif", min(low, size - 1), min(math.ceil(point), size - 1), float32(point - low))


def _place_s8(index: int, size: int, result: int, aligned: bool, centred: bool) -> bytes:
    """The point in steps of 1/1024, from a scale that is rounded to such steps first."""
    scale = (ONE * size + result // 2) // result
    if aligned:
        scale = (ONE * (size - 1) + (result - 1) // 2) // (result - 1)
    point = index * scale + scale // 2 - ONE // 2 if centred else index * scale
    low = max(math.trunc(point / ONE), 0)
    high = min(-(-point // ONE) if point >= 0 else math.trunc((point + ONE - 1) / ONE), size - 1)
    return struct.pack("<iii", min(low, size - 1), max(high, 0), point - ONE * low)
