/* The kernels by name, and the checks that many of them share. */
#ifndef STOW_KERNELS_H
#define STOW_KERNELS_H

#include "stow_kernel.h"

#define STOW_DECLARE_KERNEL(name)                                                                                      \
    STOW_API void stow_##name##_run(const stow_call *call);                                                            \
    STOW_API int stow_##name##_check(const stow_facts *facts)

#if STOW_WITH_COPY
STOW_DECLARE_KERNEL(copy);
#endif
#if STOW_WITH_CONV_2D_S8
STOW_DECLARE_KERNEL(conv_2d_s8);
#endif
#if STOW_WITH_CONV_2D_F32
STOW_DECLARE_KERNEL(conv_2d_f32);
#endif
#if STOW_WITH_DEPTHWISE_CONV_2D_S8
STOW_DECLARE_KERNEL(depthwise_conv_2d_s8);
#endif
#if STOW_WITH_DEPTHWISE_CONV_2D_F32
STOW_DECLARE_KERNEL(depthwise_conv_2d_f32);
#endif
#if STOW_WITH_FULLY_CONNECTED_S8
STOW_DECLARE_KERNEL(fully_connected_s8);
#endif
#if STOW_WITH_FULLY_CONNECTED_F32
STOW_DECLARE_KERNEL(fully_connected_f32);
#endif
#if STOW_WITH_ADD_S8
STOW_DECLARE_KERNEL(add_s8);
#endif
#if STOW_WITH_ADD_F32
STOW_DECLARE_KERNEL(add_f32);
#endif
#if STOW_WITH_MUL_S8
STOW_DECLARE_KERNEL(mul_s8);
#endif
#if STOW_WITH_MUL_F32
STOW_DECLARE_KERNEL(mul_f32);
#endif
#if STOW_WITH_AVERAGE_POOL_2D_S8
STOW_DECLARE_KERNEL(average_pool_2d_s8);
#endif
#if STOW_WITH_AVERAGE_POOL_2D_F32
STOW_DECLARE_KERNEL(average_pool_2d_f32);
#endif
#if STOW_WITH_MAX_POOL_2D_S8
STOW_DECLARE_KERNEL(max_pool_2d_s8);
#endif
#if STOW_WITH_MAX_POOL_2D_F32
STOW_DECLARE_KERNEL(max_pool_2d_f32);
#endif
#if STOW_WITH_MEAN_S8
STOW_DECLARE_KERNEL(mean_s8);
#endif
#if STOW_WITH_MEAN_F32
STOW_DECLARE_KERNEL(mean_f32);
#endif
#if STOW_WITH_SOFTMAX_S8
STOW_DECLARE_KERNEL(softmax_s8);
#endif
#if STOW_WITH_SOFTMAX_F32
STOW_DECLARE_KERNEL(softmax_f32);
#endif
#if STOW_WITH_TABLE_S8
STOW_DECLARE_KERNEL(table_s8);
#endif
#if STOW_WITH_CLAMP_F32
STOW_DECLARE_KERNEL(clamp_f32);
#endif
#if STOW_WITH_LOGISTIC_F32
STOW_DECLARE_KERNEL(logistic_f32);
#endif
#if STOW_WITH_QUANTIZE_F32_S8
STOW_DECLARE_KERNEL(quantize_f32_s8);
#endif
#if STOW_WITH_DEQUANTIZE_S8_F32
STOW_DECLARE_KERNEL(dequantize_s8_f32);
#endif
#if STOW_WITH_PAD
STOW_DECLARE_KERNEL(pad);
#endif
#if STOW_WITH_CONCATENATION
STOW_DECLARE_KERNEL(concatenation);
#endif
#if STOW_WITH_REARRANGE
STOW_DECLARE_KERNEL(rearrange);
#endif
#if STOW_WITH_ARITHMETIC_F32
STOW_DECLARE_KERNEL(arithmetic_f32);
#endif
#if STOW_WITH_ARITHMETIC_S32
STOW_DECLARE_KERNEL(arithmetic_s32);
#endif
#if STOW_WITH_ARITHMETIC_INT
STOW_DECLARE_KERNEL(arithmetic_int);
#endif
#if STOW_WITH_CONV_2D_GROUPS_F32
STOW_DECLARE_KERNEL(conv_2d_groups_f32);
#endif
#if STOW_WITH_COMPARE
STOW_DECLARE_KERNEL(compare);
#endif
#if STOW_WITH_SUB_S8
STOW_DECLARE_KERNEL(sub_s8);
#endif
#if STOW_WITH_EXTREME_S8
STOW_DECLARE_KERNEL(extreme_s8);
#endif
#if STOW_WITH_FUNCTION_F32
STOW_DECLARE_KERNEL(function_f32);
#endif
#if STOW_WITH_CAST
STOW_DECLARE_KERNEL(cast);
#endif
#if STOW_WITH_REQUANTIZE
STOW_DECLARE_KERNEL(requantize);
#endif
#if STOW_WITH_QUANTIZE_F32
STOW_DECLARE_KERNEL(quantize_f32);
#endif
#if STOW_WITH_DEQUANTIZE_F32
STOW_DECLARE_KERNEL(dequantize_f32);
#endif
#if STOW_WITH_REDUCE
STOW_DECLARE_KERNEL(reduce);
#endif
#if STOW_WITH_ARG_EXTREME
STOW_DECLARE_KERNEL(arg_extreme);
#endif
#if STOW_WITH_GATHER
STOW_DECLARE_KERNEL(gather);
#endif
#if STOW_WITH_RESIZE_BILINEAR_F32
STOW_DECLARE_KERNEL(resize_bilinear_f32);
#endif
#if STOW_WITH_RESIZE_BILINEAR_S8
STOW_DECLARE_KERNEL(resize_bilinear_s8);
#endif
#if STOW_WITH_CONV_2D_INT
STOW_DECLARE_KERNEL(conv_2d_int);
#endif
#if STOW_WITH_TRANSPOSE_CONV_2D_F32
STOW_DECLARE_KERNEL(transpose_conv_2d_f32);
#endif
#if STOW_WITH_TRANSPOSE_CONV_2D_INT
STOW_DECLARE_KERNEL(transpose_conv_2d_int);
#endif
#if STOW_WITH_BATCH_MATMUL_F32
STOW_DECLARE_KERNEL(batch_matmul_f32);
#endif
#if STOW_WITH_LOG_SOFTMAX_F32
STOW_DECLARE_KERNEL(log_softmax_f32);
#endif
#if STOW_WITH_L2_NORMALIZATION_F32
STOW_DECLARE_KERNEL(l2_normalization_f32);
#endif
#if STOW_WITH_SELECT
STOW_DECLARE_KERNEL(select);
#endif
#if STOW_WITH_FULLY_CONNECTED_INT
STOW_DECLARE_KERNEL(fully_connected_int);
#endif
#if STOW_WITH_POOL_INT
STOW_DECLARE_KERNEL(pool_int);
#endif
#if STOW_WITH_ADD_INT
STOW_DECLARE_KERNEL(add_int);
#endif
#if STOW_WITH_MUL_INT
STOW_DECLARE_KERNEL(mul_int);
#endif
#if STOW_WITH_SOFTMAX_S16
STOW_DECLARE_KERNEL(softmax_s16);
#endif
#if STOW_WITH_SOFTMAX_S8_S16
STOW_DECLARE_KERNEL(softmax_s8_s16);
#endif
#if STOW_WITH_SVDF_STATE
STOW_DECLARE_KERNEL(svdf_state);
#endif
#if STOW_WITH_SVDF_OUTPUT
STOW_DECLARE_KERNEL(svdf_output);
#endif
#if STOW_WITH_LSTM_S8
STOW_DECLARE_KERNEL(lstm_s8);
#endif
#if STOW_WITH_LSTM_F32
STOW_DECLARE_KERNEL(lstm_f32);
#endif
#if STOW_WITH_PAIR_INT
STOW_DECLARE_KERNEL(pair_int);
#endif
#if STOW_WITH_LEAKY_INT
STOW_DECLARE_KERNEL(leaky_int);
#endif
#if STOW_WITH_GATE_S16
STOW_DECLARE_KERNEL(gate_s16);
#endif
#if STOW_WITH_BATCH_MATMUL_INT
STOW_DECLARE_KERNEL(batch_matmul_int);
#endif
#if STOW_WITH_L2_NORMALIZATION_S8
STOW_DECLARE_KERNEL(l2_normalization_s8);
#endif
#if STOW_WITH_RSQRT_S16
STOW_DECLARE_KERNEL(rsqrt_s16);
#endif
#if STOW_WITH_RESIZE_BILINEAR_S16
STOW_DECLARE_KERNEL(resize_bilinear_s16);
#endif
#if STOW_WITH_DETECTIONS
STOW_DECLARE_KERNEL(detections);
#endif
#if STOW_WITH_JOIN
STOW_DECLARE_KERNEL(join);
#endif

/* a * b for sizes that may not exceed 2^31: exact as long as they do not, larger than 2^31 - 1 otherwise. */
static inline int64_t stow_size(int64_t a, int64_t b)
{
    return a > INT32_MAX ? a : a * b;
}

/* Whether a node has exactly this many operands and parameters, and fires by output rows. */
static inline int stow_is_plain(const stow_facts *facts, uint32_t operands, uint32_t params)
{
    return stow_operand_count(facts) == operands && facts->param_count == params &&
           (facts->node->flags & STOW_NODE_BY_INPUT) == 0 && facts->node->units == stow_result_form(facts).rows;
}

/* Whether a constant is present with exactly this many bytes. */
static inline int stow_has_bytes(const stow_facts *facts, int32_t constant, int64_t bytes)
{
    return bytes > 0 && (int64_t)stow_constant_bytes(facts, constant) == bytes;
}

/* Whether parameters [first, last) are all at least `least` and at most 2^31 - 1. */
static inline int stow_all_at_least(const stow_facts *facts, uint32_t first, uint32_t last, int32_t least)
{
    for (uint32_t i = first; i < last; i++) {
        if (facts->params[i] < least) {
            return 0;
        }
    }
    return 1;
}

static inline int stow_is_int8(int32_t value)
{
    return value >= INT8_MIN && value <= INT8_MAX;
}

/* Whether two parameters in a row are the ends of a range of int8. */
static inline int stow_is_range_s8(const int32_t *range)
{
    return stow_is_int8(range[0]) && stow_is_int8(range[1]) && range[0] <= range[1];
}

#endif
