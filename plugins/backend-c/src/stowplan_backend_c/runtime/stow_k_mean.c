/* Mean over height, width and channels in any combination, int8 and float32.
 *
 * Outputs are numbered through the whole result, whatever its rows. Over the height of one image a node may run row by
 * row of the input. Each output's elements are added in the order height, width, channel either way.
 */
#include "stow_kernels.h"
#include "stow_math.h"

#if STOW_WITH_MEAN_S8 || STOW_WITH_MEAN_F32

/* Sizes of one image before and after; a size after is 1 or the size before. */
typedef struct stow_reduction {
    size_t in_h, in_w, in_c;
    size_t out_h, out_w, out_c;
} stow_reduction;

/* A block of one image whose mean is one output. */
typedef struct stow_block_of {
    uint32_t row, rows;
    size_t column, columns;
    size_t channel, channels;
} stow_block_of;

_Static_assert(STOW_MEAN_S8_OUT_C == 5 && STOW_MEAN_F32_OUT_C == 5, "both kinds begin with the same parameters");

static stow_reduction stow_read_reduction(const int32_t *params)
{
    const stow_reduction reduction = {
        .in_h = (size_t)params[STOW_MEAN_S8_IN_H],   .in_w = (size_t)params[STOW_MEAN_S8_IN_W],
        .in_c = (size_t)params[STOW_MEAN_S8_IN_C],   .out_h = (size_t)params[STOW_MEAN_S8_OUT_H],
        .out_w = (size_t)params[STOW_MEAN_S8_OUT_W], .out_c = (size_t)params[STOW_MEAN_S8_OUT_C],
    };
    return reduction;
}

static int32_t stow_reduction_count(const stow_reduction *r)
{
    return (int32_t)(r->in_h / r->out_h * (r->in_w / r->out_w) * (r->in_c / r->out_c));
}

static stow_block_of stow_block_under(const stow_reduction *r, size_t output)
{
    const size_t channel = output % r->out_c, rest = output / r->out_c;
    const size_t column = rest % r->out_w, above = rest / r->out_w;
    const size_t row = above % r->out_h, image = above / r->out_h;
    const stow_block_of block = {
        .row = (uint32_t)(image * r->in_h + row),
        .rows = r->out_h == 1 ? (uint32_t)r->in_h : 1,
        .column = column,
        .columns = r->out_w == 1 ? r->in_w : 1,
        .channel = channel,
        .channels = r->out_c == 1 ? r->in_c : 1,
    };
    return block;
}

static int stow_is_reduced(int32_t in, int32_t out)
{
    return in > 0 && (out == 1 || out == in);
}

static int stow_is_reduction(const stow_facts *facts, int64_t element_bytes)
{
    const int32_t *p = facts->params;
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    if (!stow_is_reduced(p[STOW_MEAN_S8_IN_H], p[STOW_MEAN_S8_OUT_H]) ||
        !stow_is_reduced(p[STOW_MEAN_S8_IN_W], p[STOW_MEAN_S8_OUT_W]) ||
        !stow_is_reduced(p[STOW_MEAN_S8_IN_C], p[STOW_MEAN_S8_OUT_C])) {
        return 0;
    }
    const uint32_t images = in.rows / (uint32_t)p[STOW_MEAN_S8_IN_H];
    const int64_t size = stow_size(p[STOW_MEAN_S8_IN_W], p[STOW_MEAN_S8_IN_C]);
    const int64_t outputs = stow_size(stow_size(stow_size(p[STOW_MEAN_S8_OUT_W], p[STOW_MEAN_S8_OUT_C]),
                                                p[STOW_MEAN_S8_OUT_H]), images);
    /* More than 2^23 elements could overflow a sum of bytes. */
    return images > 0 && in.rows % (uint32_t)p[STOW_MEAN_S8_IN_H] == 0 &&
           stow_size(size, element_bytes) == in.row_bytes && stow_size(size, p[STOW_MEAN_S8_IN_H]) <= (1 << 23) &&
           out.row_bytes % (uint32_t)element_bytes == 0 && out.row_bytes > 0 && out.rows > 0 &&
           stow_size(outputs, element_bytes) == (int64_t)out.rows * out.row_bytes;
}

static int stow_is_mean(const stow_facts *facts, uint32_t params, int64_t element_bytes)
{
    if (stow_operand_count(facts) != 1 || facts->param_count != params || !stow_is_reduction(facts, element_bytes)) {
        return 0;
    }
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    if ((facts->node->flags & STOW_NODE_BY_INPUT) == 0) {
        return facts->node->units == out.rows && facts->node->accumulator == UINT16_MAX;
    }
    const int64_t sums = (int64_t)out.rows * out.row_bytes / element_bytes * 4;
    return facts->node->units == in.rows && in.rows == (uint32_t)facts->params[STOW_MEAN_S8_IN_H] &&
           facts->params[STOW_MEAN_S8_OUT_H] == 1 &&
           (facts->node->accumulator == UINT16_MAX || stow_accumulator_bytes(facts) >= (uint64_t)sums);
}

/* Result rows that a call completes: its units, or all of them when it runs by input rows. */
static uint32_t stow_mean_first(const stow_call *call)
{
    return (call->node->flags & STOW_NODE_BY_INPUT) != 0 ? 0 : call->first;
}

static uint32_t stow_mean_last(const stow_call *call, const stow_rows *result)
{
    return (call->node->flags & STOW_NODE_BY_INPUT) != 0 ? result->rows : call->first + call->count;
}

#endif

#if STOW_WITH_MEAN_S8

static int32_t stow_mean_sum_s8(const stow_rows *in, const stow_reduction *r, size_t output)
{
    const stow_block_of block = stow_block_under(r, output);
    int32_t sum = 0;
    for (uint32_t i = 0; i < block.rows; i++) {
        const int8_t *x = (const int8_t *)stow_row(in, block.row + i) + block.column * r->in_c + block.channel;
        for (size_t j = 0; j < block.columns; j++, x += r->in_c) {
            for (size_t c = 0; c < block.channels; c++) {
                sum += x[c];
            }
        }
    }
    return sum;
}

static int8_t stow_mean_of_s8(const int32_t *params, int32_t sum, int32_t count)
{
    const int32_t centred = stow_wrap_subtract(sum, params[STOW_MEAN_S8_INPUT_ZERO_POINT] * count);
    const int32_t scaled = stow_scale(centred, params[STOW_MEAN_S8_MULTIPLIER], params[STOW_MEAN_S8_SHIFT]);
    return (int8_t)stow_clamp(stow_wrap_add(scaled, params[STOW_MEAN_S8_OUTPUT_ZERO_POINT]), INT8_MIN, INT8_MAX);
}

/* Add the call's input rows to the sums of all outputs. */
static void stow_mean_accumulate_s8(const stow_call *call, const stow_reduction *r, int32_t *sums)
{
    const stow_rows in = stow_operand(call, 0);
    if (call->first == 0) {
        memset(sums, 0, r->out_w * r->out_c * sizeof *sums);
    }
    const size_t step = r->out_c == 1 ? 0 : 1, stride = r->out_w == 1 ? 0 : r->out_c;
    for (uint32_t row = call->first; row < call->first + call->count; row++) {
        const int8_t *x = (const int8_t *)stow_row(&in, row);
        for (size_t j = 0; j < r->in_w; j++, x += r->in_c) {
            for (size_t c = 0; c < r->in_c; c++) {
                int32_t *sum = sums + j * stride + c * step;
                *sum = stow_wrap_add(*sum, x[c]);
            }
        }
    }
}

STOW_API void stow_mean_s8_run(const stow_call *call)
{
    const stow_reduction reduction = stow_read_reduction(call->params);
    const int32_t count = stow_reduction_count(&reduction);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    int32_t *sums = stow_accumulator(call);
    if (sums != NULL) {
        stow_mean_accumulate_s8(call, &reduction, sums);
        if (call->first + call->count < reduction.in_h) {
            return;
        }
    }
    for (uint32_t row = stow_mean_first(call); row < stow_mean_last(call, &result); row++) {
        int8_t *out = (int8_t *)stow_row(&result, row);
        for (size_t i = 0; i < result.row_bytes; i++) {
            const size_t output = (size_t)row * result.row_bytes + i;
            const int32_t sum = sums != NULL ? sums[output] : stow_mean_sum_s8(&in, &reduction, output);
            out[i] = stow_mean_of_s8(call->params, sum, count);
        }
    }
}

STOW_API int stow_mean_s8_check(const stow_facts *facts)
{
    return stow_is_mean(facts, STOW_MEAN_S8_PARAMS, 1) && stow_is_int8(facts->params[STOW_MEAN_S8_INPUT_ZERO_POINT]);
}

#endif

#if STOW_WITH_MEAN_F32

static float stow_mean_sum_f32(const stow_rows *in, const stow_reduction *r, size_t output)
{
    const stow_block_of block = stow_block_under(r, output);
    float sum = 0.0f;
    for (uint32_t i = 0; i < block.rows; i++) {
        const float *row = (const float *)(const void *)stow_row(in, block.row + i);
        const float *x = row + block.column * r->in_c + block.channel;
        for (size_t j = 0; j < block.columns; j++, x += r->in_c) {
            for (size_t c = 0; c < block.channels; c++) {
                sum += x[c];
            }
        }
    }
    return sum;
}

static void stow_mean_accumulate_f32(const stow_call *call, const stow_reduction *r, float *sums)
{
    const stow_rows in = stow_operand(call, 0);
    if (call->first == 0) {
        memset(sums, 0, r->out_w * r->out_c * sizeof *sums);
    }
    const size_t step = r->out_c == 1 ? 0 : 1, stride = r->out_w == 1 ? 0 : r->out_c;
    for (uint32_t row = call->first; row < call->first + call->count; row++) {
        const float *x = (const float *)(const void *)stow_row(&in, row);
        for (size_t j = 0; j < r->in_w; j++, x += r->in_c) {
            for (size_t c = 0; c < r->in_c; c++) {
                sums[j * stride + c * step] += x[c];
            }
        }
    }
}

STOW_API void stow_mean_f32_run(const stow_call *call)
{
    const stow_reduction reduction = stow_read_reduction(call->params);
    const float count = (float)stow_reduction_count(&reduction);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t width = result.row_bytes / sizeof(float);
    float *sums = stow_accumulator(call);
    if (sums != NULL) {
        stow_mean_accumulate_f32(call, &reduction, sums);
        if (call->first + call->count < reduction.in_h) {
            return;
        }
    }
    for (uint32_t row = stow_mean_first(call); row < stow_mean_last(call, &result); row++) {
        float *out = (float *)(void *)stow_row(&result, row);
        for (size_t i = 0; i < width; i++) {
            const size_t output = row * width + i;
            out[i] = (sums != NULL ? sums[output] : stow_mean_sum_f32(&in, &reduction, output)) / count;
        }
    }
}

STOW_API int stow_mean_f32_check(const stow_facts *facts)
{
    return stow_is_mean(facts, STOW_MEAN_F32_PARAMS, sizeof(float));
}

#endif
