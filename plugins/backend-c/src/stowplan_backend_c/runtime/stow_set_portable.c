/* The portable kernel set: plain C that any processor runs, two vectors and two outputs at a time. */
#include <string.h>

#include "stow_set.h"

static void stow_mm_begin_s8(const stow_mm_s8 *mm, size_t pixel, size_t output, size_t count, uint32_t *sums)
{
    for (size_t i = 0; i < count; i++) {
        sums[i] = mm->begins ? stow_first_sum(mm->filter, mm->first + output + i)
                             : mm->sums[pixel * STOW_MM_OUTPUTS + output + i];
    }
}

static void stow_mm_end_s8(const stow_mm_s8 *mm, size_t pixel, size_t output, size_t count, const uint32_t *sums)
{
    for (size_t i = 0; i < count; i++) {
        if (mm->ends) {
            mm->out[pixel * mm->out_step + output + i] = stow_output_s8(mm->filter, mm->first + output + i, sums[i]);
        } else {
            mm->sums[pixel * STOW_MM_OUTPUTS + output + i] = sums[i];
        }
    }
}

/* Element i of a vector; vectors in a patch of the DSP set do not lie together. */
#if STOW_WITH_SET_DSP
#define STOW_MM_AT(x, i, stride) ((x)[((i) >> 2) * (stride) + ((i) & 3u)])
#else
#define STOW_MM_AT(x, i, stride) ((x)[i])
#endif

/* Two vectors times the weights of two outputs: each of the four elements is loaded once for two products. */
static void stow_mm_square_s8(const stow_mm_s8 *mm, const int8_t *x, const int8_t *w, uint32_t *first, uint32_t *second)
{
    const size_t depth = mm->depth, stride = mm->x_stride;
    const int8_t *x1 = x + mm->x_step, *w1 = w + mm->filter->weights_step;
    (void)stride;
    uint32_t a0 = first[0], a1 = first[1], b0 = second[0], b1 = second[1];
    for (size_t i = 0; i < depth; i++) {
        const int32_t p = STOW_MM_AT(x, i, stride), q = STOW_MM_AT(x1, i, stride), u = w[i], v = w1[i];
        a0 += (uint32_t)(p * u);
        a1 += (uint32_t)(p * v);
        b0 += (uint32_t)(q * u);
        b1 += (uint32_t)(q * v);
    }
    first[0] = a0, first[1] = a1, second[0] = b0, second[1] = b1;
}

static void stow_mm_line_s8(const stow_mm_s8 *mm, const int8_t *x, const int8_t *w, size_t count, uint32_t *sums)
{
    const size_t depth = mm->depth, stride = mm->x_stride;
    (void)stride;
    for (size_t output = 0; output < count; output++, w += mm->filter->weights_step) {
        uint32_t sum = sums[output];
        for (size_t i = 0; i < depth; i++) {
            sum += (uint32_t)(STOW_MM_AT(x, i, stride) * w[i]);
        }
        sums[output] = sum;
    }
}

STOW_API void stow_mm_portable_s8(const stow_mm_s8 *mm)
{
    const size_t step = mm->filter->weights_step;
    uint32_t sums[2][2];
    for (size_t output = 0; output < mm->outputs; output += 2) {
        const size_t count = mm->outputs - output < 2 ? 1 : 2;
        const int8_t *w = mm->w + output * step;
        for (size_t pixel = 0; pixel < mm->pixels; pixel += 2) {
            const size_t pixels = mm->pixels - pixel < 2 ? 1 : 2;
            const int8_t *x = mm->x + pixel * mm->x_step;
            for (size_t i = 0; i < pixels; i++) {
                stow_mm_begin_s8(mm, pixel + i, output, count, sums[i]);
            }
            if (pixels == 2 && count == 2) {
                stow_mm_square_s8(mm, x, w, sums[0], sums[1]);
            } else {
                for (size_t i = 0; i < pixels; i++) {
                    stow_mm_line_s8(mm, x + i * mm->x_step, w, count, sums[i]);
                }
            }
            for (size_t i = 0; i < pixels; i++) {
                stow_mm_end_s8(mm, pixel + i, output, count, sums[i]);
            }
        }
    }
}

/* Channels that are summed at once, on the stack. */
#define STOW_DEPTHWISE_LANES 16

/* Add one tap to the sums of output channels [first, first + count); x is the pixel under it. */
static void stow_depthwise_tap_s8(uint32_t *sums, size_t first, size_t count, size_t multiplier, const int8_t *x,
                                  const int8_t *w)
{
    if (multiplier == 1) {
        x += first;
        for (size_t i = 0; i < count; i++) {
            sums[i] += (uint32_t)(x[i] * w[i]);
        }
        return;
    }
    size_t input = first / multiplier;
    size_t left = multiplier - first % multiplier;
    for (size_t i = 0; i < count; i++) {
        sums[i] += (uint32_t)(x[input] * w[i]);
        if (--left == 0) {
            input++;
            left = multiplier;
        }
    }
}

/* A tap outside the input: the bias counts on every tap, so it contributes the zero point. */
static void stow_depthwise_fill_s8(uint32_t *sums, size_t count, int32_t zero_point, const int8_t *w)
{
    for (size_t i = 0; i < count; i++) {
        sums[i] += (uint32_t)zero_point * (uint32_t)w[i];
    }
}

/* One row of the kernel; `row` is the input's under it, NULL outside the input. */
STOW_API void stow_depthwise_add_row_s8(const stow_depthwise_s8 *op, uint32_t *sums, size_t first, size_t count,
                                        const int8_t *row, int32_t left, const int8_t *w)
{
    const stow_window *window = &op->window;
    const stow_taps columns = stow_clip(left, window->kernel_w, window->dilation_w, window->in_w);
    const size_t multiplier = (size_t)window->out_c / (size_t)window->in_c;
    for (int32_t j = 0; j < window->kernel_w; j++, w += op->filter.weights_step) {
        if (row != NULL && j >= columns.first && j < columns.last) {
            const size_t pixel = (size_t)(left + j * window->dilation_w) * (size_t)window->in_c;
            stow_depthwise_tap_s8(sums, first, count, multiplier, row + pixel, w + first);
        } else {
            stow_depthwise_fill_s8(sums, count, op->in_zero_point, w + first);
        }
    }
}

STOW_API void stow_depthwise_row_portable_s8(const stow_depthwise_s8 *op, const stow_place *place, int8_t *out)
{
    const stow_window *window = &op->window;
    const size_t outputs = (size_t)window->out_c;
    const size_t row_weights = (size_t)window->kernel_w * op->filter.weights_step;
    uint32_t sums[STOW_DEPTHWISE_LANES];
    for (int32_t column = 0; column < window->out_w; column++, out += outputs) {
        const int32_t left = column * window->stride_w - window->pad_left;
        for (size_t first = 0; first < outputs; first += STOW_DEPTHWISE_LANES) {
            const size_t count = outputs - first < STOW_DEPTHWISE_LANES ? outputs - first : STOW_DEPTHWISE_LANES;
            const int8_t *w = op->filter.weights;
            for (size_t i = 0; i < count; i++) {
                sums[i] = stow_first_sum(&op->filter, first + i);
            }
            for (int32_t tap = 0; tap < window->kernel_h; tap++, w += row_weights) {
                const int inside = tap >= place->taps.first && tap < place->taps.last;
                const void *row = inside ? stow_row_under(&op->in, window, place, tap) : NULL;
                stow_depthwise_add_row_s8(op, sums, first, count, row, left, w);
            }
            for (size_t i = 0; i < count; i++) {
                out[first + i] = stow_output_s8(&op->filter, first + i, sums[i]);
            }
        }
    }
}

/* Operands are scaled to a common scale with this many bits below the point. */
#define STOW_ADD_BITS 20

STOW_API int8_t stow_add_one_s8(const int32_t *params, int32_t a, int32_t b)
{
    const int32_t wide_a = (a - params[STOW_ADD_S8_A_ZERO_POINT]) * (1 << STOW_ADD_BITS);
    const int32_t wide_b = (b - params[STOW_ADD_S8_B_ZERO_POINT]) * (1 << STOW_ADD_BITS);
    const int32_t sum = stow_wrap_add(stow_scale(wide_a, params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT]),
                                      stow_scale(wide_b, params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT]));
    const int32_t scaled = stow_scale(sum, params[STOW_ADD_S8_OUTPUT_MULTIPLIER], params[STOW_ADD_S8_OUTPUT_SHIFT]);
    return (int8_t)stow_clamp(stow_wrap_add(scaled, params[STOW_ADD_S8_OUTPUT_ZERO_POINT]), params[STOW_ADD_S8_ACT_MIN],
                              params[STOW_ADD_S8_ACT_MAX]);
}

STOW_API void stow_add_portable_s8(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = stow_add_one_s8(params, a[i], b[i]);
    }
}
