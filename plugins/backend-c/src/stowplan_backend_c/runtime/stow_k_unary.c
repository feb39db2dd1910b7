/* Operators on each element by itself: a table for int8, limits and logistic for float32, and conversions. */
#include "stow_kernels.h"
#include "stow_math.h"

#if STOW_WITH_TABLE_S8 || STOW_WITH_CLAMP_F32 || STOW_WITH_LOGISTIC_F32 || STOW_WITH_QUANTIZE_F32_S8 ||                \
    STOW_WITH_DEQUANTIZE_S8_F32

static int stow_is_unary(const stow_facts *facts, uint32_t params, uint32_t in_bytes, uint32_t out_bytes)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, params) && in.rows == out.rows && in.row_bytes % in_bytes == 0 &&
           out.row_bytes % out_bytes == 0 && in.row_bytes / in_bytes == out.row_bytes / out_bytes;
}

#endif

#if STOW_WITH_TABLE_S8

STOW_API void stow_table_s8_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int8_t *table = stow_constant(call, call->params[STOW_TABLE_S8_TABLE]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *x = (const int8_t *)stow_row(&in, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes; i++) {
            out[i] = table[x[i] - INT8_MIN];
        }
    }
}

STOW_API int stow_table_s8_check(const stow_facts *facts)
{
    return stow_is_unary(facts, STOW_TABLE_S8_PARAMS, 1, 1) &&
           stow_has_bytes(facts, facts->params[STOW_TABLE_S8_TABLE], 256);
}

#endif

#if STOW_WITH_CLAMP_F32

STOW_API void stow_clamp_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const float low = stow_float(call->params[STOW_CLAMP_F32_MINIMUM]);
    const float high = stow_float(call->params[STOW_CLAMP_F32_MAXIMUM]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / sizeof(float); i++) {
            out[i] = stow_clamp_float(x[i], low, high);
        }
    }
}

STOW_API int stow_clamp_f32_check(const stow_facts *facts)
{
    return stow_is_unary(facts, STOW_CLAMP_F32_PARAMS, sizeof(float), sizeof(float));
}

#endif

#if STOW_WITH_LOGISTIC_F32

/* exp is only taken of numbers that are not positive, so that it never overflows. */
static float stow_logistic(float x)
{
    if (x >= 0.0f) {
        return 1.0f / (1.0f + stow_exp(-x));
    }
    const float power = stow_exp(x);
    return power / (1.0f + power);
}

STOW_API void stow_logistic_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / sizeof(float); i++) {
            out[i] = stow_logistic(x[i]);
        }
    }
}

STOW_API int stow_logistic_f32_check(const stow_facts *facts)
{
    return stow_is_unary(facts, STOW_LOGISTIC_F32_PARAMS, sizeof(float), sizeof(float));
}

#endif

#if STOW_WITH_QUANTIZE_F32_S8

/* Round half away from zero and saturate; 0 for what is not a number. */
static int32_t stow_round(float value)
{
    const float limit = 1024.0f; /* far outside int8, and exact in every step below */
    if (value != value) {
        return 0;
    }
    const float near = stow_clamp_float(value, -limit, limit);
    const int32_t whole = (int32_t)near;
    const float rest = near - (float)whole;
    return rest >= 0.5f ? whole + 1 : rest <= -0.5f ? whole - 1 : whole;
}

STOW_API void stow_quantize_f32_s8_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const float scale = stow_float(call->params[STOW_QUANTIZE_F32_S8_SCALE]);
    const int32_t zero_point = call->params[STOW_QUANTIZE_F32_S8_ZERO_POINT];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t i = 0; i < result.row_bytes; i++) {
            out[i] = (int8_t)stow_clamp(stow_round(x[i] / scale) + zero_point, INT8_MIN, INT8_MAX);
        }
    }
}

STOW_API int stow_quantize_f32_s8_check(const stow_facts *facts)
{
    if (!stow_is_unary(facts, STOW_QUANTIZE_F32_S8_PARAMS, sizeof(float), 1)) {
        return 0;
    }
    const float scale = stow_float(facts->params[STOW_QUANTIZE_F32_S8_SCALE]);
    return scale > 0.0f && stow_is_finite(scale) && stow_is_int8(facts->params[STOW_QUANTIZE_F32_S8_ZERO_POINT]);
}

#endif

#if STOW_WITH_DEQUANTIZE_S8_F32

STOW_API void stow_dequantize_s8_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const float scale = stow_float(call->params[STOW_DEQUANTIZE_S8_F32_SCALE]);
    const int32_t zero_point = call->params[STOW_DEQUANTIZE_S8_F32_ZERO_POINT];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *x = (const int8_t *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes; i++) {
            out[i] = scale * (float)(x[i] - zero_point);
        }
    }
}

STOW_API int stow_dequantize_s8_f32_check(const stow_facts *facts)
{
    return stow_is_unary(facts, STOW_DEQUANTIZE_S8_F32_PARAMS, 1, sizeof(float)) &&
           stow_is_int8(facts->params[STOW_DEQUANTIZE_S8_F32_ZERO_POINT]);
}

#endif
