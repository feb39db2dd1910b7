/* Functions of two operands with broadcast: float32, int32, comparisons, and what is left of int8. */
#include "stow_broadcast.h"
#include "stow_element.h"
#include "stow_function.h"

enum stow_arithmetic_functions {
    STOW_ARITHMETIC_SUB,
    STOW_ARITHMETIC_DIV,
    STOW_ARITHMETIC_MAXIMUM,
    STOW_ARITHMETIC_MINIMUM,
    STOW_ARITHMETIC_SQUARED_DIFFERENCE,
    STOW_ARITHMETIC_POW,
    STOW_ARITHMETIC_FLOOR_DIV,
    STOW_ARITHMETIC_FLOOR_MOD,
    STOW_ARITHMETIC_PRELU,
    STOW_ARITHMETIC_ADD,
    STOW_ARITHMETIC_MUL,
    STOW_ARITHMETIC_FUNCTIONS
};

#if STOW_WITH_ARITHMETIC_F32

static float stow_arithmetic_one_f32(int32_t function, float a, float b)
{
    switch (function) {
    case STOW_ARITHMETIC_SUB: return a - b;
    case STOW_ARITHMETIC_DIV: return a / b;
    case STOW_ARITHMETIC_MAXIMUM: return a > b ? a : b;
    case STOW_ARITHMETIC_MINIMUM: return a < b ? a : b;
    case STOW_ARITHMETIC_SQUARED_DIFFERENCE: return (a - b) * (a - b);
    case STOW_ARITHMETIC_POW: return stow_pow(a, b);
    case STOW_ARITHMETIC_FLOOR_DIV: return stow_floor(a / b);
    case STOW_ARITHMETIC_FLOOR_MOD: return stow_floor_mod(a, b);
    case STOW_ARITHMETIC_PRELU: return a >= 0.0f ? a : a * b;
    case STOW_ARITHMETIC_ADD: return a + b;
    default: return a * b;
    }
}

STOW_API void stow_arithmetic_f32_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    const int32_t function = call->params[STOW_ARITHMETIC_F32_FUNCTION];
    const float low = stow_float(call->params[STOW_ARITHMETIC_F32_ACT_MIN]);
    const float high = stow_float(call->params[STOW_ARITHMETIC_F32_ACT_MAX]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *a = (const float *)(const void *)stow_binary_row(call, 0, unit);
        const float *b = (const float *)(const void *)stow_binary_row(call, 1, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                const float value = stow_arithmetic_one_f32(function, a[c * by_a.channel], b[c * by_b.channel]);
                out[c] = stow_clamp_float(value, low, high);
            }
        }
    }
}

STOW_API int stow_arithmetic_f32_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_ARITHMETIC_F32_PARAMS, sizeof(float)) &&
           (uint32_t)facts->params[STOW_ARITHMETIC_F32_FUNCTION] < STOW_ARITHMETIC_FUNCTIONS;
}

#endif

#if STOW_WITH_ARITHMETIC_S32

/* a / b cut towards 0, or towards minus infinity; by 0 it is 0, and -2^31 / -1 wraps. */
static int32_t stow_divide_s32(int32_t a, int32_t b, int down)
{
    if (b == 0) {
        return 0;
    }
    const int64_t whole = (int64_t)a / b;
    return stow_wrap((uint32_t)(whole - (down && (int64_t)a % b != 0 && (a < 0) != (b < 0))));
}

static int32_t stow_power_s32(int32_t base, int32_t exponent)
{
    uint32_t result = 1, factor = (uint32_t)base;
    for (uint32_t left = exponent < 0 ? 0 : (uint32_t)exponent; left > 0; left >>= 1) {
        result *= (left & 1u) != 0 ? factor : 1u;
        factor *= factor;
    }
    return exponent < 0 ? 0 : stow_wrap(result);
}

static int32_t stow_arithmetic_one_s32(int32_t function, int32_t a, int32_t b)
{
    const uint32_t difference = (uint32_t)a - (uint32_t)b;
    switch (function) {
    case STOW_ARITHMETIC_SUB: return stow_wrap(difference);
    case STOW_ARITHMETIC_DIV: return stow_divide_s32(a, b, 0);
    case STOW_ARITHMETIC_MAXIMUM: return a > b ? a : b;
    case STOW_ARITHMETIC_MINIMUM: return a < b ? a : b;
    case STOW_ARITHMETIC_SQUARED_DIFFERENCE: return stow_wrap(difference * difference);
    case STOW_ARITHMETIC_POW: return stow_power_s32(a, b);
    case STOW_ARITHMETIC_FLOOR_DIV: return stow_divide_s32(a, b, 1);
    case STOW_ARITHMETIC_FLOOR_MOD: return stow_wrap((uint32_t)a - (uint32_t)b * (uint32_t)stow_divide_s32(a, b, 1));
    case STOW_ARITHMETIC_ADD: return stow_wrap_add(a, b);
    case STOW_ARITHMETIC_MUL: return stow_wrap((uint32_t)a * (uint32_t)b);
    default: return a >= 0 ? a : stow_wrap((uint32_t)a * (uint32_t)b);
    }
}

STOW_API void stow_arithmetic_s32_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    const int32_t function = call->params[STOW_ARITHMETIC_S32_FUNCTION];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int32_t *a = (const int32_t *)(const void *)stow_binary_row(call, 0, unit);
        const int32_t *b = (const int32_t *)(const void *)stow_binary_row(call, 1, unit);
        int32_t *out = (int32_t *)(void *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = stow_arithmetic_one_s32(function, a[c * by_a.channel], b[c * by_b.channel]);
            }
        }
    }
}

STOW_API int stow_arithmetic_s32_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_ARITHMETIC_S32_PARAMS, sizeof(int32_t)) &&
           (uint32_t)facts->params[STOW_ARITHMETIC_S32_FUNCTION] < STOW_ARITHMETIC_FUNCTIONS;
}

#endif

#if STOW_WITH_COMPARE

enum stow_comparisons {
    STOW_COMPARE_EQUAL,
    STOW_COMPARE_NOT_EQUAL,
    STOW_COMPARE_LESS,
    STOW_COMPARE_LESS_EQUAL,
    STOW_COMPARE_GREATER,
    STOW_COMPARE_GREATER_EQUAL,
    STOW_COMPARE_LOGICAL_AND,
    STOW_COMPARE_LOGICAL_OR,
    STOW_COMPARE_FUNCTIONS
};

/* -1, 0 or 1 for smaller, equal, larger; 2 when one of two floats is not a number. */
static int stow_order(const uint8_t *a, const uint8_t *b, int32_t dtype)
{
    if (dtype == STOW_DTYPE_FLOAT32) {
        float x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    const int64_t x = stow_load_integer(a, dtype), y = stow_load_integer(b, dtype);
    return x < y ? -1 : x > y;
}

static int stow_compare_one(int32_t function, const uint8_t *a, const uint8_t *b, int32_t dtype)
{
    if (function == STOW_COMPARE_LOGICAL_AND) {
        return *a != 0 && *b != 0;
    }
    if (function == STOW_COMPARE_LOGICAL_OR) {
        return *a != 0 || *b != 0;
    }
    const int order = stow_order(a, b, dtype);
    switch (function) {
    case STOW_COMPARE_EQUAL: return order == 0;
    case STOW_COMPARE_NOT_EQUAL: return order != 0;
    case STOW_COMPARE_LESS: return order == -1;
    case STOW_COMPARE_LESS_EQUAL: return order == -1 || order == 0;
    case STOW_COMPARE_GREATER: return order == 1;
    default: return order == 1 || order == 0;
    }
}

static uint32_t stow_compared_bytes(int32_t dtype)
{
    return dtype == STOW_DTYPE_FLOAT32 ? (uint32_t)sizeof(float) : stow_integer_bytes(dtype);
}

STOW_API void stow_compare_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    const int32_t function = call->params[STOW_COMPARE_FUNCTION], dtype = call->params[STOW_COMPARE_DTYPE];
    const size_t size = stow_compared_bytes(dtype);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *a = stow_binary_row(call, 0, unit), *b = stow_binary_row(call, 1, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column * size, b += by_b.column * size, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                const int is = stow_compare_one(function, a + c * by_a.channel * size, b + c * by_b.channel * size, dtype);
                out[c] = (uint8_t)is;
            }
        }
    }
}

STOW_API int stow_compare_check(const stow_facts *facts)
{
    if (facts->param_count != STOW_COMPARE_PARAMS ||
        (uint32_t)facts->params[STOW_COMPARE_FUNCTION] >= STOW_COMPARE_FUNCTIONS) {
        return 0;
    }
    const uint32_t size = stow_compared_bytes(facts->params[STOW_COMPARE_DTYPE]);
    return size > 0 && stow_is_binary_to(facts, STOW_COMPARE_PARAMS, size, 1);
}

#endif

#if STOW_WITH_SUB_S8

#define STOW_SUB_BITS 20

static int8_t stow_sub_one_s8(const int32_t *params, int32_t a, int32_t b)
{
    const int32_t wide_a = (a - params[STOW_SUB_S8_A_ZERO_POINT]) * (1 << STOW_SUB_BITS);
    const int32_t wide_b = (b - params[STOW_SUB_S8_B_ZERO_POINT]) * (1 << STOW_SUB_BITS);
    const int32_t difference =
        stow_wrap_subtract(stow_scale(wide_a, params[STOW_SUB_S8_A_MULTIPLIER], params[STOW_SUB_S8_A_SHIFT]),
                           stow_scale(wide_b, params[STOW_SUB_S8_B_MULTIPLIER], params[STOW_SUB_S8_B_SHIFT]));
    const int32_t scaled =
        stow_scale(difference, params[STOW_SUB_S8_OUTPUT_MULTIPLIER], params[STOW_SUB_S8_OUTPUT_SHIFT]);
    return (int8_t)stow_clamp(stow_wrap_add(scaled, params[STOW_SUB_S8_OUTPUT_ZERO_POINT]), params[STOW_SUB_S8_ACT_MIN],
                              params[STOW_SUB_S8_ACT_MAX]);
}

STOW_API void stow_sub_s8_run(const stow_call *call)
{
    stow_binary_s8(call, stow_sub_one_s8);
}

STOW_API int stow_sub_s8_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_SUB_S8_PARAMS, 1) && stow_is_int8(facts->params[STOW_SUB_S8_A_ZERO_POINT]) &&
           stow_is_int8(facts->params[STOW_SUB_S8_B_ZERO_POINT]) &&
           stow_is_range_s8(facts->params + STOW_SUB_S8_ACT_MIN);
}

#endif

#if STOW_WITH_EXTREME_S8

static int8_t stow_extreme_one_s8(const int32_t *params, int32_t a, int32_t b)
{
    const int largest = params[STOW_EXTREME_S8_LARGEST] != 0;
    return (int8_t)((a > b) == largest ? a : b);
}

STOW_API void stow_extreme_s8_run(const stow_call *call)
{
    stow_binary_s8(call, stow_extreme_one_s8);
}

STOW_API int stow_extreme_s8_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_EXTREME_S8_PARAMS, 1);
}

#endif
