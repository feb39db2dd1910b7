"""The geometry of operators that slide a window over images."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build.lower.nodes import ParamValue
from stowplan.build.lower.site import Site
from stowplan.build.rows import nhwc

LIMIT = 1 << 28
"""Kernels compute coordinates in 32 bits."""


def window(site: Site, kernel: Sequence[int]) -> dict[str, ParamValue]:
    """Return the first twelve parameters of every kind with a window. Refuses images that are not cut by height."""
    source, result = nhwc(site.input().shape), nhwc(site.output.shape)
    if len(site.input().shape) != 4 or len(site.output.shape) != 4 or source[0] != result[0]:
        raise site.refusal(f"shapes {list(site.input().shape)} to {list(site.output.shape)} are not images N,H,W,C")
    integer = site.operator.integer
    stride = (integer("stride_h"), integer("stride_w"))
    pad = (integer("pad_top"), integer("pad_left"))
    if min(*source, *result, *kernel, *stride) < 1 or min(pad) < 0:
        raise site.refusal("its sizes or strides are not positive")
    if max(*source[1:3], *pad, result[1] * stride[0], result[2] * stride[1], *kernel) > LIMIT:
        raise site.refusal("its images are too large")
    return dict(
        in_h=source[1], in_w=source[2], in_c=source[3], out_h=result[1], out_w=result[2], out_c=result[3],
        kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride[0], stride_w=stride[1], pad_top=pad[0], pad_left=pad[1],
    )  # fmt: skip


def touches(params: dict[str, ParamValue]) -> bool:
    """Say whether every window has an element inside the input."""
    value = {name: v for name, v in params.items() if isinstance(v, int)}
    return (
        value["kernel_h"] > value["pad_top"]
        and value["kernel_w"] > value["pad_left"]
        and (value["out_h"] - 1) * value["stride_h"] - value["pad_top"] < value["in_h"]
        and (value["out_w"] - 1) * value["stride_w"] - value["pad_left"] < value["in_w"]
    )
