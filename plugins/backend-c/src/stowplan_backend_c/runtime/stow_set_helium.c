/* The kernel set of Cortex-M55 and others with Helium: sixteen products in one instruction, four requantisations.
 *
 * Products are summed in hardware loops with tail predication: the last, partial vector needs no code of its own, and
 * bytes may lie anywhere.
 */
#include "stow_set.h"

#if STOW_WITH_SET_HELIUM
#include <arm_mve.h>

/* Products of two vectors and two rows of weights, sixteen elements at a time; the last ones are as many as are left. */
#define STOW_HELIUM_SQUARE_AT(label)                                                                                   \
    "dlstp.8 lr, %[depth]\n" label ":\n\tvldrb.8 q0, [%[x]], #16\n\tvldrb.8 q1, [%[u]], #16\n\t"                        \
    "vldrb.8 q2, [%[v]], #16\n\tvmladava.s8 %[xu], q0, q1\n\tvldrb.8 q3, [%[y]], #16\n\t"                              \
    "vmladava.s8 %[xv], q0, q2\n\tvmladava.s8 %[yu], q3, q1\n\tvmladava.s8 %[yv], q3, q2\n\tletp lr, " label "b\n\t"
#define STOW_HELIUM_SQUARE STOW_HELIUM_SQUARE_AT("1")
#define STOW_HELIUM_SQUARE_AGAIN STOW_HELIUM_SQUARE_AT("2")

/* Products of two vectors and the weights of two outputs. Sums lie in even registers: the instruction has no others. */
static inline void stow_helium_square(const int8_t *x, const int8_t *y, const int8_t *u, const int8_t *v, size_t depth,
                                      uint32_t *x_sums, uint32_t *y_sums)
{
    uint32_t xu = x_sums[0], xv = x_sums[1], yu = y_sums[0], yv = y_sums[1];
    __asm volatile(STOW_HELIUM_SQUARE
                   : [xu] "+Te"(xu), [xv] "+Te"(xv), [yu] "+Te"(yu), [yv] "+Te"(yv), [x] "+r"(x), [y] "+r"(y),
                     [u] "+r"(u), [v] "+r"(v)
                   : [depth] "r"(depth)
                   : "lr", "q0", "q1", "q2", "q3", "memory");
    x_sums[0] = xu, x_sums[1] = xv, y_sums[0] = yu, y_sums[1] = yv;
}

/* Products of one vector and the weights of four outputs. */
static inline void stow_helium_line(const int8_t *x, const int8_t *const *w, size_t depth, uint32_t *sums)
{
    const int8_t *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3];
    uint32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    __asm volatile("dlstp.8 lr, %[depth]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "vldrb.8 q1, [%[w0]], #16\n\t"
                   "vldrb.8 q2, [%[w1]], #16\n\t"
                   "vmladava.s8 %[a], q0, q1\n\t"
                   "vldrb.8 q3, [%[w2]], #16\n\t"
                   "vmladava.s8 %[b], q0, q2\n\t"
                   "vldrb.8 q1, [%[w3]], #16\n\t"
                   "vmladava.s8 %[c], q0, q3\n\t"
                   "vmladava.s8 %[d], q0, q1\n\t"
                   "letp lr, 1b\n"
                   : [a] "+Te"(a), [b] "+Te"(b), [c] "+Te"(c), [d] "+Te"(d), [x] "+r"(x), [w0] "+r"(w0),
                     [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3)
                   : [depth] "r"(depth)
                   : "lr", "q0", "q1", "q2", "q3", "memory");
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

/* Add the products of a tile's outputs [first, first + count) to the sums that are kept. Of an odd number of outputs
 * the last is computed more than once; there is room for what nobody reads. */
static void stow_helium_products(const stow_mm_s8 *mm, size_t first, size_t count)
{
    const size_t step = mm->filter->weights_step, depth = mm->depth;
    const int8_t *w = mm->w + first * step, *x = mm->x;
    uint32_t *sums = mm->sums;
    if (mm->pixels > 1) {
        const int8_t *y = x + mm->x_step;
        for (size_t done = 0; done < count; done += 2, w += 2 * step) {
            const int8_t *v = count - done > 1 ? w + step : w;
            stow_helium_square(x, y, w, v, depth, sums + done, sums + STOW_MM_OUTPUTS + done);
        }
        return;
    }
    for (size_t done = 0; done < count; done += 4, w += 4 * step) {
        const size_t left = count - done;
        const int8_t *const rows[4] = {w, left > 1 ? w + step : w, left > 2 ? w + 2 * step : w,
                                       left > 3 ? w + 3 * step : w};
        stow_helium_line(x, rows, depth, sums + done);
    }
}

/* What outputs have in common on their way from sum to byte. */
typedef struct stow_helium_range {
    int32_t zero_point;
    int32_t minimum;
    int32_t maximum;
    int left; /* some factor may shift to the left */
} stow_helium_range;

static inline stow_helium_range stow_helium_range_of(const stow_filter_s8 *filter)
{
    const stow_helium_range range = {filter->zero_point, filter->minimum, filter->maximum, !filter->bounded};
    return range;
}

/* value / 2^-shift for shifts of at most 0, rounded to nearest, halves away from zero. */
static inline int32x4_t stow_helium_rounded(int32x4_t value, int32x4_t shift)
{
    const int32x4_t less = vshrq_n_s32(vandq_s32(value, shift), 31);
    return vrshlq_s32(vqaddq_s32(value, less), shift);
}

static inline int32x4_t stow_helium_output(const stow_helium_range *range, int32x4_t sum, int32x4_t multiplier,
                                           int32x4_t shift)
{
    if (range->left) {
        sum = vshlq_s32(sum, vmaxq_s32(shift, vdupq_n_s32(0)));
        shift = vminq_s32(shift, vdupq_n_s32(0));
    }
    int32x4_t value = stow_helium_rounded(vqrdmulhq_s32(sum, multiplier), shift);
    value = vaddq_n_s32(value, range->zero_point);
    return vmaxq_s32(vminq_s32(value, vdupq_n_s32(range->maximum)), vdupq_n_s32(range->minimum));
}

/* The bytes of outputs [first, first + count) of all vectors. */
static void stow_helium_end(const stow_mm_s8 *mm, size_t first, size_t count)
{
    const stow_filter_s8 *filter = mm->filter;
    const stow_helium_range range = stow_helium_range_of(filter);
    const size_t from = mm->first + first;
    for (size_t done = 0; done < count; done += 4) {
        const mve_pred16_t some = vctp32q((uint32_t)(count - done));
        const size_t at = from + done;
        const int32x4_t bias = filter->bias == NULL ? vdupq_n_s32(0) : vldrwq_z_s32(filter->bias + at, some);
        const int32x4_t multiplier =
            filter->step == 0 ? vdupq_n_s32(filter->multiplier[0]) : vldrwq_z_s32(filter->multiplier + at, some);
        const int32x4_t shift =
            filter->step == 0 ? vdupq_n_s32(filter->shift[0]) : vldrwq_z_s32(filter->shift + at, some);
        int8_t *out = mm->out + first + done;
        const uint32_t *sums = mm->sums + done;
        for (size_t pixel = 0; pixel < mm->pixels; pixel++, out += mm->out_step, sums += STOW_MM_OUTPUTS) {
            const int32x4_t sum = vaddq_s32(vldrwq_s32((const int32_t *)sums), bias);
            vstrbq_p_s32(out, stow_helium_output(&range, sum, multiplier, shift), some);
        }
    }
}

static __attribute__((noinline)) void stow_helium_part(const stow_mm_s8 *mm)
{
    for (size_t first = 0; first < mm->outputs; first += STOW_MM_OUTPUTS) {
        const size_t left = mm->outputs - first;
        const size_t count = left < STOW_MM_OUTPUTS ? left : STOW_MM_OUTPUTS;
        if (mm->begins) {
            for (size_t i = 0; i < STOW_MM_PIXELS * STOW_MM_OUTPUTS; i += 4) {
                vstrwq_u32(mm->sums + i, vdupq_n_u32(0));
            }
        }
        stow_helium_products(mm, first, count);
        if (mm->ends) {
            stow_helium_end(mm, first, count);
        }
    }
}

/* Sums of products of two vectors and four rows of weights, which lie `step` apart. Rows 0 and 2 come first, then 1 and
 * 3: that is how pairs of sums go into a vector. Pointers move on by whole blocks of sixteen, however many elements the
 * last has. */
static inline void stow_helium_eight(const int8_t *x, const int8_t *y, const int8_t *w, size_t step, size_t depth,
                                     int32x4_t *x_sums, int32x4_t *y_sums)
{
    const int8_t *u = w, *v = w + 2 * step;
    uint32_t xu = 0, xv = 0, yu = 0, yv = 0;
    int32x4_t xs, ys;
    __asm volatile(STOW_HELIUM_SQUARE
                   "vmov %q[xs][2], %q[xs][0], %[xu], %[xv]\n\tvmov %q[ys][2], %q[ys][0], %[yu], %[yv]\n\t"
                   "add lr, %[depth], #15\n\tbic lr, lr, #15\n\tsub %[x], %[x], lr\n\tsub %[y], %[y], lr\n\t"
                   "sub lr, %[step], lr\n\tadd %[u], %[u], lr\n\tadd %[v], %[v], lr\n\t"
                   "mov %[xu], #0\n\tmov %[xv], #0\n\tmov %[yu], #0\n\tmov %[yv], #0\n\t"
                   STOW_HELIUM_SQUARE_AGAIN
                   "vmov %q[xs][3], %q[xs][1], %[xu], %[xv]\n\tvmov %q[ys][3], %q[ys][1], %[yu], %[yv]"
                   : [xu] "+Te"(xu), [xv] "+Te"(xv), [yu] "+Te"(yu), [yv] "+Te"(yv), [x] "+r"(x), [y] "+r"(y),
                     [u] "+r"(u), [v] "+r"(v), [xs] "=&w"(xs), [ys] "=&w"(ys)
                   : [depth] "r"(depth), [step] "r"(step)
                   : "lr", "q0", "q1", "q2", "q3", "memory");
    *x_sums = xs;
    *y_sums = ys;
}

/* A sum becomes an output, for shifts of at most 0: product, fix for halves below zero, shift, offset, range. */
#define STOW_HELIUM_OUTPUT(sum)                                                                                        \
    "vqrdmulh.s32 " sum ", " sum ", %q[m]\n\tvand q0, " sum ", %q[s]\n\tvshr.s32 q0, q0, #31\n\t"                        \
    "vqadd.s32 " sum ", " sum ", q0\n\tvrshl.s32 " sum ", " sum ", %q[s]\n\tvadd.i32 " sum ", " sum ", %[zero]\n\t"     \
    "vmin.s32 " sum ", " sum ", %q[high]\n\tvmax.s32 " sum ", " sum ", %q[low]\n\t"

/* Two vectors, which may be the same, that come as a whole, a multiple of four outputs, factors of each channel that never shift left. */
static __attribute__((noinline)) void stow_helium_two(const stow_mm_s8 *mm)
{
    const stow_filter_s8 *filter = mm->filter;
    const size_t step = filter->weights_step;
    const int8_t *w = mm->w, *x = mm->x, *y = x + mm->x_step;
    int8_t *out = mm->out, *out_y = out + mm->out_step;
    const int32_t *bias = filter->bias, *multiplier = filter->multiplier, *shift = filter->shift;
    const int32x4_t low = vdupq_n_s32(filter->minimum), high = vdupq_n_s32(filter->maximum);
    const size_t depth = mm->depth;
    for (size_t left = mm->outputs; left > 0; left -= 4, w += 4 * step) {
        int32x4_t a, b, m, s;
        stow_helium_eight(x, y, w, step, depth, &a, &b);
        if (bias != NULL) {
            const int32x4_t more = vldrwq_s32(bias);
            a = vaddq_s32(a, more);
            b = vaddq_s32(b, more);
            bias += 4;
        }
        __asm volatile("vldrw.u32 %q[m], [%[multiplier]], #16\n\tvldrw.u32 %q[s], [%[shift]], #16\n\t"
                       STOW_HELIUM_OUTPUT("%q[a]") STOW_HELIUM_OUTPUT("%q[b]")
                       "vstrb.32 %q[a], [%[out]], #4\n\tvstrb.32 %q[b], [%[out_y]], #4"
                       : [a] "+w"(a), [b] "+w"(b), [m] "=&w"(m), [s] "=&w"(s), [multiplier] "+r"(multiplier),
                         [shift] "+r"(shift), [out] "+l"(out), [out_y] "+l"(out_y)
                       : [zero] "r"(filter->zero_point), [low] "w"(low), [high] "w"(high)
                       : "q0", "memory");
    }
}

STOW_API void stow_mm_helium_s8(const stow_mm_s8 *mm)
{
    stow_mm_s8 tile = *mm;
    const int quick = mm->begins && mm->ends && mm->first == 0 && (mm->outputs & 3u) == 0 && mm->filter->step != 0 &&
                      mm->filter->bounded;
    for (size_t left = mm->pixels; left > 0; left -= tile.pixels) {
        tile.pixels = left < STOW_MM_PIXELS ? left : STOW_MM_PIXELS;
        if (quick) {
            if (tile.pixels == 1) {
                tile.x_step = 0, tile.out_step = 0; /* the last one: both vectors are it, faster than one alone */
            }
            stow_helium_two(&tile);
        } else {
            stow_helium_part(&tile);
        }
        tile.x += tile.pixels * tile.x_step;
        tile.out += tile.pixels * tile.out_step;
    }
}

/* A tap of a depthwise kernel: the channels of the pixel under it, and their weights. */
typedef struct stow_helium_tap {
    const int8_t *x;
    const int8_t *w;
} stow_helium_tap;

#define STOW_HELIUM_TAPS 25

typedef struct stow_helium_taps {
    stow_helium_tap taps[STOW_HELIUM_TAPS];
    size_t inside;  /* those of taps[0 .. inside) */
    size_t outside; /* and those of taps[outside ..), under which there is the zero point */
} stow_helium_taps;

/* Eight channels from `channel` on: even ones and odd ones are summed apart. */
static inline void stow_helium_channels(const stow_depthwise_s8 *op, const stow_helium_range *range,
                                        const stow_helium_taps *taps, size_t channel, int8_t *out)
{
    const stow_filter_s8 *filter = &op->filter;
    int32x4_t even = vdupq_n_s32(0), odd = even;
    const stow_helium_tap *tap = taps->taps;
    for (const stow_helium_tap *end = tap + taps->inside; tap != end; tap++) {
        const int16x8_t x = vldrbq_s16(tap->x + channel);
        const int16x8_t w = vldrbq_s16(tap->w + channel);
        even = vaddq_s32(even, vmullbq_int_s16(x, w));
        odd = vaddq_s32(odd, vmulltq_int_s16(x, w));
    }
    const int16x8_t zero_point = vdupq_n_s16((int16_t)op->in_zero_point);
    tap = taps->taps + taps->outside;
    for (const stow_helium_tap *end = taps->taps + STOW_HELIUM_TAPS; tap != end; tap++) {
        const int16x8_t w = vldrbq_s16(tap->w + channel);
        even = vaddq_s32(even, vmullbq_int_s16(zero_point, w));
        odd = vaddq_s32(odd, vmulltq_int_s16(zero_point, w));
    }
    int32x4x2_t multiplier = {{vdupq_n_s32(filter->multiplier[0]), vdupq_n_s32(filter->multiplier[0])}};
    int32x4x2_t shift = {{vdupq_n_s32(filter->shift[0]), vdupq_n_s32(filter->shift[0])}};
    if (filter->bias != NULL) {
        const int32x4x2_t bias = vld2q_s32(filter->bias + channel);
        even = vaddq_s32(even, bias.val[0]);
        odd = vaddq_s32(odd, bias.val[1]);
    }
    if (filter->step != 0) {
        multiplier = vld2q_s32(filter->multiplier + channel);
        shift = vld2q_s32(filter->shift + channel);
    }
    even = stow_helium_output(range, even, multiplier.val[0], shift.val[0]);
    odd = stow_helium_output(range, odd, multiplier.val[1], shift.val[1]);
    vstrbq_s16(out, vmovntq_s32(vmovnbq_s32(vdupq_n_s16(0), even), odd));
}

static __attribute__((noinline)) void stow_helium_pixel(const stow_depthwise_s8 *op, const stow_helium_range *range, const stow_helium_taps *taps,
                              int8_t *out)
{
    const size_t channels = (size_t)op->window.out_c;
    for (size_t channel = 0; channel < channels; channel += 8) {
        stow_helium_channels(op, range, taps, channel, out + channel);
    }
}

/* The taps of the kernel whose first column lies over input column `left`; rows[i] is NULL outside the input. */
static void stow_helium_place(const stow_depthwise_s8 *op, const int8_t *const *rows, int32_t left,
                              stow_helium_taps *taps)
{
    const stow_window *window = &op->window;
    const int8_t *w = op->filter.weights;
    const size_t depth = (size_t)window->in_c;
    taps->inside = 0;
    taps->outside = STOW_HELIUM_TAPS;
    for (int32_t i = 0; i < window->kernel_h; i++) {
        int32_t column = left;
        for (int32_t j = 0; j < window->kernel_w; j++, column += window->dilation_w, w += op->filter.weights_step) {
            const int inside = rows[i] != NULL && column >= 0 && column < window->in_w;
            stow_helium_tap *tap = inside ? &taps->taps[taps->inside++] : &taps->taps[--taps->outside];
            tap->x = inside ? rows[i] + (size_t)column * depth : NULL;
            tap->w = w;
        }
    }
}

/* A kernel of 3x3 for eight channels: weights in 16 bits, and what makes outputs of sums, even channels first. */
typedef struct stow_helium_kernel {
    _Alignas(16) int16_t weights[9][8];
    int32_t bias[2][4];
    int32_t multiplier[2][4];
    int32_t shift[2][4];
} stow_helium_kernel;

static void stow_helium_apart(const int32_t *values, size_t step, size_t channel, int32_t to[2][4])
{
    if (step == 0) {
        vstrwq_s32(to[0], vdupq_n_s32(*values));
        vstrwq_s32(to[1], vdupq_n_s32(*values));
        return;
    }
    const int32x4x2_t both = vld2q_s32(values + channel);
    vstrwq_s32(to[0], both.val[0]);
    vstrwq_s32(to[1], both.val[1]);
}

static void stow_helium_prepare(const stow_filter_s8 *filter, size_t channel, stow_helium_kernel *kernel)
{
    static const int32_t none = 0;
    const int8_t *w = filter->weights + channel;
    for (size_t tap = 0; tap < 9; tap++, w += filter->weights_step) {
        vstrhq_s16(kernel->weights[tap], vldrbq_s16(w));
    }
    stow_helium_apart(filter->bias == NULL ? &none : filter->bias, filter->bias != NULL, channel, kernel->bias);
    stow_helium_apart(filter->multiplier, filter->step, channel, kernel->multiplier);
    stow_helium_apart(filter->shift, filter->step, channel, kernel->shift);
}

/* Four values of each of eight bytes times eight weights, added to the sums of even and of odd channels. */
#define STOW_HELIUM_TAP(pointer, at)                                                                                   \
    "vldrb.s16 q2, [" pointer "]\n\tvldrh.u16 q3, [%[k], #" at "]\n\tvmullt.s16 q4, q2, q3\n\t"                         \
    "vmullb.s16 q2, q2, q3\n\tvadd.i32 q1, q1, q4\n\tvadd.i32 q0, q0, q2\n\t"
#define STOW_HELIUM_ROW(row, first, second, third)                                                                     \
    STOW_HELIUM_TAP(row, first) "add %[t], " row ", %[column]\n\t" STOW_HELIUM_TAP("%[t]", second)                       \
    "add %[t], %[t], %[column]\n\t" STOW_HELIUM_TAP("%[t]", third) "add " row ", " row ", %[pixel]\n\t"
#define STOW_HELIUM_FINISH(sum, multiplier, shift)                                                                     \
    "vldrw.u32 q2, [%[k], #" multiplier "]\n\tvqrdmulh.s32 " sum ", " sum ", q2\n\t"                                    \
    "vldrw.u32 q3, [%[k], #" shift "]\n\tvand q2, " sum ", q3\n\tvshr.s32 q2, q2, #31\n\t"                             \
    "vqadd.s32 " sum ", " sum ", q2\n\tvrshl.s32 " sum ", " sum ", q3\n\tvadd.i32 " sum ", " sum ", %[zero]\n\t"       \
    "vmin.s32 " sum ", " sum ", %q[high]\n\tvmax.s32 " sum ", " sum ", %q[low]\n\t"

_Static_assert(offsetof(stow_helium_kernel, bias) == 144 && offsetof(stow_helium_kernel, multiplier) == 176 &&
                   offsetof(stow_helium_kernel, shift) == 208,
               "the offsets below");

/* Eight channels of `count` pixels, all of whose taps lie inside the input, with factors that never shift left. rows[i]
 * is where the channels begin under the first of them; pixels lie `pixel` bytes apart there, and columns of the kernel
 * `column`. */
static __attribute__((noinline)) void stow_helium_pixels(const stow_filter_s8 *filter, const stow_helium_kernel *kernel,
                                                         const int8_t *const *rows, size_t column, size_t pixel,
                                                         size_t count, int8_t *out, size_t out_pixel)
{
    const int8_t *r0 = rows[0], *r1 = rows[1], *r2 = rows[2];
    const int32x4_t low = vdupq_n_s32(filter->minimum), high = vdupq_n_s32(filter->maximum);
    const int8_t *t = (const int8_t *)count; /* the count first: there are few registers */
    __asm volatile("dls lr, %[t]\n"
                   "1:\n\tvldrw.u32 q0, [%[k], #144]\n\tvldrw.u32 q1, [%[k], #160]\n\t"
                   STOW_HELIUM_ROW("%[r0]", "0", "16", "32") STOW_HELIUM_ROW("%[r1]", "48", "64", "80")
                   STOW_HELIUM_ROW("%[r2]", "96", "112", "128")
                   STOW_HELIUM_FINISH("q0", "176", "208") STOW_HELIUM_FINISH("q1", "192", "224")
                   "vmovnt.i32 q0, q1\n\tvstrb.16 q0, [%[out]]\n\tadd %[out], %[out], %[out_pixel]\n\tle lr, 1b"
                   : [r0] "+l"(r0), [r1] "+l"(r1), [r2] "+l"(r2), [out] "+l"(out), [t] "+l"(t)
                   : [k] "r"(kernel), [column] "r"(column), [pixel] "r"(pixel),
                     [out_pixel] "r"(out_pixel), [zero] "r"(filter->zero_point), [low] "w"(low), [high] "w"(high)
                   : "lr", "q0", "q1", "q2", "q3", "q4", "memory");
}

/* The pixels [columns.first, columns.last) of a row, for which no tap of a 3x3 kernel lies outside the input. */
static __attribute__((noinline)) void stow_helium_interior(const stow_depthwise_s8 *op, const int8_t *const *rows,
                                                           stow_taps columns, int8_t *out)
{
    const stow_window *w = &op->window;
    const size_t depth = (size_t)w->in_c;
    const size_t start = (size_t)(columns.first * w->stride_w - w->pad_left) * depth;
    stow_helium_kernel kernel;
    for (size_t channel = 0; channel < depth; channel += 8) {
        const size_t at = start + channel;
        const int8_t *const from[3] = {rows[0] + at, rows[1] + at, rows[2] + at};
        stow_helium_prepare(&op->filter, channel, &kernel);
        stow_helium_pixels(&op->filter, &kernel, from, depth, depth * (size_t)w->stride_w,
                           (size_t)(columns.last - columns.first), out + (size_t)columns.first * depth + channel, depth);
    }
}

STOW_API void stow_depthwise_row_helium_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out)
{
    const stow_window *w = &op->window;
    const int8_t *rows[STOW_HELIUM_TAPS];
    if (STOW_WITH_HELIUM_DEPTHWISE_FALLBACK &&
        (w->in_c != w->out_c || (w->in_c & 7) != 0 || w->kernel_h > STOW_HELIUM_TAPS ||
         w->kernel_w > STOW_HELIUM_TAPS || w->kernel_h * w->kernel_w > STOW_HELIUM_TAPS)) {
        stow_depthwise_row_portable_s8(op, place, out);
        return;
    }
    for (int32_t i = 0; i < w->kernel_h; i++) {
        const int inside = i >= place->taps.first && i < place->taps.last;
        rows[i] = inside ? (const int8_t *)stow_row_under(&op->in, w, place, i) : NULL;
    }
    const stow_helium_range range = stow_helium_range_of(&op->filter);
    const int whole = place->taps.first == 0 && place->taps.last == 3;
    stow_taps inner = {w->out_w, w->out_w};
    if (whole && op->filter.bounded && w->kernel_h == 3 && w->kernel_w == 3 && w->dilation_w == 1) {
        inner = stow_inner_columns(w);
    }
    if (inner.first < inner.last) {
        stow_helium_interior(op, rows, inner, out);
    }
    stow_helium_taps taps;
    for (int32_t column = 0; column < w->out_w; column++) {
        if (column == inner.first && inner.first < inner.last) {
            column = inner.last - 1;
            continue;
        }
        stow_helium_place(op, rows, column * w->stride_w - w->pad_left, &taps);
        stow_helium_pixel(op, &range, &taps, out + (size_t)column * (size_t)w->out_c);
    }
}

STOW_API void stow_add_helium_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    const int32x4_t a_shift = vdupq_n_s32(params[STOW_ADD_S8_A_SHIFT]);
    const int32x4_t b_shift = vdupq_n_s32(params[STOW_ADD_S8_B_SHIFT]);
    const int32x4_t shift = vdupq_n_s32(params[STOW_ADD_S8_OUTPUT_SHIFT]);
    if (STOW_WITH_ADD_FALLBACK && (params[STOW_ADD_S8_A_SHIFT] > 0 || params[STOW_ADD_S8_B_SHIFT] > 0 ||
                                   params[STOW_ADD_S8_OUTPUT_SHIFT] > 0)) {
        stow_add_portable_s8(params, a, b, out, size);
        return;
    }
    const stow_helium_range range = {params[STOW_ADD_S8_OUTPUT_ZERO_POINT], params[STOW_ADD_S8_ACT_MIN],
                                     params[STOW_ADD_S8_ACT_MAX], 0};
    for (size_t done = 0; done < size; done += 4) {
        const mve_pred16_t some = vctp32q((uint32_t)(size - done));
        const int32x4_t x = vsubq_n_s32(vldrbq_z_s32(a + done, some), params[STOW_ADD_S8_A_ZERO_POINT]);
        const int32x4_t y = vsubq_n_s32(vldrbq_z_s32(b + done, some), params[STOW_ADD_S8_B_ZERO_POINT]);
        const int32x4_t wide_x = vqrdmulhq_n_s32(vshlq_n_s32(x, 20), params[STOW_ADD_S8_A_MULTIPLIER]);
        const int32x4_t wide_y = vqrdmulhq_n_s32(vshlq_n_s32(y, 20), params[STOW_ADD_S8_B_MULTIPLIER]);
        const int32x4_t sum = vaddq_s32(stow_helium_rounded(wide_x, a_shift), stow_helium_rounded(wide_y, b_shift));
        const int32x4_t multiplier = vdupq_n_s32(params[STOW_ADD_S8_OUTPUT_MULTIPLIER]);
        vstrbq_p_s32(out + done, stow_helium_output(&range, sum, multiplier, shift), some);
    }
}

#endif
