/* The host's inner loops for AVX2: eight sums at once, two products of 16-bit numbers in each. */
#include "stow_fast.h"

#if STOW_WITH_X86
#include <immintrin.h>

#define STOW_256 __attribute__((target("avx2")))
#define STOW_256_INLINE STOW_256 static inline __attribute__((always_inline))
#define STOW_256_LANES 8u

STOW_256_INLINE __m256i stow_256_load(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

/* h / 2^right, rounded to nearest, halves away from zero; see stow_rounding_shift_31. */
STOW_256_INLINE __m256i stow_256_round(__m256i h, __m256i right, __m256i mask, __m256i half)
{
    const __m256i rest = _mm256_and_si256(h, mask);
    const __m256i limit = _mm256_sub_epi32(half, _mm256_srai_epi32(h, 31));
    return _mm256_sub_epi32(_mm256_srav_epi32(h, right), _mm256_cmpgt_epi32(rest, limit));
}

/* The upper half of twice the product, rounded; see stow_high_product. */
STOW_256_INLINE __m256i stow_256_high_product(__m256i a, __m256i b)
{
    const __m256i half = _mm256_set1_epi64x(INT64_C(1) << 30);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(a, b), half);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)), half);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
}

STOW_256_INLINE __m256i stow_256_clamp(__m256i value, int32_t zero_point, int32_t minimum, int32_t maximum)
{
    const __m256i moved = _mm256_add_epi32(value, _mm256_set1_epi32(zero_point));
    return _mm256_min_epi32(_mm256_max_epi32(moved, _mm256_set1_epi32(minimum)), _mm256_set1_epi32(maximum));
}

/* How eight sums become outputs, in registers: outputs are bytes, and storing one could change anything in memory. */
typedef struct stow_256_rule {
    __m256i multiplier, left, right, mask, half, minimum;
    int32_t zero_point, lowest, highest;
} stow_256_rule;

STOW_256_INLINE stow_256_rule stow_256_rule_of(const stow_fast_filter *filter, const int32_t *words)
{
    const stow_256_rule rule = {
        .multiplier = stow_256_load(words + STOW_FAST_MULTIPLIER * STOW_256_LANES),
        .left = stow_256_load(words + STOW_FAST_LEFT * STOW_256_LANES),
        .right = stow_256_load(words + STOW_FAST_RIGHT * STOW_256_LANES),
        .mask = stow_256_load(words + STOW_FAST_MASK * STOW_256_LANES),
        .half = stow_256_load(words + STOW_FAST_HALF * STOW_256_LANES),
        .minimum = _mm256_set1_epi32(filter->minimum),
        .zero_point = filter->zero_point,
        .lowest = filter->minimum,
        .highest = filter->maximum,
    };
    return rule;
}

/* An easy sum as an output; see stow_fast_rounding. */
STOW_256_INLINE __m256i stow_256_easy(stow_256_rule rule, __m256i sum, const int ease)
{
    const __m256i x = ease == STOW_FAST_EASIEST ? sum : _mm256_slli_epi32(sum, 1);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, rule.multiplier), rule.mask);
    const __m256i odd_product = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(rule.multiplier, 32));
    const __m256i odd = _mm256_add_epi64(odd_product, rule.half);
    const __m256i high = _mm256_blend_epi32(odd, _mm256_srli_epi64(even, 32), 0x55);
    const __m256i moved = ease == STOW_FAST_EASIEST ? high : _mm256_add_epi32(high, _mm256_srai_epi32(sum, 31));
    return _mm256_srav_epi32(moved, rule.right);
}

/* Outputs, still as 32 bits each; where they are easy, whoever packs them saturates them. */
STOW_256_INLINE __m256i stow_256_output(stow_256_rule rule, __m256i sum, const int ease)
{
    if (ease != STOW_FAST_HARD) {
        return _mm256_max_epi32(stow_256_easy(rule, sum, ease), rule.minimum);
    }
    const __m256i high = stow_256_high_product(_mm256_sllv_epi32(sum, rule.left), rule.multiplier);
    const __m256i value = stow_256_round(high, rule.right, rule.mask, rule.half);
    return stow_256_clamp(value, rule.zero_point, rule.lowest, rule.highest);
}

/* Store the first `left` of sixteen bytes; the sums of `first` and `second` in the order of packing. */
STOW_256_INLINE void stow_256_store(int8_t *out, size_t left, __m128i bytes)
{
    if (left >= 16) {
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
        return;
    }
    int8_t all[16];
    _mm_storeu_si128((__m128i *)(void *)all, bytes);
    memcpy(out, all, left);
}

/* Eight sums as bytes, in the lower half. */
STOW_256_INLINE __m128i stow_256_bytes(__m256i value)
{
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
    return _mm_packs_epi16(words, words);
}

STOW_256 static void stow_256_bring(uint8_t *to, const int8_t *from, size_t size, size_t count, size_t from_step)
{
    for (size_t i = 0; i < count; i++, from += from_step) {
        size_t done = 0;
        for (; done + 16 <= size; done += 16, to += 32) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + done));
            _mm256_storeu_si256((__m256i *)(void *)to, _mm256_cvtepi8_epi16(bytes));
        }
        for (; done < size; done++, to += 2) {
            const int16_t value = from[done];
            memcpy(to, &value, sizeof value);
        }
    }
}

STOW_256_INLINE __m256i stow_256_any_output(const stow_fast_filter *filter, const int32_t *words, __m256i sum)
{
    const stow_256_rule rule = stow_256_rule_of(filter, words);
    switch (filter->ease) {
    case STOW_FAST_EASIEST: return stow_256_output(rule, sum, STOW_FAST_EASIEST);
    case STOW_FAST_EASY: return stow_256_output(rule, sum, STOW_FAST_EASY);
    default: return stow_256_output(rule, sum, STOW_FAST_HARD);
    }
}

/* Sums of some groups of outputs of `pixels` vectors, to where the outputs lie. */
STOW_256_INLINE void stow_256_finish(const stow_fast_matrix *op, size_t group, size_t pixel, const size_t groups,
                                     const size_t pixels, __m256i sums[4][4], const int ease)
{
    const stow_fast_filter *filter = op->filter;
    const size_t out_step = op->out_step, outputs = filter->outputs;
    int8_t *start = op->out + pixel * out_step;
#pragma GCC unroll 4
    for (size_t g = 0; g < groups; g++) {
        const size_t first = (group + g) * STOW_256_LANES, left = outputs - first;
        const stow_256_rule rule =
            stow_256_rule_of(filter, filter->rules + (group + g) * filter->rules_step);
#pragma GCC unroll 4
        for (size_t p = 0; p < pixels; p++) {
            const __m128i bytes = stow_256_bytes(stow_256_output(rule, sums[g][p], ease));
            int8_t *out = start + p * out_step + first;
            if (left >= STOW_256_LANES) {
                _mm_storel_epi64((__m128i *)(void *)out, bytes);
            } else {
                stow_256_store(out, left, bytes);
            }
        }
    }
}

/* Groups [group, group + groups) of outputs of `pixels` vectors; both are constants wherever this is called, so that
 * all sums are in registers. */
STOW_256_INLINE void stow_256_block(const stow_fast_matrix *op, size_t group, size_t pixel, const size_t groups,
                                    const size_t pixels)
{
    const stow_fast_filter *filter = op->filter;
    const int32_t *biases = filter->biases + group * STOW_256_LANES;
    const uint8_t *w = filter->weights + group * filter->group_bytes + op->first * filter->units * 32;
    const size_t step = op->x_step;
    __m256i sums[4][4];
#pragma GCC unroll 4
    for (size_t g = 0; g < groups; g++) {
#pragma GCC unroll 4
        for (size_t p = 0; p < pixels; p++) {
            sums[g][p] = stow_256_load(biases + g * STOW_256_LANES);
        }
    }
    for (size_t row = op->first; row < op->last; row++) {
        const uint8_t *x = op->lines[row] + pixel * step;
        for (size_t unit = 0; unit < filter->units; unit++, x += 4, w += 32) {
            __m256i weights[4];
#pragma GCC unroll 4
            for (size_t g = 0; g < groups; g++) {
                weights[g] = stow_256_load(w + g * filter->group_bytes);
            }
#pragma GCC unroll 4
            for (size_t p = 0; p < pixels; p++) {
                int32_t two;
                memcpy(&two, x + p * step, sizeof two);
                const __m256i spread = _mm256_set1_epi32(two);
#pragma GCC unroll 4
                for (size_t g = 0; g < groups; g++) {
                    sums[g][p] = _mm256_add_epi32(sums[g][p], _mm256_madd_epi16(spread, weights[g]));
                }
            }
        }
    }
    switch (filter->ease) {
    case STOW_FAST_EASIEST: stow_256_finish(op, group, pixel, groups, pixels, sums, STOW_FAST_EASIEST); break;
    case STOW_FAST_EASY: stow_256_finish(op, group, pixel, groups, pixels, sums, STOW_FAST_EASY); break;
    default: stow_256_finish(op, group, pixel, groups, pixels, sums, STOW_FAST_HARD); break;
    }
}

/* All pixels for some groups: their weights then stay in the nearest cache. */
#define STOW_256_COLUMN(groups, most)                                                                                  \
    STOW_256 static void stow_256_column_##groups(const stow_fast_matrix *op, size_t group)                            \
    {                                                                                                                  \
        size_t pixel = 0;                                                                                              \
        for (; pixel + (most) <= op->pixels; pixel += (most)) {                                                        \
            stow_256_block(op, group, pixel, groups, most);                                                            \
        }                                                                                                              \
        for (; pixel < op->pixels; pixel++) {                                                                          \
            stow_256_block(op, group, pixel, groups, 1);                                                               \
        }                                                                                                              \
    }

STOW_256_COLUMN(1, 4)
STOW_256_COLUMN(2, 4)
STOW_256_COLUMN(4, 1)

static void stow_256_matrix(const stow_fast_matrix *op)
{
    const size_t groups = (op->filter->outputs + STOW_256_LANES - 1) / STOW_256_LANES;
    size_t group = 0;
    for (; op->pixels == 1 && group + 4 <= groups; group += 4) {
        stow_256_column_4(op, group);
    }
    for (; group + 2 <= groups; group += 2) {
        stow_256_column_2(op, group);
    }
    for (; group < groups; group++) {
        stow_256_column_1(op, group);
    }
}

STOW_256 static void stow_256_depthwise(const stow_fast_filter *filter, const uint8_t *const *lines, int8_t *out,
                                        size_t size)
{
    const size_t rules_step = filter->rules_step;
    size_t chunk = 0;
    for (size_t at = 0; at < size; at += 16, chunk = chunk + 1 == filter->chunks ? 0 : chunk + 1) {
        const uint8_t *w = filter->weights + chunk * filter->group_bytes;
        const int32_t *biases = filter->biases + chunk * 2 * STOW_256_LANES;
        const int32_t *rules = filter->rules + chunk * 2 * rules_step;
        __m256i low = stow_256_load(biases);
        __m256i high = stow_256_load(biases + STOW_256_LANES);
        for (size_t unit = 0; unit < filter->units; unit++, w += 64) {
            const __m256i a = stow_256_load(lines[2 * unit] + 2 * at), b = stow_256_load(lines[2 * unit + 1] + 2 * at);
            low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), stow_256_load(w)));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), stow_256_load(w + 32)));
        }
        /* Within 128 bits, packing puts back in order what interleaving took out of it. */
        const __m256i both = _mm256_packs_epi32(stow_256_any_output(filter, rules, low),
                                                stow_256_any_output(filter, rules + rules_step, high));
        const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        stow_256_store(out + at, size - at, bytes);
    }
}

/* A number scaled by a multiplier and a shift; see stow_scale. */
STOW_256_INLINE __m256i stow_256_scaled(__m256i value, int32_t multiplier, int32_t shift)
{
    const uint32_t left = shift > 0 ? (uint32_t)shift & 31u : 0u, right = shift > 0 ? 0u : (0u - (uint32_t)shift) & 31u;
    const uint32_t mask = (UINT32_C(1) << right) - 1u;
    const __m256i wide = _mm256_sllv_epi32(value, _mm256_set1_epi32((int32_t)left));
    const __m256i high = stow_256_high_product(wide, _mm256_set1_epi32(multiplier));
    return stow_256_round(high, _mm256_set1_epi32((int32_t)right), _mm256_set1_epi32(stow_wrap(mask)),
                          _mm256_set1_epi32(stow_wrap(mask >> 1)));
}

/* The sum of two operands less their zero points, as outputs. */
STOW_256_INLINE __m256i stow_256_added(const int32_t *params, __m256i x, __m256i y)
{
    const __m256i a = stow_256_scaled(_mm256_slli_epi32(x, 20), params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT]);
    const __m256i b = stow_256_scaled(_mm256_slli_epi32(y, 20), params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT]);
    const __m256i sum = stow_256_scaled(_mm256_add_epi32(a, b), params[STOW_ADD_S8_OUTPUT_MULTIPLIER],
                                         params[STOW_ADD_S8_OUTPUT_SHIFT]);
    return stow_256_clamp(sum, params[STOW_ADD_S8_OUTPUT_ZERO_POINT], params[STOW_ADD_S8_ACT_MIN],
                           params[STOW_ADD_S8_ACT_MAX]);
}

STOW_256_INLINE __m256i stow_256_eight(const int8_t *from, int32_t zero_point)
{
    const __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
    return _mm256_sub_epi32(wide, _mm256_set1_epi32(zero_point));
}

STOW_256 static void stow_256_add(const int32_t *given, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const size_t whole = size & ~(size_t)7;
    int32_t params[STOW_ADD_S8_PARAMS]; /* a copy, which no output can change */
    memcpy(params, given, sizeof params);
    for (size_t i = 0; i < whole; i += 8) {
        const __m256i x = stow_256_eight(a + i, params[STOW_ADD_S8_A_ZERO_POINT]);
        const __m256i y = stow_256_eight(b + i, params[STOW_ADD_S8_B_ZERO_POINT]);
        _mm_storel_epi64((__m128i *)(void *)(out + i), stow_256_bytes(stow_256_added(params, x, y)));
    }
    stow_add_portable_s8(params, a + whole, b + whole, out + whole, size - whole);
}

/* What a sum is made of, in registers. */
typedef struct stow_256_line {
    __m256i upper, lower, begin, shift, offset;
} stow_256_line;

/* Sums of eight pairs, not yet moved by the offset. */
STOW_256_INLINE __m256i stow_256_pairs(const stow_256_line *line, __m256i pairs)
{
    const __m256i low = _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(pairs, line->lower), line->begin), 15);
    return _mm256_srav_epi32(_mm256_add_epi32(_mm256_madd_epi16(pairs, line->upper), low), line->shift);
}

/* Sums of 16 elements of each operand, as 16 bits. Within 128 bits, packing puts back in order what interleaving took
 * out of it. */
STOW_256_INLINE __m256i stow_256_half(const stow_256_line *line, const int8_t *a, const int8_t *b)
{
    const __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)a));
    const __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
    const __m256i low = stow_256_pairs(line, _mm256_unpacklo_epi16(x, y));
    const __m256i high = stow_256_pairs(line, _mm256_unpackhi_epi16(x, y));
    return _mm256_adds_epi16(_mm256_packs_epi32(low, high), line->offset);
}

STOW_256 static size_t stow_256_sum(const stow_fast_sum *sum, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const stow_256_line line = {
        .upper = _mm256_set1_epi32(sum->upper),
        .lower = _mm256_set1_epi32(sum->lower),
        .begin = _mm256_set1_epi32(sum->begin),
        .shift = _mm256_set1_epi32(sum->shift),
        .offset = _mm256_set1_epi16(sum->offset),
    };
    const __m256i least = _mm256_set1_epi8(sum->minimum), most = _mm256_set1_epi8(sum->maximum);
    size_t i = 0;
    for (; i + 32 <= size; i += 32) {
        const __m256i first = stow_256_half(&line, a + i, b + i), second = stow_256_half(&line, a + i + 16, b + i + 16);
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(first, second), 0xD8);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_min_epi8(_mm256_max_epi8(bytes, least), most));
    }
    return i;
}

#define STOW_F(name) stow_256_f32_##name
#define STOW_F_TARGET STOW_256
#define STOW_F_VECTOR __m256
#define STOW_F_LANES 8u
#define STOW_F_LOAD(from) _mm256_loadu_ps((const float *)(const void *)(from))
#define STOW_F_STORE(to, value) _mm256_storeu_ps(to, value)
#define STOW_F_SET(value) _mm256_set1_ps(value)
#define STOW_F_ADD(a, b) _mm256_add_ps(a, b)
#define STOW_F_MULTIPLY(a, b) _mm256_mul_ps(a, b)
#define STOW_F_MIN(a, b) _mm256_min_ps(a, b)
#define STOW_F_MAX(a, b) _mm256_max_ps(a, b)
#include "stow_fast_floats.h"

const stow_fast_set stow_fast_avx2_floats = {
    .name = "avx2",
    .lanes = STOW_F_LANES,
    .unit = 1,
    .given = sizeof(float),
    .element = sizeof(float),
    .vectors = 1,
    .bring = stow_256_f32_bring,
    .matrix = stow_256_f32_matrix,
    .depthwise = stow_256_f32_depthwise,
};

const stow_fast_set stow_fast_avx2 = {
    .name = "avx2",
    .lanes = STOW_256_LANES,
    .unit = 2,
    .given = 1,
    .element = 2,
    .bias = 0,
    .vectors = 2,
    .together = 1,
    .bring = stow_256_bring,
    .matrix = stow_256_matrix,
    .depthwise = stow_256_depthwise,
    .add = stow_256_add,
    .sum = stow_256_sum,
    .floats = &stow_fast_avx2_floats,
};
#endif
