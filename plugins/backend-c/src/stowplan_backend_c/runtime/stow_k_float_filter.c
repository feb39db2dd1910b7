/* Transposed convolution and products of matrices, float32. */
#include "stow_element.h"
#include "stow_filter.h"
#include "stow_matrix.h"
#include "stow_window.h"

#if STOW_WITH_TRANSPOSE_CONV_2D_F32

typedef struct stow_spread_f32 {
    stow_window window;
    stow_filter_f32 filter;
    stow_rows in;
} stow_spread_f32;

/* The sum at (row, column) of one image: of the taps whose input element exists. */
static float stow_spread_sum_f32(const stow_spread_f32 *op, uint32_t image_row, int32_t row, int32_t column, size_t output)
{
    const stow_window *w = &op->window;
    const size_t depth = (size_t)w->in_c;
    float sum = 0.0f;
    for (int32_t p = 0; p < w->kernel_h; p++) {
        const int32_t y = row + w->pad_top - p;
        if (y < 0 || y % w->stride_h != 0 || y / w->stride_h >= w->in_h) {
            continue;
        }
        const float *from = (const float *)(const void *)stow_row(&op->in, image_row + (uint32_t)(y / w->stride_h));
        for (int32_t q = 0; q < w->kernel_w; q++) {
            const int32_t x = column + w->pad_left - q;
            if (x < 0 || x % w->stride_w != 0 || x / w->stride_w >= w->in_w) {
                continue;
            }
            const size_t tap = (output * (size_t)w->kernel_h + (size_t)p) * (size_t)w->kernel_w + (size_t)q;
            const float *a = from + (size_t)(x / w->stride_w) * depth, *b = op->filter.weights + tap * depth;
            for (size_t c = 0; c < depth; c++) {
                sum += a[c] * b[c];
            }
        }
    }
    return sum;
}

STOW_API void stow_transpose_conv_2d_f32_run(const stow_call *call)
{
    stow_spread_f32 op;
    stow_read_pool(&op.window, call->params);
    stow_read_filter_f32(&op.filter, call, STOW_TRANSPOSE_CONV_2D_F32_ACT_MIN);
    op.in = stow_operand(call, 0);
    const stow_rows result = stow_result(call);
    const uint32_t out_h = (uint32_t)op.window.out_h;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint32_t image_row = unit / out_h * (uint32_t)op.window.in_h;
        float *out = (float *)(void *)stow_row(&result, unit);
        for (int32_t column = 0; column < op.window.out_w; column++) {
            for (size_t output = 0; output < (size_t)op.window.out_c; output++) {
                const float sum = stow_spread_sum_f32(&op, image_row, (int32_t)(unit % out_h), column, output);
                *out++ = stow_output_f32(&op.filter, output, sum);
            }
        }
    }
}

STOW_API int stow_transpose_conv_2d_f32_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_TRANSPOSE_CONV_2D_F32_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_pool(&w, facts->params);
    return stow_is_window(facts, &w, sizeof(float)) &&
           stow_is_filter_f32(facts, STOW_TRANSPOSE_CONV_2D_F32_ACT_MIN,
                              stow_size(stow_size(stow_size(w.out_c, w.kernel_h), w.kernel_w), w.in_c), w.out_c);
}

#endif

#if STOW_WITH_BATCH_MATMUL_F32

STOW_API void stow_batch_matmul_f32_run(const stow_call *call)
{
    const stow_rows a = stow_operand(call, 0), b = stow_operand(call, 1), result = stow_result(call);
    const int32_t *p = call->params;
    const size_t width = result.row_bytes / sizeof(float);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < width; i++) {
            size_t x, y;
            stow_matrix_first(p, (size_t)unit * width + i, &x, &y);
            float sum = 0.0f;
            for (int32_t k = 0; k < p[STOW_BATCH_MATMUL_F32_K]; k++) {
                sum += stow_float_at(&a, x) * stow_float_at(&b, y);
                x += (size_t)p[STOW_BATCH_MATMUL_F32_A_COLUMN];
                y += (size_t)p[STOW_BATCH_MATMUL_F32_B_ROW];
            }
            out[i] = sum;
        }
    }
}

STOW_API int stow_batch_matmul_f32_check(const stow_facts *facts)
{
    return stow_is_matmul(facts, STOW_BATCH_MATMUL_F32_PARAMS, sizeof(float));
}

#endif
