/* Filters on integers in their general form: int8 or int16 activations, weights with a zero point, groups, and
 * transposed convolution. Slower than the kernels of symmetric int8, which do not handle any of these. */
#include "stow_element.h"
#include "stow_window.h"

#if STOW_WITH_CONV_2D_INT || STOW_WITH_TRANSPOSE_CONV_2D_INT || STOW_WITH_FULLY_CONNECTED_INT

/* The parameters from `dtype` on, see _INTEGER_FILTER in planfile/kinds.py. */
enum stow_integer_params {
    STOW_INTEGER_DTYPE,
    STOW_INTEGER_WIDE,
    STOW_INTEGER_INPUT_ZERO_POINT,
    STOW_INTEGER_WEIGHTS_ZERO_POINT,
    STOW_INTEGER_OUTPUT_ZERO_POINT,
    STOW_INTEGER_MINIMUM,
    STOW_INTEGER_MAXIMUM,
    STOW_INTEGER_WEIGHTS,
    STOW_INTEGER_BIAS,
    STOW_INTEGER_MULTIPLIER,
    STOW_INTEGER_SHIFT,
    STOW_INTEGER_PARAMS
};

typedef struct stow_integer_filter {
    const int8_t *weights;
    const uint8_t *bias;
    const int32_t *multiplier;
    const int32_t *shift;
    size_t step; /* 1 when multiplier and shift have one entry per output channel, else 0 */
    const int32_t *params;
} stow_integer_filter;

static void stow_read_integer_filter(stow_integer_filter *filter, const stow_call *call, uint32_t first)
{
    const stow_facts facts = {call->plan, call->node, call->params, call->node->param_count};
    filter->params = call->params + first;
    filter->weights = stow_constant(call, filter->params[STOW_INTEGER_WEIGHTS]);
    filter->bias = stow_constant(call, filter->params[STOW_INTEGER_BIAS]);
    filter->multiplier = stow_constant(call, filter->params[STOW_INTEGER_MULTIPLIER]);
    filter->shift = stow_constant(call, filter->params[STOW_INTEGER_SHIFT]);
    filter->step = stow_constant_bytes(&facts, filter->params[STOW_INTEGER_SHIFT]) > sizeof(int32_t) ? 1 : 0;
}

static int stow_is_integer_filter(const stow_facts *facts, uint32_t first, int64_t weights, int64_t outputs)
{
    const int32_t *p = facts->params + first;
    const int64_t words = (int64_t)stow_constant_bytes(facts, p[STOW_INTEGER_MULTIPLIER]);
    const int64_t bias_bytes = p[STOW_INTEGER_WIDE] != 0 ? 8 : 4;
    return (p[STOW_INTEGER_DTYPE] == STOW_DTYPE_INT8 || p[STOW_INTEGER_DTYPE] == STOW_DTYPE_INT16) &&
           stow_has_bytes(facts, p[STOW_INTEGER_WEIGHTS], weights) && p[STOW_INTEGER_MINIMUM] <= p[STOW_INTEGER_MAXIMUM] &&
           (p[STOW_INTEGER_BIAS] == -1 || stow_has_bytes(facts, p[STOW_INTEGER_BIAS], outputs * bias_bytes)) &&
           (words == 4 || words == outputs * 4) && stow_has_bytes(facts, p[STOW_INTEGER_SHIFT], words);
}

static uint64_t stow_integer_bias(const stow_integer_filter *filter, size_t output)
{
    if (filter->bias == NULL) {
        return 0;
    }
    const int wide = filter->params[STOW_INTEGER_WIDE] != 0;
    const uint8_t *from = filter->bias + output * (wide ? 8u : 4u);
    return (uint64_t)stow_load_integer(from, wide ? STOW_DTYPE_INT64 : STOW_DTYPE_INT32);
}

static void stow_integer_output(const stow_integer_filter *filter, size_t output, uint64_t sum, uint8_t *to)
{
    const int32_t *p = filter->params;
    const size_t entry = output * filter->step;
    const int32_t multiplier = filter->multiplier[entry], shift = filter->shift[entry];
    const int32_t scaled = p[STOW_INTEGER_WIDE] != 0 ? stow_scale_wide((int64_t)sum, multiplier, shift)
                                                     : stow_scale(stow_wrap((uint32_t)sum), multiplier, shift);
    const int32_t shifted = stow_wrap_add(scaled, p[STOW_INTEGER_OUTPUT_ZERO_POINT]);
    stow_store_integer(to, p[STOW_INTEGER_DTYPE], stow_clamp(shifted, p[STOW_INTEGER_MINIMUM], p[STOW_INTEGER_MAXIMUM]));
}

/* The sum of (x - its zero point) * (w - its zero point) over neighbouring elements. */
static uint64_t stow_integer_dot(const stow_integer_filter *filter, const uint8_t *x, const int8_t *w, size_t size)
{
    const int32_t zero_x = filter->params[STOW_INTEGER_INPUT_ZERO_POINT];
    const int32_t zero_w = filter->params[STOW_INTEGER_WEIGHTS_ZERO_POINT];
    uint64_t sum = 0;
    if (filter->params[STOW_INTEGER_DTYPE] == STOW_DTYPE_INT8) {
        const int8_t *from = (const int8_t *)x;
        for (size_t i = 0; i < size; i++) {
            sum += (uint64_t)(((int64_t)from[i] - zero_x) * ((int64_t)w[i] - zero_w));
        }
        return sum;
    }
    const int16_t *from = (const int16_t *)(const void *)x;
    for (size_t i = 0; i < size; i++) {
        sum += (uint64_t)(((int64_t)from[i] - zero_x) * ((int64_t)w[i] - zero_w));
    }
    return sum;
}

#endif

#if STOW_WITH_CONV_2D_INT

typedef struct stow_conv_int {
    stow_window window;
    stow_integer_filter filter;
    stow_rows in;
    size_t depth; /* input channels of a group */
    size_t size;  /* bytes of an element */
} stow_conv_int;

static uint64_t stow_conv_sum_int(const stow_conv_int *conv, const stow_place *place, int32_t left, stow_taps columns,
                                  size_t output)
{
    const stow_window *window = &conv->window;
    const size_t outputs = (size_t)window->out_c / ((size_t)window->in_c / conv->depth);
    const size_t first = output / outputs * conv->depth;
    uint64_t sum = stow_integer_bias(&conv->filter, output);
    for (int32_t tap = place->taps.first; tap < place->taps.last; tap++) {
        const uint8_t *row = stow_row_under(&conv->in, window, place, tap);
        for (int32_t column = columns.first; column < columns.last; column++) {
            const size_t pixel = (size_t)(left + column * window->dilation_w) * (size_t)window->in_c + first;
            const size_t w = ((output * (size_t)window->kernel_h + (size_t)tap) * (size_t)window->kernel_w +
                              (size_t)column) * conv->depth;
            sum += stow_integer_dot(&conv->filter, row + pixel * conv->size, conv->filter.weights + w, conv->depth);
        }
    }
    return sum;
}

STOW_API void stow_conv_2d_int_run(const stow_call *call)
{
    stow_conv_int conv;
    stow_read_window(&conv.window, call->params);
    stow_read_integer_filter(&conv.filter, call, STOW_CONV_2D_INT_DTYPE);
    conv.in = stow_operand(call, 0);
    conv.depth = (size_t)(conv.window.in_c / call->params[STOW_CONV_2D_INT_GROUPS]);
    conv.size = stow_integer_bytes(call->params[STOW_CONV_2D_INT_DTYPE]);
    const stow_rows result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&conv.window, unit);
        uint8_t *out = stow_row(&result, unit);
        for (int32_t column = 0; column < conv.window.out_w; column++) {
            const int32_t left = column * conv.window.stride_w - conv.window.pad_left;
            const stow_taps taps = stow_clip(left, conv.window.kernel_w, conv.window.dilation_w, conv.window.in_w);
            for (size_t output = 0; output < (size_t)conv.window.out_c; output++, out += conv.size) {
                stow_integer_output(&conv.filter, output, stow_conv_sum_int(&conv, &place, left, taps, output), out);
            }
        }
    }
}

_Static_assert(STOW_CONV_2D_INT_DILATION_W == 13, "the window comes first");

STOW_API int stow_conv_2d_int_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_CONV_2D_INT_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_window(&w, facts->params);
    const int32_t groups = facts->params[STOW_CONV_2D_INT_GROUPS];
    const uint32_t size = stow_integer_bytes(facts->params[STOW_CONV_2D_INT_DTYPE]);
    if (size == 0 || !stow_is_window(facts, &w, size) || groups < 1 || w.in_c % groups != 0 || w.out_c % groups != 0) {
        return 0;
    }
    const int64_t area = stow_size(stow_size(w.kernel_h, w.kernel_w), w.in_c / groups);
    return stow_is_integer_filter(facts, STOW_CONV_2D_INT_DTYPE, stow_size(area, w.out_c), w.out_c);
}

#endif

#if STOW_WITH_FULLY_CONNECTED_INT

STOW_API void stow_fully_connected_int_run(const stow_call *call)
{
    stow_integer_filter filter;
    stow_read_integer_filter(&filter, call, STOW_FULLY_CONNECTED_INT_DTYPE);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t size = stow_integer_bytes(call->params[STOW_FULLY_CONNECTED_INT_DTYPE]);
    const size_t features = (size_t)call->params[STOW_FULLY_CONNECTED_INT_FEATURES];
    const size_t outputs = (size_t)call->params[STOW_FULLY_CONNECTED_INT_OUTPUTS];
    const size_t width = result.row_bytes / size, in_row = in.row_bytes / size;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < width; i++, out += size) {
            const size_t vector = ((size_t)unit * width + i) / outputs, output = ((size_t)unit * width + i) % outputs;
            const int8_t *w = filter.weights + output * features;
            uint64_t sum = stow_integer_bias(&filter, output);
            for (size_t done = 0, part; done < features; done += part) {
                const size_t element = vector * features + done, left = in_row - element % in_row;
                part = left < features - done ? left : features - done;
                sum += stow_integer_dot(&filter, stow_element(&in, element, size), w + done, part);
            }
            stow_integer_output(&filter, output, sum, out);
        }
    }
}

STOW_API int stow_fully_connected_int_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_FULLY_CONNECTED_INT_PARAMS)) {
        return 0;
    }
    const int64_t features = facts->params[STOW_FULLY_CONNECTED_INT_FEATURES];
    const int64_t outputs = facts->params[STOW_FULLY_CONNECTED_INT_OUTPUTS];
    const uint32_t size = stow_integer_bytes(facts->params[STOW_FULLY_CONNECTED_INT_DTYPE]);
    if (size == 0 || features < 1 || outputs < 1) {
        return 0;
    }
    const int64_t inside = stow_elements(stow_operand_form(facts, 0), size);
    const int64_t outside = stow_elements(stow_result_form(facts), size);
    return inside > 0 && inside % features == 0 && stow_size(inside / features, outputs) == outside &&
           stow_is_integer_filter(facts, STOW_FULLY_CONNECTED_INT_DTYPE, stow_size(features, outputs), outputs);
}

#endif

#if STOW_WITH_TRANSPOSE_CONV_2D_INT

typedef struct stow_spread_int {
    stow_window window;
    stow_integer_filter filter;
    stow_rows in;
    size_t size;
} stow_spread_int;

/* The sum at (row, column) of one image: of the taps whose input element exists. */
static uint64_t stow_spread_sum_int(const stow_spread_int *op, uint32_t image_row, int32_t row, int32_t column,
                                    size_t output)
{
    const stow_window *w = &op->window;
    uint64_t sum = stow_integer_bias(&op->filter, output);
    for (int32_t p = 0; p < w->kernel_h; p++) {
        const int32_t y = row + w->pad_top - p;
        if (y < 0 || y % w->stride_h != 0 || y / w->stride_h >= w->in_h) {
            continue;
        }
        const uint8_t *from = stow_row(&op->in, image_row + (uint32_t)(y / w->stride_h));
        for (int32_t q = 0; q < w->kernel_w; q++) {
            const int32_t x = column + w->pad_left - q;
            if (x < 0 || x % w->stride_w != 0 || x / w->stride_w >= w->in_w) {
                continue;
            }
            const size_t tap = (output * (size_t)w->kernel_h + (size_t)p) * (size_t)w->kernel_w + (size_t)q;
            const size_t pixel = (size_t)(x / w->stride_w) * (size_t)w->in_c * op->size;
            sum += stow_integer_dot(&op->filter, from + pixel, op->filter.weights + tap * (size_t)w->in_c, (size_t)w->in_c);
        }
    }
    return sum;
}

STOW_API void stow_transpose_conv_2d_int_run(const stow_call *call)
{
    stow_spread_int op;
    stow_read_pool(&op.window, call->params);
    stow_read_integer_filter(&op.filter, call, STOW_TRANSPOSE_CONV_2D_INT_DTYPE);
    op.in = stow_operand(call, 0);
    op.size = stow_integer_bytes(call->params[STOW_TRANSPOSE_CONV_2D_INT_DTYPE]);
    const stow_rows result = stow_result(call);
    const uint32_t out_h = (uint32_t)op.window.out_h;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint32_t image_row = unit / out_h * (uint32_t)op.window.in_h;
        uint8_t *out = stow_row(&result, unit);
        for (int32_t column = 0; column < op.window.out_w; column++) {
            for (size_t output = 0; output < (size_t)op.window.out_c; output++, out += op.size) {
                const uint64_t sum = stow_spread_sum_int(&op, image_row, (int32_t)(unit % out_h), column, output);
                stow_integer_output(&op.filter, output, sum, out);
            }
        }
    }
}

STOW_API int stow_transpose_conv_2d_int_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_TRANSPOSE_CONV_2D_INT_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_pool(&w, facts->params);
    const uint32_t size = stow_integer_bytes(facts->params[STOW_TRANSPOSE_CONV_2D_INT_DTYPE]);
    return size > 0 && stow_is_window(facts, &w, size) &&
           stow_is_integer_filter(facts, STOW_TRANSPOSE_CONV_2D_INT_DTYPE,
                                  stow_size(stow_size(stow_size(w.out_c, w.kernel_h), w.kernel_w), w.in_c), w.out_c);
}

#endif
