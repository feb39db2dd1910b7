/* The kernel set of every x86-64: products of int8 in SSE2, a vector and four outputs at a time. */
#include "stow_set.h"

#if STOW_WITH_SET_SSE2
#include <emmintrin.h>

#define STOW_SSE2_OUTPUTS 4u

/* Eight products of int8, summed in pairs to four of int32. */
static inline __m128i stow_sse2_products(__m128i x_low, __m128i x_high, const int8_t *w)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)w);
    const __m128i low = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
    const __m128i high = _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
    return _mm_add_epi32(_mm_madd_epi16(x_low, low), _mm_madd_epi16(x_high, high));
}

static inline uint32_t stow_sse2_sum(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(v);
}

/* Add the products of as many whole blocks of 16 as there are to the sums of four outputs; returns how many bytes. */
static size_t stow_sse2_blocks(uint32_t *sums, const int8_t *x, const int8_t *w, size_t step, size_t size)
{
    const size_t whole = size & ~(size_t)15;
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    for (size_t i = 0; i < whole; i += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        const __m128i low = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
        const __m128i high = _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
        a = _mm_add_epi32(a, stow_sse2_products(low, high, w + i));
        b = _mm_add_epi32(b, stow_sse2_products(low, high, w + step + i));
        c = _mm_add_epi32(c, stow_sse2_products(low, high, w + 2 * step + i));
        d = _mm_add_epi32(d, stow_sse2_products(low, high, w + 3 * step + i));
    }
    if (whole > 0) {
        sums[0] += stow_sse2_sum(a);
        sums[1] += stow_sse2_sum(b);
        sums[2] += stow_sse2_sum(c);
        sums[3] += stow_sse2_sum(d);
    }
    return whole;
}

/* Four outputs of one vector. */
static void stow_sse2_four(const stow_mm_s8 *mm, size_t pixel, size_t output)
{
    const size_t step = mm->filter->weights_step;
    const int8_t *x = mm->x + pixel * mm->x_step, *w = mm->w + output * step;
    uint32_t *kept = mm->sums + pixel * STOW_MM_OUTPUTS + output;
    uint32_t sums[STOW_SSE2_OUTPUTS];
    for (size_t i = 0; i < STOW_SSE2_OUTPUTS; i++) {
        sums[i] = mm->begins ? stow_first_sum(mm->filter, mm->first + output + i) : kept[i];
    }
    for (size_t i = stow_sse2_blocks(sums, x, w, step, mm->depth); i < mm->depth; i++) {
        for (size_t o = 0; o < STOW_SSE2_OUTPUTS; o++) {
            sums[o] += (uint32_t)(x[i] * w[o * step + i]);
        }
    }
    for (size_t i = 0; i < STOW_SSE2_OUTPUTS; i++) {
        if (mm->ends) {
            mm->out[pixel * mm->out_step + output + i] = stow_output_s8(mm->filter, mm->first + output + i, sums[i]);
        } else {
            kept[i] = sums[i];
        }
    }
}

STOW_API void stow_mm_sse2_s8(const stow_mm_s8 *mm)
{
    const size_t whole = mm->outputs & ~(size_t)(STOW_SSE2_OUTPUTS - 1);
    for (size_t output = 0; output < whole; output += STOW_SSE2_OUTPUTS) {
        for (size_t pixel = 0; pixel < mm->pixels; pixel++) {
            stow_sse2_four(mm, pixel, output);
        }
    }
    if (whole == mm->outputs) {
        return;
    }
    stow_mm_s8 rest = *mm;
    rest.first += whole;
    rest.outputs -= whole;
    rest.w += whole * mm->filter->weights_step;
    rest.out += whole;
    rest.sums += whole;
    stow_mm_portable_s8(&rest);
}

#endif
