/* Convolution, int8 and float32. */
#include "stow_filter.h"
#include "stow_window.h"

#if STOW_WITH_CONV_2D_S8

typedef struct stow_conv_s8 {
    stow_window window;
    stow_filter_s8 filter;
    stow_rows in;
    int32_t in_zero_point;
} stow_conv_s8;

/* Add zero_point . w: what taps outside the input contribute, since the bias counts on every tap. */
static void stow_conv_fill_s8(uint32_t *sums, size_t lanes, int32_t zero_point, const int8_t *w, size_t step, size_t size)
{
    if (zero_point == 0) {
        return;
    }
    for (size_t lane = 0; lane < lanes; lane++, w += step) {
        int32_t sum = 0;
        for (size_t i = 0; i < size; i++) {
            sum = stow_wrap_add(sum, w[i]);
        }
        sums[lane] += (uint32_t)zero_point * (uint32_t)sum;
    }
}

/* Add one row of the kernel, with the taps of `columns` inside the input; x is where tap 0 would lie. */
static void stow_conv_row_s8(const stow_conv_s8 *conv, uint32_t *sums, size_t lanes, const int8_t *row, int32_t left,
                             stow_taps columns, const int8_t *w, size_t step)
{
    const size_t depth = (size_t)conv->window.in_c;
    const size_t first = (size_t)columns.first, last = (size_t)columns.last;
    const size_t width = (size_t)conv->window.kernel_w;
    stow_conv_fill_s8(sums, lanes, conv->in_zero_point, w, step, first * depth);
    if (conv->window.dilation_w == 1) {
        if (first < last) {
            const int8_t *x = row + (size_t)(left + columns.first) * depth;
            stow_dot_s8(sums, lanes, x, w + first * depth, step, (last - first) * depth);
        }
    } else {
        for (size_t tap = first; tap < last; tap++) {
            const int8_t *x = row + (size_t)(left + (int32_t)tap * conv->window.dilation_w) * depth;
            stow_dot_s8(sums, lanes, x, w + tap * depth, step, depth);
        }
    }
    stow_conv_fill_s8(sums, lanes, conv->in_zero_point, w + last * depth, step, (width - last) * depth);
}

static void stow_conv_pixel_s8(const stow_conv_s8 *conv, const stow_place *place, int32_t column, int8_t *out)
{
    const stow_window *window = &conv->window;
    const size_t row_size = (size_t)window->kernel_w * (size_t)window->in_c;
    const size_t step = (size_t)window->kernel_h * row_size;
    const size_t outputs = (size_t)window->out_c;
    const int32_t left = column * window->stride_w - window->pad_left;
    const stow_taps columns = stow_clip(left, window->kernel_w, window->dilation_w, window->in_w);
    for (size_t output = 0; output < outputs; output += STOW_LANES) {
        const size_t lanes = stow_lanes(output, outputs);
        const int8_t *w = conv->filter.weights + output * step;
        uint32_t sums[STOW_LANES];
        for (size_t lane = 0; lane < lanes; lane++) {
            sums[lane] = stow_first_sum(&conv->filter, output + lane);
        }
        for (int32_t tap = 0; tap < window->kernel_h; tap++, w += row_size) {
            if (tap < place->taps.first || tap >= place->taps.last) {
                stow_conv_fill_s8(sums, lanes, conv->in_zero_point, w, step, row_size);
            } else {
                const uint8_t *row = stow_row_under(&conv->in, window, place, tap);
                stow_conv_row_s8(conv, sums, lanes, (const int8_t *)row, left, columns, w, step);
            }
        }
        for (size_t lane = 0; lane < lanes; lane++) {
            out[output + lane] = stow_output_s8(&conv->filter, output + lane, sums[lane]);
        }
    }
}

STOW_API void stow_conv_2d_s8_run(const stow_call *call)
{
    stow_conv_s8 conv;
    stow_read_window(&conv.window, call->params);
    stow_read_filter_s8(&conv.filter, call, STOW_CONV_2D_S8_OUTPUT_ZERO_POINT);
    conv.in = stow_operand(call, 0);
    conv.in_zero_point = call->params[STOW_CONV_2D_S8_INPUT_ZERO_POINT];
    const stow_rows result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&conv.window, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (int32_t column = 0; column < conv.window.out_w; column++, out += conv.window.out_c) {
            stow_conv_pixel_s8(&conv, &place, column, out);
        }
    }
}

STOW_API int stow_conv_2d_s8_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_CONV_2D_S8_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_window(&w, facts->params);
    return stow_is_window(facts, &w, 1) &&
           stow_is_filter_s8(facts, STOW_CONV_2D_S8_OUTPUT_ZERO_POINT,
                             stow_size(stow_size(stow_size(w.out_c, w.kernel_h), w.kernel_w), w.in_c), w.out_c);
}

#endif

#if STOW_WITH_CONV_2D_F32

typedef struct stow_conv_f32 {
    stow_window window;
    stow_filter_f32 filter;
    stow_rows in;
} stow_conv_f32;

/* Add one row of the kernel; taps outside the input add nothing. */
static void stow_conv_row_f32(const stow_conv_f32 *conv, float *sums, size_t lanes, const float *row, int32_t left,
                              stow_taps columns, const float *w, size_t step)
{
    const size_t depth = (size_t)conv->window.in_c;
    if (conv->window.dilation_w == 1) {
        if (columns.first < columns.last) {
            const float *x = row + (size_t)(left + columns.first) * depth;
            const size_t size = (size_t)(columns.last - columns.first) * depth;
            stow_dot_f32(sums, lanes, x, w + (size_t)columns.first * depth, step, size);
        }
        return;
    }
    for (int32_t tap = columns.first; tap < columns.last; tap++) {
        const float *x = row + (size_t)(left + tap * conv->window.dilation_w) * depth;
        stow_dot_f32(sums, lanes, x, w + (size_t)tap * depth, step, depth);
    }
}

static void stow_conv_pixel_f32(const stow_conv_f32 *conv, const stow_place *place, int32_t column, float *out)
{
    const stow_window *window = &conv->window;
    const size_t row_size = (size_t)window->kernel_w * (size_t)window->in_c;
    const size_t step = (size_t)window->kernel_h * row_size;
    const size_t outputs = (size_t)window->out_c;
    const int32_t left = column * window->stride_w - window->pad_left;
    const stow_taps columns = stow_clip(left, window->kernel_w, window->dilation_w, window->in_w);
    for (size_t output = 0; output < outputs; output += STOW_LANES) {
        const size_t lanes = stow_lanes(output, outputs);
        float sums[STOW_LANES] = {0};
        for (int32_t tap = place->taps.first; tap < place->taps.last; tap++) {
            const void *row = stow_row_under(&conv->in, window, place, tap);
            const float *w = conv->filter.weights + output * step + (size_t)tap * row_size;
            stow_conv_row_f32(conv, sums, lanes, row, left, columns, w, step);
        }
        for (size_t lane = 0; lane < lanes; lane++) {
            out[output + lane] = stow_output_f32(&conv->filter, output + lane, sums[lane]);
        }
    }
}

STOW_API void stow_conv_2d_f32_run(const stow_call *call)
{
    stow_conv_f32 conv;
    stow_read_window(&conv.window, call->params);
    stow_read_filter_f32(&conv.filter, call, STOW_CONV_2D_F32_ACT_MIN);
    conv.in = stow_operand(call, 0);
    const stow_rows result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&conv.window, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (int32_t column = 0; column < conv.window.out_w; column++, out += conv.window.out_c) {
            stow_conv_pixel_f32(&conv, &place, column, out);
        }
    }
}

STOW_API int stow_conv_2d_f32_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_CONV_2D_F32_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_window(&w, facts->params);
    return stow_is_window(facts, &w, sizeof(float)) &&
           stow_is_filter_f32(facts, STOW_CONV_2D_F32_ACT_MIN,
                              stow_size(stow_size(stow_size(w.out_c, w.kernel_h), w.kernel_w), w.in_c), w.out_c);
}

#endif
