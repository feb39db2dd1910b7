/* Operators that only move bytes: copy, padding, concatenation. */
#include <string.h>

#include "stow_kernels.h"
#include "stow_math.h"

#if STOW_WITH_COPY || STOW_WITH_CONCATENATION || STOW_WITH_JOIN

/* Copy the bytes [from, from + size) of a buffer's rows, taken one after another. */
static void stow_read_stream(const stow_rows *rows, uint64_t from, uint8_t *target, size_t size)
{
    uint32_t row = (uint32_t)(from / rows->row_bytes);
    size_t start = (size_t)(from % rows->row_bytes);
    while (size > 0) {
        const size_t left = rows->row_bytes - start;
        const size_t part = left < size ? left : size;
        memmove(target, stow_row(rows, row) + start, part);
        target += part;
        size -= part;
        start = 0;
        row++;
    }
}

#endif

#if STOW_WITH_COPY

STOW_API void stow_copy_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        stow_read_stream(&in, (uint64_t)unit * result.row_bytes, stow_row(&result, unit), result.row_bytes);
    }
}

STOW_API int stow_copy_check(const stow_facts *facts)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_COPY_PARAMS) && in.row_bytes > 0 &&
           (uint64_t)in.rows * in.row_bytes == (uint64_t)out.rows * out.row_bytes;
}

#endif

#if STOW_WITH_PAD

typedef struct stow_padding {
    uint32_t in_n, in_h, in_w, in_c;
    uint32_t out_h, out_w, out_c;
    uint32_t before_n, before_h, before_w, before_c;
    int32_t value;
} stow_padding;

static stow_padding stow_read_padding(const stow_call *call, uint32_t in_rows)
{
    const int32_t *p = call->params;
    const stow_padding padding = {
        .in_n = in_rows / (uint32_t)p[STOW_PAD_IN_H],
        .in_h = (uint32_t)p[STOW_PAD_IN_H],         .in_w = (uint32_t)p[STOW_PAD_IN_W],
        .in_c = (uint32_t)p[STOW_PAD_IN_C],         .out_h = (uint32_t)p[STOW_PAD_OUT_H],
        .out_w = (uint32_t)p[STOW_PAD_OUT_W],       .out_c = (uint32_t)p[STOW_PAD_OUT_C],
        .before_n = (uint32_t)p[STOW_PAD_BEFORE_N], .before_h = (uint32_t)p[STOW_PAD_BEFORE_H],
        .before_w = (uint32_t)p[STOW_PAD_BEFORE_W], .before_c = (uint32_t)p[STOW_PAD_BEFORE_C],
        .value = p[STOW_PAD_VALUE],
    };
    return padding;
}

/* Repeat the four bytes of a word; elements of 1, 2 and 4 bytes fill it evenly. */
static void stow_fill(uint8_t *out, int32_t value, size_t size)
{
    const uint8_t first = (uint8_t)value;
    if ((uint32_t)value == first * UINT32_C(0x01010101)) {
        memset(out, first, size);
        return;
    }
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)((uint32_t)value >> (8 * (i & 3u)));
    }
}

STOW_API void stow_pad_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const stow_padding p = stow_read_padding(call, in.rows);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        /* Before the first image or row these wrap to numbers that are too large. */
        const uint32_t image = unit / p.out_h - p.before_n, row = unit % p.out_h - p.before_h;
        uint8_t *out = stow_row(&result, unit);
        stow_fill(out, p.value, result.row_bytes);
        if (image >= p.in_n || row >= p.in_h) {
            continue;
        }
        const uint8_t *x = stow_row(&in, image * p.in_h + row);
        out += (size_t)p.before_w * p.out_c + p.before_c;
        for (uint32_t column = 0; column < p.in_w; column++, x += p.in_c, out += p.out_c) {
            memmove(out, x, p.in_c);
        }
    }
}

static int stow_fits_within(int32_t before, int32_t in, int32_t out)
{
    return (int64_t)before + in <= out;
}

STOW_API int stow_pad_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_PAD_PARAMS) ||
        !stow_all_at_least(facts, STOW_PAD_IN_H, STOW_PAD_OUT_C + 1, 1) ||
        !stow_all_at_least(facts, STOW_PAD_BEFORE_N, STOW_PAD_BEFORE_C + 1, 0)) {
        return 0;
    }
    const int32_t *p = facts->params;
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return in.rows > 0 && in.rows % (uint32_t)p[STOW_PAD_IN_H] == 0 && out.rows % (uint32_t)p[STOW_PAD_OUT_H] == 0 &&
           stow_size(p[STOW_PAD_IN_W], p[STOW_PAD_IN_C]) == in.row_bytes &&
           stow_size(p[STOW_PAD_OUT_W], p[STOW_PAD_OUT_C]) == out.row_bytes &&
           stow_fits_within(p[STOW_PAD_BEFORE_H], p[STOW_PAD_IN_H], p[STOW_PAD_OUT_H]) &&
           stow_fits_within(p[STOW_PAD_BEFORE_W], p[STOW_PAD_IN_W], p[STOW_PAD_OUT_W]) &&
           stow_fits_within(p[STOW_PAD_BEFORE_C], p[STOW_PAD_IN_C], p[STOW_PAD_OUT_C]);
}

#endif

#if STOW_WITH_CONCATENATION

/* One output row of inputs that lie one after another as bytes. */
static void stow_concatenate_stream(const stow_call *call, const stow_rows *result, uint32_t unit)
{
    uint64_t position = (uint64_t)unit * result->row_bytes; /* in the current input */
    uint8_t *out = stow_row(result, unit);
    size_t left = result->row_bytes;
    for (uint32_t i = 0; left > 0 && i < call->node->input_count; i++) {
        const stow_rows in = stow_operand(call, i);
        const uint64_t size = (uint64_t)in.rows * in.row_bytes;
        if (position >= size) {
            position -= size;
            continue;
        }
        const size_t part = size - position < left ? (size_t)(size - position) : left;
        stow_read_stream(&in, position, out, part);
        out += part;
        left -= part;
        position = 0;
    }
}

/* One output row that is `groups` times a chunk of each input. */
static void stow_concatenate_row(const stow_call *call, const stow_rows *result, uint32_t unit)
{
    const size_t groups = (size_t)call->params[STOW_CONCATENATION_GROUPS];
    const size_t step = result->row_bytes / groups;
    uint8_t *out = stow_row(result, unit);
    for (uint32_t i = 0; i < call->node->input_count; i++) {
        const stow_rows in = stow_operand(call, i);
        const size_t chunk = in.row_bytes / groups;
        const uint8_t *x = stow_row(&in, unit);
        for (size_t group = 0; group < groups; group++) {
            memmove(out + group * step, x + group * chunk, chunk);
        }
        out += chunk;
    }
}

STOW_API void stow_concatenation_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        if (call->params[STOW_CONCATENATION_STREAMS]) {
            stow_concatenate_stream(call, &result, unit);
        } else {
            stow_concatenate_row(call, &result, unit);
        }
    }
}

STOW_API int stow_concatenation_check(const stow_facts *facts)
{
    const uint32_t inputs = stow_operand_count(facts);
    const stow_form out = stow_result_form(facts);
    if (!stow_is_plain(facts, inputs, STOW_CONCATENATION_PARAMS) || inputs == 0 ||
        facts->params[STOW_CONCATENATION_GROUPS] <= 0) {
        return 0;
    }
    const int streams = facts->params[STOW_CONCATENATION_STREAMS] != 0;
    const uint32_t groups = (uint32_t)facts->params[STOW_CONCATENATION_GROUPS];
    uint64_t sum = 0; /* no overflow: at most 2^16 inputs of less than 2^31 bytes */
    for (uint32_t i = 0; i < inputs; i++) {
        const stow_form in = stow_operand_form(facts, i);
        if (in.row_bytes == 0 || (!streams && (in.rows != out.rows || in.row_bytes % groups != 0))) {
            return 0;
        }
        sum += streams ? (uint64_t)in.rows * in.row_bytes : in.row_bytes;
    }
    return sum == (streams ? (uint64_t)out.rows * out.row_bytes : out.row_bytes);
}

#endif

#if STOW_WITH_JOIN

/* One output row: bytes of chunks that follow each other, input by input, `outer` times. */
static void stow_join_row(const stow_call *call, const stow_rows *result, uint64_t total, uint32_t unit)
{
    const uint64_t outer = (uint64_t)call->params[STOW_JOIN_OUTER];
    uint64_t place = (uint64_t)unit * result->row_bytes;
    uint64_t round = place / total;
    uint64_t within = place % total; /* the current round's bytes */
    uint8_t *out = stow_row(result, unit);
    size_t left = result->row_bytes;
    for (; left > 0; round++, within = 0) {
        for (uint32_t i = 0; left > 0 && i < call->node->input_count; i++) {
            const stow_rows in = stow_operand(call, i);
            const uint64_t chunk = (uint64_t)in.rows * in.row_bytes / outer;
            if (within >= chunk) {
                within -= chunk;
                continue;
            }
            const size_t part = chunk - within < left ? (size_t)(chunk - within) : left;
            stow_read_stream(&in, round * chunk + within, out, part);
            out += part;
            left -= part;
            within = 0;
        }
    }
}

STOW_API void stow_join_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const uint64_t total = (uint64_t)result.rows * result.row_bytes / (uint64_t)call->params[STOW_JOIN_OUTER];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        stow_join_row(call, &result, total, unit);
    }
}

STOW_API int stow_join_check(const stow_facts *facts)
{
    const uint32_t inputs = stow_operand_count(facts);
    const stow_form out = stow_result_form(facts);
    if (!stow_is_plain(facts, inputs, STOW_JOIN_PARAMS) || inputs == 0 || facts->params[STOW_JOIN_OUTER] < 1) {
        return 0;
    }
    uint64_t sum = 0; /* no overflow: at most 2^16 inputs of less than 2^31 bytes */
    for (uint32_t i = 0; i < inputs; i++) {
        const stow_form in = stow_operand_form(facts, i);
        const uint64_t size = (uint64_t)in.rows * in.row_bytes;
        if (size == 0 || size % (uint32_t)facts->params[STOW_JOIN_OUTER] != 0) {
            return 0;
        }
        sum += size;
    }
    return sum > 0 && sum == (uint64_t)out.rows * out.row_bytes;
}

#endif
