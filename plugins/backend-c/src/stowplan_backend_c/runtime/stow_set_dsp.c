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

static inline int stow_dsp_is_aligned(const void *data, size_t step)
{
    return (((uintptr_t)data | step) & 3u) == 0;
}

/* What all outputs have in common on their way from sum to byte, where sums are bounded. */
typedef struct stow_dsp_range {
    int32_t offset; /* twice the zero point, and a half for rounding */
    int32_t minimum;
    int32_t maximum;
    int narrow; /* the range is not all of int8 */
} stow_dsp_range;

static inline stow_dsp_range stow_dsp_range_of(const stow_filter_s8 *filter)
{
    const stow_dsp_range range = {2 * filter->zero_point + 1, filter->minimum, filter->maximum,
                                  filter->minimum > INT8_MIN || filter->maximum < INT8_MAX};
    return range;
}

/* Rounded twice like stow_scale, halves of the second away from zero. `bits` is the right shift less one in its low
 * byte, which is all that the processor looks at. */
static inline int32_t stow_dsp_output(const stow_dsp_range *range, int narrow, int32_t multiplier, int32_t bits,
                                      uint32_t sum)
{
    int32_t value = stow_dsp_high_product(sum, multiplier);
    value += value >> 31;
    __asm("asr %0, %1" : "+r"(value) : "r"(bits));
    value += range->offset;
    __asm("ssat %0, #8, %0, asr #1" : "+r"(value));
    return narrow ? stow_clamp(value, range->minimum, range->maximum) : value;
}

/* Four elements of a vector become two pairs, even ones and odd ones; of two vectors, even ones of both come first.
 * What is read may lie in the upper half of where it goes: each step reads what the next ones overwrite. */
static void stow_dsp_spread_one(const int8_t *x, size_t depth, uint32_t *to)
{
    const uint32_t *words = (const uint32_t *)(const void *)x;
    for (const uint32_t *const end = words + depth / 4; words != end; to += 2) {
        const uint32_t a = *words++;
        to[0] = stow_dsp_even(a);
        to[1] = stow_dsp_odd(a);
    }
}

static void stow_dsp_spread_two(const stow_mm_s8 *mm, const int8_t *x, size_t depth, uint32_t *to)
{
    const int8_t *y = x + mm->x_step;
    for (const uint32_t *const end = to + depth; to != end; to += 4, x += mm->x_stride, y += mm->x_stride) {
        const uint32_t a = *(const uint32_t *)(const void *)x, b = *(const uint32_t *)(const void *)y;
        to[0] = stow_dsp_even(a);
        to[1] = stow_dsp_even(b);
        to[2] = stow_dsp_odd(a);
        to[3] = stow_dsp_odd(b);
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
#if STOW_SMALL
#define STOW_DSP_LOOP(step) "1:\n\t" step "cmp %[w0], %[end]\n\tbne 1b"
#else
#define STOW_DSP_LOOP(step)                                                                                            \
    "sub %[t], %[end], %[w0]\n\tlsls %[t], %[t], #29\n\tbpl 1f\n\t" step                                                \
    "cmp %[w0], %[end]\n\tbeq 2f\n1:\n\t" step step "cmp %[w0], %[end]\n\tbne 1b\n2:"
#endif

/* The sums of up to STOW_MM_OUTPUTS outputs: where they begin, where they are kept. */
typedef struct stow_dsp_sums {
    const uint32_t *first; /* of the first vector */
    const uint32_t *second;
    uint32_t *kept;
    size_t count;
} stow_dsp_sums;

/* Products of two vectors and the weights of two outputs at a time. */
static __attribute__((noinline)) void stow_dsp_squares(const stow_dsp_sums *sums, const uint32_t *vectors,
                                                       const int8_t *weights, size_t step, size_t depth)
{
    const uint32_t *first = sums->first, *second = sums->second;
    uint32_t *kept = sums->kept;
    const uint32_t *const last = kept + (sums->count & ~(size_t)1);
    while (kept != last) {
        const int8_t *w0 = weights, *w1 = weights + step;
        const int8_t *const end = w0 + depth;
        const uint32_t *x = vectors;
        uint32_t a0 = first[0], a1 = first[1], b0 = second[0], b1 = second[1], p, q, t, u, v;
        __asm volatile(STOW_DSP_LOOP(STOW_DSP_TWO_PIXELS)
                       : [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0), [b1] "+r"(b1), [x] "+r"(x), [w0] "+r"(w0),
                         [w1] "+r"(w1), [p] "=&r"(p), [q] "=&r"(q), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v)
                       : [end] "r"(end)
                       : "cc", "memory");
        kept[0] = a0, kept[1] = a1, kept[STOW_MM_OUTPUTS] = b0, kept[STOW_MM_OUTPUTS + 1] = b1;
        first += 2, second += 2, kept += 2;
        weights += 2 * step;
    }
}

/* Products of one vector and the weights of two outputs at a time. */
static __attribute__((noinline)) void stow_dsp_lines(const stow_dsp_sums *sums, const uint32_t *vector,
                                                     const int8_t *weights, size_t step, size_t depth)
{
    const uint32_t *first = sums->first;
    uint32_t *kept = sums->kept;
    const uint32_t *const last = kept + (sums->count & ~(size_t)1);
    while (kept != last) {
        const int8_t *w0 = weights, *w1 = weights + step;
        const int8_t *const end = w0 + depth;
        const uint32_t *x = vector;
        uint32_t a0 = first[0], a1 = first[1], p, q, t, u, v;
        __asm volatile(STOW_DSP_LOOP(STOW_DSP_ONE_PIXEL)
                       : [a0] "+r"(a0), [a1] "+r"(a1), [x] "+r"(x), [w0] "+r"(w0), [w1] "+r"(w1), [p] "=&r"(p),
                         [q] "=&r"(q), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v)
                       : [end] "r"(end)
                       : "cc", "memory");
        kept[0] = a0, kept[1] = a1;
        first += 2, kept += 2;
        weights += 2 * step;
    }
}

/* What is done at once of a product: a part of one or two vectors, times the weights of some outputs. */
typedef struct stow_dsp_part {
    const stow_mm_s8 *mm;
    const int8_t *x;
    int8_t *out;
    size_t pixels;
    size_t start; /* the part's first element, in x and in the weights */
    size_t depth;
    size_t first; /* of the product's outputs */
    size_t outputs;
} stow_dsp_part;

/* The last of an odd number of outputs, from vectors that are spread already. */
static void stow_dsp_rest(const stow_dsp_sums *sums, const stow_dsp_part *part, const uint32_t *vectors,
                          const int8_t *weights)
{
    const size_t last = sums->count - 1;
    const int8_t *w = weights + last * part->mm->filter->weights_step;
    for (size_t pixel = 0; pixel < part->pixels; pixel++) {
        uint32_t sum = pixel == 0 ? sums->first[last] : sums->second[last];
        const uint32_t *x = vectors + pixel;
        for (size_t i = 0; i < part->depth; i += 4, x += 2 * part->pixels) {
            const uint32_t bytes = *(const uint32_t *)(const void *)(w + i);
            sum = stow_dsp_two(stow_dsp_odd(bytes), x[part->pixels], stow_dsp_two(stow_dsp_even(bytes), x[0], sum));
        }
        sums->kept[pixel * STOW_MM_OUTPUTS + last] = sum;
    }
}

/* The bytes of both vectors, in a loop for each of the ways that `narrow` and `step` make. */
static inline __attribute__((always_inline)) void
stow_dsp_end_two(const stow_dsp_range *range, int narrow, size_t step, const int32_t *multiplier, const int32_t *shift,
                 const uint32_t *sums, int8_t *out, int8_t *second, const int8_t *last)
{
    while (out != last) {
        const int32_t factor = *multiplier, bits = ~*shift;
        const int32_t a = stow_dsp_output(range, narrow, factor, bits, sums[0]);
        const int32_t b = stow_dsp_output(range, narrow, factor, bits, sums[STOW_MM_OUTPUTS]);
        multiplier += step, shift += step, sums++;
        *out++ = (int8_t)a;
        *second++ = (int8_t)b;
    }
}

/* The bytes of outputs [first, first + count), one vector's or two's. */
static __attribute__((noinline)) void stow_dsp_end(const stow_dsp_part *part, size_t first, size_t count)
{
    const stow_mm_s8 *mm = part->mm;
    const stow_filter_s8 *filter = mm->filter;
    const stow_dsp_range range = stow_dsp_range_of(filter);
    const size_t step = filter->step;
    const int32_t *multiplier = filter->multiplier + (mm->first + first) * step;
    const int32_t *shift = filter->shift + (mm->first + first) * step;
    const uint32_t *sums = mm->sums;
    int8_t *out = part->out + first, *const last = out + count;
    if (part->pixels == 1) {
        for (; out != last; multiplier += step, shift += step) {
            *out++ = (int8_t)stow_dsp_output(&range, range.narrow, *multiplier, ~*shift, *sums++);
        }
        return;
    }
    int8_t *const second = out + mm->out_step;
    if (STOW_SMALL) {
        stow_dsp_end_two(&range, range.narrow, step, multiplier, shift, sums, out, second, last);
    } else if (step == 0) {
        stow_dsp_end_two(&range, 1, 0, multiplier, shift, sums, out, second, last);
    } else if (range.narrow) {
        stow_dsp_end_two(&range, 1, 1, multiplier, shift, sums, out, second, last);
    } else {
        stow_dsp_end_two(&range, 0, 1, multiplier, shift, sums, out, second, last);
    }
}

static void stow_dsp_run_part(const stow_dsp_part *part, int begins, int ends)
{
    static const uint32_t zeros[STOW_MM_OUTPUTS] = {0};
    const stow_mm_s8 *mm = part->mm;
    uint32_t *const x = (uint32_t *)(void *)mm->room;
    const size_t step = mm->filter->weights_step, end = part->first + part->outputs;
    const uint32_t *bias = (const uint32_t *)(const void *)mm->filter->bias;
    if (part->pixels > 1) {
        stow_dsp_spread_two(mm, part->x + part->start, part->depth, x);
    } else {
        stow_dsp_spread_one(part->x + part->start, part->depth, x);
    }
    for (size_t first = part->first; first < end; first += STOW_MM_OUTPUTS) {
        const size_t left = end - first;
        stow_dsp_sums sums = {mm->sums, mm->sums + STOW_MM_OUTPUTS, mm->sums,
                              left < STOW_MM_OUTPUTS ? left : STOW_MM_OUTPUTS};
        const int8_t *w = mm->w + first * step + part->start;
        if (begins) {
            sums.first = bias == NULL ? zeros : bias + mm->first + first;
            sums.second = sums.first;
        }
        (part->pixels > 1 ? stow_dsp_squares : stow_dsp_lines)(&sums, x, w, step, part->depth);
        if ((sums.count & 1u) != 0) {
            stow_dsp_rest(&sums, part, x, w);
        }
        if (ends) {
            stow_dsp_end(part, first, sums.count);
        }
    }
}

/* One or two vectors; those that are too long come in parts of about the same size. */
static void stow_dsp_tile(stow_dsp_part *part)
{
    const stow_mm_s8 *mm = part->mm;
    const size_t parts = (mm->depth + STOW_MM_PATCH - 1) / STOW_MM_PATCH;
    if (!STOW_WITH_LONG_VECTORS || parts == 1) {
        part->start = 0, part->depth = mm->depth, part->first = 0, part->outputs = mm->outputs;
        stow_dsp_run_part(part, !STOW_WITH_LONG_VECTORS || mm->begins, !STOW_WITH_LONG_VECTORS || mm->ends);
        return;
    }
    const size_t most = ((mm->depth + parts - 1) / parts + 3u) & ~(size_t)3;
    for (part->first = 0; part->first < mm->outputs; part->first += STOW_MM_OUTPUTS) {
        const size_t left = mm->outputs - part->first;
        part->outputs = left < STOW_MM_OUTPUTS ? left : STOW_MM_OUTPUTS;
        for (part->start = 0; part->start < mm->depth; part->start += most) {
            part->depth = mm->depth - part->start < most ? mm->depth - part->start : most;
            stow_dsp_run_part(part, part->start == 0, part->start + part->depth == mm->depth);
        }
    }
}

STOW_API void stow_mm_dsp_s8(const stow_mm_s8 *mm)
{
    if (STOW_WITH_DSP_MM_FALLBACK && (!mm->filter->bounded || !stow_dsp_is_aligned(mm->x, mm->x_step | mm->depth) ||
                                  !stow_dsp_is_aligned(mm->w, mm->filter->weights_step))) {
        stow_mm_portable_s8(mm);
        return;
    }
    stow_dsp_part part = {.mm = mm, .x = mm->x, .out = mm->out};
    for (size_t left = mm->pixels; left > 0; left -= part.pixels) {
        part.pixels = left < STOW_MM_PIXELS ? left : STOW_MM_PIXELS;
        stow_dsp_tile(&part);
        part.x += part.pixels * mm->x_step;
        part.out += part.pixels * mm->out_step;
    }
}

/* A kernel of 3x3 for four channels: of each channel the pairs (0,0)(1,0), (0,1)(1,1), (0,2)(1,2), (2,0)(2,1), and
 * (2,2); and how their sums become outputs. */
typedef struct stow_dsp_kernel {
    uint32_t words[20];
    uint32_t bias[4];
    struct {
        int32_t multiplier;
        int32_t bits;
    } scales[4];
} stow_dsp_kernel;

static inline uint32_t stow_dsp_at(const int8_t *x)
{
    return *(const uint32_t *)(const void *)x;
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

static void stow_dsp_prepare(const stow_filter_s8 *filter, size_t channel, stow_dsp_kernel *kernel)
{
    const size_t step = filter->weights_step, row = 3 * step;
    const int8_t *w = filter->weights + channel;
    stow_dsp_pairs(stow_dsp_at(w), stow_dsp_at(w + row), kernel->words);
    stow_dsp_pairs(stow_dsp_at(w + step), stow_dsp_at(w + row + step), kernel->words + 4);
    stow_dsp_pairs(stow_dsp_at(w + 2 * step), stow_dsp_at(w + row + 2 * step), kernel->words + 8);
    stow_dsp_pairs(stow_dsp_at(w + 2 * row), stow_dsp_at(w + 2 * row + step), kernel->words + 12);
    stow_dsp_pairs(stow_dsp_at(w + 2 * row + 2 * step), 0, kernel->words + 16);
    const int32_t *bias = filter->bias == NULL ? NULL : filter->bias + channel;
    const int32_t *multiplier = filter->multiplier + channel * filter->step;
    const int32_t *shift = filter->shift + channel * filter->step;
    for (size_t i = 0; i < 4; i++, multiplier += filter->step, shift += filter->step) {
        kernel->bias[i] = bias == NULL ? 0 : (uint32_t)*bias++;
        kernel->scales[i].multiplier = *multiplier;
        kernel->scales[i].bits = ~*shift;
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

/* Where four channels of a run of pixels come from and go to. */
typedef struct stow_dsp_run {
    const int8_t *rows[3]; /* what lies under the first column of the kernel at the first pixel */
    size_t column;         /* bytes from one column to the next */
    size_t pixel;          /* bytes from one pixel to the next */
    size_t count;
    int8_t *out;
    size_t out_pixel;
} stow_dsp_run;

static __attribute__((noinline)) void stow_dsp_pixels(const stow_dsp_range *range, const stow_dsp_kernel *kernel,
                                                      const stow_dsp_run *run)
{
    const size_t column = run->column;
    const int8_t *x0 = run->rows[0], *x1 = run->rows[1], *x2 = run->rows[2];
    const uint32_t *w = kernel->words;
    int8_t *out = run->out;
    for (size_t left = run->count; left > 0; left--) {
        uint32_t s0 = kernel->bias[0], s1 = kernel->bias[1], s2 = kernel->bias[2], s3 = kernel->bias[3];
        stow_dsp_tap_pair(stow_dsp_at(x0), stow_dsp_at(x1), w, &s0, &s1, &s2, &s3);
        stow_dsp_tap_pair(stow_dsp_at(x0 + column), stow_dsp_at(x1 + column), w + 4, &s0, &s1, &s2, &s3);
        stow_dsp_tap_pair(stow_dsp_at(x0 + 2 * column), stow_dsp_at(x1 + 2 * column), w + 8, &s0, &s1, &s2, &s3);
        stow_dsp_tap_pair(stow_dsp_at(x2), stow_dsp_at(x2 + column), w + 12, &s0, &s1, &s2, &s3);
        stow_dsp_tap(stow_dsp_at(x2 + 2 * column), w + 16, &s0, &s1, &s2, &s3);
        x0 += run->pixel, x1 += run->pixel, x2 += run->pixel;
        const int32_t v0 = stow_dsp_output(range, range->narrow, kernel->scales[0].multiplier, kernel->scales[0].bits, s0);
        const int32_t v1 = stow_dsp_output(range, range->narrow, kernel->scales[1].multiplier, kernel->scales[1].bits, s1);
        const int32_t v2 = stow_dsp_output(range, range->narrow, kernel->scales[2].multiplier, kernel->scales[2].bits, s2);
        const int32_t v3 = stow_dsp_output(range, range->narrow, kernel->scales[3].multiplier, kernel->scales[3].bits, s3);
        out[0] = (int8_t)v0, out[1] = (int8_t)v1, out[2] = (int8_t)v2, out[3] = (int8_t)v3;
        out += run->out_pixel;
    }
}

static int stow_dsp_suits(const stow_depthwise_s8 *op)
{
    const stow_window *w = &op->window;
    return op->filter.bounded && w->kernel_h == 3 && w->kernel_w == 3 && w->dilation_h == 1 && w->dilation_w == 1 &&
           w->in_c == w->out_c && (w->in_c & 3) == 0 && (op->filter.weights_step & 3u) == 0;
}

/* A pixel at the border: what lies under its kernel is brought together, the zero point where nothing does, and the
 * kernel is the same for all. rows[i] is where the four channels begin in that row, NULL outside the input. */
static void stow_dsp_border(const stow_depthwise_s8 *op, const stow_dsp_range *range, const stow_dsp_kernel *kernel,
                            const int8_t *const *rows, int32_t column, int8_t *out)
{
    const stow_window *w = &op->window;
    const uint32_t outside = (uint32_t)op->in_zero_point % 256u * UINT32_C(0x01010101);
    const int32_t left = column * w->stride_w - w->pad_left;
    const size_t depth = (size_t)w->in_c, start = (size_t)left * depth;
    const int first = left >= 0 && left < w->in_w, second = left >= -1 && left + 1 < w->in_w;
    const int third = left >= -2 && left + 2 < w->in_w; /* columns inside the input */
    uint32_t patch[9], *to = patch;
    for (size_t i = 0; i < 3; i++, to += 3) {
        const int8_t *row = rows[i];
        to[0] = row != NULL && first ? stow_dsp_at(row + start) : outside;
        to[1] = row != NULL && second ? stow_dsp_at(row + (start + depth)) : outside;
        to[2] = row != NULL && third ? stow_dsp_at(row + (start + 2 * depth)) : outside;
    }
    const int8_t *x = (const int8_t *)(const void *)patch;
    const stow_dsp_run run = {{x, x + 12, x + 24}, 4, 0, 1, out, 0};
    stow_dsp_pixels(range, kernel, &run);
}

STOW_API void stow_depthwise_row_dsp_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out)
{
    const stow_window *w = &op->window;
    if (STOW_WITH_DSP_DEPTHWISE_FALLBACK && !stow_dsp_suits(op)) {
        stow_depthwise_row_portable_s8(op, place, out);
        return;
    }
    const size_t depth = (size_t)w->in_c;
    const int whole = place->taps.first == 0 && place->taps.last == 3;
    const stow_taps none = {w->out_w, w->out_w}, inner = whole ? stow_inner_columns(w) : none;
    const stow_dsp_range range = stow_dsp_range_of(&op->filter);
    const size_t start = (size_t)(inner.first * w->stride_w - w->pad_left) * depth;
    const int8_t *rows[3];
    for (int32_t i = 0; i < 3; i++) {
        const int inside = i >= place->taps.first && i < place->taps.last;
        rows[i] = inside ? (const int8_t *)stow_row_under(&op->in, w, place, i) : NULL;
    }
    stow_dsp_kernel kernel;
    for (size_t channel = 0; channel < depth; channel += 4, out += 4) {
        stow_dsp_prepare(&op->filter, channel, &kernel);
        for (int32_t column = 0; column < w->out_w; column++) {
            if (column == inner.first && inner.first < inner.last) {
                const stow_dsp_run run = {{rows[0] + start, rows[1] + start, rows[2] + start},
                                          depth,
                                          depth * (size_t)w->stride_w,
                                          (size_t)(inner.last - inner.first),
                                          out + (size_t)column * depth,
                                          depth};
                stow_dsp_pixels(&range, &kernel, &run);
                column = inner.last - 1;
            } else {
                stow_dsp_border(op, &range, &kernel, rows, column, out + (size_t)column * depth);
            }
        }
        for (size_t i = 0; i < 3; i++) {
            rows[i] = rows[i] == NULL ? NULL : rows[i] + 4;
        }
    }
}

/* An operand of a sum in the common scale, times two and without the last rounding: it is (result + 1) >> 1. */
static inline int32_t stow_dsp_operand(int32_t value, int32_t multiplier, int32_t bits)
{
    int32_t twice = 2 * stow_dsp_high_product((uint32_t)value << 20, multiplier);
    twice += twice >> 31;
    __asm("asr %0, %1" : "+r"(twice) : "r"(bits));
    return twice;
}

STOW_API void stow_add_dsp_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const int32_t a_bits = -params[STOW_ADD_S8_A_SHIFT], b_bits = -params[STOW_ADD_S8_B_SHIFT];
    const int32_t bits = ~params[STOW_ADD_S8_OUTPUT_SHIFT];
    if (STOW_WITH_ADD_FALLBACK && ((a_bits | b_bits | bits) & ~31) != 0) {
        stow_add_portable_s8(params, a, b, out, size);
        return;
    }
    const int32_t a_zero = params[STOW_ADD_S8_A_ZERO_POINT], b_zero = params[STOW_ADD_S8_B_ZERO_POINT];
    const int32_t a_multiplier = params[STOW_ADD_S8_A_MULTIPLIER], b_multiplier = params[STOW_ADD_S8_B_MULTIPLIER];
    const int32_t multiplier = params[STOW_ADD_S8_OUTPUT_MULTIPLIER];
    const int32_t minimum = params[STOW_ADD_S8_ACT_MIN], maximum = params[STOW_ADD_S8_ACT_MAX];
    const stow_dsp_range range = {2 * params[STOW_ADD_S8_OUTPUT_ZERO_POINT] + 1, minimum, maximum,
                                  minimum > INT8_MIN || maximum < INT8_MAX};
    for (const int8_t *end = a + size; a != end;) {
        const int32_t wide_a = stow_dsp_operand(*a++ - a_zero, a_multiplier, a_bits) + 1;
        const int32_t wide_b = stow_dsp_operand(*b++ - b_zero, b_multiplier, b_bits) + 1;
        *out++ = (int8_t)stow_dsp_output(&range, range.narrow, multiplier, bits, (uint32_t)((wide_a >> 1) + (wide_b >> 1)));
    }
}

#endif
