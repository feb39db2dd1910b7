/* Sum and product of two operands with broadcast, int8 and float32. */
#include "stow_broadcast.h"
#include "stow_set.h"

#if STOW_WITH_ADD_S8

STOW_API void stow_add_s8_run(const stow_call *call)
{
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const stow_rows result = stow_result(call);
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    const int one_column = call->params[STOW_ADD_S8_WIDTH] == 1;
    if (by_a.channel != 1 || by_b.channel != 1 || (!one_column && (by_a.column != channels || by_b.column != channels))) {
        stow_binary_s8(call, stow_add_one_s8);
        return;
    }
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *a = (const int8_t *)stow_binary_row(call, 0, unit);
        const int8_t *b = (const int8_t *)stow_binary_row(call, 1, unit);
        stow_kernel_set()->add_s8(call->params, a, b, (int8_t *)stow_row(&result, unit), result.row_bytes);
    }
}

STOW_API int stow_add_s8_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_ADD_S8_PARAMS, 1) && stow_is_int8(facts->params[STOW_ADD_S8_A_ZERO_POINT]) &&
           stow_is_int8(facts->params[STOW_ADD_S8_B_ZERO_POINT]) &&
           stow_is_range_s8(facts->params + STOW_ADD_S8_ACT_MIN);
}

#endif

#if STOW_WITH_MUL_S8

static int8_t stow_mul_one_s8(const int32_t *params, int32_t a, int32_t b)
{
    const int32_t product = (a - params[STOW_MUL_S8_A_ZERO_POINT]) * (b - params[STOW_MUL_S8_B_ZERO_POINT]);
    const int32_t scaled = stow_scale(product, params[STOW_MUL_S8_OUTPUT_MULTIPLIER], params[STOW_MUL_S8_OUTPUT_SHIFT]);
    return (int8_t)stow_clamp(stow_wrap_add(scaled, params[STOW_MUL_S8_OUTPUT_ZERO_POINT]), params[STOW_MUL_S8_ACT_MIN],
                              params[STOW_MUL_S8_ACT_MAX]);
}

STOW_API void stow_mul_s8_run(const stow_call *call)
{
    stow_binary_s8(call, stow_mul_one_s8);
}

STOW_API int stow_mul_s8_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_MUL_S8_PARAMS, 1) && stow_is_int8(facts->params[STOW_MUL_S8_A_ZERO_POINT]) &&
           stow_is_int8(facts->params[STOW_MUL_S8_B_ZERO_POINT]) &&
           stow_is_range_s8(facts->params + STOW_MUL_S8_ACT_MIN);
}

#endif

#if STOW_WITH_ADD_F32

STOW_API void stow_add_f32_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_F32_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_F32_CHANNELS];
    const float low = stow_float(call->params[STOW_ADD_F32_ACT_MIN]);
    const float high = stow_float(call->params[STOW_ADD_F32_ACT_MAX]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *a = (const float *)(const void *)stow_binary_row(call, 0, unit);
        const float *b = (const float *)(const void *)stow_binary_row(call, 1, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = stow_clamp_float(a[c * by_a.channel] + b[c * by_b.channel], low, high);
            }
        }
    }
}

STOW_API int stow_add_f32_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_ADD_F32_PARAMS, sizeof(float));
}

#endif

#if STOW_WITH_MUL_F32

STOW_API void stow_mul_f32_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_MUL_F32_WIDTH];
    const size_t channels = (size_t)call->params[STOW_MUL_F32_CHANNELS];
    const float low = stow_float(call->params[STOW_MUL_F32_ACT_MIN]);
    const float high = stow_float(call->params[STOW_MUL_F32_ACT_MAX]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *a = (const float *)(const void *)stow_binary_row(call, 0, unit);
        const float *b = (const float *)(const void *)stow_binary_row(call, 1, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = stow_clamp_float(a[c * by_a.channel] * b[c * by_b.channel], low, high);
            }
        }
    }
}

STOW_API int stow_mul_f32_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_MUL_F32_PARAMS, sizeof(float));
}

#endif
