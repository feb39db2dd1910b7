/* Products of two computed matrices of integers: int8 through the inner loops of a kernel set where rows allow that. */
#include "stow_matrix.h"
#include "stow_mm.h"
#include "stow_scaled.h"

#if STOW_WITH_BATCH_MATMUL_INT

/* int8 in sums of 32 bits, int16 in sums of 64. */
static int32_t stow_matmul_scaled(const int32_t *p, uint64_t sum)
{
    const int32_t multiplier = p[STOW_BATCH_MATMUL_INT_MULTIPLIER], shift = p[STOW_BATCH_MATMUL_INT_SHIFT];
    return p[STOW_BATCH_MATMUL_INT_DTYPE] == STOW_DTYPE_INT16 ? stow_scale_wide((int64_t)sum, multiplier, shift)
                                                              : stow_scale(stow_wrap((uint32_t)sum), multiplier, shift);
}

/* Columns of the second matrix that are brought together at once, and elements of each. They lie at the end of the room
 * that a set has, which needs no more than the other half for vectors that it reads where they are. */
#define STOW_MATMUL_COLUMNS 4u
#define STOW_MATMUL_DEPTH 64u
#define STOW_MATMUL_BYTES (STOW_MATMUL_COLUMNS * STOW_MATMUL_DEPTH)

_Static_assert(STOW_MM_ROOM >= (STOW_WITH_SET_DSP ? 2u * STOW_MM_PIXELS * STOW_MATMUL_DEPTH : 0u) + STOW_MATMUL_BYTES &&
                   STOW_MM_ROOM % 16u == 0,
               "room for columns, aligned");

typedef struct stow_matmul_s8 {
    stow_mm_room room;
    int8_t *w; /* columns, and before them, if need be, ones */
    const int32_t *p;
    stow_rows a, b, result;
    size_t ones;                         /* 1 where sums of rows are needed: the second matrix has a zero point */
    uint32_t begin[STOW_MATMUL_COLUMNS]; /* of each column, what is added to the products */
    stow_filter_s8 filter;
} stow_matmul_s8;

/* The sizes of a matrix, as parameters say them. */
static inline size_t stow_matmul_size(const stow_matmul_s8 *op, uint32_t param)
{
    return (size_t)op->p[param];
}

/* Bring elements [start, start + size) of `count` columns together, the first of which begins at element `first`. */
static STOW_APART void stow_matmul_bring(stow_matmul_s8 *op, size_t first, size_t count, size_t start, size_t size)
{
    const size_t row = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_B_ROW);
    const size_t column = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_B_COLUMN);
    const uint32_t a_zero = (uint32_t)op->p[STOW_BATCH_MATMUL_INT_A_ZERO_POINT];
    const uint32_t b_zero = (uint32_t)op->p[STOW_BATCH_MATMUL_INT_B_ZERO_POINT];
    const int together = stow_rows_are_together(&op->b);
    first += start * row;
    for (size_t c = 0; c < count; c++, first += column) {
        int8_t *to = op->w + (op->ones + c) * STOW_MATMUL_DEPTH;
        const int8_t *from = (const int8_t *)stow_element(&op->b, first, 1);
        uint32_t sum = 0;
        for (size_t i = 0; i < size; i++) {
            const int32_t value = together ? from[i * row] : *(const int8_t *)stow_element(&op->b, first + i * row, 1);
            to[i] = (int8_t)value;
            sum += (uint32_t)value;
        }
        const uint32_t before = start == 0 ? b_zero * (uint32_t)op->p[STOW_BATCH_MATMUL_F32_K] * a_zero : op->begin[c];
        op->begin[c] = before - a_zero * sum;
    }
}

/* The outputs of these columns for one row, from the sums of products. */
static STOW_APART void stow_matmul_finish(const stow_matmul_s8 *op, const uint32_t *sums, size_t count, uint8_t *out)
{
    const int32_t *p = op->p;
    const uint32_t less = (uint32_t)op->ones * sums[0] * (uint32_t)p[STOW_BATCH_MATMUL_INT_B_ZERO_POINT];
    for (size_t c = 0; c < count; c++) {
        const int32_t value = stow_matmul_scaled(p, sums[op->ones + c] + op->begin[c] - less);
        stow_store_scaled(out + c, STOW_DTYPE_INT8, value, p[STOW_BATCH_MATMUL_INT_OUTPUT_ZERO_POINT],
                          p + STOW_BATCH_MATMUL_INT_ACT_MIN);
    }
}

/* Where row `number` of all first matrices begins: they are counted through. */
static const int8_t *stow_matmul_row(const stow_matmul_s8 *op, size_t number)
{
    size_t x, y;
    stow_matrix_first(op->p, number * stow_matmul_size(op, STOW_BATCH_MATMUL_F32_N), &x, &y);
    return (const int8_t *)stow_element(&op->a, x, 1);
}

/* How many rows from `row` on lie one after another, as many as the set takes at most. */
static STOW_APART size_t stow_matmul_run_of(const stow_matmul_s8 *op, size_t row, size_t last)
{
    const size_t most = stow_kernel_set()->pixels, step = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_A_ROW);
    const int8_t *x = stow_matmul_row(op, row);
    size_t count = 1;
    while (count < most && row + count < last && stow_matmul_row(op, row + count) == x + count * step) {
        count++;
    }
    return count;
}

/* Outputs [column, column + count) of rows [row, last), which all meet the matrix that begins at element y. Columns in
 * one part are brought together once, longer ones for each few rows. */
static void stow_matmul_rows(stow_matmul_s8 *op, size_t row, size_t last, size_t y, size_t column, size_t count)
{
    const size_t width = op->result.row_bytes, n = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_N);
    const size_t first = y + column * stow_matmul_size(op, STOW_BATCH_MATMUL_F32_B_COLUMN);
    const size_t k = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_K);
    stow_mm_s8 mm = {
        .filter = &op->filter, .x_step = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_A_ROW), .x_stride = 4,
        .room = op->room.patch, .w = op->w, .outputs = op->ones + count, .sums = op->room.sums,
    };
    int brought = 0;
    for (; row < last; row += mm.pixels) {
        mm.pixels = stow_matmul_run_of(op, row, last);
        mm.out = (int8_t *)stow_row(&op->result, (uint32_t)(row * n / width)); /* nothing comes there yet */
        for (size_t start = 0; start < k; start += mm.depth) {
            mm.depth = k - start < STOW_MATMUL_DEPTH ? k - start : STOW_MATMUL_DEPTH;
            mm.x = stow_matmul_row(op, row) + start;
            mm.begins = start == 0;
            if (!brought) {
                stow_matmul_bring(op, first, count, start, mm.depth);
            }
            stow_kernel_set()->mm_s8(&mm);
        }
        brought = k <= STOW_MATMUL_DEPTH;
        for (size_t i = 0; i < mm.pixels; i++) {
            const size_t at = (row + i) * n + column;
            uint8_t *out = stow_row(&op->result, (uint32_t)(at / width)) + at % width;
            stow_matmul_finish(op, mm.sums + i * STOW_MM_OUTPUTS, count, out);
        }
    }
}

/* Whether rows of the first matrices lie in one piece each, and those of the result as well. */
static STOW_APART int stow_matmul_is_quick(const stow_matmul_s8 *op)
{
    const int32_t *p = op->p;
    const size_t k = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_K), n = stow_matmul_size(op, STOW_BATCH_MATMUL_F32_N);
    int whole = op->a.row_bytes % k == 0 && (size_t)p[STOW_BATCH_MATMUL_F32_A_ROW] % k == 0;
    for (uint32_t axis = 0; axis < 3; axis++) {
        whole = whole && (size_t)p[STOW_BATCH_MATMUL_F32_A_STEP0 + axis] % k == 0;
    }
    return p[STOW_BATCH_MATMUL_INT_DTYPE] == STOW_DTYPE_INT8 && p[STOW_BATCH_MATMUL_F32_A_COLUMN] == 1 &&
           op->result.row_bytes % n == 0 && (whole || stow_rows_are_together(&op->a));
}

static void stow_matmul_read(stow_matmul_s8 *op, const stow_call *call)
{
    const int32_t *p = call->params;
    op->w = op->room.patch + STOW_MM_ROOM - STOW_MATMUL_BYTES;
    op->p = p;
    op->a = stow_operand(call, 0);
    op->b = stow_operand(call, 1);
    op->result = stow_result(call);
    op->ones = p[STOW_BATCH_MATMUL_INT_B_ZERO_POINT] == 0 ? 0 : 1;
    /* Sums are kept, so that how they become outputs is nothing to the set; nor can these be too large. */
    const stow_filter_s8 filter = {
        .weights = op->w, .multiplier = p + STOW_BATCH_MATMUL_INT_MULTIPLIER, .shift = p + STOW_BATCH_MATMUL_INT_SHIFT,
        .weights_step = STOW_MATMUL_DEPTH, .bounded = 1,
    };
    op->filter = filter;
}

/* All rows of a call that meet the same second matrix, with a few of its columns after another. */
static STOW_APART int stow_matmul_run_quick(const stow_call *call)
{
    stow_matmul_s8 op;
    stow_matmul_read(&op, call);
    if (!stow_matmul_is_quick(&op)) {
        return 0;
    }
    const size_t m = stow_matmul_size(&op, STOW_BATCH_MATMUL_F32_M), n = stow_matmul_size(&op, STOW_BATCH_MATMUL_F32_N);
    const size_t in_row = op.result.row_bytes / n;
    const size_t most = STOW_MATMUL_COLUMNS - op.ones, end = (size_t)(call->first + call->count) * in_row;
    memset(op.w, 1, STOW_MATMUL_DEPTH); /* overwritten where no ones are needed */
    for (size_t row = (size_t)call->first * in_row, last; row < end; row = last) {
        size_t x, y;
        last = (row / m + 1) * m < end ? (row / m + 1) * m : end;
        stow_matrix_first(call->params, row * n, &x, &y);
        for (size_t column = 0; column < n; column += most) {
            const size_t count = n - column < most ? n - column : most;
            stow_matmul_rows(&op, row, last, y, column, count);
        }
    }
    return 1;
}

STOW_API void stow_batch_matmul_int_run(const stow_call *call)
{
    if (stow_matmul_run_quick(call)) {
        return;
    }
    const stow_rows a = stow_operand(call, 0), b = stow_operand(call, 1), result = stow_result(call);
    const int32_t *p = call->params;
    const int32_t dtype = p[STOW_BATCH_MATMUL_INT_DTYPE];
    const size_t size = stow_integer_bytes(dtype), width = result.row_bytes / size;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < width; i++) {
            size_t x, y;
            uint64_t sum = 0;
            stow_matrix_first(p, (size_t)unit * width + i, &x, &y);
            for (int32_t k = 0; k < p[STOW_BATCH_MATMUL_F32_K]; k++) {
                const int64_t left = stow_load_integer(stow_element(&a, x, size), dtype);
                const int64_t right = stow_load_integer(stow_element(&b, y, size), dtype);
                sum += (uint64_t)((left - p[STOW_BATCH_MATMUL_INT_A_ZERO_POINT]) *
                                  (right - p[STOW_BATCH_MATMUL_INT_B_ZERO_POINT]));
                x += (size_t)p[STOW_BATCH_MATMUL_F32_A_COLUMN];
                y += (size_t)p[STOW_BATCH_MATMUL_F32_B_ROW];
            }
            stow_store_scaled(out + i * size, dtype, stow_matmul_scaled(p, sum), p[STOW_BATCH_MATMUL_INT_OUTPUT_ZERO_POINT],
                              p + STOW_BATCH_MATMUL_INT_ACT_MIN);
        }
    }
}

STOW_API int stow_batch_matmul_int_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    return facts->param_count == STOW_BATCH_MATMUL_INT_PARAMS && stow_is_scaled_type(p[STOW_BATCH_MATMUL_INT_DTYPE]) &&
           p[STOW_BATCH_MATMUL_INT_ACT_MIN] <= p[STOW_BATCH_MATMUL_INT_ACT_MAX] &&
           stow_is_matmul(facts, STOW_BATCH_MATMUL_INT_PARAMS, stow_integer_bytes(p[STOW_BATCH_MATMUL_INT_DTYPE]));
}

#endif
