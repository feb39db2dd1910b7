"""The node kinds of a plan and the parameters of each, in the order in which a kernel finds them.

Every parameter is one 32-bit word: `i32`, `f32` (the number's bits), or `const` (index of a constant, -1 for none).
The C header gets an enum of kinds and, for each kind, an enum of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.nouns import NamedTuple


class Param(NamedTuple):
    """One parameter word of a node."""

    name: str
    type: str = "i32"


class NodeKind(NamedTuple):
    """One kernel. `code` never changes once released."""

    name: str
    code: int
    meaning: str
    params: tuple[Param, ...]


def _kind(name: str, code: int, meaning: str, *params: str) -> NodeKind:
    """Make a kind; a parameter is `name`, `name:f32` or `name:const`."""
    return NodeKind(name, code, meaning, tuple(Param(*p.split(":")) for p in params))


_WINDOW = (
    "in_h", "in_w", "in_c", "out_h", "out_w", "out_c", "kernel_h", "kernel_w", "stride_h", "stride_w",
    "pad_top", "pad_left",
)  # fmt: skip
"""Of every kind that slides a window; kernels rely on these being the first twelve, in this order."""
_DILATION = ("dilation_h", "dilation_w")
_RANGE_S8 = ("act_min", "act_max")
_RANGE_F32 = ("act_min:f32", "act_max:f32")
_FILTER_S8 = (
    "output_zero_point", *_RANGE_S8, "weights:const", "bias:const", "multiplier:const", "shift:const",
    "weights_step", "bounded",
)  # fmt: skip
"""`bias` is the operator's bias minus input zero point times the sum of each output channel's weights, so that kernels
multiply raw bytes. `multiplier` and `shift` have one entry, or one for each output channel.

The weights of each output channel (of each tap of a depthwise convolution) begin `weights_step` bytes after those of
the one before, with zeros between them: a multiple of 4 where the target's kernels load words. `bounded` is 1 where no
input can make a sum reach 2^30 and all shifts are -1 or less: kernels may then double a sum without looking."""
_FILTER_F32 = (*_RANGE_F32, "weights:const", "bias:const")
_BROADCAST = (
    "height", "width", "channels",
    "a_image", "a_row", "a_column", "a_channel", "b_image", "b_row", "b_column", "b_channel",
)  # fmt: skip
"""Output row u is row u % height of image u / height. It reads row image * a_image + row * a_row of operand a, and
there at (column, channel) the element column * a_column + channel * a_channel; likewise b."""
_AXES = 8
"""How many axes kernels count along that find elements by number; unused ones come first and have size 1."""
_INTEGER_FILTER = (
    "dtype", "wide", "input_zero_point", "weights_zero_point", "output_zero_point", *_RANGE_S8,
    "weights:const", "bias:const", "multiplier:const", "shift:const",
)  # fmt: skip
"""`dtype` is that of input and output, int8 or int16; weights are int8, from which their zero point is taken.
`wide`: sums and biases have 64 bits, else 32."""
_TABLES = ("in_h", "in_w", "channels", "out_h", "out_w", "rows:const", "columns:const")
"""`rows` and `columns` hold, for each row and column of the output, two of the input and the weight of the second."""
_MATRICES = (
    "batch0", "batch1", "batch2", "m", "n", "k", "a_step0", "a_step1", "a_step2", "b_step0", "b_step1", "b_step2",
    "a_row", "a_column", "b_row", "b_column",
)  # fmt: skip
_REDUCED = ("in_h", "in_w", "in_c", "out_h", "out_w", "out_c")
"""Sizes of one image before and after; an axis that is averaged away has 1 after."""

NODE_KINDS: Mapping[str, NodeKind] = {
    kind.name: kind
    for kind in (
        _kind("copy", 1, "output bytes are the input's bytes, in order, whatever the rows of either"),
        _kind("receive", 200, "no kernel: the next rows of a streamed input arrive from outside", "input"),
        _kind("conv_2d_s8", 2, "convolution, int8; weights [O,KH,KW,I]",
              *_WINDOW, *_DILATION, "input_zero_point", *_FILTER_S8),
        _kind("conv_2d_f32", 3, "convolution, float32", *_WINDOW, *_DILATION, *_FILTER_F32),
        _kind("depthwise_conv_2d_s8", 4, "convolution of each channel, int8; weights [KH,KW,O], O a multiple of in_c",
              *_WINDOW, *_DILATION, "input_zero_point", *_FILTER_S8),
        _kind("depthwise_conv_2d_f32", 5, "convolution of each channel, float32", *_WINDOW, *_DILATION, *_FILTER_F32),
        _kind("fully_connected_s8", 6,
              "weights [outputs,features] times vectors, int8; not batched: all rows together hold one",
              "features", "outputs", "batched", *_FILTER_S8),
        _kind("fully_connected_f32", 7,
              "weights times vectors, float32",
              "features", "outputs", "batched", *_FILTER_F32),
        _kind("add_s8", 8, "sum with broadcast, int8; operands are scaled to a common scale after a left shift of 20",
              *_BROADCAST, "a_zero_point", "a_multiplier", "a_shift", "b_zero_point", "b_multiplier", "b_shift",
              "output_zero_point", "output_multiplier", "output_shift", *_RANGE_S8),
        _kind("add_f32", 9, "sum with broadcast, float32", *_BROADCAST, *_RANGE_F32),
        _kind("mul_s8", 10, "product with broadcast, int8", *_BROADCAST,
              "a_zero_point", "b_zero_point", "output_zero_point", "output_multiplier", "output_shift", *_RANGE_S8),
        _kind("mul_f32", 11, "product with broadcast, float32", *_BROADCAST, *_RANGE_F32),
        _kind("average_pool_2d_s8", 12, "mean of the window's elements inside the input, int8", *_WINDOW, *_RANGE_S8),
        _kind("average_pool_2d_f32", 13, "mean of the window's elements inside the input, float32",
              *_WINDOW, *_RANGE_F32),
        _kind("max_pool_2d_s8", 14, "largest of the window's elements inside the input, int8", *_WINDOW, *_RANGE_S8),
        _kind("max_pool_2d_f32", 15, "largest of the window's elements inside the input, float32",
              *_WINDOW, *_RANGE_F32),
        _kind("mean_s8", 16, "mean over any of height, width and channels, int8", *_REDUCED,
              "input_zero_point", "output_zero_point", "multiplier", "shift"),
        _kind("mean_f32", 17, "mean over any of height, width and channels, float32", *_REDUCED),
        _kind("softmax_s8", 18, "softmax of each run of `depth` elements, int8 to scale 1/256 and zero point -128",
              "depth", "multiplier", "shift", "diff_min"),
        _kind("softmax_f32", 19, "softmax of each run of `depth` elements, float32", "depth", "beta:f32"),
        _kind("table_s8", 20, "each byte replaced by entry (byte + 128) of a table of 256 int8", "table:const"),
        _kind("clamp_f32", 21, "each element limited to a range, float32", "minimum:f32", "maximum:f32"),
        _kind("logistic_f32", 22, "1 / (1 + exp(-x)), float32"),
        _kind("quantize_f32_s8", 23, "round half away from zero, saturate", "scale:f32", "zero_point"),
        _kind("dequantize_s8_f32", 24, "scale * (x - zero_point)", "scale:f32", "zero_point"),
        _kind("pad", 25,
              "a margin around each image that repeats the four bytes of `value`; in_c, out_c and before_c are bytes",
              "in_h", "in_w", "in_c", "out_h", "out_w", "out_c",
              "before_n", "before_h", "before_w", "before_c", "value"),
        _kind("concatenation", 26,
              "streams: the inputs' bytes one after another; else each row is `groups` times a chunk of every input",
              "streams", "groups"),
        _kind("rearrange", 27,
              "output element i is the input's element offset + sum over axes of stride * index, or of table[index]",
              "element_bytes", "offset", *(f"size{i}" for i in range(_AXES)), *(f"stride{i}" for i in range(_AXES)),
              *(f"table{i}:const" for i in range(_AXES))),
        _kind("arithmetic_f32", 28, "a function of two operands with broadcast, float32", *_BROADCAST, "function",
              *_RANGE_F32),
        _kind("arithmetic_s32", 29, "a function of two operands with broadcast, int32", *_BROADCAST, "function"),
        _kind("compare", 30, "a comparison of two operands with broadcast; the result is bool", *_BROADCAST,
              "function", "dtype"),
        _kind("sub_s8", 31, "difference with broadcast, int8; scaled as sums are",
              *_BROADCAST, "a_zero_point", "a_multiplier", "a_shift", "b_zero_point", "b_multiplier", "b_shift",
              "output_zero_point", "output_multiplier", "output_shift", *_RANGE_S8),
        _kind("extreme_s8", 32, "larger or smaller of two operands with broadcast, int8", *_BROADCAST, "largest"),
        _kind("function_f32", 33, "a function of each element, float32", "function", "alpha:f32", "beta:f32"),
        _kind("cast", 34, "each element in another type", "from", "to"),
        _kind("requantize", 35, "integers from one quantization and type to another",
              "from", "to", "input_zero_point", "output_zero_point", "multiplier", "shift"),
        _kind("quantize_f32", 36, "round half away from zero, saturate, to any integer type",
              "to", "scale:f32", "zero_point"),
        _kind("dequantize_f32", 37, "scale * (x - zero_point), from any integer type", "from", "scale:f32",
              "zero_point"),
        _kind("reduce", 38, "each output element from the input elements under it; reduced axes are listed last",
              "function", "dtype", *(f"kept{i}" for i in range(4)), *(f"kept_step{i}" for i in range(4)),
              *(f"gone{i}" for i in range(4)), *(f"gone_step{i}" for i in range(4)),
              "input_zero_point", "output_zero_point", "multiplier", "shift"),
        _kind("arg_extreme", 39, "index of the first largest or smallest of each run of `depth` elements",
              "depth", "largest", "dtype", "to"),
        _kind("gather", 40, "runs of `inner` bytes taken from the input at the places that int32 or int64 indices name",
              "outer", "count", "inner", "to_count", "index_bytes"),
        _kind("resize_bilinear_f32", 41, "interpolation between four neighbours, float32", *_TABLES),
        _kind("resize_bilinear_s8", 42, "interpolation between four neighbours, int8; weights have 10 bits", *_TABLES),
        _kind("conv_2d_int", 43, "convolution in groups, int8 or int16; weights [O,KH,KW,I/groups]",
              *_WINDOW, *_DILATION, "groups", *_INTEGER_FILTER),
        _kind("transpose_conv_2d_f32", 44, "each input element spread by the kernel, float32; weights [O,KH,KW,I]",
              *_WINDOW, *_FILTER_F32),
        _kind("transpose_conv_2d_int", 45, "each input element spread by the kernel, int8 or int16",
              *_WINDOW, *_INTEGER_FILTER),
        _kind("batch_matmul_f32", 46, "products of matrices, float32; a step of 0 repeats a matrix along a batch axis",
              *_MATRICES),
        _kind("log_softmax_f32", 47, "logarithm of softmax of each run of `depth` elements, float32", "depth"),
        _kind("l2_normalization_f32", 48, "each run of `depth` elements divided by its length, float32", "depth"),
        _kind("select", 49, "elements of the second operand where the first is not 0, of the third elsewhere",
              "element_bytes", *(f"size{i}" for i in range(4)), *(f"c_step{i}" for i in range(4)),
              *(f"a_step{i}" for i in range(4)), *(f"b_step{i}" for i in range(4))),
        _kind("fully_connected_int", 50, "weights [outputs,features] times vectors, int8 or int16",
              "features", "outputs", *_INTEGER_FILTER),
        _kind("pool_int", 51, "largest or mean of the window's elements inside the input, int16", *_WINDOW, "largest",
              *_RANGE_S8),
        _kind("add_int", 52, "sum or difference with broadcast, int16; operands are scaled to a common scale",
              *_BROADCAST, "subtract", "left_shift", "a_zero_point", "a_multiplier", "a_shift", "b_zero_point",
              "b_multiplier", "b_shift", "output_zero_point", "output_multiplier", "output_shift", *_RANGE_S8),
        _kind("mul_int", 53, "product with broadcast, int16", *_BROADCAST,
              "a_zero_point", "b_zero_point", "output_zero_point", "output_multiplier", "output_shift", *_RANGE_S8),
        _kind("softmax_s16", 54,
              "softmax of each run of `depth` int16; tables of 513 hold exp(x) for -10..0 and 1/(1+x)",
              "depth", "input_bytes", "multiplier", "shift", "exp:const", "inverse:const"),
        _kind("softmax_s8_s16", 55, "softmax_s8, but to int16 of scale 1/65536 and zero point -32768",
              "depth", "multiplier", "shift", "diff_min"),
        _kind("svdf_state", 56,
              "each of `filters` memories moved on by one, with the newest entry from weights [filters,features]",
              "features", "filters", "memory", "state_bytes", "input_zero_point", "multiplier", "shift",
              "weights:const"),
        _kind("svdf_output", 57,
              "memories times weights [filters,memory], the sum of `rank` filters for each output",
              "filters", "memory", "rank", "state_bytes", "output_zero_point", "multiplier", "shift", "weights:const",
              "bias:const"),
        _kind("lstm_s8", 58,
              "long short-term memory, int8 with an int16 cell: all outputs, then the cell as bytes; gates in the "
              "order input, forget, cell, output; `sigmoid` holds 256 uint16",
              "batches", "steps", "features", "outputs", "input_zero_point", "hidden_zero_point", "clip",
              "cell_multiplier", "cell_shift", "forget_multiplier", "forget_shift", "input_multiplier", "input_shift",
              "hidden_multiplier", "hidden_shift", "x_weights:const", "h_weights:const", "bias:const",
              "gate_factors:const", "sigmoid:const"),
        _kind("lstm_f32", 59, "long short-term memory, float32: all outputs, then the cell",
              "batches", "steps", "features", "outputs", "clip:f32", "x_weights:const", "h_weights:const",
              "bias:const"),
        _kind("join", 60, "`outer` times a chunk of each input, whatever the rows of any", "outer"),
        _kind("detections", 76,
              "boxes around anchors, the best that do not overlap: 4 * found floats of boxes, `found` classes, `found` "
              "scores, their count (found = max_detections * classes_per_detection); then for each box its score and "
              "its place in the order, and, where `per_class`, the boxes of one class",
              "boxes", "box_size", "box_classes", "classes", "max_detections", "classes_per_detection",
              "detections_per_class", "per_class", "box_dtype", "box_scale:f32", "box_zero_point", "score_dtype",
              "score_scale:f32", "score_zero_point", "score_threshold:f32", "overlap_threshold:f32",
              "y_scale:f32", "x_scale:f32", "h_scale:f32", "w_scale:f32",
              "anchor_dtype", "anchor_scale:f32", "anchor_zero_point", "anchors:const"),
        _kind("pair_int", 77,
              "squared difference (0) of two operands with broadcast after a left shift, or x where it is not below "
              "its zero point and x times the other elsewhere (1); int8 or int16",
              *_BROADCAST, "function", "dtype", "left_shift", "a_zero_point", "a_multiplier", "a_shift", "b_zero_point",
              "b_multiplier", "b_shift", "output_zero_point", "output_multiplier", "output_shift", *_RANGE_S8),
        _kind("leaky_int", 78, "each element by one factor above the zero point and by another below; int8 or int16",
              "dtype", "input_zero_point", "output_zero_point", "above_multiplier", "above_shift", "below_multiplier",
              "below_shift", *_RANGE_S8),
        _kind("gate_s16", 79, "sigmoid or tanh of int16 in Q0.15; `sigmoid` holds 256 uint16",
              "tanh", "multiplier", "shift", "sigmoid:const"),
        _kind("batch_matmul_int", 80, "products of matrices, int8 in sums of 32 bits or int16 in sums of 64",
              *_MATRICES, "dtype", "a_zero_point", "b_zero_point", "output_zero_point", "multiplier", "shift",
              *_RANGE_S8),
        _kind("l2_normalization_s8", 81, "each run of `depth` elements divided by its length, int8 to scale 1/128",
              "depth", "input_zero_point"),
        _kind("rsqrt_s16", 82, "1 / square root of int16, scaled after 20 bits were added", "multiplier", "shift"),
        _kind("resize_bilinear_s16", 83, "interpolation between neighbours, int16; weights have 10 bits", *_TABLES),
        _kind("arithmetic_int", 70, "a function of two operands with broadcast, any integer type; results wrap",
              *_BROADCAST, "function", "dtype"),
        _kind("conv_2d_groups_f32", 71, "convolution in groups, float32; weights [O,KH,KW,I/groups]",
              *_WINDOW, *_DILATION, "groups", *_FILTER_F32),
    )
}  # fmt: skip
