"""AVERAGE_POOL_2D, MAX_POOL_2D and MEAN: operators that reduce."""

from __future__ import annotations

from stowplan_importer_tflite.lower.windows import image, span
from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.schema import REDUCER_KEEP_DIMS, PoolField
from stowplan_importer_tflite.site import (
    Conversion,
    Mismatch,
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
    x = site.activation(0)
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
    x = site.activation(0)
    y = site.result(x.dtype)
    if x.dtype == "int8":
        check_rescale(scale_of(x) / scale_of(y))
    axes = set()
    for axis in site.constant_integers(1, "the list of axes"):
        if not -len(x.shape) <= axis < len(x.shape):
            raise Mismatch(f"axis {axis} of an input of shape {spelled(x.shape)}")
        axes.add(axis % len(x.shape))
    if not axes:
        raise Refusal("a mean along no axis")
    keep = site.table is not None and site.table.flag(REDUCER_KEEP_DIMS)
    shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape) if keep or i not in axes)
    return Conversion(kind="mean", inputs=(x.tensor,), shape=shape, attributes={"axes": tuple(sorted(axes))})
