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

/* What all outputs have in common. */
typedef struct stow_neon_range {
    int16x8_t zero_point;
    int8x8_t minimum, maximum;
} stow_neon_range;

STOW_NEON_INLINE stow_neon_range stow_neon_range_of(int32_t zero_point, int32_t minimum, int32_t maximum)
{
    const stow_neon_range range = {vdupq_n_s16((int16_t)zero_point), vdup_n_s8((int8_t)minimum),
                                   vdup_n_s8((int8_t)maximum)};
    return range;
}

/* Eight scaled sums as bytes: what does not fit on the way is beyond what an output may be. */
STOW_NEON_INLINE int8x8_t stow_neon_bytes(const stow_neon_range *range, int32x4_t first, int32x4_t second)
{
    const int16x8_t halves = vcombine_s16(vqmovn_s32(first), vqmovn_s32(second));
    const int8x8_t bytes = vqmovn_s16(vqaddq_s16(halves, range->zero_point));
    return vmin_s8(vmax_s8(bytes, range->minimum), range->maximum);
}

/* How four numbers are scaled. */
typedef struct stow_neon_scale {
    int32x4_t multiplier, left, right;
} stow_neon_scale;

STOW_NEON_INLINE stow_neon_scale stow_neon_scale_of(int32x4_t multiplier, int32x4_t shift)
{
    const int32x4_t zero = vdupq_n_s32(0);
    const stow_neon_scale scale = {multiplier, vmaxq_s32(shift, zero), vminq_s32(shift, zero)};
    return scale;
}

/* See stow_scale. The instruction rounds halves up: away from zero after one is taken from numbers below it. */
STOW_NEON_INLINE int32x4_t stow_neon_scaled(const stow_neon_scale *scale, int32x4_t value)
{
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(value, scale->left), scale->multiplier);
    const int32x4_t less = vshrq_n_s32(vandq_s32(high, scale->right), 31);
    return vrshlq_s32(vqaddq_s32(high, less), scale->right);
}

/* Up to four outputs: what their sums begin with, and how those are scaled. */
typedef struct stow_neon_quad {
    int32x4_t bias;
    stow_neon_scale scale;
} stow_neon_quad;

STOW_NEON_INLINE stow_neon_quad stow_neon_quad_of(const stow_filter_s8 *filter, size_t at, size_t count)
{
    const size_t step = filter->step;
    const stow_neon_quad quad = {
        .bias = filter->bias == NULL ? vdupq_n_s32(0) : stow_neon_words(filter->bias, 1, at, count),
        .scale = stow_neon_scale_of(stow_neon_words(filter->multiplier, step, at, count),
                                    stow_neon_words(filter->shift, step, at, count)),
    };
    return quad;
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

/* Where the weights of outputs [output, output + rows) begin; of less than these the last ones come more than once. */
STOW_NEON_INLINE void stow_neon_rows(const stow_mm_s8 *mm, size_t output, const size_t rows, const int8_t **w)
{
    const size_t left = mm->outputs - output;
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) {
        w[r] = mm->w + (output + (r < left ? r : left - 1)) * mm->filter->weights_step;
    }
}

/* Sums of products of `pixels` vectors and `rows` rows of weights, four sums each that are still to be added up. */
STOW_NEON_INLINE void stow_neon_multiply(const stow_mm_s8 *mm, const int8_t *x, const int8_t *const *w,
                                         const size_t pixels, const size_t rows, int32x4_t sums[4][8])
{
    const size_t depth = mm->depth, step = mm->x_step;
    size_t done = 0;
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (size_t p = 0; p < pixels; p++) {
            sums[p][r] = vdupq_n_s32(0);
        }
    }
    for (; done + 16 <= depth; done += 16) {
        int8x16_t vectors[4];
#pragma GCC unroll 4
        for (size_t p = 0; p < pixels; p++) {
            vectors[p] = vld1q_s8(x + p * step + done);
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
        const int8x16_t vector = vandq_s8(stow_neon_last(x + p * step, depth), fresh);
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            sums[p][r] = stow_neon_products(sums[p][r], vector, stow_neon_last(w[r], depth));
        }
    }
}

STOW_NEON_INLINE int32x4_t stow_neon_total(const int32x4_t *sums)
{
    return vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
}

/* Outputs [output, output + 4) of one vector from their sums, or what is kept of those for the next part. */
STOW_NEON_INLINE void stow_neon_finish(const stow_mm_s8 *mm, const stow_neon_quad *quad, const stow_neon_range *range,
                                       size_t pixel, size_t output, const int32x4_t *sums)
{
    const size_t kept = pixel * STOW_MM_OUTPUTS + output, left = mm->outputs - output;
    const int32x4_t before = mm->begins ? quad->bias : vreinterpretq_s32_u32(vld1q_u32(mm->sums + kept));
    const int32x4_t sum = vaddq_s32(before, stow_neon_total(sums));
    if (mm->ends) {
        const int32x4_t value = stow_neon_scaled(&quad->scale, sum);
        int8_t *out = mm->out + pixel * mm->out_step + output;
        stow_neon_store(out, stow_neon_bytes(range, value, value), left < 4 ? left : 4);
    } else {
        vst1q_u32(mm->sums + kept, vreinterpretq_u32_s32(sum));
    }
}

STOW_NEON_INLINE void stow_neon_put_four(int8_t *out, int32x2_t bytes, const int lane)
{
    const int32_t four = lane == 0 ? vget_lane_s32(bytes, 0) : vget_lane_s32(bytes, 1);
    memcpy(out, &four, sizeof four);
}

/* Four outputs of four vectors that come as a whole. */
STOW_NEON_INLINE void stow_neon_finish_square(const stow_mm_s8 *mm, const stow_neon_quad *quad,
                                              const stow_neon_range *range, int8_t *out, int32x4_t sums[4][8])
{
    const size_t step = mm->out_step;
    int32x4_t values[4];
#pragma GCC unroll 4
    for (size_t p = 0; p < 4; p++) {
        values[p] = stow_neon_scaled(&quad->scale, vaddq_s32(quad->bias, stow_neon_total(sums[p])));
    }
    const int32x2_t first = vreinterpret_s32_s8(stow_neon_bytes(range, values[0], values[1]));
    const int32x2_t second = vreinterpret_s32_s8(stow_neon_bytes(range, values[2], values[3]));
    stow_neon_put_four(out, first, 0);
    stow_neon_put_four(out + step, first, 1);
    stow_neon_put_four(out + 2 * step, second, 0);
    stow_neon_put_four(out + 3 * step, second, 1);
}

/* Outputs [output, output + 4) of `pixels` vectors, a multiple of four: sixteen sums at a time, all in registers. */
static void stow_neon_squares(const stow_mm_s8 *mm, size_t output, size_t pixels)
{
    const size_t left = mm->outputs - output, count = left < 4 ? left : 4;
    const stow_neon_quad quad = stow_neon_quad_of(mm->filter, mm->first + output, count);
    const stow_neon_range range =
        stow_neon_range_of(mm->filter->zero_point, mm->filter->minimum, mm->filter->maximum);
    const int whole = mm->begins && mm->ends && count == 4;
    const int8_t *w[8];
    stow_neon_rows(mm, output, 4, w);
    for (size_t pixel = 0; pixel < pixels; pixel += 4) {
        int32x4_t sums[4][8];
        stow_neon_multiply(mm, mm->x + pixel * mm->x_step, w, 4, 4, sums);
        if (whole) {
            stow_neon_finish_square(mm, &quad, &range, mm->out + pixel * mm->out_step + output, sums);
        } else {
#pragma GCC unroll 4
            for (size_t p = 0; p < 4; p++) {
                stow_neon_finish(mm, &quad, &range, pixel + p, output, sums[p]);
            }
        }
    }
}

/* Outputs [output, output + rows) of one vector, of fours or eights: of four, each sum waits for the one before it. */
STOW_NEON_INLINE void stow_neon_line(const stow_mm_s8 *mm, size_t pixel, size_t output, const size_t rows)
{
    const stow_neon_range range =
        stow_neon_range_of(mm->filter->zero_point, mm->filter->minimum, mm->filter->maximum);
    const int8_t *w[8];
    int32x4_t sums[4][8];
    stow_neon_rows(mm, output, rows, w);
    stow_neon_multiply(mm, mm->x + pixel * mm->x_step, w, 1, rows, sums);
#pragma GCC unroll 2
    for (size_t r = 0; r < rows; r += 4) {
        const size_t left = mm->outputs - output - r;
        const stow_neon_quad quad = stow_neon_quad_of(mm->filter, mm->first + output + r, left < 4 ? left : 4);
        stow_neon_finish(mm, &quad, &range, pixel, output + r, &sums[0][r]);
    }
}

static void stow_neon_lines(const stow_mm_s8 *mm, size_t pixel)
{
    size_t output = 0;
    for (; output + 8 <= mm->outputs; output += 8) {
        stow_neon_line(mm, pixel, output, 8);
    }
    for (; output < mm->outputs; output += 4) {
        stow_neon_line(mm, pixel, output, 4);
    }
}

STOW_API void stow_mm_neon_s8(const stow_mm_s8 *mm)
{
    const size_t squares = mm->pixels & ~(size_t)3;
    for (size_t output = 0; squares > 0 && output < mm->outputs; output += 4) {
        stow_neon_squares(mm, output, squares);
    }
    for (size_t pixel = squares; pixel < mm->pixels; pixel++) {
        stow_neon_lines(mm, pixel);
    }
}

#define STOW_NEON_TAPS 25

/* What is under the kernel at one pixel. */
typedef struct stow_neon_taps {
    const int8_t *x[STOW_NEON_TAPS]; /* under each tap the channels of a pixel, NULL outside the input */
    size_t count;
    int8_t outside; /* what is there then */
} stow_neon_taps;

/* Add a tap to the sums of sixteen channels. */
STOW_NEON_INLINE void stow_neon_tap(int32x4_t *sums, int8x16_t x, int8x16_t w)
{
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w)), high = vmull_high_s8(x, w);
    sums[0] = vaddw_s16(sums[0], vget_low_s16(low));
    sums[1] = vaddw_high_s16(sums[1], low);
    sums[2] = vaddw_s16(sums[2], vget_low_s16(high));
    sums[3] = vaddw_high_s16(sums[3], high);
}

/* Sixteen channels from `channel` on. */
STOW_NEON_INLINE void stow_neon_channels(const stow_filter_s8 *filter, const stow_neon_range *range,
                                         const stow_neon_taps *taps, size_t channel, int8_t *out)
{
    const int8x16_t outside = vdupq_n_s8(taps->outside);
    const int8_t *w = filter->weights + channel;
    int32x4_t sums[4];
    for (size_t i = 0; i < 4; i++) {
        sums[i] = filter->bias == NULL ? vdupq_n_s32(0) : vld1q_s32(filter->bias + channel + 4 * i);
    }
    for (size_t tap = 0; tap < taps->count; tap++, w += filter->weights_step) {
        stow_neon_tap(sums, taps->x[tap] == NULL ? outside : vld1q_s8(taps->x[tap] + channel), vld1q_s8(w));
    }
    for (size_t i = 0; i < 4; i++) {
        const size_t at = channel + 4 * i;
        const stow_neon_scale scale = stow_neon_scale_of(stow_neon_words(filter->multiplier, filter->step, at, 4),
                                                         stow_neon_words(filter->shift, filter->step, at, 4));
        sums[i] = stow_neon_scaled(&scale, sums[i]);
    }
    vst1_s8(out, stow_neon_bytes(range, sums[0], sums[1]));
    vst1_s8(out + 8, stow_neon_bytes(range, sums[2], sums[3]));
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
static void stow_neon_few_channels(const stow_filter_s8 *filter, const stow_neon_range *range,
                                   const stow_neon_taps *taps, size_t channel, size_t count, int8_t *out)
{
    const size_t low = count < 4 ? count : 4, high = count - low;
    const stow_neon_quad one = stow_neon_quad_of(filter, channel, low);
    const stow_neon_quad other = stow_neon_quad_of(filter, channel + low, high);
    const int8x8_t outside = vdup_n_s8(taps->outside);
    const int8_t *w = filter->weights + channel;
    int32x4_t first = one.bias, second = other.bias;
    for (size_t tap = 0; tap < taps->count; tap++, w += filter->weights_step) {
        const int8x8_t x = taps->x[tap] == NULL ? outside : stow_neon_eight(taps->x[tap] + channel, count);
        const int16x8_t products = vmull_s8(x, stow_neon_eight(w, count));
        first = vaddw_s16(first, vget_low_s16(products));
        second = vaddw_high_s16(second, products);
    }
    first = stow_neon_scaled(&one.scale, first);
    stow_neon_store(out, stow_neon_bytes(range, first, stow_neon_scaled(&other.scale, second)), count);
}

/* The rows of the input under those of the kernel, NULL outside it. */
typedef struct stow_neon_under {
    const int8_t *rows[STOW_NEON_TAPS];
    int all; /* none is outside */
} stow_neon_under;

/* Find what lies under the kernel whose first column is input column `left`. */
static void stow_neon_find(const stow_window *window, const stow_neon_under *under, int32_t left, stow_neon_taps *taps)
{
    const int8_t **x = taps->x;
    for (int32_t i = 0; i < window->kernel_h; i++) {
        int32_t column = left;
        for (int32_t j = 0; j < window->kernel_w; j++, column += window->dilation_w) {
            const int inside = under->rows[i] != NULL && column >= 0 && column < window->in_w;
            *x++ = inside ? under->rows[i] + (size_t)column * (size_t)window->in_c : NULL;
        }
    }
}

/* The same one column of outputs further on, where all taps were inside and still are. */
static void stow_neon_move(const stow_window *window, stow_neon_taps *taps)
{
    const size_t step = (size_t)window->stride_w * (size_t)window->in_c;
    for (size_t tap = 0; tap < taps->count; tap++) {
        taps->x[tap] += step;
    }
}

STOW_NEON_INLINE void stow_neon_under_row(const stow_depthwise_s8 *op, const stow_place *place, stow_neon_under *under)
{
    under->all = 1;
    for (int32_t tap = 0; tap < op->window.kernel_h; tap++) {
        const int inside = tap >= place->taps.first && tap < place->taps.last;
        under->rows[tap] = inside ? (const int8_t *)stow_row_under(&op->in, &op->window, place, tap) : NULL;
        under->all &= inside;
    }
}

STOW_API void stow_depthwise_row_neon_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out)
{
    const stow_window *window = &op->window;
    const stow_filter_s8 *filter = &op->filter;
    const size_t channels = (size_t)window->out_c, whole = channels & ~(size_t)15;
    const stow_neon_range range = stow_neon_range_of(filter->zero_point, filter->minimum, filter->maximum);
    const stow_taps inner = stow_inner_columns(window);
    stow_neon_under under;
    stow_neon_taps taps;
    const int64_t kernel = (int64_t)window->kernel_h * window->kernel_w;
    if (window->in_c != window->out_c || kernel > STOW_NEON_TAPS) {
        stow_depthwise_row_portable_s8(op, place, out);
        return;
    }
    taps.count = (size_t)kernel;
    taps.outside = (int8_t)op->in_zero_point;
    stow_neon_under_row(op, place, &under);
    for (int32_t column = 0; column < window->out_w; column++, out += channels) {
        if (under.all && column > inner.first && column < inner.last) {
            stow_neon_move(window, &taps);
        } else {
            stow_neon_find(window, &under, column * window->stride_w - window->pad_left, &taps);
        }
        for (size_t channel = 0; channel < whole; channel += 16) {
            stow_neon_channels(filter, &range, &taps, channel, out + channel);
        }
        for (size_t channel = whole; channel < channels; channel += 8) {
            const size_t left = channels - channel;
            stow_neon_few_channels(filter, &range, &taps, channel, left < 8 ? left : 8, out + channel);
        }
    }
}

/* How the numbers of an addition are scaled. */
typedef struct stow_neon_addition {
    stow_neon_scale a, b, out;
} stow_neon_addition;

STOW_NEON_INLINE stow_neon_scale stow_neon_one_scale(int32_t multiplier, int32_t shift)
{
    return stow_neon_scale_of(vdupq_n_s32(multiplier), vdupq_n_s32(shift));
}

STOW_NEON_INLINE int32x4_t stow_neon_sum(const stow_neon_addition *op, int16x4_t a, int16x4_t b)
{
    const int32x4_t x = stow_neon_scaled(&op->a, vshlq_n_s32(vmovl_s16(a), 20));
    const int32x4_t y = stow_neon_scaled(&op->b, vshlq_n_s32(vmovl_s16(b), 20));
    return stow_neon_scaled(&op->out, vaddq_s32(x, y));
}

STOW_API void stow_add_neon_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const stow_neon_addition op = {
        .a = stow_neon_one_scale(params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT]),
        .b = stow_neon_one_scale(params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT]),
        .out = stow_neon_one_scale(params[STOW_ADD_S8_OUTPUT_MULTIPLIER], params[STOW_ADD_S8_OUTPUT_SHIFT]),
    };
    const stow_neon_range range = stow_neon_range_of(
        params[STOW_ADD_S8_OUTPUT_ZERO_POINT], params[STOW_ADD_S8_ACT_MIN], params[STOW_ADD_S8_ACT_MAX]);
    const int8x8_t x_zero = vdup_n_s8((int8_t)params[STOW_ADD_S8_A_ZERO_POINT]);
    const int8x8_t y_zero = vdup_n_s8((int8_t)params[STOW_ADD_S8_B_ZERO_POINT]);
    const size_t whole = size & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        const int16x8_t x = vsubl_s8(vld1_s8(a + i), x_zero), y = vsubl_s8(vld1_s8(b + i), y_zero);
        const int32x4_t first = stow_neon_sum(&op, vget_low_s16(x), vget_low_s16(y));
        const int32x4_t second = stow_neon_sum(&op, vget_high_s16(x), vget_high_s16(y));
        vst1_s8(out + i, stow_neon_bytes(&range, first, second));
    }
    stow_add_portable_s8(params, a + whole, b + whole, out + whole, size - whole);
}

#endif
