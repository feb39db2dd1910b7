"""Resize and Upsample: nearest by a table, linear by its kernel, everything else as a product with known weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.dense import connected
from stowplan_importer_onnx.lower.movement import permuted, taken
from stowplan_importer_onnx.lower.windows import from_image, image
from stowplan_importer_onnx.parse import Array, spelled
from stowplan_importer_onnx.site import FLOAT, Site, axis_of

MAX_SIZE = 1 << 16
MAX_WEIGHTS = 1 << 24


class Scaling(NamedTuple):
    """One axis: its sizes, how much larger it becomes, and for `tf_crop_and_resize` what part of it is meant."""

    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def resize(site: Site) -> Value:
    x = site.value(0, ("float32", "int8", "uint8", "int32"))
    scalings = _scalings(site, x)
    mode = site.text("mode", "nearest")
    place = site.text("coordinate_transformation_mode", "half_pixel" if site.version >= 11 else "asymmetric")
    moving = [axis for axis, s in enumerate(scalings) if s.before != s.after or s.scale != 1.0]
    if mode == "nearest" or not moving:
        return _nearest(site, x, scalings, moving, place)
    if mode not in ("linear", "cubic") or x.dtype != "float32":
        raise Refusal(f"mode {mode} of {x.dtype}; nearest, linear and cubic of float32 would be supported")
    if _has_kernel(site, x, scalings, moving, mode, place):
        return _bilinear(site.builder, x, scalings, place)
    for axis in moving:
        x = _weighted(site, site.builder.real(x), scalings[axis], axis, mode, place)
    return x


def upsample(site: Site) -> Value:
    x = site.value(0, FLOAT)
    factors = (
        site.node.attributes.get("scales") if site.has("scales") else list(site.array(1, "the scales").reshape(-1))
    )
    if not isinstance(factors, list) or len(factors) != x.rank:
        raise Refusal(f"scales for {x.rank} axes")
    scalings = [_scaled(n, float(f)) for n, f in zip(x.shape, factors, strict=True)]
    moving = [axis for axis, s in enumerate(scalings) if s.before != s.after]
    if site.text("mode", "nearest") == "nearest":
        for axis in moving:
            places = [min(math.floor(i / scalings[axis].scale), x.shape[axis] - 1) for i in range(scalings[axis].after)]
            x = taken(site.builder, x, axis, places)
        return x
    for axis in moving:
        x = _weighted(site, site.builder.real(x), scalings[axis], axis, "linear", "asymmetric")
    return x


def _scalings(site: Site, x: Value) -> list[Scaling]:
    axes = list(range(x.rank))
    if site.has("axes"):
        axes = [axis_of(axis, x.rank) for axis in site.integers("axes")]
    first = 1 if site.version < 11 else 2
    found = [Scaling(n, n, 1.0) for n in x.shape]
    region = None if first == 1 or site.optional(1) is None else site.array(1, "the region").reshape(-1)
    scales = None if site.optional(first) is None else site.array(first, "the scales").reshape(-1)
    if scales is not None and scales.size:
        chosen = [_scaled(x.shape[axis], float(f)) for axis, f in zip(axes, scales)]  # noqa: B905 - checked below
        count = scales.size
    else:
        sizes = site.numbers(3, "the sizes")
        chosen = _sized(site, [x.shape[axis] for axis in axes], sizes)
        count = len(sizes)
    if count != len(axes):
        raise Refusal(f"{count} numbers for {len(axes)} axes")
    crop = site.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    for i, axis in enumerate(axes):
        found[axis] = chosen[i]
        if crop:
            if region is None or region.size != 2 * len(axes):
                raise Refusal("no region to crop")
            found[axis] = chosen[i]._replace(start=float(region[i]), end=float(region[len(axes) + i]))
    return found


def _sized(site: Site, before: Sequence[int], sizes: Sequence[int]) -> list[Scaling]:
    policy = site.text("keep_aspect_ratio_policy", "stretch")
    if len(sizes) != len(before) or any(not 1 <= n <= MAX_SIZE for n in sizes):
        raise Refusal(f"sizes {list(sizes[:8])} for {spelled(before)}")
    if policy == "stretch":
        return [Scaling(a, b, b / a) for a, b in zip(before, sizes, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise Refusal(f"policy {policy}")
    ratios = [b / a for a, b in zip(before, sizes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [Scaling(a, max(math.floor(scale * a + 0.5), 1), scale) for a in before]


def _scaled(size: int, factor: float) -> Scaling:
    factor = float(np.float32(factor))
    if not 0 < factor <= MAX_SIZE or not 1 <= math.floor(size * factor) <= MAX_SIZE:
        raise Refusal(f"{size} elements {factor} times")
    return Scaling(size, math.floor(size * factor), factor)


def _point(s: Scaling, index: int, place: str) -> float:
    """Return where an element of the result lies in the input."""
    if place == "align_corners":
        return index * (s.before - 1) / (s.before * s.scale - 1) if s.after > 1 else 0.0
    if place == "asymmetric":
        return index / s.scale
    if place == "half_pixel" or (place == "pytorch_half_pixel" and s.after > 1):
        return (index + 0.5) / s.scale - 0.5
    if place == "pytorch_half_pixel":
        return 0.0
    if place == "half_pixel_symmetric":
        adjusted = s.after / (s.before * s.scale)
        return s.before / 2 * (1 - adjusted) + (index + 0.5) / s.scale - 0.5
    if place == "tf_half_pixel_for_nn":
        return (index + 0.5) / s.scale
    if place == "tf_crop_and_resize":
        if s.after > 1:
            return s.start * (s.before - 1) + index * (s.end - s.start) * (s.before - 1) / (s.after - 1)
        return 0.5 * (s.start + s.end) * (s.before - 1)
    raise Refusal(f"coordinates by {place}, which is not defined")


def _nearest(site: Site, x: Value, scalings: Sequence[Scaling], moving: Sequence[int], place: str) -> Value:
    rounding = site.text("nearest_mode", "round_prefer_floor" if site.version >= 11 else "floor")
    rounded: dict[str, Callable[[float], int]] = {
        "round_prefer_floor": lambda p: math.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: math.floor(p + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }
    if rounding not in rounded or place == "tf_crop_and_resize":
        raise Refusal(f"rounding by {rounding}, coordinates by {place}")
    for axis in moving:
        s = scalings[axis]
        places = [min(max(rounded[rounding](_point(s, i, place)), 0), s.before - 1) for i in range(s.after)]
        x = taken(site.builder, x, axis, places)
    return x


def _has_kernel(
    site: Site, x: Value, scalings: Sequence[Scaling], moving: Sequence[int], mode: str, place: str
) -> bool:
    exact = all(s.scale == s.after / s.before for s in scalings)
    plain = not site.integer("antialias", 0) and exact
    kinds = ("half_pixel", "align_corners", "asymmetric")
    return mode == "linear" and x.rank in (3, 4) and plain and place in kinds and all(axis > 1 for axis in moving)


def _bilinear(builder: Builder, x: Value, scalings: Sequence[Scaling], place: str) -> Value:
    tensor, shape = image(builder, builder.real(x))
    sizes = tuple(s.after for s in scalings[2:])
    result = (shape[0], sizes[0] if len(sizes) == 2 else 1, sizes[-1], shape[3])
    attributes = {"align_corners": place == "align_corners", "half_pixel_centers": place == "half_pixel"}
    out = builder.step("resize_bilinear", (tensor,), result, "float32", attributes)
    return from_image(builder, out, (*x.shape[:2], *sizes), "float32")


def _weighted(site: Site, x: Value, s: Scaling, axis: int, mode: str, place: str) -> Value:
    """Return one axis as a product with what each element of the result takes from each of the input."""
    if s.before * s.after > MAX_WEIGHTS:
        raise Refusal(f"from {s.before} to {s.after} elements in mode {mode}")
    weights = _weights(site, s, mode, place)
    turned = permuted(x, [*(i for i in range(x.rank) if i != axis), axis])
    found = connected(site.builder, turned, weights, None, "none")
    return permuted(found, [*range(axis), x.rank - 1, *range(axis, x.rank - 1)])


def _weights(site: Site, s: Scaling, mode: str, place: str) -> Array:
    result = np.zeros((s.after, s.before))
    smooth = bool(site.integer("antialias", 0)) and s.scale < 1
    stretch = s.scale if smooth else 1.0
    exclude = bool(site.integer("exclude_outside", 0))
    cubic = site.number("cubic_coeff_a", -0.75 if site.version >= 11 else -0.5)
    reach = math.ceil((2 if mode == "cubic" else 1) / stretch)
    for index in range(s.after):
        point = _point(s, index, place)
        if place == "tf_crop_and_resize" and not 0 <= point <= s.before - 1:
            raise Refusal("a region outside of the input")
        taps = range(math.floor(point) - reach + 1, math.floor(point) + reach + 1)
        values = [_kernel((tap - point) * stretch, mode, cubic) for tap in taps]
        if exclude:
            values = [v if 0 <= tap < s.before else 0.0 for tap, v in zip(taps, values, strict=True)]
        total = sum(values) if exclude or smooth else 1.0
        for tap, value in zip(taps, values, strict=True):
            result[index, min(max(tap, 0), s.before - 1)] += value / total
    return result.astype(np.float32)


def _kernel(distance: float, mode: str, a: float) -> float:
    x = abs(distance)
    if mode == "linear":
        return max(1.0 - x, 0.0)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0
