/* The kernel set of 64-bit Arm: sixteen products at a time, summed in fours by one instruction where a processor has it.
 *
 * Loads may lie anywhere and reach nowhere beyond what an operand has: the last, partial block of a vector is the last
 * sixteen bytes of it, with zeros for what was multiplied before.
 */
#include "stow_set.h"

#if STOW_WITH_SET_NEON
#include <arm_neon.h>

#define STOW_NEON_INLINE static inline __attribute__((always_inline))

/* sums + products of bytes, four of them to each sum; which four matters to nobody. */
STOW_NEON_INLINE int32x4_t stow_neon_products(int32x4_t sums, int8x16_t x, int8x16_t w)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sums, x, w);
#else
    /* Two products do not fit 16 bits where all four bytes are -128. */
    return vpadalq_s16(vpadalq_s16(sums, vmull_s8(vget_low_s8(x), vget_low_s8(w))), vmull_high_s8(x, w));
#endif
}

static const int8_t stow_neon_ones[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                          -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* The last elements of `depth`, all that are left after whole blocks of sixteen among them. */
STOW_NEON_INLINE int8x16_t stow_neon_last(const int8_t *from, size_t depth)
{
    if (depth >= 16) {
        return vld1q_s8(from + depth - 16);
    }
    if (depth >= 8) {
        return vcombine_s8(vld1_s8(from), vld1_s8(from + depth - 8));
    }
    int8_t all[16] = {0};
    memcpy(all, from, depth);
    return vld1q_s8(all);
}

/* Ones where these are elements that are left, zeros where they come a second time. */
STOW_NEON_INLINE int8x16_t stow_neon_new(size_t depth)
{
    if (depth >= 16) {
        return vld1q_s8(stow_neon_ones + (depth & 15u));
    }
    return vcombine_s8(vdup_n_s8(-1), vld1_s8(stow_neon_ones + (depth >= 8 ? depth : 16)));
}

/* Up to four numbers of consecutive outputs, or one for all of them. */
STOW_NEON_INLINE int32x4_t stow_neon_words(const int32_t *from, size_t step, size_t at, size_t count)
{
    if (step == 0) {
        return vdupq_n_s32(from[0]);
    }
    if (count >= 4) {
        return vld1q_s32(from + at);
    }
    int32_t all[4] = {0};
    memcpy(all, from + at, count * sizeof(int32_t));
    return vld1q_s32(all);
}

/* How four sums become outputs. */
typedef struct stow_neon_rule {
    int32x4_t multiplier, left, right;
    int32x4_t zero_point, minimum, maximum;
} stow_neon_rule;

STOW_NEON_INLINE stow_neon_rule stow_neon_rule_of(const stow_filter_s8 *filter, size_t at, size_t count)
{
    const int32x4_t shift = stow_neon_words(filter->shift, filter->step, at, count), zero = vdupq_n_s32(0);
    const stow_neon_rule rule = {
        .multiplier = stow_neon_words(filter->multiplier, filter->step, at, count),
        .left = vmaxq_s32(shift, zero),
        .right = vminq_s32(shift, zero),
        .zero_point = vdupq_n_s32(filter->zero_point),
        .minimum = vdupq_n_s32(filter->minimum),
        .maximum = vdupq_n_s32(filter->maximum),
    };
    return rule;
}

STOW_NEON_INLINE int32x4_t stow_neon_bias(const stow_filter_s8 *filter, size_t at, size_t count)
{
    return filter->bias == NULL ? vdupq_n_s32(0) : stow_neon_words(filter->bias, 1, at, count);
}

/* A number scaled by a multiplier and a shift; see stow_scale. The instruction rounds halves up: away from zero after one
 * is taken from numbers below it. */
STOW_NEON_INLINE int32x4_t stow_neon_scaled(int32x4_t value, int32x4_t multiplier, int32x4_t left, int32x4_t right)
{
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(value, left), multiplier);
    const int32x4_t less = vshrq_n_s32(vandq_s32(high, right), 31);
    return vrshlq_s32(vqaddq_s32(high, less), right);
}

STOW_NEON_INLINE int32x4_t stow_neon_output(const stow_neon_rule *rule, int32x4_t sums)
{
    const int32x4_t scaled = stow_neon_scaled(sums, rule->multiplier, rule->left, rule->right);
    return vminq_s32(vmaxq_s32(vaddq_s32(scaled, rule->zero_point), rule->minimum), rule->maximum);
}

/* Eight outputs, which fit, as bytes. */
STOW_NEON_INLINE int8x8_t stow_neon_bytes(int32x4_t first, int32x4_t second)
{
    return vmovn_s16(vcombine_s16(vmovn_s32(first), vmovn_s32(second)));
}

STOW_NEON_INLINE void stow_neon_store(int8_t *out, int8x8_t bytes, size_t count)
{
    int8_t all[8];
    if (count >= 8) {
        vst1_s8(out, bytes);
        return;
    }
    vst1_s8(all, bytes);
    if (count == 4) {
        memcpy(out, all, 4);
    } else {
        memcpy(out, all, count);
    }
}

/* Sums of products of `pixels` vectors and `rows` rows of weights, four sums each that are still to be added up. Of less
 * than these rows the last one comes more than once. */
STOW_NEON_INLINE void stow_neon_multiply(const stow_mm_s8 *mm, size_t pixel, size_t output, const size_t pixels,
                                         const size_t rows, int32x4_t sums[4][8])
{
    const size_t depth = mm->depth, left = mm->outputs - output;
    const int8_t *x = mm->x + pixel * mm->x_step, *w[8];
    size_t done = 0;
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) {
        w[r] = mm->w + (output + (r < left ? r : left - 1)) * mm->filter->weights_step;
#pragma GCC unroll 4
        for (size_t p = 0; p < pixels; p++) {
            sums[p][r] = vdupq_n_s32(0);
        }
    }
    for (; done + 16 <= depth; done += 16) {
        int8x16_t vectors[4];
#pragma GCC unroll 4
        for (size_t p = 0; p < pixels; p++) {
            vectors[p] = vld1q_s8(x + p * mm->x_step + done);
        }
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            const int8x16_t weights = vld1q_s8(w[r] + done);
#pragma GCC unroll 4
            for (size_t p = 0; p < pixels; p++) {
                sums[p][r] = stow_neon_products(sums[p][r], vectors[p], weights);
            }
        }
    }
    if (done == depth) {
        return;
    }
    const int8x16_t fresh = stow_neon_new(depth);
#pragma GCC unroll 4
    for (size_t p = 0; p < pixels; p++) {
        const int8x16_t vector = vandq_s8(stow_neon_last(x + p * mm->x_step, depth), fresh);
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            sums[p][r] = stow_neon_products(sums[p][r], vector, stow_neon_last(w[r], depth));
        }
    }
}

/* Outputs [output, output + 4) of `pixels` vectors from their sums, or what is kept of those for the next part. */
STOW_NEON_INLINE void stow_neon_finish(const stow_mm_s8 *mm, size_t pixel, size_t output, const size_t pixels,
                                       int32x4_t sums[4][8], const size_t from)
{
    const size_t left = mm->outputs - output, count = left < 4 ? left : 4, at = mm->first + output;
    const stow_neon_rule rule = stow_neon_rule_of(mm->filter, at, count);
    const int32x4_t bias = stow_neon_bias(mm->filter, at, count);
#pragma GCC unroll 4
    for (size_t p = 0; p < pixels; p++) {
        const int32x4_t *s = &sums[p][from];
        const size_t kept = (pixel + p) * STOW_MM_OUTPUTS + output;
        const int32x4_t before = mm->begins ? bias : vreinterpretq_s32_u32(vld1q_u32(mm->sums + kept));
        const int32x4_t sum = vaddq_s32(before, vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3])));
        if (mm->ends) {
            const int32x4_t value = stow_neon_output(&rule, sum);
            stow_neon_store(mm->out + (pixel + p) * mm->out_step + output, stow_neon_bytes(value, value), count);
        } else {
            vst1q_u32(mm->sums + kept, vreinterpretq_u32_s32(sum));
        }
    }
}

/* Four vectors and four outputs, whose sums are all in registers; the last ones may be fewer outputs. */
static __attribute__((noinline)) void stow_neon_square(const stow_mm_s8 *mm, size_t pixel, size_t output)
{
    int32x4_t sums[4][8];
    stow_neon_multiply(mm, pixel, output, 4, 4, sums);
    stow_neon_finish(mm, pixel, output, 4, sums, 0);
}

/* One vector and four outputs. */
static __attribute__((noinline)) void stow_neon_line(const stow_mm_s8 *mm, size_t pixel, size_t output)
{
    int32x4_t sums[4][8];
    stow_neon_multiply(mm, pixel, output, 1, 4, sums);
    stow_neon_finish(mm, pixel, output, 1, sums, 0);
}

/* One vector and eight outputs: with four, each sum would wait for the one before it. */
static __attribute__((noinline)) void stow_neon_long_line(const stow_mm_s8 *mm, size_t pixel, size_t output)
{
    int32x4_t sums[4][8];
    stow_neon_multiply(mm, pixel, output, 1, 8, sums);
    stow_neon_finish(mm, pixel, output, 1, sums, 0);
    stow_neon_finish(mm, pixel, output + 4, 1, sums, 4);
}

STOW_API void stow_mm_neon_s8(const stow_mm_s8 *mm)
{
    const size_t squares = mm->pixels & ~(size_t)3;
    for (size_t output = 0; output < mm->outputs; output += 4) {
        for (size_t pixel = 0; pixel < squares; pixel += 4) {
            stow_neon_square(mm, pixel, output);
        }
    }
    for (size_t pixel = squares; pixel < mm->pixels; pixel++) {
        size_t output = 0;
        for (; output + 8 <= mm->outputs; output += 8) {
            stow_neon_long_line(mm, pixel, output);
        }
        for (; output < mm->outputs; output += 4) {
            stow_neon_line(mm, pixel, output);
        }
    }
}

#define STOW_NEON_TAPS 25

/* The pixel under each tap of a depthwise kernel, NULL outside the input. */
typedef struct stow_neon_taps {
    const int8_t *x[STOW_NEON_TAPS];
    size_t count;
} stow_neon_taps;

/* Sums of sixteen channels from `channel` on. */
STOW_NEON_INLINE void stow_neon_channels(const stow_depthwise_s8 *op, const stow_neon_taps *taps, size_t channel,
                                         int8_t *out)
{
    const stow_filter_s8 *filter = &op->filter;
    const int8x16_t outside = vdupq_n_s8((int8_t)op->in_zero_point);
    const int8_t *w = filter->weights + channel;
    int32x4_t sums[4];
    for (size_t i = 0; i < 4; i++) {
        sums[i] = stow_neon_bias(filter, channel + 4 * i, 4);
    }
    for (size_t tap = 0; tap < taps->count; tap++, w += filter->weights_step) {
        const int8x16_t x = taps->x[tap] == NULL ? outside : vld1q_s8(taps->x[tap] + channel), weights = vld1q_s8(w);
        const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(weights)), high = vmull_high_s8(x, weights);
        sums[0] = vaddw_s16(sums[0], vget_low_s16(low));
        sums[1] = vaddw_high_s16(sums[1], low);
        sums[2] = vaddw_s16(sums[2], vget_low_s16(high));
        sums[3] = vaddw_high_s16(sums[3], high);
    }
    for (size_t i = 0; i < 4; i++) {
        const stow_neon_rule rule = stow_neon_rule_of(filter, channel + 4 * i, 4);
        sums[i] = stow_neon_output(&rule, sums[i]);
    }
    vst1q_s8(out, vcombine_s8(stow_neon_bytes(sums[0], sums[1]), stow_neon_bytes(sums[2], sums[3])));
}

STOW_NEON_INLINE int8x8_t stow_neon_eight(const int8_t *from, size_t count)
{
    if (count >= 8) {
        return vld1_s8(from);
    }
    int8_t all[8] = {0};
    memcpy(all, from, count);
    return vld1_s8(all);
}

/* Up to eight. */
static void stow_neon_few_channels(const stow_depthwise_s8 *op, const stow_neon_taps *taps, size_t channel, size_t count,
                                   int8_t *out)
{
    const stow_filter_s8 *filter = &op->filter;
    const size_t low = count < 4 ? count : 4, high = count - low;
    const int8x8_t outside = vdup_n_s8((int8_t)op->in_zero_point);
    const int8_t *w = filter->weights + channel;
    int32x4_t first = stow_neon_bias(filter, channel, low), second = stow_neon_bias(filter, channel + low, high);
    for (size_t tap = 0; tap < taps->count; tap++, w += filter->weights_step) {
        const int8x8_t x = taps->x[tap] == NULL ? outside : stow_neon_eight(taps->x[tap] + channel, count);
        const int16x8_t products = vmull_s8(x, stow_neon_eight(w, count));
        first = vaddw_s16(first, vget_low_s16(products));
        second = vaddw_high_s16(second, products);
    }
    const stow_neon_rule one = stow_neon_rule_of(filter, channel, low);
    const stow_neon_rule other = stow_neon_rule_of(filter, channel + low, high);
    stow_neon_store(out, stow_neon_bytes(stow_neon_output(&one, first), stow_neon_output(&other, second)), count);
}

/* Find what lies under the kernel whose first column is input column `left`; rows[i] is NULL outside the input. */
static void stow_neon_find(const stow_depthwise_s8 *op, const int8_t *const *rows, int32_t left, stow_neon_taps *taps)
{
    const stow_window *window = &op->window;
    taps->count = 0;
    for (int32_t i = 0; i < window->kernel_h; i++) {
        int32_t column = left;
        for (int32_t j = 0; j < window->kernel_w; j++, column += window->dilation_w) {
            const int inside = rows[i] != NULL && column >= 0 && column < window->in_w;
            taps->x[taps->count++] = inside ? rows[i] + (size_t)column * (size_t)window->in_c : NULL;
        }
    }
}

STOW_API void stow_depthwise_row_neon_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out)
{
    const stow_window *window = &op->window;
    const size_t channels = (size_t)window->out_c, whole = channels & ~(size_t)15;
    const int8_t *rows[STOW_NEON_TAPS];
    stow_neon_taps taps;
    const int64_t kernel = (int64_t)window->kernel_h * window->kernel_w;
    if (window->in_c != window->out_c || kernel > STOW_NEON_TAPS) {
        stow_depthwise_row_portable_s8(op, place, out);
        return;
    }
    for (int32_t tap = 0; tap < window->kernel_h; tap++) {
        const int inside = tap >= place->taps.first && tap < place->taps.last;
        rows[tap] = inside ? (const int8_t *)stow_row_under(&op->in, window, place, tap) : NULL;
    }
    for (int32_t column = 0; column < window->out_w; column++, out += channels) {
        stow_neon_find(op, rows, column * window->stride_w - window->pad_left, &taps);
        for (size_t channel = 0; channel < whole; channel += 16) {
            stow_neon_channels(op, &taps, channel, out + channel);
        }
        for (size_t channel = whole; channel < channels; channel += 8) {
            const size_t left = channels - channel;
            stow_neon_few_channels(op, &taps, channel, left < 8 ? left : 8, out + channel);
        }
    }
}

/* How a number of an addition is scaled. */
typedef struct stow_neon_scale {
    int32x4_t multiplier, left, right;
} stow_neon_scale;

STOW_NEON_INLINE stow_neon_scale stow_neon_scale_of(int32_t multiplier, int32_t shift)
{
    const stow_neon_scale scale = {vdupq_n_s32(multiplier), vdupq_n_s32(shift > 0 ? shift : 0),
                                   vdupq_n_s32(shift < 0 ? shift : 0)};
    return scale;
}

STOW_NEON_INLINE int32x4_t stow_neon_by(const stow_neon_scale *scale, int32x4_t value)
{
    return stow_neon_scaled(value, scale->multiplier, scale->left, scale->right);
}

typedef struct stow_neon_addition {
    stow_neon_scale a, b, out;
    int32x4_t zero_point, minimum, maximum;
} stow_neon_addition;

STOW_NEON_INLINE int32x4_t stow_neon_sum(const stow_neon_addition *op, int16x4_t a, int16x4_t b)
{
    const int32x4_t x = stow_neon_by(&op->a, vshlq_n_s32(vmovl_s16(a), 20));
    const int32x4_t y = stow_neon_by(&op->b, vshlq_n_s32(vmovl_s16(b), 20));
    const int32x4_t value = vaddq_s32(stow_neon_by(&op->out, vaddq_s32(x, y)), op->zero_point);
    return vminq_s32(vmaxq_s32(value, op->minimum), op->maximum);
}

STOW_API void stow_add_neon_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const stow_neon_addition op = {
        .a = stow_neon_scale_of(params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT]),
        .b = stow_neon_scale_of(params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT]),
        .out = stow_neon_scale_of(params[STOW_ADD_S8_OUTPUT_MULTIPLIER], params[STOW_ADD_S8_OUTPUT_SHIFT]),
        .zero_point = vdupq_n_s32(params[STOW_ADD_S8_OUTPUT_ZERO_POINT]),
        .minimum = vdupq_n_s32(params[STOW_ADD_S8_ACT_MIN]),
        .maximum = vdupq_n_s32(params[STOW_ADD_S8_ACT_MAX]),
    };
    const int8x8_t x_zero = vdup_n_s8((int8_t)params[STOW_ADD_S8_A_ZERO_POINT]);
    const int8x8_t y_zero = vdup_n_s8((int8_t)params[STOW_ADD_S8_B_ZERO_POINT]);
    const size_t whole = size & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        const int16x8_t x = vsubl_s8(vld1_s8(a + i), x_zero), y = vsubl_s8(vld1_s8(b + i), y_zero);
        const int32x4_t first = stow_neon_sum(&op, vget_low_s16(x), vget_low_s16(y));
        const int32x4_t second = stow_neon_sum(&op, vget_high_s16(x), vget_high_s16(y));
        vst1_s8(out + i, stow_neon_bytes(first, second));
    }
    stow_add_portable_s8(params, a + whole, b + whole, out + whole, size - whole);
}

#endif
