/* The functions of libm that kernels need, within a few units in the last place of a float. */
#ifndef STOW_FUNCTION_H
#define STOW_FUNCTION_H

#include "stow_math.h"

#define STOW_INFINITY stow_float_of_bits(UINT32_C(0x7f800000))
#define STOW_NOT_A_NUMBER stow_float_of_bits(UINT32_C(0x7fc00000))

static inline uint32_t stow_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float stow_magnitude(float x)
{
    return stow_float_of_bits(stow_bits_of_float(x) & UINT32_C(0x7fffffff));
}

/* Numbers from 2^23 on, and what is not a number, have no fraction to lose. */
static inline float stow_floor(float x)
{
    if (!(stow_magnitude(x) < 8388608.0f)) {
        return x;
    }
    const float whole = (float)(int32_t)x;
    return whole > x ? whole - 1.0f : whole;
}

/* Halves go to the even neighbour. */
static inline float stow_round_even(float x)
{
    const float below = stow_floor(x), rest = x - below;
    if (!(stow_magnitude(x) < 8388608.0f) || rest < 0.5f) {
        return below;
    }
    const float half = below * 0.5f;
    return rest > 0.5f || stow_floor(half) != half ? below + 1.0f : below;
}

static inline float stow_log(float x)
{
    float offset = 0.0f;
    if (!(x > 0.0f)) {
        return x == 0.0f ? -STOW_INFINITY : STOW_NOT_A_NUMBER;
    }
    if (!stow_is_finite(x)) {
        return x;
    }
    if (x < 1.17549435e-38f) {
        x *= 33554432.0f;
        offset = -25.0f;
    }
    const uint32_t bits = stow_bits_of_float(x);
    /* The mantissa between sqrt(1/2) and sqrt(2), where the series below converges fast. */
    const int32_t exponent = (int32_t)((bits - UINT32_C(0x3f3504f3)) >> 23) - ((bits < UINT32_C(0x3f3504f3)) ? 512 : 0);
    const float mantissa = stow_float_of_bits(bits - ((uint32_t)exponent << 23));
    const float s = (mantissa - 1.0f) / (mantissa + 1.0f), z = s * s;
    const float series = ((((z / 11.0f + 1.0f / 9.0f) * z + 1.0f / 7.0f) * z + 0.2f) * z + 1.0f / 3.0f) * z + 1.0f;
    const float n = (float)exponent + offset;
    return (n * 1.42860682e-6f + 2.0f * s * series) + n * 0.693145751953125f;
}

/* Newton's steps from a guess that halves the exponent. */
static inline float stow_sqrt(float x)
{
    if (!(x > 0.0f) || !stow_is_finite(x)) {
        return x == 0.0f || x > 0.0f ? x : STOW_NOT_A_NUMBER;
    }
    const float scale = x < 1e-30f ? 4294967296.0f : 1.0f;
    const float scaled = x * scale * scale;
    float root = stow_float_of_bits((stow_bits_of_float(scaled) >> 1) + UINT32_C(0x1fbb4f2e));
    for (int step = 0; step < 4; step++) {
        root = 0.5f * (root + scaled / root);
    }
    return root / scale;
}

/* sin(x + quarters * pi/2). The argument is reduced in double precision; beyond 2^30 there is no sensible answer. */
static inline float stow_sine(float x, uint32_t quarters)
{
    if (!(stow_magnitude(x) < 1073741824.0f)) {
        return STOW_NOT_A_NUMBER;
    }
    const double turns = (double)x * 0.63661977236758134;
    const int64_t nearest = (int64_t)(turns + (turns < 0.0 ? -0.5 : 0.5));
    const double rest = ((double)x - (double)nearest * 1.5707963267341256) - (double)nearest * 6.0771005065061922e-11;
    const float r = (float)rest, z = r * r;
    const uint32_t quadrant = ((uint32_t)(uint64_t)nearest + quarters) & 3u;
    float value;
    if ((quadrant & 1u) == 0) {
        value = r + r * z * (((z / 362880.0f - 1.0f / 5040.0f) * z + 1.0f / 120.0f) * z - 1.0f / 6.0f);
    } else {
        value = 1.0f + z * ((((z / -3628800.0f + 1.0f / 40320.0f) * z - 1.0f / 720.0f) * z + 1.0f / 24.0f) * z - 0.5f);
    }
    return (quadrant & 2u) != 0 ? -value : value;
}

static inline float stow_tanh(float x)
{
    const float size = stow_magnitude(x), z = x * x;
    if (x != x) {
        return x;
    }
    if (size < 0.1f) {
        return x + x * z * ((z * (-17.0f / 315.0f) + 2.0f / 15.0f) * z - 1.0f / 3.0f);
    }
    const float value = size > 9.1f ? 1.0f : 1.0f - 2.0f / (stow_exp(2.0f * size) + 1.0f);
    return x < 0.0f ? -value : value;
}

/* Near 0 the series, further out Abramowitz and Stegun's formula 7.1.26 (error below 1.5e-7). */
static inline float stow_erf(float x)
{
    const float size = stow_magnitude(x), z = x * x;
    if (x != x) {
        return x;
    }
    if (size < 0.5f) {
        const float tail = (((z / -1320.0f + 1.0f / 216.0f) * z - 1.0f / 42.0f) * z + 0.1f) * z - 1.0f / 3.0f;
        return 1.12837917f * (x + x * z * tail);
    }
    const float t = 1.0f / (1.0f + 0.3275911f * size);
    const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    const float value = 1.0f - sum * stow_exp(-z);
    return x < 0.0f ? -value : value;
}

/* a - b * floor(a / b) without the rounding of any of the three: the remainder of the sizes, in doubles, which hold
 * every float times every power of two that is needed. */
static inline float stow_floor_mod(float a, float b)
{
    const double size = (double)stow_magnitude(b);
    double rest = (double)stow_magnitude(a);
    if (!(size > 0.0) || !stow_is_finite(a)) {
        return STOW_NOT_A_NUMBER;
    }
    if (stow_is_finite(b)) {
        double step = size;
        while (step <= rest * 0.5) {
            step += step;
        }
        for (; step >= size; step *= 0.5) {
            rest -= rest >= step ? step : 0.0;
        }
    }
    const float value = a < 0.0f ? -(float)rest : (float)rest;
    return rest != 0.0 && (a < 0.0f) != (b < 0.0f) ? value + b : value;
}

/* Whole exponents by squaring, so that negative bases work and small powers are exact. */
static inline float stow_pow(float base, float exponent)
{
    if (stow_magnitude(exponent) <= 1024.0f && stow_floor(exponent) == exponent) {
        float result = 1.0f, factor = base;
        for (uint32_t left = (uint32_t)stow_magnitude(exponent); left > 0; left >>= 1) {
            result *= (left & 1u) != 0 ? factor : 1.0f;
            factor *= factor;
        }
        return exponent < 0.0f ? 1.0f / result : result;
    }
    if (base == 0.0f) {
        return exponent > 0.0f ? 0.0f : exponent < 0.0f ? STOW_INFINITY : STOW_NOT_A_NUMBER;
    }
    return stow_exp(exponent * stow_log(base));
}

#endif
