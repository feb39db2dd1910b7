"""AVERAGE_POOL_2D, MAX_POOL_2D and MEAN: operators that reduce."""

from __future__ import annotations

from stowplan_importer_tflite.lower.functions import axes_of
from stowplan_importer_tflite.lower.windows import image, span
from stowplan_importer_tflite.schema import REDUCER_KEEP_DIMS, PoolField
from stowplan_importer_tflite.site import (
    COMPUTED,
    Conversion,
    Refusal,
    Site,
    check_rescale,
    check_same_quantization,
    scale_of,
)


def average_pool_2d(site: Site) -> Conversion:
    return _pool(site, "average_pool_2d")


def max_pool_2d(site: Site) -> Conversion:
    return _pool(site, "max_pool_2d")


def _pool(site: Site, kind: str) -> Conversion:
    site.arity(1, 1)
    x = site.activation(0, COMPUTED)
    check_same_quantization(x, site.result(x.dtype))
    n, in_h, in_w, channels = image(x)
    padding = site.options().integer(PoolField.PADDING, "b")
    kernel_h, kernel_w = site.integer(PoolField.FILTER_H), site.integer(PoolField.FILTER_W)
    stride_h, stride_w = site.integer(PoolField.STRIDE_H), site.integer(PoolField.STRIDE_W)
    rows = span(in_h, kernel_h, stride_h, 1, padding)
    columns = span(in_w, kernel_w, stride_w, 1, padding)
    return Conversion(
        kind=kind,
        inputs=(x.tensor,),
        shape=(n, rows.outputs, columns.outputs, channels),
        attributes={
            "kernel_h": kernel_h, "kernel_w": kernel_w, "stride_h": stride_h, "stride_w": stride_w,
            "pad_top": rows.before, "pad_left": columns.before, "pad_bottom": rows.after, "pad_right": columns.after,
            "activation": site.activation_function(PoolField.ACTIVATION),
        },
    )  # fmt: skip


def mean(site: Site) -> Conversion:
    site.arity(2, 2)
    x = site.activation(0, COMPUTED)
    y = site.result(x.dtype)
    if x.dtype != "float32":
        check_rescale(scale_of(x) / scale_of(y))
    axes = axes_of(site, x.shape)
    if not axes:
        raise Refusal("a mean along no axis")
    keep = site.table is not None and site.table.flag(REDUCER_KEEP_DIMS)
    shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape) if keep or i not in axes)
    if x.dtype == "int16" or _by_hand(x.shape, axes):
        return Conversion("reduce", (x.tensor,), shape, {"function": "mean", "axes": axes})
    return Conversion(kind="mean", inputs=(x.tensor,), shape=shape, attributes={"axes": axes})


def _by_hand(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether a mean goes over the batch, which the kernel that runs by rows does not do."""
    return any(axis < len(shape) - 3 and shape[axis] > 1 for axis in axes)
