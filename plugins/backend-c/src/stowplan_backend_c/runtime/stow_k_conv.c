/* Convolution, int8 and float32. */
#include "stow_mm.h"

#if STOW_WITH_CONV_2D_S8

/* Rows of a kernel whose places are found once for an output row. */
#define STOW_CONV_ROWS 10

typedef struct stow_conv_s8 {
    stow_window window;
    stow_filter_s8 filter;
    stow_rows in;
    int32_t in_zero_point;
    int direct;       /* what lies under a window lies together in memory, in the order of the weights */
    stow_place place; /* of the output row at hand */
    const int8_t *rows[STOW_CONV_ROWS];
} stow_conv_s8;

static const int8_t *stow_conv_find_row(const stow_conv_s8 *conv, int32_t tap)
{
    if (tap < conv->place.taps.first || tap >= conv->place.taps.last) {
        return NULL;
    }
    return (const int8_t *)stow_row_under(&conv->in, &conv->window, &conv->place, tap);
}

/* The input row under one row of the kernel; NULL outside the input. */
static const int8_t *stow_conv_row(const stow_conv_s8 *conv, int32_t tap)
{
    return tap < STOW_CONV_ROWS ? conv->rows[tap] : stow_conv_find_row(conv, tap);
}

static STOW_APART void stow_conv_turn_to(stow_conv_s8 *conv, uint32_t unit)
{
    const int32_t rows = conv->window.kernel_h < STOW_CONV_ROWS ? conv->window.kernel_h : STOW_CONV_ROWS;
    conv->place = stow_place_of(&conv->window, unit);
    for (int32_t tap = 0; tap < rows; tap++) {
        conv->rows[tap] = stow_conv_find_row(conv, tap);
    }
}

/* What lies under one row of the kernel: of the `size` elements from `start` on, those of taps inside the input. Outside
 * it they are the zero point, since the bias counts on every tap. */
static void stow_conv_gather_row_s8(const stow_conv_s8 *conv, const int8_t *row, int32_t left, size_t start, size_t size,
                                    stow_mm_patch patch, size_t to)
{
    const stow_window *window = &conv->window;
    const stow_taps columns = stow_clip(left, window->kernel_w, 1, window->in_w);
    const size_t depth = (size_t)window->in_c;
    const size_t low = (size_t)columns.first * depth, high = (size_t)columns.last * depth;
    const size_t end = start + size;
    const size_t first = start < low ? (low < end ? low : end) : start;
    const size_t last = high < first ? first : high < end ? high : end;
    stow_mm_fill(patch, to, conv->in_zero_point, first - start);
    if (first < last) {
        const int8_t *from = row + (size_t)(left + columns.first) * depth + (first - low);
        stow_mm_put(patch, to + (first - start), from, last - first);
    }
    stow_mm_fill(patch, to + (last - start), conv->in_zero_point, end - last);
}

/* The same with gaps between the taps: one after another. */
static void stow_conv_gather_apart_s8(const stow_conv_s8 *conv, const int8_t *row, int32_t left, size_t start,
                                      size_t size, stow_mm_patch patch, size_t to)
{
    const stow_window *window = &conv->window;
    const size_t depth = (size_t)window->in_c;
    while (size > 0) {
        const int32_t column = left + (int32_t)(start / depth) * window->dilation_w;
        const size_t at = start % depth;
        const size_t run = depth - at < size ? depth - at : size;
        if (column >= 0 && column < window->in_w) {
            stow_mm_put(patch, to, row + (size_t)column * depth + at, run);
        } else {
            stow_mm_fill(patch, to, conv->in_zero_point, run);
        }
        start += run, size -= run, to += run;
    }
}

/* Bring elements [start, start + size) of those under a window together. */
static void stow_conv_gather_s8(const stow_conv_s8 *conv, size_t column, size_t start, size_t size, stow_mm_patch patch)
{
    const stow_window *window = &conv->window;
    const int32_t left = (int32_t)column * window->stride_w - window->pad_left;
    const size_t row_size = (size_t)window->kernel_w * (size_t)window->in_c;
    const int inside = left >= 0 && left + window->kernel_w <= window->in_w && window->dilation_w == 1;
    size_t to = 0;
    int32_t tap = start == 0 ? 0 : (int32_t)(start / row_size);
    for (size_t at = start - (size_t)tap * row_size; size > 0 && tap < window->kernel_h; at = 0, tap++) {
        const size_t run = row_size - at < size ? row_size - at : size;
        const int8_t *row = stow_conv_row(conv, tap);
        if (row == NULL) {
            stow_mm_fill(patch, to, conv->in_zero_point, run);
        } else if (inside) {
            stow_mm_put(patch, to, row + (size_t)left * (size_t)window->in_c + at, run);
        } else if (!STOW_WITH_DILATED_COLUMNS || window->dilation_w == 1) {
            stow_conv_gather_row_s8(conv, row, left, at, run, patch, to);
        } else {
            stow_conv_gather_apart_s8(conv, row, left, at, run, patch, to);
        }
        size -= run, to += run;
    }
}

static void stow_conv_fetch_s8(const stow_mm_source *source, stow_mm_s8 *mm, size_t start)
{
    const stow_conv_s8 *conv = source->kernel;
    const size_t depth = (size_t)conv->window.in_c;
    if (conv->direct && conv->rows[0] != NULL) {
        mm->x_step = (size_t)conv->window.stride_w * depth;
        mm->x = conv->rows[0] + source->number * mm->x_step + start;
        return;
    }
    stow_mm_use_patch(mm);
    for (size_t pixel = 0; pixel < mm->pixels; pixel++) {
        stow_conv_gather_s8(conv, source->number + pixel, start, mm->depth, stow_mm_patch_of(mm, pixel));
    }
}

static int stow_conv_is_direct(const stow_conv_s8 *conv)
{
    const stow_window *w = &conv->window;
    return w->kernel_h == 1 && w->dilation_w == 1 && w->pad_left == 0 && w->pad_top == 0 &&
           (w->out_w - 1) * w->stride_w + w->kernel_w <= w->in_w &&
           conv->filter.weights_step == (size_t)w->kernel_w * (size_t)w->in_c;
}

/* How many output rows are one run of vectors in memory: all of a call or one. */
static uint32_t stow_conv_rows_at_once(const stow_conv_s8 *conv, const stow_rows *result, uint32_t count)
{
    const stow_window *w = &conv->window;
    return conv->direct && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->in_w == w->out_w &&
                   w->in_h == w->out_h && stow_rows_are_together(&conv->in) && stow_rows_are_together(result)
               ? count
               : 1;
}

static STOW_APART void stow_conv_read_s8(stow_conv_s8 *conv, const stow_call *call)
{
    stow_read_window(&conv->window, call->params);
    stow_read_filter_s8(&conv->filter, call, STOW_CONV_2D_S8_OUTPUT_ZERO_POINT);
    conv->in = stow_operand(call, 0);
    conv->in_zero_point = call->params[STOW_CONV_2D_S8_INPUT_ZERO_POINT];
    conv->direct = stow_conv_is_direct(conv);
}

STOW_API void stow_conv_2d_s8_run(const stow_call *call)
{
    stow_mm_room room;
    stow_conv_s8 conv;
    stow_conv_read_s8(&conv, call);
    stow_mm_source source = {stow_conv_fetch_s8, &conv, 0, conv.filter.weights_step, STOW_MM_PATCH, &room};
    if (!conv.direct) { /* else a vector has no elements that only pad it */
        memset(room.patch, 0, sizeof room.patch);
    }
    const stow_rows result = stow_result(call);
    const uint32_t at_once = stow_conv_rows_at_once(&conv, &result, call->count);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit += at_once) {
        stow_conv_turn_to(&conv, unit);
        source.part = conv.direct && conv.rows[0] != NULL ? 0 : STOW_MM_PATCH;
        stow_mm_run_s8(&source, &conv.filter, 0, at_once * (size_t)conv.window.out_w, (size_t)conv.window.out_c,
                       (int8_t *)stow_row(&result, unit));
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
           stow_is_filter_s8(facts, STOW_CONV_2D_S8_OUTPUT_ZERO_POINT, w.out_c,
                             stow_size(stow_size(w.kernel_h, w.kernel_w), w.in_c), w.out_c);
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
