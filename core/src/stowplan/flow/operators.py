"""The canonical operators: one meaning each, whatever format a model came in.

Importers lower into these kinds, kernels implement them once. Tensors are NHWC. `x`, `w`, `b` name inputs in order;
brackets give shapes; `?` marks an input that may be absent. Activations are words: none, relu (max(x, 0)),
relu6 (clamp to 0..6), relu_n1_to_1 (clamp to -1..1), unbounded (as none, but floats may be
infinite). Padding is explicit, in elements, and pads with real 0.
Integer semantics are those of TFLite Micro's reference kernels (double rounding; `build/lower` holds the formulas).
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.nouns import dataclass

ACTIVATIONS = ("none", "relu", "relu6", "relu_n1_to_1", "unbounded")

UNARY_FLOAT = (
    "tanh", "hard_swish", "abs", "neg", "exp", "log", "sqrt", "rsqrt", "square", "sin", "cos", "floor", "ceil", "round",
    "sign", "elu", "gelu", "gelu_tanh", "erf", "reciprocal", "leaky_relu", "hard_sigmoid", "softplus",
)  # fmt: skip
"""Functions of each element by itself that one float kernel computes; of int8 they become tables."""
UNARY = frozenset({"relu", "relu6", "relu_n1_to_1", "clip", "logistic", "logical_not", *UNARY_FLOAT})
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
ARITHMETIC = (
    "sub", "div", "maximum", "minimum", "squared_difference", "pow", "floor_div", "floor_mod", "prelu",
)  # fmt: skip
LOGICAL = ("logical_and", "logical_or")
BINARY = frozenset({"add", "mul", *ARITHMETIC, *COMPARISONS, *LOGICAL})
"""Operators on two tensors of which one may be stretched over the other."""
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "all")
IN_PLACE: Mapping[str, int] = {"svdf_state": 2}
"""Operators that may write each row over the same row of the input at this position: they read ahead of writing."""

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
        Kind(
            name="rearrange",
            inputs="x",
            output="y",
            formula="y[i] = x[offset + sum of strides[k] * i_k], for i_k < sizes[k]; elements counted in row-major "
            "order on both sides (transpose, slice, split, tile, depth to space, ...)",
            attributes=("sizes", "strides", "offset"),
        ),
        Kind(
            name="sample",
            inputs="x",
            output="y",
            formula="y[.., i_k, ..] = x[.., t_k[i_k], ..] along each of `axes`; `indices` is t of the first axis, "
            "then of the next (gather with known indices, mirror padding, resize to the nearest neighbour)",
            attributes=("axes", "indices"),
        ),
        Kind(
            name="pad_with",
            inputs="x",
            output="y",
            formula="as pad, with elements of `value` (as stored, not its real number)",
            attributes=("before", "after", "value"),
        ),
        Kind(name="cast", inputs="x", output="y", formula="y = x in another type; reals are cut towards 0"),
        Kind(name="relu_n1_to_1", inputs="x", output="y", formula="y = min(max(x, -1), 1)"),
        Kind(
            name="clip",
            inputs="x",
            output="y",
            formula="y = min(max(x, minimum), maximum)",
            attributes=("minimum", "maximum"),
        ),
        Kind(name="tanh", inputs="x", output="y", formula="y = tanh(x)"),
        Kind(name="hard_swish", inputs="x", output="y", formula="y = x * min(max(x + 3, 0), 6) / 6"),
        Kind(name="abs", inputs="x", output="y", formula="y = |x|"),
        Kind(name="neg", inputs="x", output="y", formula="y = -x"),
        Kind(name="exp", inputs="x", output="y", formula="y = exp(x)"),
        Kind(name="log", inputs="x", output="y", formula="y = natural logarithm of x"),
        Kind(name="sqrt", inputs="x", output="y", formula="y = square root of x"),
        Kind(name="rsqrt", inputs="x", output="y", formula="y = 1 / square root of x"),
        Kind(name="square", inputs="x", output="y", formula="y = x * x"),
        Kind(name="sin", inputs="x", output="y", formula="y = sin(x)"),
        Kind(name="cos", inputs="x", output="y", formula="y = cos(x)"),
        Kind(name="floor", inputs="x", output="y", formula="y = largest integer <= x"),
        Kind(name="ceil", inputs="x", output="y", formula="y = smallest integer >= x"),
        Kind(name="round", inputs="x", output="y", formula="y = nearest integer, halves to even"),
        Kind(name="sign", inputs="x", output="y", formula="y = -1, 0 or 1"),
        Kind(name="elu", inputs="x", output="y", formula="y = x where x > 0, exp(x) - 1 elsewhere"),
        Kind(name="gelu", inputs="x", output="y", formula="y = x * (1 + erf(x / sqrt(2))) / 2"),
        Kind(
            name="gelu_tanh",
            inputs="x",
            output="y",
            formula="y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2",
        ),
        Kind(name="erf", inputs="x", output="y", formula="y = 2 / sqrt(pi) * integral of exp(-t^2) from 0 to x"),
        Kind(name="reciprocal", inputs="x", output="y", formula="y = 1 / x"),
        Kind(name="softplus", inputs="x", output="y", formula="y = log(1 + exp(x))"),
        Kind(
            name="leaky_relu",
            inputs="x",
            output="y",
            formula="y = x where x >= 0, alpha * x elsewhere",
            attributes=("alpha",),
        ),
        Kind(
            name="hard_sigmoid",
            inputs="x",
            output="y",
            formula="y = min(max(alpha * x + beta, 0), 1)",
            attributes=("alpha", "beta"),
        ),
        Kind(name="logical_not", inputs="x", output="y", formula="y = not x"),
        *(
            Kind(name=name, inputs="x y", output="z (broadcast)", formula=formula, attributes=("activation",))
            for name, formula in (
                ("sub", "z = act(x - y)"),
                ("div", "z = act(x / y); of integers, cut towards 0"),
                ("maximum", "z = max(x, y)"),
                ("minimum", "z = min(x, y)"),
                ("squared_difference", "z = (x - y)^2"),
                ("pow", "z = x^y"),
                ("floor_div", "z = largest integer <= x / y"),
                ("floor_mod", "z = x - y * floor_div(x, y)"),
                ("prelu", "z = x where x >= 0, x * y elsewhere"),
            )
        ),
        *(
            Kind(
                name=name, inputs="x y", output="z bool (broadcast)", formula=f"z = x is {name.replace('_', ' ')} to y"
            )
            for name in COMPARISONS
        ),
        *(Kind(name=name, inputs="x y", output="z bool (broadcast)", formula=f"z = {name}(x, y)") for name in LOGICAL),
        Kind(
            name="select",
            inputs="c bool, x y",
            output="z (broadcast)",
            formula="z = x where c, y elsewhere",
        ),
        Kind(
            name="reduce",
            inputs="x",
            output="y",
            formula="y = function of x over `axes` (sorted, >= 0); function is sum, mean, max, min, prod, any or all",
            attributes=("function", "axes"),
        ),
        Kind(
            name="arg_max",
            inputs="x[...,F]",
            output="y[...] int32 or int64",
            formula="y = index of the largest element along the last axis, the first of equals",
        ),
        Kind(
            name="arg_min",
            inputs="x[...,F]",
            output="y[...] int32 or int64",
            formula="y = index of the smallest element along the last axis, the first of equals",
        ),
        Kind(
            name="gather",
            inputs="x i int32",
            output="y[before axis, shape of i, behind axis]",
            formula="y[a, j, b] = x[a, i[j], b]; an index outside x is refused at run time by limiting it",
            attributes=("axis",),
        ),
        Kind(name="log_softmax", inputs="x", output="y", formula="y = x - max - log(sum of exp(x - max)), last axis"),
        Kind(name="l2_normalization", inputs="x", output="y", formula="y = x / square root of sum of x^2, last axis"),
        Kind(
            name="resize_bilinear",
            inputs="x[N,H,W,C]",
            output="y[N,OH,OW,C]",
            formula="y = x interpolated between its four neighbours, which TFLite's two flags place",
            attributes=("align_corners", "half_pixel_centers"),
        ),
        Kind(
            name="transpose_conv_2d",
            inputs="x[N,H,W,I] w[O,KH,KW,I] b[O]?",
            output="y[N,OH,OW,O]",
            formula="y[n, i*stride_h - pad_top + p, ..., o] += w[o,p,q,c] * x[n,i,j,c]; then b and act",
            attributes=("stride_h", "stride_w", "pad_top", "pad_left", "activation"),
        ),
        Kind(
            name="svdf_state",
            inputs="x[B,I] w[F,I] s[B,F*M]",
            output="t[B,F*M]",
            formula="t[b,f*M+m] = s[b,f*M+m+1] for m < M-1; t[b,f*M+M-1] = sum over i of w[f,i] * x[b,i]",
            attributes=("memory",),
        ),
        Kind(
            name="svdf_output",
            inputs="s[B,F*M] w[F,M] b[F/rank]?",
            output="y[B,F/rank]",
            formula="y[b,o] = b[o] + sum over the rank filters f of o, and over m, of w[f,m] * s[b,f*M+m]",
            attributes=("rank",),
        ),
        Kind(
            name="lstm",
            inputs="x[B,T,I] h[B,O] c[B,O], then of each gate (input, forget, cell, output) w[O,I], r[O,O], b[O]",
            output="y[B*T*O + B*O] (the outputs of all steps, then the bytes of the last cell)",
            formula="per step g = w x + r h + b; c = sigmoid(g_f) * c + sigmoid(g_i) * tanh(g_c), limited to +-clip; "
            "h = sigmoid(g_o) * tanh(c)",
            attributes=("clip",),
        ),
        Kind(
            name="detection_postprocess",
            inputs="x[1,N,4 or more] s[1,N,C or C+1] a[N,4] (centre y, centre x, height, width of each anchor)",
            output="y[6*D + 1 + workspace] float32, D = max_detections * classes_per_detection: D boxes "
            "(top, left, bottom, right), D classes, D scores, how many; then what the kernel works in, worth nothing",
            formula="box i has its centre at x / y_scale * a_h + a_y (x_scale, a_w, a_x likewise) and the height "
            "exp(x / h_scale) * a_h. Not `per_class`: the boxes in the order of their best scores, those below "
            "`score_threshold` and those that overlap a better one by more than `overlap_threshold` (intersection over "
            "union) left out, `max_detections` of them, each with its classes_per_detection best classes. `per_class`: "
            "so for each class by itself, at most detections_per_class of them, and of all the max_detections best. "
            "Of equal scores the lower index comes first; class 0 is the second of C+1; unused entries are 0",
            attributes=(
                "classes",
                "max_detections",
                "classes_per_detection",
                "detections_per_class",
                "per_class",
                "score_threshold",
                "overlap_threshold",
                "y_scale",
                "x_scale",
                "h_scale",
                "w_scale",
            ),
        ),
        Kind(name="bitcast", inputs="x", output="y", formula="the same bytes as another type"),
        Kind(
            name="batch_matmul",
            inputs="x[...,M,K] y[...,K,N]",
            output="z[...,M,N] (leading axes broadcast)",
            formula="z = x times y; `adjoint_x` (`adjoint_y`) says that the last two axes of x (y) are exchanged",
            attributes=("adjoint_x", "adjoint_y"),
        ),
    )
}
