/* Sigmoid and tanh of integers, both by one table of the sigmoid: 256 entries of 16 bits, 24 for each step of 1. */
#ifndef STOW_GATE_H
#define STOW_GATE_H

#include "stow_math.h"

static inline int32_t stow_saturate_s16(int32_t value)
{
    return stow_clamp(value, INT16_MIN, INT16_MAX);
}

/* A number of 16 bits in the steps that the functions below take: a third of 2^-12. */
static inline int64_t stow_gate_steps(int32_t value, int32_t multiplier, int32_t shift)
{
    const int64_t round = shift > 0 ? INT64_C(1) << ((uint32_t)(shift - 1) & 31u) : 0;
    return ((int64_t)value * multiplier + round) >> ((uint32_t)shift & 31u);
}

/* Sigmoid in Q0.15: what remains of a step below the table's entries is interpolated. */
static inline int32_t stow_sigmoid_s16(const uint16_t *table, int64_t steps)
{
    const uint64_t size = (uint64_t)(steps < 0 ? -steps : steps), index = size >> 9;
    uint32_t result = UINT32_C(0x7fff) << 10;
    if (index < 255) {
        const uint32_t low = table[index], high = table[index + 1];
        result = (low << 9) + (uint32_t)(size & 0x1ffu) * (high - low);
    }
    result = steps >= 0 ? result + (1u << 9) : (1u << 25) - result + (1u << 9) - 1u;
    return stow_saturate_s16((int32_t)(result >> 10));
}

/* Tanh in Q0.15: tanh(x) = 2 * sigmoid(2 * x) - 1. */
static inline int32_t stow_tanh_s16(const uint16_t *table, int64_t steps)
{
    const uint64_t size = (uint64_t)(steps < 0 ? -steps : steps), index = size >> 8;
    int64_t result = INT64_C(0xffff) << 8;
    if (index < 255) {
        const int64_t low = table[index], high = table[index + 1];
        result = (low << 8) + (int64_t)(size & 0xffu) * (high - low);
    }
    result = steps >= 0 ? result - (1 << 23) + (1 << 7) : -result + (1 << 23) + (1 << 7) - 1;
    return stow_saturate_s16((int32_t)(result >> 8));
}

#endif
