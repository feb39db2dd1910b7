/* Kernel sets: the inner loops of the int8 kernels, each set written for one kind of processor.
 *
 * Kernels (stow_k_*.c) find rows, cut work into tiles and handle every shape; what they call through the table below
 * does the multiplying. All sets give the same bytes. A set's function is handed every case and passes those it has no
 * fast way for to the portable one.
 */
#ifndef STOW_SET_H
#define STOW_SET_H

#include <string.h>

#include "stow_filter.h"
#include "stow_window.h"

/* Which sets a build has; a processor's own features decide unless the build says otherwise. */
#ifndef STOW_WITH_SET_HELIUM
#if defined(__ARM_FEATURE_MVE)
#define STOW_WITH_SET_HELIUM 1
#else
#define STOW_WITH_SET_HELIUM 0
#endif
#endif
#ifndef STOW_WITH_SET_DSP
#if defined(__ARM_FEATURE_DSP) && !STOW_WITH_SET_HELIUM && defined(__thumb2__)
#define STOW_WITH_SET_DSP 1
#else
#define STOW_WITH_SET_DSP 0
#endif
#endif
#ifndef STOW_WITH_SET_NEON
#if defined(__ARM_NEON) && defined(__aarch64__)
#define STOW_WITH_SET_NEON 1
#else
#define STOW_WITH_SET_NEON 0
#endif
#endif
#ifndef STOW_WITH_SET_SSE2
#ifdef __SSE2__
#define STOW_WITH_SET_SSE2 1
#else
#define STOW_WITH_SET_SSE2 0
#endif
#endif

/* For functions whose stack would else be their caller's as well. */
#if defined(__GNUC__)
#define STOW_APART __attribute__((noinline))
#else
#define STOW_APART
#endif

/* Outputs whose partial sums are kept at once, vectors that a set may ask for, and elements of each that are brought
 * together where they do not lie together. Small devices have little stack. */
#define STOW_MM_OUTPUTS 32u
#if STOW_WITH_SET_SSE2
#define STOW_MM_PIXELS 8u
#elif STOW_WITH_SET_NEON
#define STOW_MM_PIXELS 4u
#else
#define STOW_MM_PIXELS 2u
#endif
#if STOW_WITH_SET_HELIUM
#define STOW_MM_PATCH 192u
#elif STOW_WITH_SET_DSP
#define STOW_MM_PATCH 128u
#elif STOW_WITH_SET_NEON
#define STOW_MM_PATCH 288u
#else
#define STOW_MM_PATCH 144u
#endif
/* Bytes from four elements of a vector in a patch to the next four, for so many vectors. The DSP set spreads elements to
 * 16 bits, and does so in place: vectors lie interleaved in the upper half of the room. */
#if STOW_WITH_SET_DSP
#define STOW_MM_ROOM (2u * STOW_MM_PIXELS * STOW_MM_PATCH)
#define STOW_MM_START (STOW_MM_PIXELS * STOW_MM_PATCH)
#define STOW_MM_STRIDE(pixels) (4u * (pixels))
#define STOW_MM_STEP(pixels) 4u
#else
#define STOW_MM_ROOM (STOW_MM_PIXELS * STOW_MM_PATCH)
#define STOW_MM_START 0u
#define STOW_MM_STRIDE(pixels) 4u
#define STOW_MM_STEP(pixels) STOW_MM_PATCH
#endif

/* Copy a few bytes, which do not overlap. */
static inline void stow_copy_s8(int8_t *to, const int8_t *from, size_t size)
{
#if STOW_WITH_SET_HELIUM
    __asm volatile("wlstp.8 lr, %[size], 2f\n1:\n\tvldrb.8 q0, [%[from]], #16\n\tvstrb.8 q0, [%[to]], #16\n\tletp lr, 1b\n2:"
                   : [to] "+r"(to), [from] "+r"(from)
                   : [size] "r"(size)
                   : "lr", "q0", "memory");
#else
    memcpy(to, from, size);
#endif
}

/* `pixels` vectors of `depth` elements, times the weights of outputs [first, first + outputs).
 *
 * A vector may be handed over in several parts, if it has at most STOW_MM_OUTPUTS outputs: `sums` keeps what there is so
 * far, sums[p * STOW_MM_OUTPUTS + o] for output first + o. The first part `begins` (from the bias), the last one `ends`
 * (with the output bytes). Where one part is all, there may be any number of outputs, and `sums` is room to use. Vectors have weights of zero in the elements that only pad them, and any bytes there. */
typedef struct stow_mm_s8 {
    const stow_filter_s8 *filter;
    const int8_t *x; /* the first vector; the next is x_step bytes on */
    size_t x_step;
    size_t x_stride; /* bytes from four elements to the next four: 4, except in a patch */
    int8_t *room;    /* STOW_MM_ROOM bytes, aligned to 16, in which a patch may be */
    size_t pixels; /* at least 1; at most the set's, unless they come as a whole: both `begins` and `ends` */
    size_t depth;
    const int8_t *w; /* the weights of output `first` for the first of these elements */
    size_t first;
    size_t outputs;
    int8_t *out; /* output `first` of the first vector; that of the next is out_step bytes on */
    size_t out_step;
    uint32_t *sums;
    int begins;
    int ends;
} stow_mm_s8;

/* A depthwise convolution and one row of its output. */
typedef struct stow_depthwise_s8 {
    stow_window window;
    stow_filter_s8 filter;
    stow_rows in;
    int32_t in_zero_point;
} stow_depthwise_s8;

typedef struct stow_set {
    size_t pixels; /* vectors that mm_s8 takes at once in parts, at most STOW_MM_PIXELS */
    void (*mm_s8)(const stow_mm_s8 *mm);
    void (*depthwise_row_s8)(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out);
    /* out[i] from a[i] and b[i]; params are those of add_s8. `out` may be one of them. */
    void (*add_s8)(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size);
} stow_set;

/* The set of this build or, where a build has several, the best that this processor runs. */
STOW_API const stow_set *stow_kernel_set(void);

STOW_API STOW_APART void stow_mm_portable_s8(const stow_mm_s8 *mm);
STOW_API STOW_APART void stow_depthwise_row_portable_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out);
/* One row of the kernel, for output channels [first, first + count); `row` is the input's, NULL outside it. */
STOW_API void stow_depthwise_add_row_s8(const stow_depthwise_s8 *op, uint32_t *sums, size_t first, size_t count,
                                        const int8_t *row, int32_t left, const int8_t *w);
STOW_API int8_t stow_add_one_s8(const int32_t *params, int32_t a, int32_t b);
STOW_API void stow_add_portable_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size);

#if STOW_WITH_SET_SSE2
STOW_API void stow_mm_sse2_s8(const stow_mm_s8 *mm);
#endif
#if STOW_WITH_SET_DSP
STOW_API void stow_mm_dsp_s8(const stow_mm_s8 *mm);
STOW_API void stow_depthwise_row_dsp_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out);
STOW_API void stow_add_dsp_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size);
#endif
#if STOW_WITH_SET_NEON
STOW_API void stow_mm_neon_s8(const stow_mm_s8 *mm);
STOW_API void stow_depthwise_row_neon_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out);
STOW_API void stow_add_neon_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size);
#endif
#if STOW_WITH_SET_HELIUM
STOW_API void stow_mm_helium_s8(const stow_mm_s8 *mm);
STOW_API void stow_depthwise_row_helium_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out);
STOW_API void stow_add_helium_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size);
#endif

#endif
