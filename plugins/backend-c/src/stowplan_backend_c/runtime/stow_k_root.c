/* What integers need the inverse of a square root for: RSQRT of int16, and int8 vectors divided by their length. */
#include "stow_kernels.h"
#include "stow_math.h"

#if STOW_WITH_L2_NORMALIZATION_S8 || STOW_WITH_RSQRT_S16

/* A factor as stow_scale() takes it. */
typedef struct stow_root {
    int32_t multiplier;
    int32_t shift;
} stow_root;

/* value * 2^bits, or as near to it as 32 bits allow. */
static int32_t stow_shift_saturated(int32_t value, uint32_t bits)
{
    const int64_t wide = (int64_t)value * (INT64_C(1) << bits);
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* 1 / sqrt(value) by five Newton steps in Q3.28, from a value moved by pairs of bits to just below 2^29. */
static stow_root stow_inverse_root(int32_t value)
{
    stow_root root = {INT32_MAX, 0};
    if (value <= 1) {
        return root;
    }
    int32_t pairs = 11;
    while (value >= (1 << 29)) {
        value /= 4;
        pairs++;
    }
    while (value < (1 << 27)) {
        value *= 4;
        pairs--;
    }
    const int32_t half = stow_rounding_shift_31(value >> 1, 1);
    int32_t x = 1 << 28;
    for (int step = 0; step < 5; step++) {
        const int32_t cube = stow_shift_saturated(stow_high_product(stow_high_product(x, x), x), 6);
        const int32_t three_halves = stow_high_product((1 << 28) + (1 << 27), x);
        x = stow_shift_saturated(stow_wrap_subtract(three_halves, stow_high_product(half, cube)), 3);
    }
    const int32_t half_root_of_two = 1518500250;
    root.multiplier = stow_high_product(x, half_root_of_two);
    root.shift = -pairs;
    if (pairs < 0) {
        root.multiplier = stow_shift_left(root.multiplier, (uint32_t)-pairs);
        root.shift = 0;
    }
    return root;
}

#endif

#if STOW_WITH_L2_NORMALIZATION_S8

/* Results have 7 bits behind the point. */
#define STOW_L2_BITS 7

STOW_API void stow_l2_normalization_s8_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)call->params[STOW_L2_NORMALIZATION_S8_DEPTH];
    const int32_t zero_point = call->params[STOW_L2_NORMALIZATION_S8_INPUT_ZERO_POINT];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *x = (const int8_t *)stow_row(&in, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t run = 0; run < result.row_bytes / depth; run++, x += depth, out += depth) {
            uint32_t sum = 0;
            for (size_t i = 0; i < depth; i++) {
                sum += (uint32_t)((x[i] - zero_point) * (x[i] - zero_point));
            }
            const stow_root root = stow_inverse_root(stow_wrap(sum));
            for (size_t i = 0; i < depth; i++) {
                const int32_t scaled = stow_scale(x[i] - zero_point, root.multiplier, root.shift + STOW_L2_BITS);
                out[i] = (int8_t)stow_clamp(scaled, INT8_MIN, INT8_MAX);
            }
        }
    }
}

STOW_API int stow_l2_normalization_s8_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_L2_NORMALIZATION_S8_PARAMS) && in.rows == out.rows &&
           in.row_bytes == out.row_bytes && p[STOW_L2_NORMALIZATION_S8_DEPTH] > 0 &&
           out.row_bytes % (uint32_t)p[STOW_L2_NORMALIZATION_S8_DEPTH] == 0 &&
           stow_is_int8(p[STOW_L2_NORMALIZATION_S8_INPUT_ZERO_POINT]);
}

#endif

#if STOW_WITH_RSQRT_S16

/* Bits that the root gains before it is scaled. */
#define STOW_RSQRT_BITS 20

/* What has no root becomes the least number there is, the root of 0 the largest. */
static int32_t stow_rsqrt_one_s16(const int32_t *p, int32_t value)
{
    if (value <= 0) {
        return value == 0 ? INT16_MAX : INT16_MIN;
    }
    const stow_root root = stow_inverse_root(value);
    const int32_t fine = stow_scale(1, root.multiplier, root.shift + STOW_RSQRT_BITS);
    const int32_t scaled = stow_scale(fine, p[STOW_RSQRT_S16_MULTIPLIER], p[STOW_RSQRT_S16_SHIFT]);
    return stow_clamp(scaled, INT16_MIN, INT16_MAX);
}

STOW_API void stow_rsqrt_s16_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int16_t *x = (const int16_t *)(const void *)stow_row(&in, unit);
        int16_t *out = (int16_t *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < result.row_bytes / sizeof *out; i++) {
            out[i] = (int16_t)stow_rsqrt_one_s16(call->params, x[i]);
        }
    }
}

STOW_API int stow_rsqrt_s16_check(const stow_facts *facts)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_RSQRT_S16_PARAMS) && in.rows == out.rows && in.row_bytes == out.row_bytes &&
           out.row_bytes % sizeof(int16_t) == 0;
}

#endif
