/* From one type or quantization to another, element by element. */
#include "stow_element.h"

#if STOW_WITH_CAST || STOW_WITH_QUANTIZE_F32

/* The nearest integer, halves away from zero, or cut towards 0; 0 for what is not a number. */
static int64_t stow_integer_of(float value, int nearest)
{
    const float limit = 9.0e18f;
    if (value != value) {
        return 0;
    }
    const float near = stow_clamp_float(value, -limit, limit);
    const int64_t whole = (int64_t)near;
    const float rest = near - (float)whole;
    return !nearest ? whole : rest >= 0.5f ? whole + 1 : rest <= -0.5f ? whole - 1 : whole;
}

#endif

#if STOW_WITH_CAST || STOW_WITH_REQUANTIZE || STOW_WITH_QUANTIZE_F32 || STOW_WITH_DEQUANTIZE_F32

static uint32_t stow_number_bytes(int32_t dtype)
{
    return dtype == STOW_DTYPE_FLOAT32 ? (uint32_t)sizeof(float) : stow_integer_bytes(dtype);
}

static int stow_is_conversion(const stow_facts *facts, uint32_t params, int32_t from, int32_t to)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    const uint32_t in_bytes = stow_number_bytes(from), out_bytes = stow_number_bytes(to);
    return stow_is_plain(facts, 1, params) && in_bytes > 0 && out_bytes > 0 && in.rows == out.rows &&
           in.row_bytes % in_bytes == 0 && out.row_bytes % out_bytes == 0 &&
           in.row_bytes / in_bytes == out.row_bytes / out_bytes;
}

#endif

#if STOW_WITH_CAST

static void stow_cast_one(const uint8_t *from, int32_t dtype, uint8_t *to, int32_t result)
{
    float value = 0.0f;
    if (dtype == STOW_DTYPE_FLOAT32) {
        memcpy(&value, from, sizeof value);
    } else if (result == STOW_DTYPE_FLOAT32) {
        value = (float)stow_load_integer(from, dtype);
    }
    if (result == STOW_DTYPE_FLOAT32) {
        memcpy(to, &value, sizeof value);
    } else if (result == STOW_DTYPE_BOOL) {
        *to = dtype == STOW_DTYPE_FLOAT32 ? value != 0.0f : stow_load_integer(from, dtype) != 0;
    } else if (dtype == STOW_DTYPE_FLOAT32) {
        stow_store_integer(to, result, stow_saturate(stow_integer_of(value, 0), result));
    } else {
        stow_store_integer(to, result, stow_load_integer(from, dtype)); /* wraps, as in C */
    }
}

STOW_API void stow_cast_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t from = call->params[STOW_CAST_FROM], to = call->params[STOW_CAST_TO];
    const size_t in_bytes = stow_number_bytes(from), out_bytes = stow_number_bytes(to);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *x = stow_row(&in, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / in_bytes; i++) {
            stow_cast_one(x + i * in_bytes, from, out + i * out_bytes, to);
        }
    }
}

STOW_API int stow_cast_check(const stow_facts *facts)
{
    return facts->param_count == STOW_CAST_PARAMS &&
           stow_is_conversion(facts, STOW_CAST_PARAMS, facts->params[STOW_CAST_FROM], facts->params[STOW_CAST_TO]);
}

#endif

#if STOW_WITH_REQUANTIZE

STOW_API void stow_requantize_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const int32_t from = p[STOW_REQUANTIZE_FROM], to = p[STOW_REQUANTIZE_TO];
    const size_t in_bytes = stow_number_bytes(from), out_bytes = stow_number_bytes(to);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *x = stow_row(&in, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / in_bytes; i++) {
            const int32_t value = (int32_t)stow_load_integer(x + i * in_bytes, from);
            const int32_t scaled = stow_scale(stow_wrap_subtract(value, p[STOW_REQUANTIZE_INPUT_ZERO_POINT]),
                                              p[STOW_REQUANTIZE_MULTIPLIER], p[STOW_REQUANTIZE_SHIFT]);
            const int64_t shifted = (int64_t)scaled + p[STOW_REQUANTIZE_OUTPUT_ZERO_POINT];
            stow_store_integer(out + i * out_bytes, to, stow_saturate(shifted, to));
        }
    }
}

STOW_API int stow_requantize_check(const stow_facts *facts)
{
    if (facts->param_count != STOW_REQUANTIZE_PARAMS) {
        return 0;
    }
    const int32_t from = facts->params[STOW_REQUANTIZE_FROM], to = facts->params[STOW_REQUANTIZE_TO];
    return stow_integer_bytes(from) > 0 && stow_integer_bytes(from) <= 4 && stow_integer_bytes(to) > 0 &&
           stow_is_conversion(facts, STOW_REQUANTIZE_PARAMS, from, to);
}

#endif

#if STOW_WITH_QUANTIZE_F32

STOW_API void stow_quantize_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const float scale = stow_float(call->params[STOW_QUANTIZE_F32_SCALE]);
    const int32_t zero_point = call->params[STOW_QUANTIZE_F32_ZERO_POINT], to = call->params[STOW_QUANTIZE_F32_TO];
    const size_t size = stow_integer_bytes(to);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / sizeof(float); i++) {
            const int64_t whole = stow_saturate(stow_integer_of(x[i] / scale, 1), STOW_DTYPE_INT32);
            stow_store_integer(out + i * size, to, stow_saturate(whole + zero_point, to));
        }
    }
}

STOW_API int stow_quantize_f32_check(const stow_facts *facts)
{
    if (facts->param_count != STOW_QUANTIZE_F32_PARAMS) {
        return 0;
    }
    const float scale = stow_float(facts->params[STOW_QUANTIZE_F32_SCALE]);
    const int32_t to = facts->params[STOW_QUANTIZE_F32_TO];
    return scale > 0.0f && stow_is_finite(scale) && stow_integer_bytes(to) > 0 &&
           stow_is_conversion(facts, STOW_QUANTIZE_F32_PARAMS, STOW_DTYPE_FLOAT32, to);
}

#endif

#if STOW_WITH_DEQUANTIZE_F32

STOW_API void stow_dequantize_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const float scale = stow_float(call->params[STOW_DEQUANTIZE_F32_SCALE]);
    const int64_t zero_point = call->params[STOW_DEQUANTIZE_F32_ZERO_POINT];
    const int32_t from = call->params[STOW_DEQUANTIZE_F32_FROM];
    const size_t size = stow_integer_bytes(from);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *x = stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / size; i++) {
            out[i] = scale * (float)((int64_t)((uint64_t)stow_load_integer(x + i * size, from) - (uint64_t)zero_point));
        }
    }
}

STOW_API int stow_dequantize_f32_check(const stow_facts *facts)
{
    if (facts->param_count != STOW_DEQUANTIZE_F32_PARAMS) {
        return 0;
    }
    const int32_t from = facts->params[STOW_DEQUANTIZE_F32_FROM];
    return stow_integer_bytes(from) > 0 &&
           stow_is_conversion(facts, STOW_DEQUANTIZE_F32_PARAMS, from, STOW_DTYPE_FLOAT32);
}

#endif
