/* Where a sliding window lies: the geometry that convolutions and pools share. */
#ifndef STOW_WINDOW_H
#define STOW_WINDOW_H

#include "stow_kernels.h"

/* The first parameters of every kind with a window, in their order, then what only convolutions have. */
typedef struct stow_window {
    int32_t in_h, in_w, in_c;
    int32_t out_h, out_w, out_c;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left;
    int32_t dilation_h, dilation_w;
} stow_window;

/* The elements [first, last) of a window along one axis that lie inside the input. */
typedef struct stow_taps {
    int32_t first;
    int32_t last;
} stow_taps;

/* Filled in place: a structure that is returned lies on the stack twice. */
static inline void stow_read_pool(stow_window *window, const int32_t *params)
{
    window->in_h = params[STOW_CONV_2D_S8_IN_H];
    window->in_w = params[STOW_CONV_2D_S8_IN_W];
    window->in_c = params[STOW_CONV_2D_S8_IN_C];
    window->out_h = params[STOW_CONV_2D_S8_OUT_H];
    window->out_w = params[STOW_CONV_2D_S8_OUT_W];
    window->out_c = params[STOW_CONV_2D_S8_OUT_C];
    window->kernel_h = params[STOW_CONV_2D_S8_KERNEL_H];
    window->kernel_w = params[STOW_CONV_2D_S8_KERNEL_W];
    window->stride_h = params[STOW_CONV_2D_S8_STRIDE_H];
    window->stride_w = params[STOW_CONV_2D_S8_STRIDE_W];
    window->pad_top = params[STOW_CONV_2D_S8_PAD_TOP];
    window->pad_left = params[STOW_CONV_2D_S8_PAD_LEFT];
    window->dilation_h = 1;
    window->dilation_w = 1;
}

static inline void stow_read_window(stow_window *window, const int32_t *params)
{
    stow_read_pool(window, params);
    window->dilation_h = params[STOW_CONV_2D_S8_DILATION_H];
    window->dilation_w = params[STOW_CONV_2D_S8_DILATION_W];
}

_Static_assert(STOW_CONV_2D_S8_IN_H == 0 && STOW_CONV_2D_S8_PAD_LEFT == 11, "order of the window's parameters");
_Static_assert(STOW_AVERAGE_POOL_2D_S8_IN_H == 0 && STOW_AVERAGE_POOL_2D_S8_ACT_MIN == 12, "pools have the same");
_Static_assert(STOW_MAX_POOL_2D_F32_IN_H == 0 && STOW_MAX_POOL_2D_F32_ACT_MIN == 12, "pools have the same");
_Static_assert(STOW_CONV_2D_S8_DILATION_W == 13 && STOW_CONV_2D_F32_DILATION_W == 13 &&
                   STOW_DEPTHWISE_CONV_2D_S8_DILATION_W == 13 && STOW_DEPTHWISE_CONV_2D_F32_DILATION_W == 13,
               "so do all convolutions");

static inline int32_t stow_ceil_divide(int32_t value, int32_t by)
{
    return by == 1 ? value : (value + by - 1) / by;
}

/* Which taps of a window that begins at `start` lie in [0, size). */
static inline stow_taps stow_clip(int32_t start, int32_t kernel, int32_t dilation, int32_t size)
{
    stow_taps taps = {0, 0};
    if (start >= size) {
        return taps;
    }
    const int32_t end = stow_ceil_divide(size - start, dilation);
    taps.last = end < kernel ? end : kernel;
    if (start < 0) {
        taps.first = stow_ceil_divide(-start, dilation);
        if (taps.first > taps.last) {
            taps.first = taps.last;
        }
    }
    return taps;
}

/* The output columns whose windows lie inside the input; an empty range where there are none. */
static inline stow_taps stow_inner_columns(const stow_window *w)
{
    const int32_t room = w->in_w - 1 - (w->kernel_w - 1) * w->dilation_w + w->pad_left;
    stow_taps columns = {stow_ceil_divide(w->pad_left, w->stride_w), room < 0 ? 0 : room / w->stride_w + 1};
    columns.last = columns.last < w->out_w ? columns.last : w->out_w;
    columns.first = columns.first < columns.last ? columns.first : columns.last;
    return columns;
}

/* One axis: everything positive, and no coordinate beyond 2^30. */
static inline int stow_is_axis(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad, int32_t dilation)
{
    const int64_t limit = INT64_C(1) << 28;
    return in > 0 && out > 0 && kernel > 0 && stride > 0 && pad >= 0 && dilation > 0 && in <= limit && pad <= limit &&
           (int64_t)(out - 1) * stride <= limit && (int64_t)kernel * dilation <= limit;
}

/* Whether operand 0 and the result are images of the window's sizes, and all coordinates fit 32 bits. */
static inline int stow_is_window(const stow_facts *facts, const stow_window *window, int64_t element_bytes)
{
    const stow_form in = stow_operand_form(facts, 0);
    const stow_form out = stow_result_form(facts);
    const stow_window *w = window;
    if (!stow_is_axis(w->in_h, w->out_h, w->kernel_h, w->stride_h, w->pad_top, w->dilation_h) ||
        !stow_is_axis(w->in_w, w->out_w, w->kernel_w, w->stride_w, w->pad_left, w->dilation_w)) {
        return 0;
    }
    if (w->in_c <= 0 || w->out_c <= 0 || stow_size(stow_size(w->in_w, w->in_c), element_bytes) != in.row_bytes ||
        stow_size(stow_size(w->out_w, w->out_c), element_bytes) != out.row_bytes) {
        return 0;
    }
    const uint32_t images = in.rows / (uint32_t)w->in_h;
    return images > 0 && in.rows % (uint32_t)w->in_h == 0 && (uint64_t)images * (uint32_t)w->out_h == out.rows;
}

/* Whether every window has an element inside the input; a pool of nothing has no value. */
static inline int stow_windows_touch(const stow_window *w)
{
    return w->kernel_h > w->pad_top && w->kernel_w > w->pad_left &&
           (int64_t)(w->out_h - 1) * w->stride_h - w->pad_top < w->in_h &&
           (int64_t)(w->out_w - 1) * w->stride_w - w->pad_left < w->in_w;
}

/* The top of a window: the first input row of its image, and the row of the image at which it starts. */
typedef struct stow_place {
    uint32_t image_row;
    int32_t start;
    stow_taps taps;
} stow_place;

static inline stow_place stow_place_of(const stow_window *window, uint32_t unit)
{
    const uint32_t out_h = (uint32_t)window->out_h;
    stow_place place;
    place.image_row = unit / out_h * (uint32_t)window->in_h;
    place.start = (int32_t)(unit % out_h) * window->stride_h - window->pad_top;
    place.taps = stow_clip(place.start, window->kernel_h, window->dilation_h, window->in_h);
    return place;
}

/* The input row under tap `tap` of a window; the tap lies inside the input. */
static inline const uint8_t *stow_row_under(const stow_rows *rows, const stow_window *window, const stow_place *place,
                                            int32_t tap)
{
    return stow_row(rows, place->image_row + (uint32_t)(place->start + tap * window->dilation_h));
}

#endif
