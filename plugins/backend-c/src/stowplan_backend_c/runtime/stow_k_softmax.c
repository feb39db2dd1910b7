/* Softmax along the last axis, int8 in fixed point and float32. */
#include <string.h>

#include "stow_kernels.h"
#include "stow_math.h"

#if STOW_WITH_SOFTMAX_S8 || STOW_WITH_SOFTMAX_S8_S16

_Static_assert((int)STOW_SOFTMAX_S8_S16_DIFF_MIN == (int)STOW_SOFTMAX_S8_DIFF_MIN, "both kinds have the same parameters");

#define STOW_SUM_INTEGER_BITS 12
/* Sums of exponentials are Q12.19: this many ones still fit 31 bits. */
#define STOW_SOFTMAX_MAX_DEPTH 4095

static STOW_CALLED int32_t stow_product_q31(int32_t a, int32_t b)
{
    return stow_high_product(a, b);
}

/* exp(a) in Q0.31 for a in [-1/4, 0): the Taylor polynomial of fourth order around -1/8. */
static int32_t stow_exp_of_quarter(int32_t a)
{
    const int32_t exp_of_minus_eighth = 1895147668;
    const int32_t third = 715827883;
    const int32_t x = stow_wrap_add(a, 1 << 28);
    const int32_t x2 = stow_product_q31(x, x);
    const int32_t x3 = stow_product_q31(x2, x);
    const int32_t x4_by_4 = stow_rounding_shift_31(stow_product_q31(x2, x2), 2);
    const int32_t rest =
        stow_rounding_shift_31(stow_wrap_add(stow_product_q31(stow_wrap_add(x4_by_4, x3), third), x2), 1);
    return stow_wrap_add(exp_of_minus_eighth, stow_product_q31(exp_of_minus_eighth, stow_wrap_add(x, rest)));
}

/* exp(a) in Q0.31 for a <= 0 in Q5.26: a quarter's worth by polynomial, then one factor for each further bit. */
static int32_t stow_exp_of_negative(int32_t a)
{
    static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t quarter = 1 << 24;
    if (a == 0) {
        return INT32_MAX;
    }
    const int32_t part = (int32_t)((uint32_t)a & (uint32_t)(quarter - 1)) - quarter;
    const uint32_t whole = (uint32_t)part - (uint32_t)a;
    int32_t result = stow_exp_of_quarter(part * 32);
    for (uint32_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        if ((whole >> (24u + i) & 1u) != 0) {
            result = stow_product_q31(result, factors[i]);
        }
    }
    return result;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31, by three Newton steps. */
static int32_t stow_inverse_of_one_plus(int32_t a)
{
    const int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = stow_wrap_add(1515870810, stow_product_q31(half_denominator, -1010580540)); /* 48/17 - 32/17 d, Q2.29 */
    for (int i = 0; i < 3; i++) {
        const int32_t error = stow_wrap_subtract(1 << 29, stow_product_q31(half_denominator, x));
        const int64_t step = (int64_t)stow_product_q31(x, error) * 4;
        x = stow_wrap_add(x, step > INT32_MAX ? INT32_MAX : step < INT32_MIN ? INT32_MIN : (int32_t)step);
    }
    const int64_t twice = (int64_t)x * 2;
    return twice > INT32_MAX ? INT32_MAX : twice < INT32_MIN ? INT32_MIN : (int32_t)twice;
}

/* exp(beta * scale * (x - max)) in Q0.31; 0 where the difference is out of the range of Q5.26. */
static int32_t stow_softmax_exp(const int32_t *params, int32_t difference)
{
    if (difference < params[STOW_SOFTMAX_S8_DIFF_MIN]) {
        return 0;
    }
    return stow_exp_of_negative(
        stow_scale(difference, params[STOW_SOFTMAX_S8_MULTIPLIER], params[STOW_SOFTMAX_S8_SHIFT]));
}

/* One run, to 8 or 16 bits below the point. */
static void stow_softmax_run_s8(const int32_t *params, const int8_t *x, uint8_t *out, size_t depth, uint32_t out_bits)
{
    int32_t largest = INT8_MIN;
    for (size_t i = 0; i < depth; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i < depth; i++) {
        sum += (uint32_t)stow_rounding_shift_31(stow_softmax_exp(params, x[i] - largest), STOW_SUM_INTEGER_BITS);
    }
    uint32_t headroom = 0;
    for (; headroom < 31 && (sum & UINT32_C(0x80000000)) == 0; headroom++) {
        sum <<= 1;
    }
    /* sum is now 1 + fraction in [1, 2); the bits by which it was larger than that move into the last shift. */
    const int32_t inverse = stow_inverse_of_one_plus((int32_t)(sum & INT32_MAX));
    const uint32_t most = STOW_SUM_INTEGER_BITS + 31u - out_bits; /* a sum of sound exponentials leaves less headroom */
    const uint32_t bits = headroom < most ? most - headroom : 0;
    const int32_t half = 1 << (out_bits - 1u);
    for (size_t i = 0; i < depth; i++) {
        const int32_t product = stow_product_q31(inverse, stow_softmax_exp(params, x[i] - largest));
        const int32_t value = stow_clamp(stow_rounding_shift(product, bits) - half, -half, half - 1);
        if (out_bits == 8) {
            out[i] = (uint8_t)value;
        } else {
            const int16_t wide = (int16_t)value;
            memcpy(out + 2 * i, &wide, sizeof wide);
        }
    }
}

static void stow_softmax_rows_s8(const stow_call *call, uint32_t out_bits)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)call->params[STOW_SOFTMAX_S8_DEPTH];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *x = (const int8_t *)stow_row(&in, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t start = 0; start < in.row_bytes; start += depth) {
            stow_softmax_run_s8(call->params, x + start, out + start * (out_bits / 8), depth, out_bits);
        }
    }
}

static int stow_is_softmax_s8(const stow_facts *facts, uint32_t out_bytes)
{
    if (!stow_is_plain(facts, 1, STOW_SOFTMAX_S8_PARAMS)) {
        return 0;
    }
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    const int32_t depth = facts->params[STOW_SOFTMAX_S8_DEPTH];
    return depth > 0 && depth <= STOW_SOFTMAX_MAX_DEPTH && in.rows == out.rows && stow_size(in.row_bytes, out_bytes) == out.row_bytes &&
           in.row_bytes % (uint32_t)depth == 0;
}

#endif

#if STOW_WITH_SOFTMAX_S8

STOW_API void stow_softmax_s8_run(const stow_call *call)
{
    stow_softmax_rows_s8(call, 8);
}

STOW_API int stow_softmax_s8_check(const stow_facts *facts)
{
    return stow_is_softmax_s8(facts, 1);
}

#endif

#if STOW_WITH_SOFTMAX_S8_S16

STOW_API void stow_softmax_s8_s16_run(const stow_call *call)
{
    stow_softmax_rows_s8(call, 16);
}

STOW_API int stow_softmax_s8_s16_check(const stow_facts *facts)
{
    return stow_is_softmax_s8(facts, 2);
}

#endif

#if STOW_WITH_SOFTMAX_F32

static void stow_softmax_run_f32(float beta, const float *x, float *out, size_t depth)
{
    float largest = x[0];
    for (size_t i = 1; i < depth; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    float sum = 0.0f;
    for (size_t i = 0; i < depth; i++) {
        out[i] = stow_exp((x[i] - largest) * beta);
        sum += out[i];
    }
    for (size_t i = 0; i < depth; i++) {
        out[i] = out[i] / sum;
    }
}

STOW_API void stow_softmax_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)call->params[STOW_SOFTMAX_F32_DEPTH];
    const float beta = stow_float(call->params[STOW_SOFTMAX_F32_BETA]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t start = 0; start < in.row_bytes / sizeof(float); start += depth) {
            stow_softmax_run_f32(beta, x + start, out + start, depth);
        }
    }
}

STOW_API int stow_softmax_f32_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_SOFTMAX_F32_PARAMS)) {
        return 0;
    }
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    const int64_t depth = facts->params[STOW_SOFTMAX_F32_DEPTH];
    return depth > 0 && in.rows == out.rows && in.row_bytes == out.row_bytes &&
           in.row_bytes % (depth * (int64_t)sizeof(float)) == 0;
}

#endif
