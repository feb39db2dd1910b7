/* What convolutions and fully connected operators share: their constants, and how a sum becomes an output. */
#ifndef STOW_FILTER_H
#define STOW_FILTER_H

#include "stow_kernels.h"
#include "stow_math.h"

/* Outputs that are summed at once: each input element is then loaded once for all of them. */
#define STOW_LANES 4

/* The parameters from `output_zero_point` on, see _FILTER_S8 in planfile/kinds.py. */
typedef struct stow_filter_s8 {
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multiplier;
    const int32_t *shift;
    size_t step; /* 1 when multiplier and shift have one entry per output channel, else 0 */
    size_t weights_step;
    int bounded;
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
    STOW_FILTER_SHIFT,
    STOW_FILTER_WEIGHTS_STEP,
    STOW_FILTER_BOUNDED
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
    filter->weights_step = (size_t)params[STOW_FILTER_WEIGHTS_STEP];
    filter->bounded = params[STOW_FILTER_BOUNDED] != 0;
    filter->zero_point = params[STOW_FILTER_ZERO_POINT];
    filter->minimum = params[STOW_FILTER_MINIMUM];
    filter->maximum = params[STOW_FILTER_MAXIMUM];
}

/* `runs` runs of weights, each of `depth` elements, begin weights_step apart: one for each output channel of a matrix,
 * one for each tap of a depthwise convolution. */
static inline int stow_is_filter_s8(const stow_facts *facts, uint32_t first, int64_t runs, int64_t depth, int64_t outputs)
{
    const int32_t *params = facts->params + first;
    const int64_t words = (int64_t)stow_constant_bytes(facts, params[STOW_FILTER_MULTIPLIER]);
    const int64_t step = params[STOW_FILTER_WEIGHTS_STEP];
    return stow_is_range_s8(params + STOW_FILTER_MINIMUM) && depth > 0 && step >= depth &&
           stow_has_bytes(facts, params[STOW_FILTER_WEIGHTS], stow_size(runs, step)) &&
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
