/* What convolutions and fully connected operators share: sums of products, and how a sum becomes an output. */
#ifndef STOW_FILTER_H
#define STOW_FILTER_H

#include "stow_kernels.h"
#include "stow_math.h"

/* Whether the sums of products may use SSE2; the results are the same either way. */
#ifndef STOW_WITH_SSE2
#ifdef __SSE2__
#define STOW_WITH_SSE2 1
#else
#define STOW_WITH_SSE2 0
#endif
#endif
#if STOW_WITH_SSE2
#include <emmintrin.h>
#endif

/* Outputs that are summed at once: each input element is then loaded once for all of them. */
#define STOW_LANES 4

/* The parameters from `output_zero_point` on, see _FILTER_S8 in planfile/kinds.py. */
typedef struct stow_filter_s8 {
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multiplier;
    const int32_t *shift;
    size_t step; /* 1 when multiplier and shift have one entry per output channel, else 0 */
    int32_t zero_point;
    int32_t minimum;
    int32_t maximum;
} stow_filter_s8;

enum stow_filter_s8_params {
    STOW_FILTER_ZERO_POINT,
    STOW_FILTER_MINIMUM,
    STOW_FILTER_MAXIMUM,
    STOW_FILTER_WEIGHTS,
    STOW_FILTER_BIAS,
    STOW_FILTER_MULTIPLIER,
    STOW_FILTER_SHIFT
};

static inline void stow_read_filter_s8(stow_filter_s8 *filter, const stow_call *call, uint32_t first)
{
    const stow_facts facts = {call->plan, call->node, call->params, call->node->param_count};
    const int32_t *params = call->params + first;
    filter->weights = stow_constant(call, params[STOW_FILTER_WEIGHTS]);
    filter->bias = stow_constant(call, params[STOW_FILTER_BIAS]);
    filter->multiplier = stow_constant(call, params[STOW_FILTER_MULTIPLIER]);
    filter->shift = stow_constant(call, params[STOW_FILTER_SHIFT]);
    filter->step = stow_constant_bytes(&facts, params[STOW_FILTER_SHIFT]) > sizeof(int32_t) ? 1 : 0;
    filter->zero_point = params[STOW_FILTER_ZERO_POINT];
    filter->minimum = params[STOW_FILTER_MINIMUM];
    filter->maximum = params[STOW_FILTER_MAXIMUM];
}

static inline int stow_is_filter_s8(const stow_facts *facts, uint32_t first, int64_t weights, int64_t outputs)
{
    const int32_t *params = facts->params + first;
    const int64_t words = (int64_t)stow_constant_bytes(facts, params[STOW_FILTER_MULTIPLIER]);
    return stow_is_range_s8(params + STOW_FILTER_MINIMUM) &&
           stow_has_bytes(facts, params[STOW_FILTER_WEIGHTS], weights) &&
           (params[STOW_FILTER_BIAS] == -1 || stow_has_bytes(facts, params[STOW_FILTER_BIAS], outputs * 4)) &&
           (words == 4 || words == outputs * 4) && stow_has_bytes(facts, params[STOW_FILTER_SHIFT], words);
}

static inline uint32_t stow_first_sum(const stow_filter_s8 *filter, size_t output)
{
    return filter->bias == NULL ? 0 : (uint32_t)filter->bias[output];
}

static inline int8_t stow_output_s8(const stow_filter_s8 *filter, size_t output, uint32_t sum)
{
    const size_t entry = output * filter->step;
    const int32_t scaled = stow_scale(stow_wrap(sum), filter->multiplier[entry], filter->shift[entry]);
    return (int8_t)stow_clamp(stow_wrap_add(scaled, filter->zero_point), filter->minimum, filter->maximum);
}

#if STOW_WITH_SSE2
/* Eight products of int8, summed in pairs to four of int32: every x86-64 has what this needs. */
static inline __m128i stow_products(__m128i x_low, __m128i x_high, const int8_t *w)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)w);
    const __m128i low = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
    const __m128i high = _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
    return _mm_add_epi32(_mm_madd_epi16(x_low, low), _mm_madd_epi16(x_high, high));
}

static inline uint32_t stow_lane_sum(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(v);
}

/* Add the products of as many whole blocks of 16 as there are to the sums of four outputs; returns how many bytes. */
static inline size_t stow_dot_blocks_s8(uint32_t *sums, const int8_t *x, const int8_t *w, size_t step, size_t size)
{
    const size_t whole = size & ~(size_t)15;
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    for (size_t i = 0; i < whole; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        const __m128i low = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
        const __m128i high = _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
        a = _mm_add_epi32(a, stow_products(low, high, w + i));
        b = _mm_add_epi32(b, stow_products(low, high, w + step + i));
        c = _mm_add_epi32(c, stow_products(low, high, w + 2 * step + i));
        d = _mm_add_epi32(d, stow_products(low, high, w + 3 * step + i));
    }
    if (whole > 0) {
        sums[0] += stow_lane_sum(a);
        sums[1] += stow_lane_sum(b);
        sums[2] += stow_lane_sum(c);
        sums[3] += stow_lane_sum(d);
    }
    return whole;
}
#endif

/* Add x . w to the sums of up to STOW_LANES outputs, whose weights lie `step` apart. */
static inline void stow_dot_s8(uint32_t *sums, size_t lanes, const int8_t *x, const int8_t *w, size_t step, size_t size)
{
    if (lanes == STOW_LANES) {
#if STOW_WITH_SSE2
        const size_t done = stow_dot_blocks_s8(sums, x, w, step, size);
        x += done, w += done, size -= done;
#endif
        uint32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        const int8_t *w1 = w + step, *w2 = w1 + step, *w3 = w2 + step;
        for (size_t i = 0; i < size; i++) {
            const int32_t value = x[i];
            a += (uint32_t)(value * w[i]);
            b += (uint32_t)(value * w1[i]);
            c += (uint32_t)(value * w2[i]);
            d += (uint32_t)(value * w3[i]);
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
        return;
    }
    for (size_t lane = 0; lane < lanes; lane++, w += step) {
        for (size_t i = 0; i < size; i++) {
            sums[lane] += (uint32_t)(x[i] * w[i]);
        }
    }
}

typedef struct stow_filter_f32 {
    const float *weights;
    const float *bias;
    float minimum;
    float maximum;
} stow_filter_f32;

enum stow_filter_f32_params {
    STOW_FILTER_F32_MINIMUM,
    STOW_FILTER_F32_MAXIMUM,
    STOW_FILTER_F32_WEIGHTS,
    STOW_FILTER_F32_BIAS
};

static inline void stow_read_filter_f32(stow_filter_f32 *filter, const stow_call *call, uint32_t first)
{
    const int32_t *params = call->params + first;
    filter->weights = stow_constant(call, params[STOW_FILTER_F32_WEIGHTS]);
    filter->bias = stow_constant(call, params[STOW_FILTER_F32_BIAS]);
    filter->minimum = stow_float(params[STOW_FILTER_F32_MINIMUM]);
    filter->maximum = stow_float(params[STOW_FILTER_F32_MAXIMUM]);
}

static inline int stow_is_filter_f32(const stow_facts *facts, uint32_t first, int64_t weights, int64_t outputs)
{
    const int32_t *params = facts->params + first;
    return stow_has_bytes(facts, params[STOW_FILTER_F32_WEIGHTS], stow_size(weights, 4)) &&
           (params[STOW_FILTER_F32_BIAS] == -1 || stow_has_bytes(facts, params[STOW_FILTER_F32_BIAS], outputs * 4));
}

static inline float stow_output_f32(const stow_filter_f32 *filter, size_t output, float sum)
{
    const float biased = filter->bias == NULL ? sum : sum + filter->bias[output];
    return stow_clamp_float(biased, filter->minimum, filter->maximum);
}

/* As stow_dot_s8. Each output's products are added one by one, in order: however a sum is split into calls, its
 * rounding errors are the same. */
static inline void stow_dot_f32(float *sums, size_t lanes, const float *x, const float *w, size_t step, size_t size)
{
    if (lanes == STOW_LANES) {
        float a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        const float *w1 = w + step, *w2 = w1 + step, *w3 = w2 + step;
        for (size_t i = 0; i < size; i++) {
            const float value = x[i];
            a += value * w[i];
            b += value * w1[i];
            c += value * w2[i];
            d += value * w3[i];
        }
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
        return;
    }
    for (size_t lane = 0; lane < lanes; lane++, w += step) {
        for (size_t i = 0; i < size; i++) {
            sums[lane] += x[i] * w[i];
        }
    }
}

static inline size_t stow_lanes(size_t first, size_t outputs)
{
    return outputs - first < STOW_LANES ? outputs - first : STOW_LANES;
}

#endif
