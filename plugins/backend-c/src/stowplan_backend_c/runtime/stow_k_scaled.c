/* Integers with scales beyond sums and products: squared differences, slopes, sigmoid and tanh. */
#include "stow_broadcast.h"
#include "stow_gate.h"
#include "stow_scaled.h"

#if STOW_WITH_PAIR_INT

enum stow_pair_functions {
    STOW_PAIR_SQUARED_DIFFERENCE,
    STOW_PAIR_PRELU,
    STOW_PAIR_FUNCTIONS
};

_Static_assert(STOW_PAIR_INT_B_CHANNEL == 10, "it begins as all kinds on two operands do");

static int32_t stow_pair_product(int32_t a, int32_t b)
{
    return stow_wrap((uint32_t)a * (uint32_t)b);
}

static int32_t stow_pair_one(const int32_t *p, int32_t x, int32_t y)
{
    const int32_t a = stow_wrap_subtract(x, p[STOW_PAIR_INT_A_ZERO_POINT]);
    const int32_t b = stow_wrap_subtract(y, p[STOW_PAIR_INT_B_ZERO_POINT]);
    const uint32_t bits = (uint32_t)p[STOW_PAIR_INT_LEFT_SHIFT];
    if (p[STOW_PAIR_INT_FUNCTION] == STOW_PAIR_PRELU) {
        return a >= 0 ? stow_scale(a, p[STOW_PAIR_INT_A_MULTIPLIER], p[STOW_PAIR_INT_A_SHIFT])
                      : stow_scale(stow_pair_product(a, b), p[STOW_PAIR_INT_B_MULTIPLIER], p[STOW_PAIR_INT_B_SHIFT]);
    }
    const int32_t difference = stow_wrap_subtract(
        stow_scale(stow_shift_left(a, bits), p[STOW_PAIR_INT_A_MULTIPLIER], p[STOW_PAIR_INT_A_SHIFT]),
        stow_scale(stow_shift_left(b, bits), p[STOW_PAIR_INT_B_MULTIPLIER], p[STOW_PAIR_INT_B_SHIFT]));
    return stow_scale(stow_pair_product(difference, difference), p[STOW_PAIR_INT_OUTPUT_MULTIPLIER],
                      p[STOW_PAIR_INT_OUTPUT_SHIFT]);
}

STOW_API void stow_pair_int_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const int32_t *p = call->params;
    const size_t width = (size_t)p[STOW_ADD_S8_WIDTH], channels = (size_t)p[STOW_ADD_S8_CHANNELS];
    const int32_t dtype = p[STOW_PAIR_INT_DTYPE];
    const size_t size = stow_integer_bytes(dtype);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *a = stow_binary_row(call, 0, unit), *b = stow_binary_row(call, 1, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column * size, b += by_b.column * size) {
            for (size_t c = 0; c < channels; c++, out += size) {
                const int32_t x = (int32_t)stow_load_integer(a + c * by_a.channel * size, dtype);
                const int32_t y = (int32_t)stow_load_integer(b + c * by_b.channel * size, dtype);
                stow_store_scaled(out, dtype, stow_pair_one(p, x, y), p[STOW_PAIR_INT_OUTPUT_ZERO_POINT],
                                  p + STOW_PAIR_INT_ACT_MIN);
            }
        }
    }
}

STOW_API int stow_pair_int_check(const stow_facts *facts)
{
    return facts->param_count == STOW_PAIR_INT_PARAMS && stow_is_scaled_type(facts->params[STOW_PAIR_INT_DTYPE]) &&
           (uint32_t)facts->params[STOW_PAIR_INT_FUNCTION] < STOW_PAIR_FUNCTIONS &&
           facts->params[STOW_PAIR_INT_ACT_MIN] <= facts->params[STOW_PAIR_INT_ACT_MAX] &&
           stow_is_binary(facts, STOW_PAIR_INT_PARAMS, stow_integer_bytes(facts->params[STOW_PAIR_INT_DTYPE]));
}

#endif

#if STOW_WITH_LEAKY_INT

STOW_API void stow_leaky_int_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const int32_t dtype = p[STOW_LEAKY_INT_DTYPE];
    const size_t size = stow_integer_bytes(dtype);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const uint8_t *from = stow_row(&in, unit);
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < result.row_bytes; i += size) {
            const int32_t x = (int32_t)stow_load_integer(from + i, dtype) - p[STOW_LEAKY_INT_INPUT_ZERO_POINT];
            const int32_t *factor = p + (x >= 0 ? STOW_LEAKY_INT_ABOVE_MULTIPLIER : STOW_LEAKY_INT_BELOW_MULTIPLIER);
            stow_store_scaled(out + i, dtype, stow_scale(x, factor[0], factor[1]), p[STOW_LEAKY_INT_OUTPUT_ZERO_POINT],
                              p + STOW_LEAKY_INT_ACT_MIN);
        }
    }
}

STOW_API int stow_leaky_int_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_LEAKY_INT_PARAMS) && stow_is_scaled_type(p[STOW_LEAKY_INT_DTYPE]) &&
           p[STOW_LEAKY_INT_INPUT_ZERO_POINT] >= INT16_MIN && p[STOW_LEAKY_INT_INPUT_ZERO_POINT] <= INT16_MAX &&
           p[STOW_LEAKY_INT_ACT_MIN] <= p[STOW_LEAKY_INT_ACT_MAX] && in.rows == out.rows &&
           in.row_bytes == out.row_bytes && out.row_bytes % stow_integer_bytes(p[STOW_LEAKY_INT_DTYPE]) == 0;
}

#endif

#if STOW_WITH_GATE_S16

STOW_API void stow_gate_s16_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const uint16_t *table = stow_constant(call, p[STOW_GATE_S16_SIGMOID]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int16_t *x = (const int16_t *)(const void *)stow_row(&in, unit);
        int16_t *out = (int16_t *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < result.row_bytes / sizeof *out; i++) {
            const int64_t steps = stow_gate_steps(x[i], p[STOW_GATE_S16_MULTIPLIER], p[STOW_GATE_S16_SHIFT]);
            out[i] = (int16_t)(p[STOW_GATE_S16_TANH] != 0 ? stow_tanh_s16(table, steps) : stow_sigmoid_s16(table, steps));
        }
    }
}

STOW_API int stow_gate_s16_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_GATE_S16_PARAMS) && in.rows == out.rows && in.row_bytes == out.row_bytes &&
           out.row_bytes % sizeof(int16_t) == 0 && p[STOW_GATE_S16_MULTIPLIER] > 0 &&
           p[STOW_GATE_S16_MULTIPLIER] <= INT16_MAX && p[STOW_GATE_S16_SHIFT] >= 0 && p[STOW_GATE_S16_SHIFT] < 32 &&
           stow_has_bytes(facts, p[STOW_GATE_S16_SIGMOID], 512);
}

#endif
