/* Fully connected, int8 and float32.
 *
 * Batched: an input row holds whole vectors of `features`, or a vector is several whole rows; an output row holds whole
 * results. Else all input rows together are one vector, all output rows its result, and each may be cut anywhere.
 */
#include "stow_mm.h"

#if STOW_WITH_FULLY_CONNECTED_S8 || STOW_WITH_FULLY_CONNECTED_F32

_Static_assert(STOW_FULLY_CONNECTED_S8_BATCHED == 2 && STOW_FULLY_CONNECTED_F32_BATCHED == 2,
               "both kinds begin with the same parameters");

static int stow_is_dense(const stow_facts *facts, int64_t element_bytes)
{
    const stow_form in = stow_operand_form(facts, 0);
    const stow_form out = stow_result_form(facts);
    const int64_t features = stow_size(facts->params[STOW_FULLY_CONNECTED_S8_FEATURES], element_bytes);
    const int64_t outputs = stow_size(facts->params[STOW_FULLY_CONNECTED_S8_OUTPUTS], element_bytes);
    if (features <= 0 || outputs <= 0 || in.row_bytes % (uint32_t)element_bytes != 0 ||
        out.row_bytes % (uint32_t)element_bytes != 0) {
        return 0;
    }
    if (facts->params[STOW_FULLY_CONNECTED_S8_BATCHED]) {
        const int64_t vectors = (int64_t)out.rows * (out.row_bytes / outputs);
        const int along = in.row_bytes > 0 && (in.row_bytes % features == 0 || features % in.row_bytes == 0);
        return along && out.row_bytes % outputs == 0 && (int64_t)in.rows * in.row_bytes % features == 0 &&
               (int64_t)in.rows * in.row_bytes / features == vectors;
    }
    return (int64_t)in.rows * in.row_bytes == features && (int64_t)out.rows * out.row_bytes == outputs;
}

#endif

#if STOW_WITH_FULLY_CONNECTED_S8

typedef struct stow_dense_s8 {
    stow_filter_s8 filter;
    stow_rows in;
    size_t features;
    int together; /* rows follow each other, and so do vectors */
} stow_dense_s8;

/* Bring elements [start, start + size) of a vector together. */
static void stow_dense_gather_s8(const stow_dense_s8 *op, size_t number, size_t start, size_t size, stow_mm_patch patch)
{
    size_t to = 0;
    for (size_t at = number * op->features + start; size > 0;) {
        const size_t in_row = at % op->in.row_bytes;
        const size_t run = op->in.row_bytes - in_row < size ? op->in.row_bytes - in_row : size;
        const uint8_t *row = stow_row(&op->in, (uint32_t)(at / op->in.row_bytes));
        stow_mm_put(patch, to, (const int8_t *)row + in_row, run);
        at += run, size -= run, to += run;
    }
}

static void stow_dense_fetch_s8(const stow_mm_source *source, stow_mm_s8 *mm, size_t start)
{
    const stow_dense_s8 *op = source->kernel;
    if (!STOW_WITH_ROWS_APART || op->together) {
        mm->x = (const int8_t *)stow_row(&op->in, 0) + source->number * op->features + start;
        mm->x_step = op->features;
        return;
    }
    stow_mm_use_patch(mm);
    const size_t left = start < op->features ? op->features - start : 0; /* what follows is padding */
    const size_t size = left < mm->depth ? left : mm->depth;
    for (size_t pixel = 0; pixel < mm->pixels; pixel++) {
        stow_dense_gather_s8(op, source->number + pixel, start, size, stow_mm_patch_of(mm, pixel));
    }
}

STOW_API void stow_fully_connected_s8_run(const stow_call *call)
{
    stow_mm_room room;
    stow_dense_s8 op;
    stow_read_filter_s8(&op.filter, call, STOW_FULLY_CONNECTED_S8_OUTPUT_ZERO_POINT);
    op.in = stow_operand(call, 0);
    op.features = (size_t)call->params[STOW_FULLY_CONNECTED_S8_FEATURES];
    op.together = stow_rows_are_together(&op.in) && op.filter.weights_step == op.features;
    const size_t part = !STOW_WITH_ROWS_APART || op.together ? 0 : STOW_MM_PATCH;
    stow_mm_source source = {stow_dense_fetch_s8, &op, 0, op.filter.weights_step, part, &room};
    if (part != 0) {
        memset(room.patch, 0, sizeof room.patch);
    }
    const stow_rows result = stow_result(call);
    const size_t outputs = (size_t)call->params[STOW_FULLY_CONNECTED_S8_OUTPUTS];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        int8_t *out = (int8_t *)stow_row(&result, unit);
        if (call->params[STOW_FULLY_CONNECTED_S8_BATCHED]) {
            const size_t vectors = result.row_bytes / outputs;
            stow_mm_run_s8(&source, &op.filter, unit * vectors, vectors, outputs, out);
        } else {
            stow_mm_s8 mm = {.filter = &op.filter, .pixels = 1, .out = out};
            stow_mm_tile_s8(&source, &mm, (size_t)unit * result.row_bytes, result.row_bytes);
        }
    }
}

STOW_API int stow_fully_connected_s8_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_FULLY_CONNECTED_S8_PARAMS) || !stow_is_dense(facts, 1)) {
        return 0;
    }
    const int64_t outputs = facts->params[STOW_FULLY_CONNECTED_S8_OUTPUTS];
    return stow_is_filter_s8(facts, STOW_FULLY_CONNECTED_S8_OUTPUT_ZERO_POINT, outputs,
                             facts->params[STOW_FULLY_CONNECTED_S8_FEATURES], outputs);
}

#endif

#if STOW_WITH_FULLY_CONNECTED_F32

/* An input vector: `size` elements from `start` on of each of the rows [row, row + rows). */
typedef struct stow_vector {
    uint32_t row;
    uint32_t rows;
    size_t start;
    size_t size;
} stow_vector;

/* Where vector `number` lies, in rows of `row_size` elements. */
static stow_vector stow_vector_at(size_t number, size_t features, size_t row_size)
{
    stow_vector vector = {(uint32_t)(number * (features / row_size)), (uint32_t)(features / row_size), 0, row_size};
    if (features <= row_size) {
        const size_t in_row = row_size / features;
        vector.row = (uint32_t)(number / in_row);
        vector.rows = 1;
        vector.start = number % in_row * features;
        vector.size = features;
    }
    return vector;
}

typedef struct stow_dense_f32 {
    stow_filter_f32 filter;
    stow_rows in;
    size_t features;
} stow_dense_f32;

static void stow_dense_outputs_f32(const stow_dense_f32 *op, stow_vector vector, size_t first, size_t count,
                                   float *out)
{
    for (size_t done = 0; done < count; done += STOW_LANES) {
        const size_t lanes = stow_lanes(done, count);
        const float *w = op->filter.weights + (first + done) * op->features;
        float sums[STOW_LANES] = {0};
        for (uint32_t row = 0; row < vector.rows; row++, w += vector.size) {
            const float *x = (const float *)(const void *)stow_row(&op->in, vector.row + row) + vector.start;
            stow_dot_f32(sums, lanes, x, w, op->features, vector.size);
        }
        for (size_t lane = 0; lane < lanes; lane++) {
            out[done + lane] = stow_output_f32(&op->filter, first + done + lane, sums[lane]);
        }
    }
}

STOW_API void stow_fully_connected_f32_run(const stow_call *call)
{
    stow_dense_f32 op;
    stow_read_filter_f32(&op.filter, call, STOW_FULLY_CONNECTED_F32_ACT_MIN);
    op.in = stow_operand(call, 0);
    op.features = (size_t)call->params[STOW_FULLY_CONNECTED_F32_FEATURES];
    const stow_rows result = stow_result(call);
    const size_t in_size = op.in.row_bytes / sizeof(float), out_size = result.row_bytes / sizeof(float);
    const size_t outputs = (size_t)call->params[STOW_FULLY_CONNECTED_F32_OUTPUTS];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        float *out = (float *)(void *)stow_row(&result, unit);
        if (!call->params[STOW_FULLY_CONNECTED_F32_BATCHED]) {
            const stow_vector whole = {0, op.in.rows, 0, in_size};
            stow_dense_outputs_f32(&op, whole, unit * out_size, out_size, out);
            continue;
        }
        const size_t vectors = out_size / outputs;
        for (size_t i = 0; i < vectors; i++, out += outputs) {
            const stow_vector vector = stow_vector_at(unit * vectors + i, op.features, in_size);
            stow_dense_outputs_f32(&op, vector, 0, outputs, out);
        }
    }
}

STOW_API int stow_fully_connected_f32_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_FULLY_CONNECTED_F32_PARAMS) || !stow_is_dense(facts, sizeof(float))) {
        return 0;
    }
    const int64_t outputs = facts->params[STOW_FULLY_CONNECTED_F32_OUTPUTS];
    return stow_is_filter_f32(facts, STOW_FULLY_CONNECTED_F32_ACT_MIN,
                              stow_size(outputs, facts->params[STOW_FULLY_CONNECTED_F32_FEATURES]), outputs);
}

#endif
