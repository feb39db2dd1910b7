/* Sum and product of two operands with broadcast, int8 and float32. */
#include "stow_kernels.h"
#include "stow_math.h"

#if STOW_WITH_ADD_S8 || STOW_WITH_ADD_F32 || STOW_WITH_MUL_S8 || STOW_WITH_MUL_F32

_Static_assert(STOW_ADD_S8_B_CHANNEL == 10 && STOW_ADD_F32_B_CHANNEL == 10 && STOW_MUL_S8_B_CHANNEL == 10 &&
                   STOW_MUL_F32_B_CHANNEL == 10,
               "all four kinds begin with the same parameters");

/* How far apart in one operand are the elements that neighbours in the result need. */
typedef struct stow_strides {
    uint32_t image;
    uint32_t row;
    size_t column;
    size_t channel;
} stow_strides;

static stow_strides stow_read_strides(const int32_t *params, uint32_t operand)
{
    const int32_t *first = params + (operand == 0 ? STOW_ADD_S8_A_IMAGE : STOW_ADD_S8_B_IMAGE);
    const stow_strides strides = {(uint32_t)first[0], (uint32_t)first[1], (size_t)first[2], (size_t)first[3]};
    return strides;
}

static const uint8_t *stow_binary_row(const stow_call *call, uint32_t operand, uint32_t unit)
{
    const stow_rows rows = stow_operand(call, operand);
    const stow_strides strides = stow_read_strides(call->params, operand);
    const uint32_t height = (uint32_t)call->params[STOW_ADD_S8_HEIGHT];
    return stow_row(&rows, unit / height * strides.image + unit % height * strides.row);
}

static int stow_is_broadcast(const stow_facts *facts, uint32_t operand, int64_t element_bytes)
{
    const int32_t *params = facts->params;
    const stow_form in = stow_operand_form(facts, operand);
    const int32_t *strides = params + (operand == 0 ? STOW_ADD_S8_A_IMAGE : STOW_ADD_S8_B_IMAGE);
    const int64_t images = stow_result_form(facts).rows / (uint32_t)params[STOW_ADD_S8_HEIGHT];
    const int64_t rows = (images - 1) * strides[0];
    const int64_t columns = (int64_t)(params[STOW_ADD_S8_WIDTH] - 1) * strides[2];
    return rows < in.rows && rows + (int64_t)(params[STOW_ADD_S8_HEIGHT] - 1) * strides[1] < in.rows &&
           columns < in.row_bytes && in.row_bytes % element_bytes == 0 &&
           columns + (int64_t)(params[STOW_ADD_S8_CHANNELS] - 1) * strides[3] < in.row_bytes / element_bytes;
}

static int stow_is_binary(const stow_facts *facts, uint32_t params, int64_t element_bytes)
{
    if (!stow_is_plain(facts, 2, params) ||
        !stow_all_at_least(facts, STOW_ADD_S8_HEIGHT, STOW_ADD_S8_CHANNELS + 1, 1) ||
        !stow_all_at_least(facts, STOW_ADD_S8_A_IMAGE, STOW_ADD_S8_B_CHANNEL + 1, 0)) {
        return 0;
    }
    const stow_form out = stow_result_form(facts);
    const int64_t size = stow_size(facts->params[STOW_ADD_S8_WIDTH], facts->params[STOW_ADD_S8_CHANNELS]);
    return out.rows > 0 && out.rows % (uint32_t)facts->params[STOW_ADD_S8_HEIGHT] == 0 &&
           stow_size(size, element_bytes) == out.row_bytes && stow_is_broadcast(facts, 0, element_bytes) &&
           stow_is_broadcast(facts, 1, element_bytes);
}

#endif

#if STOW_WITH_ADD_S8

/* Operands are scaled to a common scale with this many bits below the point. */
#define STOW_ADD_BITS 20

static int8_t stow_add_one_s8(const int32_t *params, int32_t a, int32_t b)
{
    const int32_t wide_a = (a - params[STOW_ADD_S8_A_ZERO_POINT]) * (1 << STOW_ADD_BITS);
    const int32_t wide_b = (b - params[STOW_ADD_S8_B_ZERO_POINT]) * (1 << STOW_ADD_BITS);
    const int32_t sum = stow_wrap_add(stow_scale(wide_a, params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT]),
                                      stow_scale(wide_b, params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT]));
    const int32_t scaled = stow_scale(sum, params[STOW_ADD_S8_OUTPUT_MULTIPLIER], params[STOW_ADD_S8_OUTPUT_SHIFT]);
    return (int8_t)stow_clamp(stow_wrap_add(scaled, params[STOW_ADD_S8_OUTPUT_ZERO_POINT]), params[STOW_ADD_S8_ACT_MIN],
                              params[STOW_ADD_S8_ACT_MAX]);
}

STOW_API void stow_add_s8_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *a = (const int8_t *)stow_binary_row(call, 0, unit);
        const int8_t *b = (const int8_t *)stow_binary_row(call, 1, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = stow_add_one_s8(call->params, a[c * by_a.channel], b[c * by_b.channel]);
            }
        }
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
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_MUL_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_MUL_S8_CHANNELS];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *a = (const int8_t *)stow_binary_row(call, 0, unit);
        const int8_t *b = (const int8_t *)stow_binary_row(call, 1, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = stow_mul_one_s8(call->params, a[c * by_a.channel], b[c * by_b.channel]);
            }
        }
    }
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
