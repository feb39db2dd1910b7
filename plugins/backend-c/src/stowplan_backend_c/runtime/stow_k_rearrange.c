/* Operators that only move elements: anything with an offset per axis, gathering by computed indices, and choosing. */
#include "stow_element.h"

#if STOW_WITH_REARRANGE || STOW_WITH_SELECT || STOW_WITH_GATHER

static void stow_copy_element(uint8_t *to, const uint8_t *from, size_t size)
{
    switch (size) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memmove(to, from, size); break;
    }
}

#endif

#if STOW_WITH_REARRANGE || STOW_WITH_SELECT

static int stow_is_element(int32_t bytes)
{
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

#endif

#if STOW_WITH_REARRANGE

#define STOW_AXES 8

_Static_assert(STOW_REARRANGE_STRIDE0 == STOW_REARRANGE_SIZE0 + STOW_AXES &&
                   STOW_REARRANGE_TABLE0 == STOW_REARRANGE_STRIDE0 + STOW_AXES,
               "sizes, strides and tables lie in a row");

typedef struct stow_rearranging {
    stow_rows in;
    const int32_t *sizes;
    const int32_t *strides;
    const int32_t *tables[STOW_AXES]; /* NULL where steps are even */
    int64_t offset;
    int64_t elements; /* of the input */
    size_t element_bytes;
} stow_rearranging;

/* What index `index` along an axis adds to the number of the input's element. */
static int64_t stow_step(const stow_rearranging *op, size_t axis, int32_t index)
{
    if (op->tables[axis] != NULL) {
        return op->tables[axis][index];
    }
    return (int64_t)op->strides[axis] * index;
}

/* A table may lie in a packed block, which nobody can check before it is unpacked. */
static size_t stow_in_range(const stow_rearranging *op, int64_t element)
{
    return element >= 0 && element < op->elements ? (size_t)element : 0;
}

/* Move `count` elements from index `first` of the last axis on; `start` is what all other axes add up to. */
static void stow_move_run(const stow_rearranging *op, int64_t start, int32_t first, int32_t count, uint8_t *out)
{
    const size_t size = op->element_bytes;
    const size_t in_row = op->in.row_bytes / size;
    int32_t i = 0;
    while (i < count) {
        const size_t from = stow_in_range(op, start + stow_step(op, STOW_AXES - 1, first + i));
        const uint8_t *row = stow_row(&op->in, (uint32_t)(from / in_row));
        const size_t begin = from - from % in_row;
        /* As long as elements come from this row, no division is needed. */
        size_t at = from;
        do {
            stow_copy_element(out, row + (at - begin) * size, size);
            out += size;
            i++;
            at = i < count ? stow_in_range(op, start + stow_step(op, STOW_AXES - 1, first + i)) : SIZE_MAX;
        } while (at >= begin && at < begin + in_row);
    }
}

/* Fill one output row, whose first element is number `element`. */
static void stow_rearrange_row(const stow_rearranging *op, uint64_t element, size_t count, uint8_t *out)
{
    int32_t index[STOW_AXES];
    for (size_t axis = STOW_AXES; axis-- > 0;) {
        index[axis] = (int32_t)(element % (uint32_t)op->sizes[axis]);
        element /= (uint32_t)op->sizes[axis];
    }
    while (count > 0) {
        int64_t start = op->offset;
        for (size_t axis = 0; axis < STOW_AXES - 1; axis++) {
            start += stow_step(op, axis, index[axis]);
        }
        const int32_t first = index[STOW_AXES - 1];
        const size_t left = (size_t)(op->sizes[STOW_AXES - 1] - first);
        const size_t run = left < count ? left : count;
        stow_move_run(op, start, first, (int32_t)run, out);
        out += run * op->element_bytes;
        count -= run;
        index[STOW_AXES - 1] = 0;
        for (size_t axis = STOW_AXES - 1; axis-- > 0 && ++index[axis] == op->sizes[axis];) {
            index[axis] = 0;
        }
    }
}

STOW_API void stow_rearrange_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    stow_rearranging op;
    op.in = stow_operand(call, 0);
    op.sizes = call->params + STOW_REARRANGE_SIZE0;
    op.strides = call->params + STOW_REARRANGE_STRIDE0;
    op.offset = call->params[STOW_REARRANGE_OFFSET];
    op.element_bytes = (size_t)call->params[STOW_REARRANGE_ELEMENT_BYTES];
    op.elements = (int64_t)op.in.rows * (int64_t)(op.in.row_bytes / op.element_bytes);
    for (size_t axis = 0; axis < STOW_AXES; axis++) {
        op.tables[axis] = stow_constant(call, call->params[STOW_REARRANGE_TABLE0 + axis]);
    }
    const size_t width = result.row_bytes / op.element_bytes;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        stow_rearrange_row(&op, (uint64_t)unit * width, width, stow_row(&result, unit));
    }
}

STOW_API int stow_rearrange_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_REARRANGE_PARAMS) ||
        !stow_is_element(facts->params[STOW_REARRANGE_ELEMENT_BYTES]) ||
        !stow_all_at_least(facts, STOW_REARRANGE_SIZE0, STOW_REARRANGE_SIZE0 + STOW_AXES, 1)) {
        return 0;
    }
    const uint32_t size = (uint32_t)facts->params[STOW_REARRANGE_ELEMENT_BYTES];
    const int64_t inside = stow_elements(stow_operand_form(facts, 0), size);
    const int64_t outside = stow_elements(stow_result_form(facts), size);
    int64_t count = 1, low = facts->params[STOW_REARRANGE_OFFSET], high = low;
    int tables = 0;
    for (uint32_t axis = 0; axis < STOW_AXES; axis++) {
        const int64_t n = facts->params[STOW_REARRANGE_SIZE0 + axis];
        const int32_t table = facts->params[STOW_REARRANGE_TABLE0 + axis];
        const int64_t step = (n - 1) * facts->params[STOW_REARRANGE_STRIDE0 + axis];
        count = stow_size(count, n);
        tables |= table != -1;
        if (table != -1 && !stow_has_bytes(facts, table, stow_size(n, 4))) {
            return 0;
        }
        low += table == -1 && step < 0 ? step : 0;
        high += table == -1 && step > 0 ? step : 0;
    }
    return inside > 0 && outside > 0 && count == outside && (tables || (low >= 0 && high < inside));
}

#endif

#if STOW_WITH_GATHER

/* Indices outside the axis count as its nearest end. */
static size_t stow_gather_index(const stow_rows *indices, size_t number, int32_t bytes, size_t count)
{
    const uint8_t *from = stow_element(indices, number, (size_t)bytes);
    const int64_t index = stow_load_integer(from, bytes == 8 ? STOW_DTYPE_INT64 : STOW_DTYPE_INT32);
    return index < 0 ? 0 : (uint64_t)index >= count ? count - 1 : (size_t)index;
}

STOW_API void stow_gather_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), indices = stow_operand(call, 1), result = stow_result(call);
    const size_t count = (size_t)call->params[STOW_GATHER_COUNT], inner = (size_t)call->params[STOW_GATHER_INNER];
    const size_t to_count = (size_t)call->params[STOW_GATHER_TO_COUNT];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        uint8_t *out = stow_row(&result, unit);
        for (size_t b = 0; b < result.row_bytes; b++) {
            const size_t at = (size_t)unit * result.row_bytes + b;
            const size_t run = at / inner, part = at % inner;
            const size_t index = stow_gather_index(&indices, run % to_count, call->params[STOW_GATHER_INDEX_BYTES], count);
            stow_copy_element(out + b, stow_element(&in, (run / to_count * count + index) * inner + part, 1), 1);
        }
    }
}

STOW_API int stow_gather_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 2, STOW_GATHER_PARAMS) || !stow_all_at_least(facts, 0, STOW_GATHER_PARAMS, 1) ||
        (p[STOW_GATHER_INDEX_BYTES] != 4 && p[STOW_GATHER_INDEX_BYTES] != 8)) {
        return 0;
    }
    const int64_t runs = stow_size(p[STOW_GATHER_OUTER], p[STOW_GATHER_TO_COUNT]);
    return stow_elements(stow_operand_form(facts, 0), 1) ==
               stow_size(stow_size(p[STOW_GATHER_OUTER], p[STOW_GATHER_COUNT]), p[STOW_GATHER_INNER]) &&
           stow_elements(stow_operand_form(facts, 1), (uint32_t)p[STOW_GATHER_INDEX_BYTES]) == p[STOW_GATHER_TO_COUNT] &&
           stow_elements(stow_result_form(facts), 1) == stow_size(runs, p[STOW_GATHER_INNER]) &&
           stow_result_form(facts).row_bytes > 0;
}

#endif

#if STOW_WITH_SELECT

/* The element of one operand that meets element `number` of the result; `first` is its first step. */
static size_t stow_select_element(const int32_t *params, size_t number, uint32_t first)
{
    size_t element = 0;
    for (uint32_t axis = 4; axis-- > 0;) {
        const size_t size = (size_t)params[STOW_SELECT_SIZE0 + axis];
        element += number % size * (size_t)params[first + axis];
        number /= size;
    }
    return element;
}

STOW_API void stow_select_run(const stow_call *call)
{
    const stow_rows condition = stow_operand(call, 0), a = stow_operand(call, 1), b = stow_operand(call, 2);
    const stow_rows result = stow_result(call);
    const int32_t *p = call->params;
    const size_t size = (size_t)p[STOW_SELECT_ELEMENT_BYTES], width = result.row_bytes / size;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < width; i++, out += size) {
            const size_t number = (size_t)unit * width + i;
            const int chosen = *stow_element(&condition, stow_select_element(p, number, STOW_SELECT_C_STEP0), 1) != 0;
            const size_t from = stow_select_element(p, number, chosen ? STOW_SELECT_A_STEP0 : STOW_SELECT_B_STEP0);
            stow_copy_element(out, stow_element(chosen ? &a : &b, from, size), size);
        }
    }
}

static int stow_select_reaches(const stow_facts *facts, uint32_t operand, uint32_t first, uint32_t size)
{
    int64_t last = 0;
    for (uint32_t axis = 0; axis < 4; axis++) {
        last += (int64_t)(facts->params[STOW_SELECT_SIZE0 + axis] - 1) * facts->params[first + axis];
    }
    return last < stow_elements(stow_operand_form(facts, operand), size);
}

STOW_API int stow_select_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 3, STOW_SELECT_PARAMS) || !stow_is_element(p[STOW_SELECT_ELEMENT_BYTES]) ||
        !stow_all_at_least(facts, STOW_SELECT_SIZE0, STOW_SELECT_SIZE0 + 4, 1) ||
        !stow_all_at_least(facts, STOW_SELECT_C_STEP0, STOW_SELECT_B_STEP0 + 4, 0)) {
        return 0;
    }
    const uint32_t size = (uint32_t)p[STOW_SELECT_ELEMENT_BYTES];
    const int64_t count = stow_size(stow_size(p[STOW_SELECT_SIZE0], p[STOW_SELECT_SIZE0 + 1]),
                                    stow_size(p[STOW_SELECT_SIZE0 + 2], p[STOW_SELECT_SIZE0 + 3]));
    return count == stow_elements(stow_result_form(facts), size) &&
           stow_select_reaches(facts, 0, STOW_SELECT_C_STEP0, 1) &&
           stow_select_reaches(facts, 1, STOW_SELECT_A_STEP0, size) &&
           stow_select_reaches(facts, 2, STOW_SELECT_B_STEP0, size);
}

#endif
