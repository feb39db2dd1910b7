/* Convolution of each channel by itself, int8 and float32. Weights are [kernel_h, kernel_w, out_c].
 *
 * An int8 kernel as high as its input has one output row; it can also run row by row of the input, with its sums in
 * the arena: then no input row has to wait for the others.
 */
#include "stow_set.h"

#if STOW_WITH_DEPTHWISE_CONV_2D_S8

/* Add input rows to the sums of all outputs; finish after the last one. */
static void stow_depthwise_accumulate_s8(const stow_depthwise_s8 *op, const stow_call *call, uint32_t *sums)
{
    const stow_rows result = stow_result(call);
    const size_t outputs = (size_t)op->window.out_c;
    const size_t row_weights = (size_t)op->window.kernel_w * op->filter.weights_step;
    const uint32_t last = call->first + call->count;
    int8_t *out = (int8_t *)stow_row(&result, 0);
    for (int32_t column = 0; column < op->window.out_w; column++, sums += outputs, out += outputs) {
        const int32_t left = column * op->window.stride_w - op->window.pad_left;
        for (size_t i = 0; call->first == 0 && i < outputs; i++) {
            sums[i] = stow_first_sum(&op->filter, i);
        }
        for (uint32_t unit = call->first; unit < last; unit++) {
            const int8_t *row = (const int8_t *)stow_row(&op->in, unit);
            stow_depthwise_add_row_s8(op, sums, 0, outputs, row, left, op->filter.weights + unit * row_weights);
        }
        for (size_t i = 0; last == (uint32_t)op->window.in_h && i < outputs; i++) {
            out[i] = stow_output_s8(&op->filter, i, sums[i]);
        }
    }
}

STOW_API void stow_depthwise_conv_2d_s8_run(const stow_call *call)
{
    stow_depthwise_s8 op;
    stow_read_window(&op.window, call->params);
    stow_read_filter_s8(&op.filter, call, STOW_DEPTHWISE_CONV_2D_S8_OUTPUT_ZERO_POINT);
    op.in = stow_operand(call, 0);
    op.in_zero_point = call->params[STOW_DEPTHWISE_CONV_2D_S8_INPUT_ZERO_POINT];
    if (STOW_WITH_ACCUMULATORS && stow_accumulator(call) != NULL) {
        stow_depthwise_accumulate_s8(&op, call, stow_accumulator(call));
        return;
    }
    /* By input rows without sums in the arena is one firing, for the one output row. */
    const int by_input = (call->node->flags & STOW_NODE_BY_INPUT) != 0;
    const uint32_t first_row = by_input ? 0 : call->first, last_row = by_input ? 1 : call->first + call->count;
    const stow_rows result = stow_result(call);
    for (uint32_t unit = first_row; unit < last_row; unit++) {
        const stow_place place = stow_place_of(&op.window, unit);
        stow_kernel_set()->depthwise_row_s8(&op, &place, (int8_t *)stow_row(&result, unit));
    }
}

/* One image, one output row, and every input row under one row of the kernel. */
static int stow_is_by_input(const stow_facts *facts, const stow_window *w)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    const int64_t sums = stow_size(stow_size(w->out_w, w->out_c), 4);
    return facts->node->units == in.rows && in.rows == (uint32_t)w->in_h && out.rows == 1 && w->pad_top == 0 &&
           w->kernel_h == w->in_h && w->dilation_h == 1 &&
           (facts->node->accumulator == UINT16_MAX || stow_accumulator_bytes(facts) >= (uint64_t)sums);
}

STOW_API int stow_depthwise_conv_2d_s8_check(const stow_facts *facts)
{
    const int by_input = (facts->node->flags & STOW_NODE_BY_INPUT) != 0;
    if (by_input ? stow_operand_count(facts) != 1 || facts->param_count != STOW_DEPTHWISE_CONV_2D_S8_PARAMS
                 : !stow_is_plain(facts, 1, STOW_DEPTHWISE_CONV_2D_S8_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_window(&w, facts->params);
    if (by_input && !stow_is_by_input(facts, &w)) {
        return 0;
    }
    return stow_is_window(facts, &w, 1) && w.out_c % w.in_c == 0 &&
           stow_is_filter_s8(facts, STOW_DEPTHWISE_CONV_2D_S8_OUTPUT_ZERO_POINT, stow_size(w.kernel_h, w.kernel_w),
                             w.out_c, w.out_c);
}

#endif

#if STOW_WITH_DEPTHWISE_CONV_2D_F32

/* Channels that are summed at once, on the stack. */
#define STOW_DEPTHWISE_LANES_F32 16

/* A run of output channels [first, first + count), and the input channel of the first. */
typedef struct stow_channels {
    size_t first;
    size_t count;
    size_t multiplier; /* output channels for each input channel */
} stow_channels;

static inline stow_channels stow_channels_from(const stow_window *window, size_t first)
{
    const size_t outputs = (size_t)window->out_c;
    const size_t left = outputs - first;
    const stow_channels channels = {
        .first = first,
        .count = left < STOW_DEPTHWISE_LANES_F32 ? left : STOW_DEPTHWISE_LANES_F32,
        .multiplier = outputs / (size_t)window->in_c,
    };
    return channels;
}

/* The weights have kernel_h * kernel_w * out_c elements, and the channels divide. */
static inline int64_t stow_depthwise_weights(const stow_window *w)
{
    return w->out_c % w->in_c == 0 ? stow_size(stow_size(w->kernel_h, w->kernel_w), w->out_c) : 0;
}

typedef struct stow_depthwise_f32 {
    stow_window window;
    stow_filter_f32 filter;
    stow_rows in;
} stow_depthwise_f32;

static void stow_depthwise_tap_f32(float *sums, stow_channels channels, const float *x, const float *w)
{
    if (channels.multiplier == 1) {
        x += channels.first;
        for (size_t i = 0; i < channels.count; i++) {
            sums[i] += x[i] * w[i];
        }
        return;
    }
    size_t input = channels.first / channels.multiplier;
    size_t left = channels.multiplier - channels.first % channels.multiplier;
    for (size_t i = 0; i < channels.count; i++) {
        sums[i] += x[input] * w[i];
        if (--left == 0) {
            input++;
            left = channels.multiplier;
        }
    }
}

static void stow_depthwise_sum_f32(const stow_depthwise_f32 *op, float *sums, const stow_place *place, int32_t column,
                                   stow_channels channels)
{
    const stow_window *window = &op->window;
    const int32_t left = column * window->stride_w - window->pad_left;
    const stow_taps columns = stow_clip(left, window->kernel_w, window->dilation_w, window->in_w);
    for (int32_t i = place->taps.first; i < place->taps.last; i++) {
        const float *row = (const float *)(const void *)stow_row_under(&op->in, window, place, i);
        for (int32_t j = columns.first; j < columns.last; j++) {
            const size_t tap = (size_t)i * (size_t)window->kernel_w + (size_t)j;
            const size_t pixel = (size_t)(left + j * window->dilation_w) * (size_t)window->in_c;
            const float *w = op->filter.weights + tap * (size_t)window->out_c + channels.first;
            stow_depthwise_tap_f32(sums, channels, row + pixel, w);
        }
    }
}

STOW_API void stow_depthwise_conv_2d_f32_run(const stow_call *call)
{
    stow_depthwise_f32 op;
    stow_read_window(&op.window, call->params);
    stow_read_filter_f32(&op.filter, call, STOW_DEPTHWISE_CONV_2D_F32_ACT_MIN);
    op.in = stow_operand(call, 0);
    const stow_rows result = stow_result(call);
    const size_t outputs = (size_t)op.window.out_c;
    float sums[STOW_DEPTHWISE_LANES_F32];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&op.window, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (int32_t column = 0; column < op.window.out_w; column++, out += outputs) {
            for (size_t first = 0; first < outputs; first += STOW_DEPTHWISE_LANES_F32) {
                const stow_channels channels = stow_channels_from(&op.window, first);
                memset(sums, 0, sizeof sums);
                stow_depthwise_sum_f32(&op, sums, &place, column, channels);
                for (size_t i = 0; i < channels.count; i++) {
                    out[first + i] = stow_output_f32(&op.filter, first + i, sums[i]);
                }
            }
        }
    }
}

STOW_API int stow_depthwise_conv_2d_f32_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_DEPTHWISE_CONV_2D_F32_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_window(&w, facts->params);
    return stow_is_window(facts, &w, sizeof(float)) &&
           stow_is_filter_f32(facts, STOW_DEPTHWISE_CONV_2D_F32_ACT_MIN, stow_depthwise_weights(&w), w.out_c);
}

#endif
