/* The host's own additions: the runs of bytes they come to, and a sum that gives the same in fewer steps, if there is one.
 *
 * An addition rounds six times. But of two bytes there are only 65536 pairs, and for almost all scales that models have,
 * some linear sum of them, rounded down once, gives the same output for each pair. Coefficients are those of the scales;
 * what the sum begins with is looked for where every pair allows it.
 */
#include "stow_broadcast.h"
#include "stow_fast.h"

#define STOW_FAST_SUM_LOWER 15 /* bits of a coefficient's lower number */
#define STOW_FAST_SUM_MOST 14  /* bits of an output's fraction in upper numbers, at most, */
#define STOW_FAST_SUM_LEAST 9  /* and at least: then sums of upper numbers, as outputs, fit 16 bits */
#define STOW_FAST_SUM_OFFSET (1 << 14)

typedef struct stow_fast_line {
    int64_t a;
    int64_t b;
    int32_t bits; /* of fractions, in all */
} stow_fast_line;

/* How much of an operand goes into an output, with `bits` of fraction; negative where there is no such number. */
static int64_t stow_fast_share(const int32_t *params, int32_t multiplier, int32_t shift, int32_t bits)
{
    const int32_t out = params[STOW_ADD_S8_OUTPUT_MULTIPLIER];
    const int32_t right = 62 - 20 - shift - params[STOW_ADD_S8_OUTPUT_SHIFT] - bits;
    if (multiplier < 0 || out < 0 || right < 1 || right > 62) {
        return -1;
    }
    return ((int64_t)multiplier * out + (INT64_C(1) << (right - 1))) >> right;
}

/* Coefficients with as many bits as their upper numbers have room for; negative where there are none. */
static stow_fast_line stow_fast_line_of(const int32_t *params)
{
    const int64_t most = (int64_t)INT16_MAX << STOW_FAST_SUM_LOWER;
    stow_fast_line line = {-1, -1, 0};
    for (int32_t upper = STOW_FAST_SUM_MOST; upper >= STOW_FAST_SUM_LEAST; upper--) {
        line.bits = upper + STOW_FAST_SUM_LOWER;
        line.a = stow_fast_share(params, params[STOW_ADD_S8_A_MULTIPLIER], params[STOW_ADD_S8_A_SHIFT], line.bits);
        line.b = stow_fast_share(params, params[STOW_ADD_S8_B_MULTIPLIER], params[STOW_ADD_S8_B_SHIFT], line.bits);
        if (line.a <= most && line.b <= most) {
            return line;
        }
    }
    line.a = -1;
    return line;
}

/* What a sum may begin with. */
typedef struct stow_fast_range {
    int64_t least;
    int64_t most;
} stow_fast_range;

/* Narrow it to what gives the right outputs for one `a` and all b. A sum that is limited may be anything beyond. */
static void stow_fast_narrow(stow_fast_range *range, const stow_fast_line *line, const int32_t *params, int32_t a)
{
    const int64_t one = INT64_C(1) << line->bits;
    for (int32_t b = INT8_MIN; b <= INT8_MAX; b++) {
        const int64_t out = stow_add_one_s8(params, a, b), sum = line->a * a + line->b * b;
        const int64_t least = out * one - sum, most = (out + 1) * one - 1 - sum;
        if (out > params[STOW_ADD_S8_ACT_MIN] && least > range->least) {
            range->least = least;
        }
        if (out < params[STOW_ADD_S8_ACT_MAX] && most < range->most) {
            range->most = most;
        }
    }
}

static int32_t stow_fast_pair(int64_t a, int64_t b)
{
    return stow_wrap((uint32_t)(a & 0xFFFF) | (uint32_t)(b & 0xFFFF) << 16);
}

stow_fast_sum stow_fast_find_sum(const int32_t *params)
{
    const stow_fast_line line = stow_fast_line_of(params);
    const int64_t mask = (INT64_C(1) << STOW_FAST_SUM_LOWER) - 1;
    stow_fast_sum sum = {0};
    stow_fast_range range = {-(INT64_C(1) << 50), INT64_C(1) << 50};
    if (line.a < 0 || line.b < 0) {
        return sum;
    }
    for (int32_t a = INT8_MIN; a <= INT8_MAX && range.least <= range.most; a++) {
        stow_fast_narrow(&range, &line, params, a);
    }
    const int64_t begin = range.least + (range.most - range.least) / 2, offset = begin >> line.bits;
    if (range.least > range.most || offset < -STOW_FAST_SUM_OFFSET || offset > STOW_FAST_SUM_OFFSET) {
        return sum;
    }
    sum.found = 1;
    sum.upper = stow_fast_pair(line.a >> STOW_FAST_SUM_LOWER, line.b >> STOW_FAST_SUM_LOWER);
    sum.lower = stow_fast_pair(line.a & mask, line.b & mask);
    sum.begin = (int32_t)(begin - offset * (INT64_C(1) << line.bits));
    sum.shift = line.bits - STOW_FAST_SUM_LOWER;
    sum.offset = (int16_t)offset;
    sum.minimum = (int8_t)params[STOW_ADD_S8_ACT_MIN];
    sum.maximum = (int8_t)params[STOW_ADD_S8_ACT_MAX];
    return sum;
}

/* An operand of an addition, and where it has the elements of a row of the result. */
typedef struct stow_fast_operand {
    stow_rows rows;
    stow_strides by;
    uint32_t height;
} stow_fast_operand;

static const uint8_t *stow_fast_operand_row(const stow_fast_operand *operand, uint32_t unit)
{
    const uint32_t image = unit / operand->height, row = unit - image * operand->height;
    return stow_row(&operand->rows, image * operand->by.image + row * operand->by.row);
}

static void stow_fast_add_run(const stow_fast_set *set, const stow_fast_sum *sum, const int32_t *params, const int8_t *a,
                              const int8_t *b, int8_t *out, size_t size)
{
    const size_t done = sum->found ? set->sum(sum, a, b, out, size) : 0;
    set->add(params, a + done, b + done, out + done, size - done);
}

int stow_fast_add(const stow_fast *fast, const stow_call *call, const stow_fast_node *node)
{
    const uint32_t height = (uint32_t)call->params[STOW_ADD_S8_HEIGHT], last = call->first + call->count;
    const stow_fast_operand a = {stow_operand(call, 0), stow_read_strides(call->params, 0), height};
    const stow_fast_operand b = {stow_operand(call, 1), stow_read_strides(call->params, 1), height};
    const stow_rows result = stow_result(call);
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS], bytes = result.row_bytes;
    const int together = call->params[STOW_ADD_S8_WIDTH] == 1 || (a.by.column == channels && b.by.column == channels);
    if (a.by.channel != 1 || b.by.channel != 1 || !together) {
        return 0;
    }
    for (uint32_t unit = call->first; unit < last;) {
        const uint8_t *x = stow_fast_operand_row(&a, unit), *y = stow_fast_operand_row(&b, unit);
        uint8_t *out = stow_row(&result, unit);
        size_t size = bytes; /* of as many rows as follow each other in all three */
        for (unit++; unit < last && stow_fast_operand_row(&a, unit) == x + size &&
                     stow_fast_operand_row(&b, unit) == y + size && stow_row(&result, unit) == out + size;
             unit++) {
            size += bytes;
        }
        stow_fast_add_run(fast->set, &node->sum, call->params, (const int8_t *)x, (const int8_t *)y, (int8_t *)out, size);
    }
    return 1;
}
