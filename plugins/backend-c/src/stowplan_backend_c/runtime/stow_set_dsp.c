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

/* How sums become outputs, where they are bounded. */
typedef struct stow_dsp_scale {
    const int32_t *multiplier;
    const int32_t *shift;
    size_t step;
    int32_t zero_point;
    int32_t minimum;
    int32_t maximum;
    int narrow; /* the range is not all of int8 */
} stow_dsp_scale;

static inline stow_dsp_scale stow_dsp_scale_from(const stow_filter_s8 *filter, size_t output)
{
    const size_t entry = output * filter->step;
    const int narrow = filter->minimum > INT8_MIN || filter->maximum < INT8_MAX;
    const stow_dsp_scale scale = {filter->multiplier + entry, filter->shift + entry, filter->step,
                                  filter->zero_point,         filter->minimum,       filter->maximum,
                                  narrow};
    return scale;
}

/* Rounded twice like stow_scale, halves of the second away from zero; `bits` is the right shift less one. */
static inline int8_t stow_dsp_output(const stow_dsp_scale *scale, int32_t multiplier, int32_t bits, uint32_t sum)
{
    int32_t high = stow_dsp_high_product(sum, multiplier);
    high = ((high + (high >> 31)) >> bits) + 1;
    int32_t value = stow_dsp_saturate(scale->zero_point + (high >> 1));
    if (scale->narrow) {
        value = stow_clamp(value, scale->minimum, scale->maximum);
    }
    return (int8_t)value;
}

/* Four elements of one or two vectors become two pairs of each: those of even elements of both, then those of odd. */
#define STOW_DSP_DEPTH 128u

static void stow_dsp_spread(const int8_t *x, size_t depth, uint32_t *to, size_t pixels)
{
    const uint32_t *words = (const uint32_t *)(const void *)x;
    const uint32_t *end = words + depth / 4;
    while (words != end) {
        const uint32_t bytes = *words++;
        to[0] = stow_dsp_even(bytes);
        to[pixels] = stow_dsp_odd(bytes);
        to += 2 * pixels;
    }
}

/* One step of the products below: two pairs of two vectors, or of one, with those of two outputs. */
#define STOW_DSP_TWO_PIXELS                                                                                            \
    "ldr %[u], [%[w0]], #4\n\tldr %[v], [%[w1]], #4\n\tldrd %[p], %[q], [%[x]], #8\n\t"                                 \
    "sxtb16 %[t], %[u]\n\tsmlad %[a0], %[t], %[p], %[a0]\n\tsmlad %[b0], %[t], %[q], %[b0]\n\t"                        \
    "sxtb16 %[t], %[v]\n\tsmlad %[a1], %[t], %[p], %[a1]\n\tsmlad %[b1], %[t], %[q], %[b1]\n\t"                        \
    "ldrd %[p], %[q], [%[x]], #8\n\tsxtb16 %[u], %[u], ror #8\n\tsxtb16 %[v], %[v], ror #8\n\t"                        \
    "smlad %[a0], %[u], %[p], %[a0]\n\tsmlad %[b0], %[u], %[q], %[b0]\n\t"                                            \
    "smlad %[a1], %[v], %[p], %[a1]\n\tsmlad %[b1], %[v], %[q], %[b1]\n\t"
#define STOW_DSP_ONE_PIXEL                                                                                             \
    "ldr %[u], [%[w0]], #4\n\tldr %[v], [%[w1]], #4\n\tldrd %[p], %[q], [%[x]], #8\n\t"                                 \
    "sxtb16 %[t], %[u]\n\tsmlad %[a0], %[t], %[p], %[a0]\n\tsxtb16 %[u], %[u], ror #8\n\t"                            \
    "smlad %[a0], %[u], %[q], %[a0]\n\tsxtb16 %[t], %[v]\n\tsmlad %[a1], %[t], %[p], %[a1]\n\t"                       \
    "sxtb16 %[v], %[v], ror #8\n\tsmlad %[a1], %[v], %[q], %[a1]\n\t"
/* Steps until w0 is `end`: one, if their number is odd, then two at a time. */
#define STOW_DSP_LOOP(step)                                                                                            \
    "sub %[t], %[end], %[w0]\n\tlsls %[t], %[t], #29\n\tbpl 1f\n\t" step "1:\n\tcmp %[w0], %[end]\n\tbeq 2f\n\t" step \
    step "b 1b\n2:"

/* Products of two vectors and the weights of two outputs, added to four sums: first[0], first[1], second[0],
 * second[1]. */
static inline void stow_dsp_square(const uint32_t *x, const uint32_t *w0, const uint32_t *w1, size_t words,
                                   uint32_t *first, uint32_t *second)
{
    const uint32_t *end = w0 + words;
    uint32_t a0 = first[0], a1 = first[1], b0 = second[0], b1 = second[1], p, q, t, u, v;
    __asm volatile(STOW_DSP_LOOP(STOW_DSP_TWO_PIXELS)
                   : [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0), [b1] "+r"(b1), [x] "+r"(x), [w0] "+r"(w0),
                     [w1] "+r"(w1), [p] "=&r"(p), [q] "=&r"(q), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v)
                   : [end] "r"(end)
                   : "cc", "memory");
    first[0] = a0, first[1] = a1, second[0] = b0, second[1] = b1;
}

static inline void stow_dsp_line(const uint32_t *x, const uint32_t *w0, const uint32_t *w1, size_t words,
                                 uint32_t *sums)
{
    const uint32_t *end = w0 + words;
    uint32_t a0 = sums[0], a1 = sums[1], p, q, t, u, v;
    __asm volatile(STOW_DSP_LOOP(STOW_DSP_ONE_PIXEL)
                   : [a0] "+r"(a0), [a1] "+r"(a1), [x] "+r"(x), [w0] "+r"(w0), [w1] "+r"(w1), [p] "=&r"(p),
                     [q] "=&r"(q), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v)
                   : [end] "r"(end)
                   : "cc", "memory");
    sums[0] = a0, sums[1] = a1;
}

/* Sums of outputs [first, first + count) of a tile, all of which have room in mm->sums. */
static void stow_dsp_products(const stow_mm_s8 *mm, const uint32_t *x, size_t first, size_t count)
{
    const size_t step = mm->filter->weights_step, words = mm->depth / 4;
    uint32_t *sums = mm->sums;
    const int8_t *w = mm->w + first * step;
    for (size_t left = count; left > 0;) {
        const size_t both = left > 1 ? step : 0; /* the last of an odd number is computed twice, and one sum unused */
        const uint32_t *w0 = (const uint32_t *)(const void *)w, *w1 = (const uint32_t *)(const void *)(w + both);
        if (mm->pixels > 1) {
            stow_dsp_square(x, w0, w1, words, sums, sums + STOW_MM_OUTPUTS);
        } else {
            stow_dsp_line(x, w0, w1, words, sums);
        }
        sums += 2;
        w += 2 * step;
        left = left > 2 ? left - 2 : 0;
    }
}

static void stow_dsp_begin(const stow_mm_s8 *mm, size_t first, size_t count)
{
    const int32_t *bias = mm->filter->bias == NULL ? NULL : mm->filter->bias + mm->first + first;
    for (size_t i = 0; i < count; i++) {
        const uint32_t sum = bias == NULL ? 0 : (uint32_t)bias[i];
        mm->sums[i] = sum;
        mm->sums[STOW_MM_OUTPUTS + i] = sum;
    }
}

static void stow_dsp_end(const stow_mm_s8 *mm, size_t first, size_t count)
{
    const stow_dsp_scale scale = stow_dsp_scale_from(mm->filter, mm->first + first);
    const int32_t *multiplier = scale.multiplier, *shift = scale.shift;
    const uint32_t *sums = mm->sums, *last = sums + count;
    const ptrdiff_t second = mm->pixels > 1 ? (ptrdiff_t)mm->out_step : 0;
    int8_t *out = mm->out + first;
    while (sums != last) {
        const int32_t factor = *multiplier, bits = ~*shift & 31;
        if (second != 0) {
            out[second] = stow_dsp_output(&scale, factor, bits, sums[STOW_MM_OUTPUTS]);
        }
        *out++ = stow_dsp_output(&scale, factor, bits, *sums++);
        multiplier += scale.step, shift += scale.step;
    }
}

STOW_API void stow_mm_dsp_s8(const stow_mm_s8 *mm)
{
    uint32_t x[STOW_MM_PIXELS * STOW_DSP_DEPTH / 2];
    if (!mm->filter->bounded || !stow_dsp_is_aligned(mm->x, mm->x_step | mm->depth) ||
        !stow_dsp_is_aligned(mm->w, mm->filter->weights_step)) {
        stow_mm_portable_s8(mm);
        return;
    }
    for (size_t pixel = 0; pixel < mm->pixels; pixel++) {
        stow_dsp_spread(mm->x + pixel * mm->x_step, mm->depth, x + pixel, mm->pixels);
    }
    for (size_t first = 0; first < mm->outputs; first += STOW_MM_OUTPUTS) {
        const size_t left = mm->outputs - first;
        const size_t count = left < STOW_MM_OUTPUTS ? left : STOW_MM_OUTPUTS;
        if (mm->begins) {
            stow_dsp_begin(mm, first, count);
        }
        stow_dsp_products(mm, x, first, count);
        if (mm->ends) {
            stow_dsp_end(mm, first, count);
        }
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

/* Two taps of four channels, added to their sums. */
static inline __attribute__((always_inline)) void stow_dsp_tap_pair(uint32_t a, uint32_t b, const uint32_t *w,
                                                                    uint32_t *s0, uint32_t *s1, uint32_t *s2,
                                                                    uint32_t *s3)
{
    uint32_t e, f, t;
    __asm("sxtb16 %[e], %[a]\n\tsxtb16 %[f], %[b]\n\tpkhbt %[t], %[e], %[f], lsl #16\n\t"
          "pkhtb %[e], %[f], %[e], asr #16\n\tldr %[f], [%[w]]\n\tsmlad %[s0], %[t], %[f], %[s0]\n\t"
          "ldr %[f], [%[w], #8]\n\tsmlad %[s2], %[e], %[f], %[s2]\n\t"
          "sxtb16 %[a], %[a], ror #8\n\tsxtb16 %[b], %[b], ror #8\n\tpkhbt %[t], %[a], %[b], lsl #16\n\t"
          "pkhtb %[a], %[b], %[a], asr #16\n\tldr %[f], [%[w], #4]\n\tsmlad %[s1], %[t], %[f], %[s1]\n\t"
          "ldr %[f], [%[w], #12]\n\tsmlad %[s3], %[a], %[f], %[s3]"
          : [a] "+r"(a), [b] "+r"(b), [s0] "+r"(*s0), [s1] "+r"(*s1), [s2] "+r"(*s2), [s3] "+r"(*s3), [e] "=&r"(e),
            [f] "=&r"(f), [t] "=&r"(t)
          : [w] "r"(w)
          : "memory");
}

/* One tap. */
static inline __attribute__((always_inline)) void stow_dsp_tap(uint32_t a, const uint32_t *w, uint32_t *s0,
                                                               uint32_t *s1, uint32_t *s2, uint32_t *s3)
{
    uint32_t e, f;
    __asm("sxtb16 %[e], %[a]\n\tsxtb16 %[a], %[a], ror #8\n\t"
          "ldr %[f], [%[w]]\n\tsmlabb %[s0], %[e], %[f], %[s0]\n\tldr %[f], [%[w], #4]\n\t"
          "smlabb %[s1], %[a], %[f], %[s1]\n\tldr %[f], [%[w], #8]\n\tsmlatb %[s2], %[e], %[f], %[s2]\n\t"
          "ldr %[f], [%[w], #12]\n\tsmlatb %[s3], %[a], %[f], %[s3]"
          : [a] "+r"(a), [s0] "+r"(*s0), [s1] "+r"(*s1), [s2] "+r"(*s2), [s3] "+r"(*s3), [e] "=&r"(e), [f] "=&r"(f)
          : [w] "r"(w)
          : "memory");
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
    const stow_dsp_scale scale = stow_dsp_scale_from(&op->filter, channel);
    const int32_t *m = scale.multiplier, *n = scale.shift;
    const size_t one = scale.step;
    const int8_t *x0 = rows[0], *x1 = rows[1], *x2 = rows[2];
    const uint32_t *w = kernel->words;
    for (; count > 0; count--, out += depth) {
        uint32_t s0 = kernel->bias[0], s1 = kernel->bias[1], s2 = kernel->bias[2], s3 = kernel->bias[3];
        stow_dsp_tap_pair(stow_dsp_at(x0), stow_dsp_at(x1), w, &s0, &s1, &s2, &s3);
        stow_dsp_tap_pair(stow_dsp_at(x0 + depth), stow_dsp_at(x1 + depth), w + 4, &s0, &s1, &s2, &s3);
        stow_dsp_tap_pair(stow_dsp_at(x0 + 2 * depth), stow_dsp_at(x1 + 2 * depth), w + 8, &s0, &s1, &s2, &s3);
        stow_dsp_tap_pair(stow_dsp_at(x2), stow_dsp_at(x2 + depth), w + 12, &s0, &s1, &s2, &s3);
        stow_dsp_tap(stow_dsp_at(x2 + 2 * depth), w + 16, &s0, &s1, &s2, &s3);
        x0 += step, x1 += step, x2 += step;
        out[0] = stow_dsp_output(&scale, m[0], ~n[0] & 31, s0);
        out[1] = stow_dsp_output(&scale, m[one], ~n[one] & 31, s1);
        out[2] = stow_dsp_output(&scale, m[2 * one], ~n[2 * one] & 31, s2);
        out[3] = stow_dsp_output(&scale, m[3 * one], ~n[3 * one] & 31, s3);
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
