/* The kernel table: which function runs which node kind. */
#include "stow_kernels.h"

static const stow_kernel stow_kernel_table[] = {
    [0] = {NULL, NULL}, /* no kind; but C has no empty tables */
#if STOW_WITH_COPY
    [STOW_KIND_COPY] = {stow_copy_run, stow_copy_check},
#endif
#if STOW_WITH_CONV_2D_S8
    [STOW_KIND_CONV_2D_S8] = {stow_conv_2d_s8_run, stow_conv_2d_s8_check},
#endif
#if STOW_WITH_CONV_2D_F32
    [STOW_KIND_CONV_2D_F32] = {stow_conv_2d_f32_run, stow_conv_2d_f32_check},
#endif
#if STOW_WITH_DEPTHWISE_CONV_2D_S8
    [STOW_KIND_DEPTHWISE_CONV_2D_S8] = {stow_depthwise_conv_2d_s8_run, stow_depthwise_conv_2d_s8_check},
#endif
#if STOW_WITH_DEPTHWISE_CONV_2D_F32
    [STOW_KIND_DEPTHWISE_CONV_2D_F32] = {stow_depthwise_conv_2d_f32_run, stow_depthwise_conv_2d_f32_check},
#endif
#if STOW_WITH_FULLY_CONNECTED_S8
    [STOW_KIND_FULLY_CONNECTED_S8] = {stow_fully_connected_s8_run, stow_fully_connected_s8_check},
#endif
#if STOW_WITH_FULLY_CONNECTED_F32
    [STOW_KIND_FULLY_CONNECTED_F32] = {stow_fully_connected_f32_run, stow_fully_connected_f32_check},
#endif
#if STOW_WITH_ADD_S8
    [STOW_KIND_ADD_S8] = {stow_add_s8_run, stow_add_s8_check},
#endif
#if STOW_WITH_ADD_F32
    [STOW_KIND_ADD_F32] = {stow_add_f32_run, stow_add_f32_check},
#endif
#if STOW_WITH_MUL_S8
    [STOW_KIND_MUL_S8] = {stow_mul_s8_run, stow_mul_s8_check},
#endif
#if STOW_WITH_MUL_F32
    [STOW_KIND_MUL_F32] = {stow_mul_f32_run, stow_mul_f32_check},
#endif
#if STOW_WITH_AVERAGE_POOL_2D_S8
    [STOW_KIND_AVERAGE_POOL_2D_S8] = {stow_average_pool_2d_s8_run, stow_average_pool_2d_s8_check},
#endif
#if STOW_WITH_AVERAGE_POOL_2D_F32
    [STOW_KIND_AVERAGE_POOL_2D_F32] = {stow_average_pool_2d_f32_run, stow_average_pool_2d_f32_check},
#endif
#if STOW_WITH_MAX_POOL_2D_S8
    [STOW_KIND_MAX_POOL_2D_S8] = {stow_max_pool_2d_s8_run, stow_max_pool_2d_s8_check},
#endif
#if STOW_WITH_MAX_POOL_2D_F32
    [STOW_KIND_MAX_POOL_2D_F32] = {stow_max_pool_2d_f32_run, stow_max_pool_2d_f32_check},
#endif
#if STOW_WITH_MEAN_S8
    [STOW_KIND_MEAN_S8] = {stow_mean_s8_run, stow_mean_s8_check},
#endif
#if STOW_WITH_MEAN_F32
    [STOW_KIND_MEAN_F32] = {stow_mean_f32_run, stow_mean_f32_check},
#endif
#if STOW_WITH_SOFTMAX_S8
    [STOW_KIND_SOFTMAX_S8] = {stow_softmax_s8_run, stow_softmax_s8_check},
#endif
#if STOW_WITH_SOFTMAX_F32
    [STOW_KIND_SOFTMAX_F32] = {stow_softmax_f32_run, stow_softmax_f32_check},
#endif
#if STOW_WITH_TABLE_S8
    [STOW_KIND_TABLE_S8] = {stow_table_s8_run, stow_table_s8_check},
#endif
#if STOW_WITH_CLAMP_F32
    [STOW_KIND_CLAMP_F32] = {stow_clamp_f32_run, stow_clamp_f32_check},
#endif
#if STOW_WITH_LOGISTIC_F32
    [STOW_KIND_LOGISTIC_F32] = {stow_logistic_f32_run, stow_logistic_f32_check},
#endif
#if STOW_WITH_QUANTIZE_F32_S8
    [STOW_KIND_QUANTIZE_F32_S8] = {stow_quantize_f32_s8_run, stow_quantize_f32_s8_check},
#endif
#if STOW_WITH_DEQUANTIZE_S8_F32
    [STOW_KIND_DEQUANTIZE_S8_F32] = {stow_dequantize_s8_f32_run, stow_dequantize_s8_f32_check},
#endif
#if STOW_WITH_PAD
    [STOW_KIND_PAD] = {stow_pad_run, stow_pad_check},
#endif
#if STOW_WITH_CONCATENATION
    [STOW_KIND_CONCATENATION] = {stow_concatenation_run, stow_concatenation_check},
#endif
#if STOW_WITH_REARRANGE
    [STOW_KIND_REARRANGE] = {stow_rearrange_run, stow_rearrange_check},
#endif
#if STOW_WITH_ARITHMETIC_F32
    [STOW_KIND_ARITHMETIC_F32] = {stow_arithmetic_f32_run, stow_arithmetic_f32_check},
#endif
#if STOW_WITH_ARITHMETIC_S32
    [STOW_KIND_ARITHMETIC_S32] = {stow_arithmetic_s32_run, stow_arithmetic_s32_check},
#endif
#if STOW_WITH_ARITHMETIC_INT
    [STOW_KIND_ARITHMETIC_INT] = {stow_arithmetic_int_run, stow_arithmetic_int_check},
#endif
#if STOW_WITH_CONV_2D_GROUPS_F32
    [STOW_KIND_CONV_2D_GROUPS_F32] = {stow_conv_2d_groups_f32_run, stow_conv_2d_groups_f32_check},
#endif
#if STOW_WITH_COMPARE
    [STOW_KIND_COMPARE] = {stow_compare_run, stow_compare_check},
#endif
#if STOW_WITH_SUB_S8
    [STOW_KIND_SUB_S8] = {stow_sub_s8_run, stow_sub_s8_check},
#endif
#if STOW_WITH_EXTREME_S8
    [STOW_KIND_EXTREME_S8] = {stow_extreme_s8_run, stow_extreme_s8_check},
#endif
#if STOW_WITH_FUNCTION_F32
    [STOW_KIND_FUNCTION_F32] = {stow_function_f32_run, stow_function_f32_check},
#endif
#if STOW_WITH_CAST
    [STOW_KIND_CAST] = {stow_cast_run, stow_cast_check},
#endif
#if STOW_WITH_REQUANTIZE
    [STOW_KIND_REQUANTIZE] = {stow_requantize_run, stow_requantize_check},
#endif
#if STOW_WITH_QUANTIZE_F32
    [STOW_KIND_QUANTIZE_F32] = {stow_quantize_f32_run, stow_quantize_f32_check},
#endif
#if STOW_WITH_DEQUANTIZE_F32
    [STOW_KIND_DEQUANTIZE_F32] = {stow_dequantize_f32_run, stow_dequantize_f32_check},
#endif
#if STOW_WITH_REDUCE
    [STOW_KIND_REDUCE] = {stow_reduce_run, stow_reduce_check},
#endif
#if STOW_WITH_ARG_EXTREME
    [STOW_KIND_ARG_EXTREME] = {stow_arg_extreme_run, stow_arg_extreme_check},
#endif
#if STOW_WITH_GATHER
    [STOW_KIND_GATHER] = {stow_gather_run, stow_gather_check},
#endif
#if STOW_WITH_RESIZE_BILINEAR_F32
    [STOW_KIND_RESIZE_BILINEAR_F32] = {stow_resize_bilinear_f32_run, stow_resize_bilinear_f32_check},
#endif
#if STOW_WITH_RESIZE_BILINEAR_S8
    [STOW_KIND_RESIZE_BILINEAR_S8] = {stow_resize_bilinear_s8_run, stow_resize_bilinear_s8_check},
#endif
#if STOW_WITH_CONV_2D_INT
    [STOW_KIND_CONV_2D_INT] = {stow_conv_2d_int_run, stow_conv_2d_int_check},
#endif
#if STOW_WITH_TRANSPOSE_CONV_2D_F32
    [STOW_KIND_TRANSPOSE_CONV_2D_F32] = {stow_transpose_conv_2d_f32_run, stow_transpose_conv_2d_f32_check},
#endif
#if STOW_WITH_TRANSPOSE_CONV_2D_INT
    [STOW_KIND_TRANSPOSE_CONV_2D_INT] = {stow_transpose_conv_2d_int_run, stow_transpose_conv_2d_int_check},
#endif
#if STOW_WITH_BATCH_MATMUL_F32
    [STOW_KIND_BATCH_MATMUL_F32] = {stow_batch_matmul_f32_run, stow_batch_matmul_f32_check},
#endif
#if STOW_WITH_LOG_SOFTMAX_F32
    [STOW_KIND_LOG_SOFTMAX_F32] = {stow_log_softmax_f32_run, stow_log_softmax_f32_check},
#endif
#if STOW_WITH_L2_NORMALIZATION_F32
    [STOW_KIND_L2_NORMALIZATION_F32] = {stow_l2_normalization_f32_run, stow_l2_normalization_f32_check},
#endif
#if STOW_WITH_SELECT
    [STOW_KIND_SELECT] = {stow_select_run, stow_select_check},
#endif
#if STOW_WITH_FULLY_CONNECTED_INT
    [STOW_KIND_FULLY_CONNECTED_INT] = {stow_fully_connected_int_run, stow_fully_connected_int_check},
#endif
#if STOW_WITH_POOL_INT
    [STOW_KIND_POOL_INT] = {stow_pool_int_run, stow_pool_int_check},
#endif
#if STOW_WITH_ADD_INT
    [STOW_KIND_ADD_INT] = {stow_add_int_run, stow_add_int_check},
#endif
#if STOW_WITH_MUL_INT
    [STOW_KIND_MUL_INT] = {stow_mul_int_run, stow_mul_int_check},
#endif
#if STOW_WITH_SOFTMAX_S16
    [STOW_KIND_SOFTMAX_S16] = {stow_softmax_s16_run, stow_softmax_s16_check},
#endif
#if STOW_WITH_SOFTMAX_S8_S16
    [STOW_KIND_SOFTMAX_S8_S16] = {stow_softmax_s8_s16_run, stow_softmax_s8_s16_check},
#endif
#if STOW_WITH_SVDF_STATE
    [STOW_KIND_SVDF_STATE] = {stow_svdf_state_run, stow_svdf_state_check},
#endif
#if STOW_WITH_SVDF_OUTPUT
    [STOW_KIND_SVDF_OUTPUT] = {stow_svdf_output_run, stow_svdf_output_check},
#endif
#if STOW_WITH_LSTM_S8
    [STOW_KIND_LSTM_S8] = {stow_lstm_s8_run, stow_lstm_s8_check},
#endif
#if STOW_WITH_PAIR_INT
    [STOW_KIND_PAIR_INT] = {stow_pair_int_run, stow_pair_int_check},
#endif
#if STOW_WITH_LEAKY_INT
    [STOW_KIND_LEAKY_INT] = {stow_leaky_int_run, stow_leaky_int_check},
#endif
#if STOW_WITH_GATE_S16
    [STOW_KIND_GATE_S16] = {stow_gate_s16_run, stow_gate_s16_check},
#endif
#if STOW_WITH_BATCH_MATMUL_INT
    [STOW_KIND_BATCH_MATMUL_INT] = {stow_batch_matmul_int_run, stow_batch_matmul_int_check},
#endif
#if STOW_WITH_L2_NORMALIZATION_S8
    [STOW_KIND_L2_NORMALIZATION_S8] = {stow_l2_normalization_s8_run, stow_l2_normalization_s8_check},
#endif
#if STOW_WITH_RSQRT_S16
    [STOW_KIND_RSQRT_S16] = {stow_rsqrt_s16_run, stow_rsqrt_s16_check},
#endif
#if STOW_WITH_RESIZE_BILINEAR_S16
    [STOW_KIND_RESIZE_BILINEAR_S16] = {stow_resize_bilinear_s16_run, stow_resize_bilinear_s16_check},
#endif
#if STOW_WITH_DETECTIONS
    [STOW_KIND_DETECTIONS] = {stow_detections_run, stow_detections_check},
#endif
#if STOW_WITH_LSTM_F32
    [STOW_KIND_LSTM_F32] = {stow_lstm_f32_run, stow_lstm_f32_check},
#endif
#if STOW_WITH_JOIN
    [STOW_KIND_JOIN] = {stow_join_run, stow_join_check},
#endif
};

STOW_API const stow_kernel *stow_find_kernel(uint32_t kind)
{
    if (kind >= sizeof stow_kernel_table / sizeof stow_kernel_table[0] || stow_kernel_table[kind].run == NULL) {
        return NULL;
    }
    return &stow_kernel_table[kind];
}
