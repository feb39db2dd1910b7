/* The kernel set of Cortex-M4, M7 and M33: two products of 16 bits in one instruction.
 *
 * Four bytes become two pairs of 16 bits in two instructions (elements 0 and 2, elements 1 and 3), weights and inputs
 * alike, so that nothing needs to be reordered. Words are only read from multiples of 4: what lies otherwise, and
 * sums that are not proven to be bounded, is left to the portable set.
 */
#include "stow_set.h"

#if STOW_WITH_SET_DSP
#include <arm_acle.h>

/* Elements 0 and 2 of four bytes; elements 1 and 3. */
static inline uint32_t stow_dsp_even(uint32_t bytes)
{
    uint32_t pair;
    __asm("sxtb16 %0, %1" : "=r"(pair) : "r"(bytes));
    return pair;
}

static inline uint32_t stow_dsp_odd(uint32_t bytes)
{
    uint32_t pair;
    __asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(bytes));
    return pair;
}

/* Both products of two pairs, added to a sum. */
static inline uint32_t stow_dsp_two(uint32_t a, uint32_t b, uint32_t sum)
{
    __asm("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

/* The low halves of two pairs; the high ones. */
static inline uint32_t stow_dsp_low(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}

static inline uint32_t stow_dsp_high(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm("pkhtb %0, %2, %1, asr #16" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}

/* The upper half of 2 * a * b, rounded; 2 * a must fit. */
static inline int32_t stow_dsp_high_product(uint32_t a, int32_t b)
{
    int32_t high;
    __asm("smmulr %0, %1, %2" : "=r"(high) : "r"(2 * a), "r"(b));
    return high;
}

static inline int32_t stow_dsp_saturate(int32_t value)
{
    int32_t byte;
    __asm("ssat %0, #8, %1" : "=r"(byte) : "r"(value));
    return byte;
}

static inline int stow_dsp_is_aligned(const void *data, size_t step)
{
    return (((uintptr_t)data | step) & 3u) == 0;
}

/* How a sum becomes an output, for a channel whose sums are bounded. */
typedef struct stow_dsp_scale {
    int32_t multiplier;
    int32_t bits; /* of the right shift, less one */
} stow_dsp_scale;

static inline stow_dsp_scale stow_dsp_scale_of(const stow_filter_s8 *filter, size_t output)
{
    const size_t entry = output * filter->step;
    const stow_dsp_scale scale = {filter->multiplier[entry], ~filter->shift[entry] & 31};
    return scale;
}

/* Rounded twice like stow_scale: halves of the second go away from zero. */
static inline int8_t stow_dsp_output(const stow_filter_s8 *filter, stow_dsp_scale scale, uint32_t sum)
{
    int32_t high = stow_dsp_high_product(sum, scale.multiplier);
    high = ((high + (high >> 31)) >> scale.bits) + 1;
    int32_t value = stow_dsp_saturate(filter->zero_point + (high >> 1));
    if (filter->minimum > INT8_MIN || filter->maximum < INT8_MAX) {
        value = stow_clamp(value, filter->minimum, filter->maximum);
    }
    return (int8_t)value;
}

/* The pairs of one or two vectors: for each four elements of the first, then of the second. */
#define STOW_DSP_DEPTH 128u

static void stow_dsp_spread(const int8_t *x, size_t depth, uint32_t *to, size_t step)
{
    const uint32_t *words = (const uint32_t *)(const void *)x;
    for (size_t i = 0; i < depth / 4; i++, to += step) {
        const uint32_t bytes = words[i];
        to[0] = stow_dsp_even(bytes);
        to[1] = stow_dsp_odd(bytes);
    }
}

typedef struct stow_dsp_sums {
    uint32_t a0, a1, b0, b1; /* of the first and the second vector */
} stow_dsp_sums;

static inline __attribute__((always_inline)) void stow_dsp_square(const uint32_t *x, const uint32_t *w0,
                                                                  const uint32_t *w1, size_t quads, stow_dsp_sums *sums)
{
    uint32_t a0 = sums->a0, a1 = sums->a1, b0 = sums->b0, b1 = sums->b1;
    const uint32_t *end = w0 + quads;
#pragma GCC unroll 2
    while (w0 != end) {
        const uint32_t p0 = x[0], p1 = x[1], q0 = x[2], q1 = x[3];
        const uint32_t u = *w0++, v = *w1++;
        x += 4;
        const uint32_t u0 = stow_dsp_even(u), u1 = stow_dsp_odd(u);
        a0 = stow_dsp_two(u0, p0, a0);
        b0 = stow_dsp_two(u0, q0, b0);
        a0 = stow_dsp_two(u1, p1, a0);
        b0 = stow_dsp_two(u1, q1, b0);
        const uint32_t v0 = stow_dsp_even(v), v1 = stow_dsp_odd(v);
        a1 = stow_dsp_two(v0, p0, a1);
        b1 = stow_dsp_two(v0, q0, b1);
        a1 = stow_dsp_two(v1, p1, a1);
        b1 = stow_dsp_two(v1, q1, b1);
    }
    sums->a0 = a0, sums->a1 = a1, sums->b0 = b0, sums->b1 = b1;
}

static inline __attribute__((always_inline)) void stow_dsp_line(const uint32_t *x, const uint32_t *w0,
                                                                const uint32_t *w1, size_t quads, stow_dsp_sums *sums)
{
    uint32_t a0 = sums->a0, a1 = sums->a1;
    const uint32_t *end = w0 + quads;
#pragma GCC unroll 2
    while (w0 != end) {
        const uint32_t p0 = x[0], p1 = x[1];
        const uint32_t u = *w0++, v = *w1++;
        x += 2;
        a0 = stow_dsp_two(stow_dsp_even(u), p0, a0);
        a0 = stow_dsp_two(stow_dsp_odd(u), p1, a0);
        a1 = stow_dsp_two(stow_dsp_even(v), p0, a1);
        a1 = stow_dsp_two(stow_dsp_odd(v), p1, a1);
    }
    sums->a0 = a0, sums->a1 = a1;
}

/* Bring in and send away the sums of one vector's outputs `output` and, for `two`, the next. */
static inline __attribute__((always_inline)) void stow_dsp_begin(const stow_mm_s8 *mm, size_t pixel, size_t output,
                                                                 size_t next, uint32_t *first, uint32_t *second)
{
    if (mm->begins) {
        *first = stow_first_sum(mm->filter, mm->first + output);
        *second = stow_first_sum(mm->filter, mm->first + output + next);
    } else {
        *first = mm->sums[pixel * STOW_MM_OUTPUTS + output];
        *second = mm->sums[pixel * STOW_MM_OUTPUTS + output + next];
    }
}

static inline __attribute__((always_inline)) void stow_dsp_end(const stow_mm_s8 *mm, size_t output, size_t next,
                                                               const stow_dsp_sums *sums)
{
    if (!mm->ends) {
        uint32_t *kept = mm->sums + output;
        kept[0] = sums->a0, kept[next] = sums->a1;
        if (mm->pixels > 1) {
            kept += STOW_MM_OUTPUTS;
            kept[0] = sums->b0, kept[next] = sums->b1;
        }
        return;
    }
    const stow_dsp_scale first = stow_dsp_scale_of(mm->filter, mm->first + output);
    const stow_dsp_scale second = stow_dsp_scale_of(mm->filter, mm->first + output + next);
    int8_t *out = mm->out + output;
    out[0] = stow_dsp_output(mm->filter, first, sums->a0);
    out[next] = stow_dsp_output(mm->filter, second, sums->a1);
    if (mm->pixels > 1) {
        out += mm->out_step;
        out[0] = stow_dsp_output(mm->filter, first, sums->b0);
        out[next] = stow_dsp_output(mm->filter, second, sums->b1);
    }
}

STOW_API void stow_mm_dsp_s8(const stow_mm_s8 *mm)
{
    const size_t step = mm->filter->weights_step;
    uint32_t x[STOW_MM_PIXELS * STOW_DSP_DEPTH / 2];
    if (!mm->filter->bounded || !stow_dsp_is_aligned(mm->x, mm->x_step | mm->depth) || !stow_dsp_is_aligned(mm->w, step)) {
        stow_mm_portable_s8(mm);
        return;
    }
    for (size_t pixel = 0; pixel < mm->pixels; pixel++) {
        stow_dsp_spread(mm->x + pixel * mm->x_step, mm->depth, x + 2 * pixel, 2 * mm->pixels);
    }
    const int8_t *w = mm->w;
    for (size_t output = 0; output < mm->outputs; output += 2, w += 2 * step) {
        const size_t next = output + 1 < mm->outputs ? 1 : 0; /* the last of an odd number is computed twice */
        const uint32_t *w0 = (const uint32_t *)(const void *)w;
        const uint32_t *w1 = (const uint32_t *)(const void *)(w + next * step);
        stow_dsp_sums sums = {0};
        stow_dsp_begin(mm, 0, output, next, &sums.a0, &sums.a1);
        if (mm->pixels > 1) {
            stow_dsp_begin(mm, 1, output, next, &sums.b0, &sums.b1);
            stow_dsp_square(x, w0, w1, mm->depth / 4, &sums);
        } else {
            stow_dsp_line(x, w0, w1, mm->depth / 4, &sums);
        }
        stow_dsp_end(mm, output, next, &sums);
    }
}

/* A kernel of 3x3 for four channels: of each channel the pairs (0,0)(1,0), (0,1)(1,1), (0,2)(1,2), (2,0)(2,1), and
 * (2,2). */
typedef struct stow_dsp_kernel {
    uint32_t words[20];
    uint32_t bias[4];
} stow_dsp_kernel;

/* Where the columns and rows of a kernel are moved to lie inside the input: the taps that fall outside get weights of
 * zero, and what they would add is added to the bias. */
typedef struct stow_dsp_place {
    const stow_depthwise_s8 *op;
    stow_taps rows;
    stow_taps columns;
    int32_t shift; /* the column of the kernel under the first column that is read */
} stow_dsp_place;

static uint32_t stow_dsp_weights(const stow_dsp_place *at, int32_t row, int32_t column, size_t channel)
{
    const int32_t tap = column + at->shift;
    if (row < at->rows.first || row >= at->rows.last || tap < at->columns.first || tap >= at->columns.last) {
        return 0;
    }
    const int8_t *w = at->op->filter.weights + (size_t)(3 * row + tap) * at->op->filter.weights_step + channel;
    return *(const uint32_t *)(const void *)w;
}

static inline void stow_dsp_pairs(uint32_t a, uint32_t b, uint32_t *to)
{
    const uint32_t a_even = stow_dsp_even(a), b_even = stow_dsp_even(b);
    const uint32_t a_odd = stow_dsp_odd(a), b_odd = stow_dsp_odd(b);
    to[0] = stow_dsp_low(a_even, b_even);
    to[1] = stow_dsp_low(a_odd, b_odd);
    to[2] = stow_dsp_high(a_even, b_even);
    to[3] = stow_dsp_high(a_odd, b_odd);
}

static void stow_dsp_prepare(const stow_dsp_place *at, size_t channel, stow_dsp_kernel *kernel)
{
    const stow_filter_s8 *filter = &at->op->filter;
    for (int32_t column = 0; column < 3; column++) {
        const uint32_t first = stow_dsp_weights(at, 0, column, channel);
        stow_dsp_pairs(first, stow_dsp_weights(at, 1, column, channel), kernel->words + 4 * column);
    }
    const uint32_t third = stow_dsp_weights(at, 2, 0, channel);
    stow_dsp_pairs(third, stow_dsp_weights(at, 2, 1, channel), kernel->words + 12);
    stow_dsp_pairs(stow_dsp_weights(at, 2, 2, channel), 0, kernel->words + 16);
    for (size_t i = 0; i < 4; i++) {
        kernel->bias[i] = stow_first_sum(filter, channel + i);
    }
    const uint32_t zero_point = (uint32_t)at->op->in_zero_point;
    for (int32_t row = 0; zero_point != 0 && row < 3; row++) {
        const int inside = row >= at->rows.first && row < at->rows.last;
        const int8_t *w = filter->weights + (size_t)(3 * row) * filter->weights_step + channel;
        for (int32_t tap = 0; tap < 3; tap++, w += filter->weights_step) {
            if (inside && tap >= at->columns.first && tap < at->columns.last) {
                continue;
            }
            for (size_t i = 0; i < 4; i++) {
                kernel->bias[i] += zero_point * (uint32_t)(int32_t)w[i];
            }
        }
    }
}

static inline __attribute__((always_inline)) void stow_dsp_tap_pair(uint32_t a, uint32_t b, const uint32_t *w,
                                                                    uint32_t *sums)
{
    const uint32_t a_even = stow_dsp_even(a), b_even = stow_dsp_even(b);
    sums[0] = stow_dsp_two(stow_dsp_low(a_even, b_even), w[0], sums[0]);
    sums[2] = stow_dsp_two(stow_dsp_high(a_even, b_even), w[2], sums[2]);
    const uint32_t a_odd = stow_dsp_odd(a), b_odd = stow_dsp_odd(b);
    sums[1] = stow_dsp_two(stow_dsp_low(a_odd, b_odd), w[1], sums[1]);
    sums[3] = stow_dsp_two(stow_dsp_high(a_odd, b_odd), w[3], sums[3]);
}

static inline uint32_t stow_dsp_at(const int8_t *x)
{
    return *(const uint32_t *)(const void *)x;
}

/* `count` pixels of four channels; rows[i] is where the first column under the first of them lies. */
static void stow_dsp_pixels(const stow_depthwise_s8 *op, const stow_dsp_kernel *kernel, const int8_t *const *rows,
                            size_t channel, size_t count, int8_t *out)
{
    const size_t depth = (size_t)op->window.in_c, step = depth * (size_t)op->window.stride_w;
    const int8_t *x0 = rows[0], *x1 = rows[1], *x2 = rows[2];
    const uint32_t *w = kernel->words;
    stow_dsp_scale scales[4];
    for (size_t i = 0; i < 4; i++) {
        scales[i] = stow_dsp_scale_of(&op->filter, channel + i);
    }
    for (; count > 0; count--, out += depth) {
        uint32_t sums[4] = {kernel->bias[0], kernel->bias[1], kernel->bias[2], kernel->bias[3]};
        stow_dsp_tap_pair(stow_dsp_at(x0), stow_dsp_at(x1), w, sums);
        stow_dsp_tap_pair(stow_dsp_at(x0 + depth), stow_dsp_at(x1 + depth), w + 4, sums);
        stow_dsp_tap_pair(stow_dsp_at(x0 + 2 * depth), stow_dsp_at(x1 + 2 * depth), w + 8, sums);
        stow_dsp_tap_pair(stow_dsp_at(x2), stow_dsp_at(x2 + depth), w + 12, sums);
        stow_dsp_tap_pair(stow_dsp_at(x2 + 2 * depth), 0, w + 16, sums);
        x0 += step, x1 += step, x2 += step;
        for (size_t i = 0; i < 4; i++) {
            out[i] = stow_dsp_output(&op->filter, scales[i], sums[i]);
        }
    }
}

static int stow_dsp_suits(const stow_depthwise_s8 *op, const stow_place *place)
{
    const stow_window *w = &op->window;
    return op->filter.bounded && w->kernel_h == 3 && w->kernel_w == 3 && w->dilation_h == 1 && w->dilation_w == 1 &&
           w->in_c == w->out_c && (w->in_c & 3) == 0 && (op->filter.weights_step & 3u) == 0 && w->in_w >= 3 &&
           place->taps.first < place->taps.last;
}

/* Columns [column, the one returned) whose kernels have the same taps inside the input. */
static int32_t stow_dsp_run_of_columns(const stow_window *w, int32_t column)
{
    const int32_t left = column * w->stride_w - w->pad_left;
    if (left < 0 || left + 3 > w->in_w) {
        return column + 1;
    }
    const int32_t end = (w->in_w - 3 + w->pad_left) / w->stride_w + 1;
    return end < w->out_w ? end : w->out_w;
}

STOW_API void stow_depthwise_row_dsp_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out)
{
    const stow_window *w = &op->window;
    if (!stow_dsp_suits(op, place)) {
        stow_depthwise_row_portable_s8(op, place, out);
        return;
    }
    stow_dsp_place at = {op, place->taps, {0, 0}, 0};
    stow_dsp_kernel kernel;
    for (int32_t column = 0; column < w->out_w;) {
        const int32_t last = stow_dsp_run_of_columns(w, column);
        const int32_t left = column * w->stride_w - w->pad_left;
        const int32_t start = left < 0 ? 0 : left + 3 > w->in_w ? w->in_w - 3 : left;
        at.columns = stow_clip(left, 3, 1, w->in_w);
        at.shift = start - left;
        for (size_t channel = 0; channel < (size_t)w->in_c; channel += 4) {
            const int8_t *rows[3];
            for (int32_t i = 0; i < 3; i++) {
                const int32_t tap = stow_clamp(i, place->taps.first, place->taps.last - 1);
                const uint8_t *row = stow_row_under(&op->in, w, place, tap);
                rows[i] = (const int8_t *)row + (size_t)start * (size_t)w->in_c + channel;
            }
            stow_dsp_prepare(&at, channel, &kernel);
            stow_dsp_pixels(op, &kernel, rows, channel, (size_t)(last - column),
                            out + (size_t)column * (size_t)w->in_c + channel);
        }
        column = last;
    }
}

/* value * multiplier / 2^31 / 2^bits, rounded twice, for values of at most 30 bits. */
static inline int32_t stow_dsp_scaled(int32_t value, int32_t multiplier, int32_t shift)
{
    return stow_rounding_shift_31(stow_dsp_high_product((uint32_t)value, multiplier), (uint32_t)-shift & 31u);
}

STOW_API void stow_add_dsp_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const int32_t a_shift = params[STOW_ADD_S8_A_SHIFT], b_shift = params[STOW_ADD_S8_B_SHIFT];
    const int32_t shift = params[STOW_ADD_S8_OUTPUT_SHIFT];
    if (a_shift > 0 || b_shift > 0 || shift > 0) {
        stow_add_portable_s8(params, a, b, out, size);
        return;
    }
    const int32_t a_zero = params[STOW_ADD_S8_A_ZERO_POINT], b_zero = params[STOW_ADD_S8_B_ZERO_POINT];
    const int32_t a_multiplier = params[STOW_ADD_S8_A_MULTIPLIER], b_multiplier = params[STOW_ADD_S8_B_MULTIPLIER];
    const int32_t multiplier = params[STOW_ADD_S8_OUTPUT_MULTIPLIER], zero = params[STOW_ADD_S8_OUTPUT_ZERO_POINT];
    const int32_t low = params[STOW_ADD_S8_ACT_MIN], high = params[STOW_ADD_S8_ACT_MAX];
    for (size_t i = 0; i < size; i++) {
        const int32_t wide_a = stow_dsp_scaled((a[i] - a_zero) * (1 << 20), a_multiplier, a_shift);
        const int32_t wide_b = stow_dsp_scaled((b[i] - b_zero) * (1 << 20), b_multiplier, b_shift);
        const int32_t sum = stow_dsp_scaled(wide_a + wide_b, multiplier, shift);
        out[i] = (int8_t)stow_clamp(sum + zero, low, high);
    }
}

#endif
