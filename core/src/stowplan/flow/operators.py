"""The canonical operators: one meaning each, whatever format a model came in.

Importers lower into these kinds, kernels implement them once. Tensors are NHWC. `x`, `w`, `b` name inputs in order;
brackets give shapes; `?` marks an input that may be absent. Activations are words: none, relu (max(x, 0)),
relu6 (clamp to 0..6), relu_n1_to_1 (clamp to -1..1). Padding is explicit, in elements, and pads with real 0.
Integer semantics are those of TFLite Micro's reference kernels (double rounding; `build/lower` holds the formulas).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ACTIVATIONS = ("none", "relu", "relu6", "relu_n1_to_1")

_WINDOW = ("stride_h", "stride_w", "pad_top", "pad_left", "pad_bottom", "pad_right", "activation")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one canonical operator computes; `inputs` in order, `attributes` exactly the names it carries."""

    name: str
    inputs: str
    output: str
    formula: str
    attributes: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="conv_2d",
            inputs="x[N,H,W,I] w[O,KH,KW,I] b[O]?",
            output="y[N,OH,OW,O]",
            formula="y[n,i,j,o] = act(b[o] + sum w[o,p,q,c] * x[n, i*stride_h - pad_top + p*dilation_h, ..., c])",
            attributes=("dilation_h", "dilation_w", *_WINDOW),
        ),
        Kind(
            name="depthwise_conv_2d",
            inputs="x[N,H,W,C] w[1,KH,KW,C*M] b[C*M]?",
            output="y[N,OH,OW,C*M]",
            formula="as conv_2d, but y[..., c*M+m] = act(b[c*M+m] + sum w[0,p,q,c*M+m] * x[..., c])",
            attributes=("multiplier", "dilation_h", "dilation_w", *_WINDOW),
        ),
        Kind(
            name="fully_connected",
            inputs="x[...,F] (or any shape whose size is a multiple of F) w[O,F] b[O]?",
            output="y[...,O]",
            formula="y[i,o] = act(b[o] + sum over f of w[o,f] * x[i,f])",
            attributes=("activation",),
        ),
        Kind(name="add", inputs="x y", output="z (broadcast)", formula="z = act(x + y)", attributes=("activation",)),
        Kind(name="mul", inputs="x y", output="z (broadcast)", formula="z = act(x * y)", attributes=("activation",)),
        Kind(
            name="average_pool_2d",
            inputs="x[N,H,W,C]",
            output="y[N,OH,OW,C]",
            formula="y = act(mean of the window's elements that lie inside x)",
            attributes=("kernel_h", "kernel_w", *_WINDOW),
        ),
        Kind(
            name="max_pool_2d",
            inputs="x[N,H,W,C]",
            output="y[N,OH,OW,C]",
            formula="y = act(max of the window's elements that lie inside x)",
            attributes=("kernel_h", "kernel_w", *_WINDOW),
        ),
        Kind(
            name="mean",
            inputs="x",
            output="y",
            formula="y = mean of x over `axes` (sorted, >= 0)",
            attributes=("axes",),
        ),
        Kind(
            name="softmax",
            inputs="x",
            output="y",
            formula="y = exp(beta * (x - max)) / sum, along the last axis",
            attributes=("beta",),
        ),
        Kind(
            name="reshape", inputs="x", output="y", formula="the same elements in row-major order under another shape"
        ),
        Kind(name="copy", inputs="x", output="y", formula="y = x"),
        Kind(
            name="pad",
            inputs="x",
            output="y",
            formula="x with `before` and `after` elements of real 0 added along each axis (one number per axis)",
            attributes=("before", "after"),
        ),
        Kind(
            name="concatenation",
            inputs="x0 x1 ...",
            output="y",
            formula="the inputs one after another along `axis` (>= 0), all in one quantization",
            attributes=("axis",),
        ),
        Kind(name="relu", inputs="x", output="y", formula="y = max(x, 0)"),
        Kind(name="relu6", inputs="x", output="y", formula="y = min(max(x, 0), 6)"),
        Kind(name="logistic", inputs="x", output="y", formula="y = 1 / (1 + exp(-x))"),
        Kind(name="quantize", inputs="x", output="y", formula="y = round(x / scale) + zero_point, saturated"),
        Kind(name="dequantize", inputs="x", output="y", formula="y = scale * (x - zero_point)"),
    )
}
