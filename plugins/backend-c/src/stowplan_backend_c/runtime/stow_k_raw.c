/* Integers without a scale, of any type, with broadcast; and convolution of floats in groups. */
#include "stow_broadcast.h"
#include "stow_element.h"
#include "stow_filter.h"
#include "stow_window.h"

#if STOW_WITH_ARITHMETIC_INT

/* In the order of arithmetic_f32's functions. */
enum stow_integer_functions {
    STOW_RAW_SUB,
    STOW_RAW_DIV,
    STOW_RAW_MAXIMUM,
    STOW_RAW_MINIMUM,
    STOW_RAW_SQUARED_DIFFERENCE,
    STOW_RAW_POW,
    STOW_RAW_FLOOR_DIV,
    STOW_RAW_FLOOR_MOD,
    STOW_RAW_PRELU,
    STOW_RAW_ADD,
    STOW_RAW_MUL,
    STOW_RAW_FUNCTIONS
};

_Static_assert(STOW_ARITHMETIC_INT_B_CHANNEL == 10, "it begins as all kinds on two operands do");

/* a / b cut towards 0, or towards minus infinity; by 0 it is 0, and what 64 bits do not hold wraps. */
static int64_t stow_divide_integer(int64_t a, int64_t b, int down)
{
    if (b == 0 || b == -1) {
        return b == 0 ? 0 : (int64_t)(~(uint64_t)a + 1U);
    }
    return a / b - (down && a % b != 0 && (a < 0) != (b < 0));
}

static int64_t stow_power_integer(int64_t base, int64_t exponent)
{
    uint64_t result = 1, factor = (uint64_t)base;
    for (uint64_t left = exponent < 0 ? 0 : (uint64_t)exponent; left > 0; left >>= 1) {
        result *= (left & 1u) != 0 ? factor : 1u;
        factor *= factor;
    }
    return exponent < 0 ? 0 : (int64_t)result;
}

static int64_t stow_integer_one(int32_t function, int64_t a, int64_t b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b, difference = x - y;
    switch (function) {
    case STOW_RAW_SUB: return (int64_t)difference;
    case STOW_RAW_DIV: return stow_divide_integer(a, b, 0);
    case STOW_RAW_MAXIMUM: return a > b ? a : b;
    case STOW_RAW_MINIMUM: return a < b ? a : b;
    case STOW_RAW_SQUARED_DIFFERENCE: return (int64_t)(difference * difference);
    case STOW_RAW_POW: return stow_power_integer(a, b);
    case STOW_RAW_FLOOR_DIV: return stow_divide_integer(a, b, 1);
    case STOW_RAW_FLOOR_MOD: return (int64_t)(x - y * (uint64_t)stow_divide_integer(a, b, 1));
    case STOW_RAW_ADD: return (int64_t)(x + y);
    case STOW_RAW_MUL: return (int64_t)(x * y);
    default: return a >= 0 ? a : (int64_t)(x * y);
    }
}

STOW_API void stow_arithmetic_int_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    const int32_t function = call->params[STOW_ARITHMETIC_INT_FUNCTION], dtype = call->params[STOW_ARITHMETIC_INT_DTYPE];
    const size_t size = stow_integer_bytes(dtype);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *a = stow_binary_row(call, 0, unit), *b = stow_binary_row(call, 1, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column * size, b += by_b.column * size) {
            for (size_t c = 0; c < channels; c++, out += size) {
                const int64_t x = stow_load_integer(a + c * by_a.channel * size, dtype);
                const int64_t y = stow_load_integer(b + c * by_b.channel * size, dtype);
                stow_store_integer(out, dtype, stow_integer_one(function, x, y));
            }
        }
    }
}

STOW_API int stow_arithmetic_int_check(const stow_facts *facts)
{
    if (facts->param_count != STOW_ARITHMETIC_INT_PARAMS ||
        (uint32_t)facts->params[STOW_ARITHMETIC_INT_FUNCTION] >= STOW_RAW_FUNCTIONS) {
        return 0;
    }
    const uint32_t size = stow_integer_bytes(facts->params[STOW_ARITHMETIC_INT_DTYPE]);
    return size > 0 && stow_is_binary(facts, STOW_ARITHMETIC_INT_PARAMS, size);
}

#endif

#if STOW_WITH_CONV_2D_GROUPS_F32

/* The sum of one output at one column: over the group's channels under the window. */
static float stow_group_sum_f32(const stow_window *w, const stow_rows *in, const stow_place *place, int32_t column,
                                const float *weights, size_t first, size_t depth)
{
    const int32_t left = column * w->stride_w - w->pad_left;
    const stow_taps columns = stow_clip(left, w->kernel_w, w->dilation_w, w->in_w);
    float sum = 0.0f;
    for (int32_t p = place->taps.first; p < place->taps.last; p++) {
        const float *row = (const float *)(const void *)stow_row_under(in, w, place, p);
        for (int32_t q = columns.first; q < columns.last; q++) {
            const float *x = row + (size_t)(left + q * w->dilation_w) * (size_t)w->in_c + first;
            const float *y = weights + ((size_t)p * (size_t)w->kernel_w + (size_t)q) * depth;
            for (size_t c = 0; c < depth; c++) {
                sum += x[c] * y[c];
            }
        }
    }
    return sum;
}

STOW_API void stow_conv_2d_groups_f32_run(const stow_call *call)
{
    stow_window w;
    stow_filter_f32 filter;
    stow_read_window(&w, call->params);
    stow_read_filter_f32(&filter, call, STOW_CONV_2D_GROUPS_F32_ACT_MIN);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t groups = (size_t)call->params[STOW_CONV_2D_GROUPS_F32_GROUPS];
    const size_t depth = (size_t)w.in_c / groups, outputs = (size_t)w.out_c / groups;
    const size_t step = (size_t)w.kernel_h * (size_t)w.kernel_w * depth;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&w, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (int32_t column = 0; column < w.out_w; column++) {
            for (size_t output = 0; output < (size_t)w.out_c; output++) {
                const float *weights = filter.weights + output * step;
                const float sum = stow_group_sum_f32(&w, &in, &place, column, weights, output / outputs * depth, depth);
                *out++ = stow_output_f32(&filter, output, sum);
            }
        }
    }
}

STOW_API int stow_conv_2d_groups_f32_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_CONV_2D_GROUPS_F32_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_window(&w, facts->params);
    const int32_t groups = facts->params[STOW_CONV_2D_GROUPS_F32_GROUPS];
    if (!stow_is_window(facts, &w, sizeof(float)) || groups < 1 || w.in_c % groups != 0 || w.out_c % groups != 0) {
        return 0;
    }
    const int64_t taps = stow_size(stow_size(w.out_c, w.kernel_h), w.kernel_w);
    return stow_is_filter_f32(facts, STOW_CONV_2D_GROUPS_F32_ACT_MIN, stow_size(taps, w.in_c / groups), w.out_c);
}

#endif
