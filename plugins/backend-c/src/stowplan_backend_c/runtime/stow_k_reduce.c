/* Sums, means, extremes and products over any axes, and where the largest or smallest of a run lies. */
#include "stow_element.h"

#if STOW_WITH_REDUCE || STOW_WITH_ARG_EXTREME

static uint32_t stow_reduced_bytes(int32_t dtype)
{
    return dtype == STOW_DTYPE_FLOAT32 ? (uint32_t)sizeof(float) : stow_integer_bytes(dtype);
}

#endif

#if STOW_WITH_REDUCE

enum stow_reduce_functions {
    STOW_REDUCE_SUM,
    STOW_REDUCE_MEAN,
    STOW_REDUCE_MAX,
    STOW_REDUCE_MIN,
    STOW_REDUCE_PROD,
    STOW_REDUCE_ANY,
    STOW_REDUCE_ALL,
    STOW_REDUCE_FUNCTIONS
};

/* Elements under one output: element `number` of them lies at the sum of steps times its index along each axis. */
static size_t stow_under(const int32_t *sizes, const int32_t *steps, size_t number)
{
    size_t element = 0;
    for (uint32_t axis = 4; axis-- > 0;) {
        element += number % (size_t)sizes[axis] * (size_t)steps[axis];
        number /= (size_t)sizes[axis];
    }
    return element;
}

static float stow_reduce_f32(const int32_t *p, const stow_rows *in, size_t base, size_t count)
{
    const int32_t function = p[STOW_REDUCE_FUNCTION];
    float value = function == STOW_REDUCE_PROD ? 1.0f : 0.0f;
    for (size_t i = 0; i < count; i++) {
        const float x = stow_float_at(in, base + stow_under(p + STOW_REDUCE_GONE0, p + STOW_REDUCE_GONE_STEP0, i));
        switch (function) {
        case STOW_REDUCE_MAX: value = i == 0 || x > value ? x : value; break;
        case STOW_REDUCE_MIN: value = i == 0 || x < value ? x : value; break;
        case STOW_REDUCE_PROD: value *= x; break;
        default: value += x; break;
        }
    }
    return function == STOW_REDUCE_MEAN ? value / (float)count : value;
}

static int64_t stow_reduce_integers(const int32_t *p, const stow_rows *in, size_t base, size_t count)
{
    const int32_t function = p[STOW_REDUCE_FUNCTION], dtype = p[STOW_REDUCE_DTYPE];
    const size_t size = stow_integer_bytes(dtype);
    uint64_t value = function == STOW_REDUCE_PROD || function == STOW_REDUCE_ALL;
    for (size_t i = 0; i < count; i++) {
        const size_t at = base + stow_under(p + STOW_REDUCE_GONE0, p + STOW_REDUCE_GONE_STEP0, i);
        const int64_t x = stow_load_integer(stow_element(in, at, size), dtype);
        switch (function) {
        case STOW_REDUCE_MAX: value = i == 0 || x > (int64_t)value ? (uint64_t)x : value; break;
        case STOW_REDUCE_MIN: value = i == 0 || x < (int64_t)value ? (uint64_t)x : value; break;
        case STOW_REDUCE_PROD: value *= (uint64_t)x; break;
        case STOW_REDUCE_ANY: value |= x != 0; break;
        case STOW_REDUCE_ALL: value &= x != 0; break;
        default: value += (uint64_t)x; break;
        }
    }
    return (int64_t)value;
}

/* Whether the result is in another scale than the sum of the elements as they are. */
static int stow_is_scaled_sum(const int32_t *p)
{
    const int quantized = p[STOW_REDUCE_DTYPE] == STOW_DTYPE_INT8 || p[STOW_REDUCE_DTYPE] == STOW_DTYPE_INT16;
    return p[STOW_REDUCE_FUNCTION] == STOW_REDUCE_MEAN || (p[STOW_REDUCE_FUNCTION] == STOW_REDUCE_SUM && quantized);
}

/* Sums and means of quantized numbers: the sum without its zero points, times a factor, which of means divides by the
 * count as well. */
static int64_t stow_reduce_scaled(const int32_t *p, int64_t sum, size_t count)
{
    const uint64_t centred = (uint64_t)sum - (uint64_t)p[STOW_REDUCE_INPUT_ZERO_POINT] * count;
    const int32_t scaled = stow_scale(stow_wrap((uint32_t)centred), p[STOW_REDUCE_MULTIPLIER], p[STOW_REDUCE_SHIFT]);
    return stow_saturate((int64_t)scaled + p[STOW_REDUCE_OUTPUT_ZERO_POINT], p[STOW_REDUCE_DTYPE]);
}

static size_t stow_reduce_count(const int32_t *p)
{
    size_t count = 1;
    for (uint32_t axis = 0; axis < 4; axis++) {
        count *= (size_t)p[STOW_REDUCE_GONE0 + axis];
    }
    return count;
}

STOW_API void stow_reduce_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const size_t size = stow_reduced_bytes(p[STOW_REDUCE_DTYPE]), width = result.row_bytes / size;
    const size_t count = stow_reduce_count(p);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < width; i++, out += size) {
            const size_t number = (size_t)unit * width + i;
            const size_t base = stow_under(p + STOW_REDUCE_KEPT0, p + STOW_REDUCE_KEPT_STEP0, number);
            if (p[STOW_REDUCE_DTYPE] == STOW_DTYPE_FLOAT32) {
                const float value = stow_reduce_f32(p, &in, base, count);
                memcpy(out, &value, sizeof value);
                continue;
            }
            int64_t value = stow_reduce_integers(p, &in, base, count);
            if (stow_is_scaled_sum(p)) {
                value = stow_reduce_scaled(p, value, count);
            }
            stow_store_integer(out, p[STOW_REDUCE_DTYPE], value);
        }
    }
}

STOW_API int stow_reduce_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 1, STOW_REDUCE_PARAMS) || (uint32_t)p[STOW_REDUCE_FUNCTION] >= STOW_REDUCE_FUNCTIONS ||
        stow_reduced_bytes(p[STOW_REDUCE_DTYPE]) == 0) {
        return 0;
    }
    int64_t outputs = 1, inputs = 1, last = 0;
    for (uint32_t axis = 0; axis < 4; axis++) {
        const int32_t kept = p[STOW_REDUCE_KEPT0 + axis], gone = p[STOW_REDUCE_GONE0 + axis];
        const int32_t kept_step = p[STOW_REDUCE_KEPT_STEP0 + axis], gone_step = p[STOW_REDUCE_GONE_STEP0 + axis];
        if (kept < 1 || gone < 1 || kept_step < 0 || gone_step < 0) {
            return 0;
        }
        outputs = stow_size(outputs, kept);
        inputs = stow_size(inputs, gone);
        last += (int64_t)(kept - 1) * kept_step + (int64_t)(gone - 1) * gone_step;
    }
    const uint32_t size = stow_reduced_bytes(p[STOW_REDUCE_DTYPE]);
    const int64_t inside = stow_elements(stow_operand_form(facts, 0), size);
    return outputs == stow_elements(stow_result_form(facts), size) && stow_size(outputs, inputs) <= inside && last < inside;
}

#endif

#if STOW_WITH_ARG_EXTREME

/* Whether the element at `a` beats the one at `b`. */
static int stow_beats(const uint8_t *a, const uint8_t *b, int32_t dtype, int largest)
{
    if (dtype == STOW_DTYPE_FLOAT32) {
        float x, y;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        return largest ? x > y : x < y;
    }
    const int64_t x = stow_load_integer(a, dtype), y = stow_load_integer(b, dtype);
    return largest ? x > y : x < y;
}

STOW_API void stow_arg_extreme_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const size_t depth = (size_t)p[STOW_ARG_EXTREME_DEPTH], size = stow_reduced_bytes(p[STOW_ARG_EXTREME_DTYPE]);
    const size_t out_bytes = stow_integer_bytes(p[STOW_ARG_EXTREME_TO]), width = result.row_bytes / out_bytes;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        for (size_t i = 0; i < width; i++) {
            const size_t first = ((size_t)unit * width + i) * depth;
            size_t best = 0;
            for (size_t c = 1; c < depth; c++) {
                const uint8_t *found = stow_element(&in, first + c, size), *so_far = stow_element(&in, first + best, size);
                best = stow_beats(found, so_far, p[STOW_ARG_EXTREME_DTYPE], p[STOW_ARG_EXTREME_LARGEST] != 0) ? c : best;
            }
            stow_store_integer(stow_row(&result, unit) + i * out_bytes, p[STOW_ARG_EXTREME_TO], (int64_t)best);
        }
    }
}

STOW_API int stow_arg_extreme_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 1, STOW_ARG_EXTREME_PARAMS) || p[STOW_ARG_EXTREME_DEPTH] < 1) {
        return 0;
    }
    const uint32_t size = stow_reduced_bytes(p[STOW_ARG_EXTREME_DTYPE]), out = stow_integer_bytes(p[STOW_ARG_EXTREME_TO]);
    return size > 0 && out >= 4 && stow_elements(stow_result_form(facts), out) > 0 &&
           stow_size(stow_elements(stow_result_form(facts), out), p[STOW_ARG_EXTREME_DEPTH]) ==
               stow_elements(stow_operand_form(facts, 0), size);
}

#endif
