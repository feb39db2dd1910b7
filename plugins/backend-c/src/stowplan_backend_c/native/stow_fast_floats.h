/* Inner loops for float32, written once for registers of any width; who includes this says with STOW_F_... which.
 *
 * Each output's products are added one by one, in the order of the portable kernels, product and sum each rounded: a
 * register holds sums of as many outputs as it has lanes, and the bits are the same.
 */

#define STOW_F_INLINE STOW_F_TARGET static inline __attribute__((always_inline))

STOW_F_TARGET static void STOW_F(bring)(uint8_t *to, const int8_t *from, size_t size, size_t count, size_t from_step)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * size * sizeof(float), from + i * from_step * sizeof(float), size * sizeof(float));
    }
}

/* Outputs from sums: the operands' order lets a number that is none pass, as comparisons do. */
STOW_F_INLINE STOW_F_VECTOR STOW_F(output)(STOW_F_VECTOR sum, STOW_F_VECTOR bias, STOW_F_VECTOR least, STOW_F_VECTOR most)
{
    return STOW_F_MIN(most, STOW_F_MAX(least, STOW_F_ADD(sum, bias)));
}

STOW_F_INLINE void STOW_F(store)(float *out, size_t left, STOW_F_VECTOR value)
{
    if (left >= STOW_F_LANES) {
        STOW_F_STORE(out, value);
        return;
    }
    float all[STOW_F_LANES];
    STOW_F_STORE(all, value);
    memcpy(out, all, left * sizeof(float));
}

/* Groups [group, group + groups) of outputs of `pixels` vectors; both are constants wherever this is called. */
STOW_F_INLINE void STOW_F(block)(const stow_fast_matrix *op, size_t group, size_t pixel, const size_t groups,
                                 const size_t pixels)
{
    const stow_fast_filter *filter = op->filter;
    const size_t row_bytes = filter->units * STOW_F_LANES * sizeof(float);
    const uint8_t *w = filter->weights + group * filter->group_bytes + op->first * row_bytes;
    const size_t step = op->x_step, group_bytes = filter->group_bytes, outputs = filter->outputs;
    const STOW_F_VECTOR least = STOW_F_SET(filter->least), most = STOW_F_SET(filter->most);
    STOW_F_VECTOR sums[4][8];
#pragma GCC unroll 8
    for (size_t g = 0; g < groups; g++) {
#pragma GCC unroll 8
        for (size_t p = 0; p < pixels; p++) {
            sums[g][p] = STOW_F_SET(0.0f);
        }
    }
    for (size_t row = op->first; row < op->last; row++) {
        const uint8_t *x = op->lines[row] + pixel * step;
        for (size_t unit = 0; unit < filter->units; unit++, x += sizeof(float), w += STOW_F_LANES * sizeof(float)) {
            STOW_F_VECTOR weights[4];
#pragma GCC unroll 8
            for (size_t g = 0; g < groups; g++) {
                weights[g] = STOW_F_LOAD(w + g * group_bytes);
            }
#pragma GCC unroll 8
            for (size_t p = 0; p < pixels; p++) {
                float one;
                memcpy(&one, x + p * step, sizeof one);
                const STOW_F_VECTOR spread = STOW_F_SET(one);
#pragma GCC unroll 8
                for (size_t g = 0; g < groups; g++) {
                    sums[g][p] = STOW_F_ADD(sums[g][p], STOW_F_MULTIPLY(spread, weights[g]));
                }
            }
        }
    }
#pragma GCC unroll 8
    for (size_t g = 0; g < groups; g++) {
        const size_t first = (group + g) * STOW_F_LANES;
        const STOW_F_VECTOR bias = STOW_F_LOAD(filter->biases + first);
#pragma GCC unroll 8
        for (size_t p = 0; p < pixels; p++) {
            float *out = (float *)(void *)(op->out + (pixel + p) * op->out_step) + first;
            STOW_F(store)(out, outputs - first, STOW_F(output)(sums[g][p], bias, least, most));
        }
    }
}

/* All pixels for some groups. */
STOW_F_TARGET static void STOW_F(one)(const stow_fast_matrix *op, size_t group)
{
    size_t pixel = 0;
    for (; pixel + 8 <= op->pixels; pixel += 8) {
        STOW_F(block)(op, group, pixel, 1, 8);
    }
    for (; pixel < op->pixels; pixel++) {
        STOW_F(block)(op, group, pixel, 1, 1);
    }
}

STOW_F_TARGET static void STOW_F(two)(const stow_fast_matrix *op, size_t group)
{
    size_t pixel = 0;
    for (; pixel + 4 <= op->pixels; pixel += 4) {
        STOW_F(block)(op, group, pixel, 2, 4);
    }
    for (; pixel < op->pixels; pixel++) {
        STOW_F(block)(op, group, pixel, 2, 1);
    }
}

STOW_F_TARGET static void STOW_F(four)(const stow_fast_matrix *op, size_t group)
{
    for (size_t pixel = 0; pixel < op->pixels; pixel++) {
        STOW_F(block)(op, group, pixel, 4, 1);
    }
}

static void STOW_F(matrix)(const stow_fast_matrix *op)
{
    const size_t groups = (op->filter->outputs + STOW_F_LANES - 1) / STOW_F_LANES;
    size_t group = 0;
    for (; op->pixels < 4 && group + 4 <= groups; group += 4) {
        STOW_F(four)(op, group);
    }
    for (; group + 2 <= groups; group += 2) {
        STOW_F(two)(op, group);
    }
    for (; group < groups; group++) {
        STOW_F(one)(op, group);
    }
}

STOW_F_TARGET static void STOW_F(depthwise)(const stow_fast_filter *filter, const uint8_t *const *lines, int8_t *out,
                                            size_t size)
{
    const STOW_F_VECTOR least = STOW_F_SET(filter->least), most = STOW_F_SET(filter->most);
    const size_t chunks = filter->chunks, units = filter->units, group_bytes = filter->group_bytes;
    size_t chunk = 0;
    for (size_t at = 0; at < size; at += STOW_F_LANES, chunk = chunk + 1 == chunks ? 0 : chunk + 1) {
        const uint8_t *w = filter->weights + chunk * group_bytes;
        STOW_F_VECTOR sum = STOW_F_SET(0.0f);
        for (size_t unit = 0; unit < units; unit++, w += STOW_F_LANES * sizeof(float)) {
            const STOW_F_VECTOR x = STOW_F_LOAD(lines[unit] + at * sizeof(float));
            sum = STOW_F_ADD(sum, STOW_F_MULTIPLY(x, STOW_F_LOAD(w)));
        }
        const STOW_F_VECTOR bias = STOW_F_LOAD(filter->biases + chunk * STOW_F_LANES);
        STOW_F(store)((float *)(void *)out + at, size - at, STOW_F(output)(sum, bias, least, most));
    }
}
