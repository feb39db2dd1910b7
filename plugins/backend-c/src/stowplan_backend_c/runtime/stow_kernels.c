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
};

STOW_API const stow_kernel *stow_find_kernel(uint32_t kind)
{
    if (kind >= sizeof stow_kernel_table / sizeof stow_kernel_table[0] || stow_kernel_table[kind].run == NULL) {
        return NULL;
    }
    return &stow_kernel_table[kind];
}
