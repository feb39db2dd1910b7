/* The host's inner loops for AVX-512 with VNNI: sixteen sums at once, four products of bytes in each.
 *
 * The instruction multiplies unsigned bytes by signed ones: elements of lines have their sign bit flipped, so are larger
 * by 128, and sums begin with what takes that back.
 */
#include "stow_fast.h"

#if STOW_WITH_X86
#include <immintrin.h>

#define STOW_512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define STOW_512_INLINE STOW_512 static inline __attribute__((always_inline))
#define STOW_512_LANES 16u

STOW_512_INLINE __m512i stow_512_load(const void *from)
{
    return _mm512_loadu_si512(from);
}

/* Four bytes in each lane. */
STOW_512_INLINE __m512i stow_512_spread(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

/* sums + the products of unsigned and signed bytes. What _mm512_dpbusd_epi32 is, but gcc 12 copies every sum of a loop
 * twice around that. */
STOW_512_INLINE __m512i stow_512_products(__m512i sums, __m512i bytes, __m512i weights)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(bytes), "v"(weights));
    return sums;
}

/* h / 2^right, rounded to nearest, halves away from zero; see stow_rounding_shift_31. */
STOW_512_INLINE __m512i stow_512_round(__m512i h, __m512i right, __m512i mask, __m512i half)
{
    const __m512i rest = _mm512_and_si512(h, mask);
    const __m512i limit = _mm512_sub_epi32(half, _mm512_srai_epi32(h, 31));
    const __m512i shifted = _mm512_srav_epi32(h, right);
    return _mm512_mask_add_epi32(shifted, _mm512_cmpgt_epi32_mask(rest, limit), shifted, _mm512_set1_epi32(1));
}

/* The upper half of twice the product, rounded; see stow_high_product. */
STOW_512_INLINE __m512i stow_512_high_product(__m512i a, __m512i b)
{
    const __m512i half = _mm512_set1_epi64(INT64_C(1) << 30);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(a, b), half);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)), half);
    return _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
}

STOW_512_INLINE __m512i stow_512_clamp(__m512i value, int32_t zero_point, int32_t minimum, int32_t maximum)
{
    const __m512i moved = _mm512_add_epi32(value, _mm512_set1_epi32(zero_point));
    return _mm512_min_epi32(_mm512_max_epi32(moved, _mm512_set1_epi32(minimum)), _mm512_set1_epi32(maximum));
}

/* How sixteen sums become outputs, in registers: outputs are bytes, and storing one could change anything in memory. */
typedef struct stow_512_rule {
    __m512i multiplier, left, right, mask, half;
    int32_t zero_point, lowest, highest;
} stow_512_rule;

STOW_512_INLINE stow_512_rule stow_512_rule_of(const stow_fast_filter *filter, const int32_t *words)
{
    const stow_512_rule rule = {
        .multiplier = stow_512_load(words + STOW_FAST_MULTIPLIER * STOW_512_LANES),
        .left = stow_512_load(words + STOW_FAST_LEFT * STOW_512_LANES),
        .right = stow_512_load(words + STOW_FAST_RIGHT * STOW_512_LANES),
        .mask = stow_512_load(words + STOW_FAST_MASK * STOW_512_LANES),
        .half = stow_512_load(words + STOW_FAST_HALF * STOW_512_LANES),
        .zero_point = filter->zero_point,
        .lowest = filter->minimum,
        .highest = filter->maximum,
    };
    return rule;
}

/* An easy sum as an output; see stow_fast_rounding. */
STOW_512_INLINE __m512i stow_512_easy(stow_512_rule rule, __m512i sum, const int ease)
{
    const __m512i x = ease == STOW_FAST_EASIEST ? sum : _mm512_slli_epi32(sum, 1);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, rule.multiplier), rule.mask);
    const __m512i odd_product = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(rule.multiplier, 32));
    const __m512i odd = _mm512_add_epi64(odd_product, rule.half);
    const __m512i high = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    const __m512i moved = ease == STOW_FAST_EASIEST ? high : _mm512_add_epi32(high, _mm512_srai_epi32(sum, 31));
    return _mm512_srav_epi32(moved, rule.right);
}

/* Outputs, still as 32 bits each; where they are easy, whoever packs them saturates them. */
STOW_512_INLINE __m512i stow_512_output(stow_512_rule rule, __m512i sum, const int ease)
{
    if (ease != STOW_FAST_HARD) {
        return stow_512_easy(rule, sum, ease);
    }
    const __m512i high = stow_512_high_product(_mm512_sllv_epi32(sum, rule.left), rule.multiplier);
    const __m512i value = stow_512_round(high, rule.right, rule.mask, rule.half);
    return stow_512_clamp(value, rule.zero_point, rule.lowest, rule.highest);
}

/* Sixteen outputs as bytes. */
STOW_512_INLINE __m128i stow_512_bytes(__m512i value, int32_t minimum)
{
    return _mm_max_epi8(_mm512_cvtsepi32_epi8(value), _mm_set1_epi8((int8_t)minimum));
}

/* Four times sixteen, of which each register gives four bytes to each 128 bits. */
STOW_512_INLINE __m512i stow_512_mixed(const __m512i *values, int32_t minimum)
{
    const __m512i first = _mm512_packs_epi32(values[0], values[1]), second = _mm512_packs_epi32(values[2], values[3]);
    return _mm512_max_epi8(_mm512_packs_epi16(first, second), _mm512_set1_epi8((int8_t)minimum));
}

/* The same, one after another. */
STOW_512_INLINE __m512i stow_512_in_turn(const __m512i *values, int32_t minimum)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, stow_512_mixed(values, minimum));
}

STOW_512 static void stow_512_bring(uint8_t *to, const int8_t *from, size_t size, size_t count, size_t from_step)
{
    const __m512i sign = _mm512_set1_epi8(-128);
    const __mmask64 rest = (UINT64_C(1) << (size & 63)) - 1u;
    for (size_t i = 0; i < count; i++, from += from_step, to += size) {
        size_t done = 0;
        for (; done + 64 <= size; done += 64) {
            _mm512_storeu_si512(to + done, _mm512_xor_si512(stow_512_load(from + done), sign));
        }
        if (rest != 0) {
            const __m512i bytes = _mm512_maskz_loadu_epi8(rest, from + done);
            _mm512_mask_storeu_epi8(to + done, rest, _mm512_xor_si512(bytes, sign));
        }
    }
}

STOW_512_INLINE __m512i stow_512_any_output(const stow_fast_filter *filter, const int32_t *words, __m512i sum)
{
    const stow_512_rule rule = stow_512_rule_of(filter, words);
    switch (filter->ease) {
    case STOW_FAST_EASIEST: return stow_512_output(rule, sum, STOW_FAST_EASIEST);
    case STOW_FAST_EASY: return stow_512_output(rule, sum, STOW_FAST_EASY);
    default: return stow_512_output(rule, sum, STOW_FAST_HARD);
    }
}

/* The first `left` of sixteen bytes. Masked stores are slow on some processors: only where it must be. */
STOW_512_INLINE void stow_512_store(int8_t *out, size_t left, __m128i bytes)
{
    if (left >= 16) {
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
    } else {
        _mm_mask_storeu_epi8(out, (__mmask16)((1u << left) - 1u), bytes);
    }
}

/* Four times sixteen outputs, of as many of `groups` groups as there are, and then of the next vector. */
STOW_512_INLINE void stow_512_store_four(int8_t *out, size_t out_step, const size_t groups, __m512i bytes)
{
    if (groups == 4) {
        _mm512_storeu_si512(out, bytes);
    } else if (groups == 2) {
        _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(bytes));
        _mm256_storeu_si256((__m256i *)(void *)(out + out_step), _mm512_extracti64x4_epi64(bytes, 1));
    } else if (out_step == STOW_512_LANES) {
        _mm512_storeu_si512(out, bytes);
    } else {
        _mm_storeu_si128((__m128i *)(void *)out, _mm512_castsi512_si128(bytes));
        _mm_storeu_si128((__m128i *)(void *)(out + out_step), _mm512_extracti32x4_epi32(bytes, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * out_step), _mm512_extracti32x4_epi32(bytes, 2));
        _mm_storeu_si128((__m128i *)(void *)(out + 3 * out_step), _mm512_extracti32x4_epi32(bytes, 3));
    }
}

/* Outputs in their registers to where they lie: four registers at a time where that can be. */
STOW_512_INLINE void stow_512_put(int8_t *out, size_t out_step, size_t left, int32_t minimum, const size_t groups,
                                  const size_t pixels, __m512i values[8][16])
{
    const size_t wide = groups < 4 ? groups : 4, together = 4 / wide;
    if (pixels % together == 0 && left >= groups * STOW_512_LANES) {
#pragma GCC unroll 16
        for (size_t p = 0; p < pixels; p += together) {
#pragma GCC unroll 2
            for (size_t g = 0; g < groups; g += wide) {
                __m512i four[4];
#pragma GCC unroll 4
                for (size_t i = 0; i < 4; i++) {
                    four[i] = values[g + i % wide][p + i / wide];
                }
                int8_t *to = out + p * out_step + g * STOW_512_LANES;
                stow_512_store_four(to, out_step, wide, stow_512_in_turn(four, minimum));
            }
        }
        return;
    }
#pragma GCC unroll 8
    for (size_t g = 0; g < groups; g++) {
#pragma GCC unroll 16
        for (size_t p = 0; p < pixels; p++) {
            int8_t *to = out + p * out_step + g * STOW_512_LANES;
            stow_512_store(to, left - g * STOW_512_LANES, stow_512_bytes(values[g][p], minimum));
        }
    }
}

/* Sums of some groups of outputs of `pixels` vectors, to where the outputs lie. */
STOW_512_INLINE void stow_512_finish(const stow_fast_matrix *op, size_t group, size_t pixel, const size_t groups,
                                     const size_t pixels, __m512i sums[8][16], const int ease, const size_t rules_step)
{
    const stow_fast_filter *filter = op->filter;
    const size_t first = group * STOW_512_LANES;
#pragma GCC unroll 8
    for (size_t g = 0; g < groups; g++) {
        const stow_512_rule rule =
            stow_512_rule_of(filter, filter->rules + (group + g) * rules_step);
#pragma GCC unroll 16
        for (size_t p = 0; p < pixels; p++) {
            sums[g][p] = stow_512_output(rule, sums[g][p], ease);
        }
    }
    stow_512_put(op->out + pixel * op->out_step + first, op->out_step, filter->outputs - first, filter->minimum, groups,
                 pixels, sums);
}

/* Add the products of the kernel's rows to the sums of some groups of outputs of `pixels` vectors. */
STOW_512_INLINE void stow_512_multiply(const stow_fast_matrix *op, const uint8_t *w, size_t pixel, const size_t groups,
                                       const size_t pixels, __m512i sums[8][16], const size_t together)
{
    const size_t group_bytes = together == 1 ? op->filter->group_bytes : 64, unit_bytes = 64 * together;
    const size_t step = op->x_step, units = op->filter->units;
    for (size_t row = op->first; row < op->last; row++) {
        const uint8_t *fours[4]; /* of each four vectors the first */
#pragma GCC unroll 4
        for (size_t i = 0; i < (pixels + 3) / 4; i++) {
            fours[i] = op->lines[row] + (pixel + 4 * i) * step;
            __asm__("" : "+r"(fours[i])); /* gcc would rather keep sixteen distances, in more registers than there are */
        }
        for (size_t unit = 0; unit < units; unit++, w += unit_bytes) {
            __m512i weights[8];
#pragma GCC unroll 8
            for (size_t g = 0; g < groups; g++) {
                weights[g] = stow_512_load(w + g * group_bytes);
            }
#pragma GCC unroll 16
            for (size_t p = 0; p < pixels; p++) {
                const __m512i spread = stow_512_spread(fours[p / 4] + p % 4 * step);
#pragma GCC unroll 8
                for (size_t g = 0; g < groups; g++) {
                    sums[g][p] = stow_512_products(sums[g][p], spread, weights[g]);
                }
            }
#pragma GCC unroll 4
            for (size_t i = 0; i < (pixels + 3) / 4; i++) {
                fours[i] += 4;
            }
        }
    }
}

/* Sums of groups [group, group + groups) of outputs of `pixels` vectors; both are constants wherever this is called, so
 * that all sums are in registers. */
STOW_512_INLINE void stow_512_sums(const stow_fast_matrix *op, size_t group, size_t pixel, const size_t groups,
                                   const size_t pixels, __m512i sums[8][16])
{
    const stow_fast_filter *filter = op->filter;
    const int32_t *biases = filter->biases + group * STOW_512_LANES;
    /* What lies so is for one vector, whose groups come in eights. */
    const size_t together = groups == 8 ? filter->together : 1;
    const uint8_t *w = filter->weights + group * filter->group_bytes + op->first * filter->units * together * 64;
#pragma GCC unroll 8
    for (size_t g = 0; g < groups; g++) {
#pragma GCC unroll 16
        for (size_t p = 0; p < pixels; p++) {
            sums[g][p] = stow_512_load(biases + g * STOW_512_LANES);
        }
    }
    stow_512_multiply(op, w, pixel, groups, pixels, sums, together);
}

/* The outputs of these groups. */
STOW_512_INLINE void stow_512_block(const stow_fast_matrix *op, size_t group, size_t pixel, const size_t groups,
                                    const size_t pixels)
{
    const size_t rules_step = op->filter->rules_step;
    __m512i sums[8][16];
    stow_512_sums(op, group, pixel, groups, pixels, sums);
    switch (op->filter->ease) {
    case STOW_FAST_EASIEST: stow_512_finish(op, group, pixel, groups, pixels, sums, STOW_FAST_EASIEST, rules_step); break;
    case STOW_FAST_EASY: stow_512_finish(op, group, pixel, groups, pixels, sums, STOW_FAST_EASY, rules_step); break;
    default: stow_512_finish(op, group, pixel, groups, pixels, sums, STOW_FAST_HARD, rules_step); break;
    }
}

/* All pixels for some groups: their weights then stay in the nearest cache. Sixteen sums at a time, that what follows
 * them is done for many at once, then fewer. */
#define STOW_512_COLUMN(groups, most)                                                                                  \
    STOW_512 static void stow_512_column_##groups(const stow_fast_matrix *op, size_t group)                            \
    {                                                                                                                  \
        size_t pixel = 0;                                                                                              \
        for (; pixel + (most) <= op->pixels; pixel += (most)) {                                                        \
            stow_512_block(op, group, pixel, groups, most);                                                            \
        }                                                                                                              \
        for (; (most) > 4 && pixel + 4 <= op->pixels; pixel += 4) {                                                    \
            stow_512_block(op, group, pixel, groups, (most) < 4 ? 1 : 4);                                              \
        }                                                                                                              \
        for (; (most) > 2 && pixel + 2 <= op->pixels; pixel += 2) {                                                    \
            stow_512_block(op, group, pixel, groups, (most) < 2 ? 1 : 2);                                              \
        }                                                                                                              \
        for (; pixel < op->pixels; pixel++) {                                                                          \
            stow_512_block(op, group, pixel, groups, 1);                                                               \
        }                                                                                                              \
    }

STOW_512_COLUMN(1, 16)
STOW_512_COLUMN(2, 8)
STOW_512_COLUMN(4, 4)
STOW_512_COLUMN(8, 1)

/* One vector, all of whose outputs have one easy rule: as many groups as there are in eights. Weights come straight from
 * a cache further away, so that what lies between two blocks counts; returns the groups that are done. */
STOW_512_INLINE size_t stow_512_eights(const stow_fast_matrix *op, size_t groups, const int ease)
{
    size_t group = 0;
    for (; group + 8 <= groups; group += 8) {
        __m512i sums[8][16];
        stow_512_sums(op, group, 0, 8, 1, sums);
        stow_512_finish(op, group, 0, 8, 1, sums, ease, 0);
    }
    return group;
}

STOW_512 static size_t stow_512_easiest_eights(const stow_fast_matrix *op, size_t groups)
{
    return stow_512_eights(op, groups, STOW_FAST_EASIEST);
}

STOW_512 static size_t stow_512_easy_eights(const stow_fast_matrix *op, size_t groups)
{
    return stow_512_eights(op, groups, STOW_FAST_EASY);
}

static void stow_512_matrix(const stow_fast_matrix *op)
{
    const size_t groups = (op->filter->outputs + STOW_512_LANES - 1) / STOW_512_LANES;
    size_t group = 0;
    if (op->pixels == 1 && op->filter->rules_step == 0 && op->filter->ease != STOW_FAST_HARD) {
        group = (op->filter->ease == STOW_FAST_EASIEST ? stow_512_easiest_eights : stow_512_easy_eights)(op, groups);
    }
    for (; op->pixels == 1 && group + 8 <= groups; group += 8) {
        stow_512_column_8(op, group);
    }
    for (; group + 4 <= groups; group += 4) {
        stow_512_column_4(op, group);
    }
    for (; group + 2 <= groups; group += 2) {
        stow_512_column_2(op, group);
    }
    for (; group < groups; group++) {
        stow_512_column_1(op, group);
    }
}

/* Four taps of 64 channels, interleaved so that each lane has the four bytes of one channel. */
STOW_512_INLINE void stow_512_taps(__m512i *sums, const uint8_t *const *lines, size_t at, const uint8_t *w)
{
    const __m512i a = stow_512_load(lines[0] + at), b = stow_512_load(lines[1] + at);
    const __m512i c = stow_512_load(lines[2] + at), d = stow_512_load(lines[3] + at);
    const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    sums[0] = stow_512_products(sums[0], _mm512_unpacklo_epi16(ab_low, cd_low), stow_512_load(w));
    sums[1] = stow_512_products(sums[1], _mm512_unpackhi_epi16(ab_low, cd_low), stow_512_load(w + 64));
    sums[2] = stow_512_products(sums[2], _mm512_unpacklo_epi16(ab_high, cd_high), stow_512_load(w + 128));
    sums[3] = stow_512_products(sums[3], _mm512_unpackhi_epi16(ab_high, cd_high), stow_512_load(w + 192));
}

STOW_512 static void stow_512_depthwise(const stow_fast_filter *filter, const uint8_t *const *lines, int8_t *out,
                                        size_t size)
{
    const size_t rules_step = filter->rules_step;
    size_t chunk = 0;
    for (size_t at = 0; at < size; at += 64, chunk = chunk + 1 == filter->chunks ? 0 : chunk + 1) {
        const uint8_t *w = filter->weights + chunk * filter->group_bytes;
        const int32_t *biases = filter->biases + chunk * 4 * STOW_512_LANES;
        const int32_t *rules = filter->rules + chunk * 4 * rules_step;
        __m512i sums[4];
#pragma GCC unroll 4
        for (size_t v = 0; v < 4; v++) {
            sums[v] = stow_512_load(biases + v * STOW_512_LANES);
        }
        for (size_t unit = 0; unit < filter->units; unit++, w += 256) {
            stow_512_taps(sums, lines + 4 * unit, at, w);
        }
#pragma GCC unroll 4
        for (size_t v = 0; v < 4; v++) {
            sums[v] = stow_512_any_output(filter, rules + v * rules_step, sums[v]);
        }
        /* Within 128 bits, packing puts back in order what interleaving took out of it. */
        const __m512i bytes = stow_512_mixed(sums, filter->minimum);
        if (size - at >= 64) {
            _mm512_storeu_si512(out + at, bytes);
        } else {
            _mm512_mask_storeu_epi8(out + at, (UINT64_C(1) << (size - at)) - 1u, bytes);
        }
    }
}

/* A number scaled by a multiplier and a shift; see stow_scale. */
STOW_512_INLINE __m512i stow_512_scaled(__m512i value, int32_t multiplier, int32_t shift)
{
    const uint32_t left = shift > 0 ? (uint32_t)shift & 31u : 0u, right = shift > 0 ? 0u : (0u - (uint32_t)shift) & 31u;
    const uint32_t mask = (UINT32_C(1) << right) - 1u;
    const __m512i wide = _mm512_sllv_epi32(value, _mm512_set1_epi32((int32_t)left));
    const __m512i high = stow_512_high_product(wide, _mm512_set1_epi32(multiplier));
    return stow_512_round(high, _mm512_set1_epi32((int32_t)right), _mm512_set1_epi32(stow_wrap(mask)),
                          _mm512_set1_epi32(stow_wrap(mask >> 1)));
}

/* The sum of two operands less their zero points, as outputs. */
STOW_512_INLINE __m512i stow_512_added(const int32_t *params, __m512i x, __m512i y)
{
    const __m512i a = stow_512_scaled(_mm512_slli_epi32(x, 20), params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT]);
    const __m512i b = stow_512_scaled(_mm512_slli_epi32(y, 20), params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT]);
    const __m512i sum = stow_512_scaled(_mm512_add_epi32(a, b), params[STOW_ADD_S8_OUTPUT_MULTIPLIER],
                                         params[STOW_ADD_S8_OUTPUT_SHIFT]);
    return stow_512_clamp(sum, params[STOW_ADD_S8_OUTPUT_ZERO_POINT], params[STOW_ADD_S8_ACT_MIN],
                           params[STOW_ADD_S8_ACT_MAX]);
}

STOW_512_INLINE __m128i stow_512_add_bytes(const int32_t *params, __m128i a, __m128i b)
{
    const __m512i x = _mm512_sub_epi32(_mm512_cvtepi8_epi32(a), _mm512_set1_epi32(params[STOW_ADD_S8_A_ZERO_POINT]));
    const __m512i y = _mm512_sub_epi32(_mm512_cvtepi8_epi32(b), _mm512_set1_epi32(params[STOW_ADD_S8_B_ZERO_POINT]));
    return _mm512_cvtsepi32_epi8(stow_512_added(params, x, y));
}

STOW_512 static void stow_512_add(const int32_t *given, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    int32_t params[STOW_ADD_S8_PARAMS]; /* a copy, which no output can change */
    memcpy(params, given, sizeof params);
    for (size_t i = 0; i < size; i += 16) {
        const size_t left = size - i;
        const __mmask16 kept = left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1u);
        const __m128i x = _mm_maskz_loadu_epi8(kept, a + i), y = _mm_maskz_loadu_epi8(kept, b + i);
        stow_512_store(out + i, left, stow_512_add_bytes(params, x, y));
    }
}

/* What a sum is made of, in registers. */
typedef struct stow_512_line {
    __m512i upper, lower, begin, shift, offset;
} stow_512_line;

/* Sums of sixteen pairs, not yet moved by the offset. */
STOW_512_INLINE __m512i stow_512_pairs(const stow_512_line *line, __m512i pairs)
{
    const __m512i low = _mm512_srai_epi32(_mm512_dpwssd_epi32(line->begin, pairs, line->lower), 15);
    return _mm512_srav_epi32(_mm512_dpwssd_epi32(low, pairs, line->upper), line->shift);
}

/* Sums of 32 elements of each operand, as 16 bits. Within 128 bits, packing puts back in order what interleaving took
 * out of it. */
STOW_512_INLINE __m512i stow_512_half(const stow_512_line *line, const int8_t *a, const int8_t *b)
{
    const __m512i x = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)a));
    const __m512i y = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)b));
    const __m512i low = stow_512_pairs(line, _mm512_unpacklo_epi16(x, y));
    const __m512i high = stow_512_pairs(line, _mm512_unpackhi_epi16(x, y));
    return _mm512_adds_epi16(_mm512_packs_epi32(low, high), line->offset);
}

STOW_512 static size_t stow_512_sum(const stow_fast_sum *sum, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const stow_512_line line = {
        .upper = _mm512_set1_epi32(sum->upper),
        .lower = _mm512_set1_epi32(sum->lower),
        .begin = _mm512_set1_epi32(sum->begin),
        .shift = _mm512_set1_epi32(sum->shift),
        .offset = _mm512_set1_epi16(sum->offset),
    };
    const __m512i least = _mm512_set1_epi8(sum->minimum), most = _mm512_set1_epi8(sum->maximum);
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    size_t i = 0;
    for (; i + 64 <= size; i += 64) {
        const __m512i first = stow_512_half(&line, a + i, b + i), second = stow_512_half(&line, a + i + 32, b + i + 32);
        const __m512i bytes = _mm512_permutexvar_epi64(order, _mm512_packs_epi16(first, second));
        _mm512_storeu_si512(out + i, _mm512_min_epi8(_mm512_max_epi8(bytes, least), most));
    }
    return i;
}

#define STOW_F(name) stow_512_f32_##name
#define STOW_F_TARGET STOW_512
#define STOW_F_VECTOR __m512
#define STOW_F_LANES 16u
#define STOW_F_LOAD(from) _mm512_loadu_ps((const float *)(const void *)(from))
#define STOW_F_STORE(to, value) _mm512_storeu_ps(to, value)
#define STOW_F_SET(value) _mm512_set1_ps(value)
#define STOW_F_ADD(a, b) _mm512_add_ps(a, b)
#define STOW_F_MULTIPLY(a, b) _mm512_mul_ps(a, b)
#define STOW_F_MIN(a, b) _mm512_min_ps(a, b)
#define STOW_F_MAX(a, b) _mm512_max_ps(a, b)
#include "stow_fast_floats.h"

const stow_fast_set stow_fast_avx512_floats = {
    .name = "avx512",
    .lanes = STOW_F_LANES,
    .unit = 1,
    .given = sizeof(float),
    .element = sizeof(float),
    .vectors = 1,
    .bring = stow_512_f32_bring,
    .matrix = stow_512_f32_matrix,
    .depthwise = stow_512_f32_depthwise,
};

const stow_fast_set stow_fast_avx512 = {
    .name = "avx512",
    .lanes = STOW_512_LANES,
    .unit = 4,
    .given = 1,
    .element = 1,
    .bias = 128,
    .vectors = 4,
    .together = 8,
    .bring = stow_512_bring,
    .matrix = stow_512_matrix,
    .depthwise = stow_512_depthwise,
    .add = stow_512_add,
    .sum = stow_512_sum,
    .floats = &stow_fast_avx512_floats,
};
#endif
