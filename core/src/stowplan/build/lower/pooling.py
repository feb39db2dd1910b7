"""Pools and means."""

from __future__ import annotations

from stowplan.build.lower.fixed_point import Factor, factor
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.ranges import range_f32, range_integer, range_s8
from stowplan.build.lower.site import Site
from stowplan.build.lower.windows import touches, window
from stowplan.build.rows import nhwc

SCALE_TOLERANCE = 1e-6
"""How far apart the scales of a pool's input and output may be; the kernel does not rescale, and LiteRT allows this."""
MAX_SUMMED = 1 << 23
"""A sum of more int8 values could overflow 32 bits."""


def average_pool_2d(site: Site) -> Lowered:
    lowered = _pool(site, "average_pool_2d")
    source = nhwc(site.input().shape)
    if source[1] * source[2] > MAX_SUMMED:
        raise site.refusal("its images are too large")
    return lowered


def max_pool_2d(site: Site) -> Lowered:
    return _pool(site, "max_pool_2d")


def _pool(site: Site, kind: str) -> Lowered:
    dtype = site.one_dtype("int8", "float32", "int16")
    params = window(site, (site.operator.integer("kernel_h"), site.operator.integer("kernel_w")))
    if params["in_c"] != params["out_c"]:
        raise site.refusal("its input and output have different channels")
    if not touches(params):
        raise site.refusal("some of its windows lie outside the input")
    if dtype == "float32":
        return Lowered(kind=f"{kind}_f32", params=params | range_f32(site), operands=(site.operand(),))
    quantization = site.same_quantization(tolerance=SCALE_TOLERANCE)
    if dtype == "int16":
        params["largest"] = int(kind == "max_pool_2d")
        return Lowered(kind="pool_int", params=params | range_integer(site, quantization), operands=(site.operand(),))
    return Lowered(kind=f"{kind}_s8", params=params | range_s8(site, quantization), operands=(site.operand(),))


def mean(site: Site) -> Lowered:
    dtype = site.dtype(0)
    params = _reduced(site)
    count = _count(params)
    if dtype == "float32":
        return Lowered(kind="mean_f32", params=params, operands=(site.operand(),))
    source, result = site.quantization(site.input()), site.quantization(site.output)
    scaled = per_element(factor(source.scale / result.scale), count)
    params |= dict(input_zero_point=source.zero_point, output_zero_point=result.zero_point)
    params |= dict(multiplier=scaled.multiplier, shift=scaled.shift)
    return Lowered(kind="mean_s8", params=params, operands=(site.operand(),))


def per_element(scale: Factor, count: int) -> Factor:
    """Divide a factor by the number of elements without losing bits: shift it up first, as far as its range allows."""
    bits = min(count.bit_length() - 1, 32, 31 + scale.shift)
    return Factor((scale.multiplier << bits) // count, scale.shift - bits)


def _reduced(site: Site) -> dict[str, ParamValue]:
    """Return the sizes of one image before and after. Refuses means over images, and rows that do not match."""
    shape, axes = site.input().shape, site.operator.integers("axes")
    if any(not 0 <= axis < len(shape) for axis in axes):
        raise site.refusal(f"axes {list(axes)} do not exist in shape {list(shape)}")
    images, height, width, channels = nhwc(shape)
    # The positions of N, H, W, C among the axes of the shape, see nhwc: [N,F] is one image of N rows.
    places = {1: "c", 2: "hc", 3: "hwc"}.get(len(shape), "n" * (len(shape) - 3) + "hwc")
    away = {places[axis] for axis in axes if shape[axis] > 1}
    if "n" in away:
        raise site.refusal("a mean over the batch is not supported")
    if site.input_form() != site.layout.default(site.operator.inputs[0]):
        raise site.refusal("its input is not cut into rows of its height")
    if height * width * channels > MAX_SUMMED:
        raise site.refusal("its images are too large")
    after = dict(out_h=height, out_w=width, out_c=channels)
    after |= {f"out_{place}": 1 for place in away}
    if images * after["out_h"] * after["out_w"] * after["out_c"] != site.output.elements:
        raise site.refusal(f"a mean of {list(shape)} over {list(axes)} has not shape {list(site.output.shape)}")
    return {"in_h": height, "in_w": width, "in_c": channels, **after}


def _count(params: dict[str, ParamValue]) -> int:
    value = {name: v for name, v in params.items() if isinstance(v, int)}
    before, after = (value[f"{s}_h"] * value[f"{s}_w"] * value[f"{s}_c"] for s in ("in", "out"))
    return before // after
