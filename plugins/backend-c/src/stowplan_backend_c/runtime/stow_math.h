/* Arithmetic that kernels share: fixed point as TFLite Micro defines it, and what of libm they need.
 *
 * Every function is defined for all arguments, so that a hostile plan can only make results wrong: sums wrap through
 * unsigned, shifts are masked, floats are limited before they become integers. Right shifts of negative numbers and
 * conversions to int32_t are implementation-defined in C11; here they are arithmetic and wrap, as on every compiler
 * that matters.
 */
#ifndef STOW_MATH_H
#define STOW_MATH_H

#include <stdint.h>
#include <string.h>

static inline int32_t stow_wrap(uint32_t value)
{
    return (int32_t)value;
}

static inline int32_t stow_wrap_add(int32_t a, int32_t b)
{
    return stow_wrap((uint32_t)a + (uint32_t)b);
}

static inline int32_t stow_wrap_subtract(int32_t a, int32_t b)
{
    return stow_wrap((uint32_t)a - (uint32_t)b);
}

static inline int32_t stow_shift_left(int32_t value, uint32_t bits)
{
    return stow_wrap((uint32_t)value << (bits & 31u));
}

static inline int32_t stow_clamp(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* value / 2^bits, rounded to nearest, halves away from zero; bits <= 62. */
static inline int32_t stow_rounding_shift(int32_t value, uint32_t bits)
{
    const int64_t half = bits == 0 ? 0 : INT64_C(1) << (bits - 1u);
    const int64_t away = bits != 0 && value < 0 ? 1 : 0;
    return (int32_t)(((int64_t)value + half - away) >> bits);
}

/* The upper half of 2 * a * b, rounded: the product of two numbers in Q0.31. */
static inline int32_t stow_high_product(int32_t a, int32_t b)
{
    return stow_wrap((uint32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31));
}

/* The same for bits <= 31, in 32 bits: what counts on processors that have no more. */
static inline int32_t stow_rounding_shift_31(int32_t value, uint32_t bits)
{
    const uint32_t mask = (UINT32_C(1) << bits) - 1u;
    const uint32_t half = (mask >> 1) + (value < 0 ? 1u : 0u);
    return (value >> bits) + (((uint32_t)value & mask) > half ? 1 : 0);
}

/* value * multiplier / 2^31 * 2^shift, rounded twice (after the product and after a right shift). */
static inline int32_t stow_scale(int32_t value, int32_t multiplier, int32_t shift)
{
    if (shift > 0) {
        return stow_high_product(stow_shift_left(value, (uint32_t)shift), multiplier);
    }
    return stow_rounding_shift_31(stow_high_product(value, multiplier), (0u - (uint32_t)shift) & 31u);
}

/* Sums of 64 bits are scaled by the upper 16 bits of the multiplier, and rounded once. */
static inline int32_t stow_scale_wide(int64_t sum, int32_t multiplier, int32_t shift)
{
    const int32_t reduced = multiplier < 0x7fff0000 ? (multiplier + (1 << 15)) >> 16 : 0x7fff;
    const uint32_t bits = (uint32_t)(stow_clamp(shift, -31, 14) * -1 + 15);
    const uint64_t product = (uint64_t)sum * (uint64_t)(int64_t)reduced + (UINT64_C(1) << (bits - 1u));
    return stow_wrap((uint32_t)(uint64_t)((int64_t)product >> bits));
}

static inline float stow_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A parameter word that holds a float32. */
static inline float stow_float(int32_t word)
{
    return stow_float_of_bits((uint32_t)word);
}

static inline int stow_is_finite(float value)
{
    return value - value == 0.0f;
}

static inline float stow_clamp_float(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}

/* exp(x) within 1.5 units in the last place: 2^n times the Taylor polynomial of what remains, |rest| <= ln(2)/2. */
static inline float stow_exp(float x)
{
    const float log2_e = 1.44269504f;
    const float ln2_high = 0.693145751953125f; /* 16 bits, so that n * ln2_high is exact */
    const float ln2_low = 1.42860682e-6f;
    if (x != x) {
        return x;
    }
    if (x > 88.7228394f) {
        return stow_float_of_bits(UINT32_C(0x7f800000));
    }
    if (x < -104.0f) {
        return 0.0f;
    }
    const int32_t n = (int32_t)(x * log2_e + (x < 0.0f ? -0.5f : 0.5f));
    const float rest = (x - (float)n * ln2_high) - (float)n * ln2_low;
    float sum = 1.0f / 5040.0f;
    sum = sum * rest + 1.0f / 720.0f;
    sum = sum * rest + 1.0f / 120.0f;
    sum = sum * rest + 1.0f / 24.0f;
    sum = sum * rest + 1.0f / 6.0f;
    sum = sum * rest + 0.5f;
    sum = (sum * rest) * rest + rest + 1.0f;
    /* In two steps: 2^n alone may be too large or too small for a normal number. */
    const int32_t half = n / 2;
    sum *= stow_float_of_bits((uint32_t)(half + 127) << 23);
    return sum * stow_float_of_bits((uint32_t)(n - half + 127) << 23);
}

#endif
