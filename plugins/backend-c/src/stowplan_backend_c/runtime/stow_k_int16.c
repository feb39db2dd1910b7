/* Sums, products and pools of int16. */
#include "stow_broadcast.h"
#include "stow_element.h"
#include "stow_window.h"

#if STOW_WITH_ADD_INT || STOW_WITH_MUL_INT || STOW_WITH_POOL_INT

/* Whether two parameters in a row are the ends of a range of int16. */
static int stow_is_range_s16(const int32_t *range)
{
    return range[0] >= INT16_MIN && range[1] <= INT16_MAX && range[0] <= range[1];
}

#endif

#if STOW_WITH_ADD_INT || STOW_WITH_MUL_INT

typedef int16_t stow_one_s16(const int32_t *params, int32_t a, int32_t b);

/* Sums and products lay out their first parameters alike. */
static inline void stow_binary_run_s16(const stow_call *call, stow_one_s16 *one)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int16_t *a = (const int16_t *)(const void *)stow_binary_row(call, 0, unit);
        const int16_t *b = (const int16_t *)(const void *)stow_binary_row(call, 1, unit);
        int16_t *out = (int16_t *)(void *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = one(call->params, a[c * by_a.channel], b[c * by_b.channel]);
            }
        }
    }
}

#endif

#if STOW_WITH_ADD_INT

static int16_t stow_add_one_s16(const int32_t *p, int32_t a, int32_t b)
{
    const uint32_t bits = (uint32_t)p[STOW_ADD_INT_LEFT_SHIFT];
    const int32_t wide_a = stow_shift_left(stow_wrap_subtract(a, p[STOW_ADD_INT_A_ZERO_POINT]), bits);
    const int32_t wide_b = stow_shift_left(stow_wrap_subtract(b, p[STOW_ADD_INT_B_ZERO_POINT]), bits);
    const int32_t x = stow_scale(wide_a, p[STOW_ADD_INT_A_MULTIPLIER], p[STOW_ADD_INT_A_SHIFT]);
    const int32_t y = stow_scale(wide_b, p[STOW_ADD_INT_B_MULTIPLIER], p[STOW_ADD_INT_B_SHIFT]);
    const int32_t sum = p[STOW_ADD_INT_SUBTRACT] != 0 ? stow_wrap_subtract(x, y) : stow_wrap_add(x, y);
    const int32_t scaled = stow_scale(sum, p[STOW_ADD_INT_OUTPUT_MULTIPLIER], p[STOW_ADD_INT_OUTPUT_SHIFT]);
    return (int16_t)stow_clamp(stow_wrap_add(scaled, p[STOW_ADD_INT_OUTPUT_ZERO_POINT]), p[STOW_ADD_INT_ACT_MIN],
                               p[STOW_ADD_INT_ACT_MAX]);
}

STOW_API void stow_add_int_run(const stow_call *call)
{
    stow_binary_run_s16(call, stow_add_one_s16);
}

STOW_API int stow_add_int_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_ADD_INT_PARAMS, 2) && stow_is_range_s16(facts->params + STOW_ADD_INT_ACT_MIN);
}

#endif

#if STOW_WITH_MUL_INT

static int16_t stow_mul_one_s16(const int32_t *p, int32_t a, int32_t b)
{
    const int32_t product = stow_wrap((uint32_t)stow_wrap_subtract(a, p[STOW_MUL_INT_A_ZERO_POINT]) *
                                      (uint32_t)stow_wrap_subtract(b, p[STOW_MUL_INT_B_ZERO_POINT]));
    const int32_t scaled = stow_scale(product, p[STOW_MUL_INT_OUTPUT_MULTIPLIER], p[STOW_MUL_INT_OUTPUT_SHIFT]);
    return (int16_t)stow_clamp(stow_wrap_add(scaled, p[STOW_MUL_INT_OUTPUT_ZERO_POINT]), p[STOW_MUL_INT_ACT_MIN],
                               p[STOW_MUL_INT_ACT_MAX]);
}

STOW_API void stow_mul_int_run(const stow_call *call)
{
    stow_binary_run_s16(call, stow_mul_one_s16);
}

STOW_API int stow_mul_int_check(const stow_facts *facts)
{
    return stow_is_binary(facts, STOW_MUL_INT_PARAMS, 2) && stow_is_range_s16(facts->params + STOW_MUL_INT_ACT_MIN);
}

#endif

#if STOW_WITH_POOL_INT

/* The mean, rounded half away from zero, or the largest of the elements of a window inside the input. */
static int32_t stow_pool_one_s16(const stow_rows *in, const stow_window *w, const stow_place *place, int32_t left,
                                 stow_taps columns, size_t channel, int largest)
{
    int64_t sum = 0, most = INT16_MIN;
    const int64_t count = (int64_t)(place->taps.last - place->taps.first) * (columns.last - columns.first);
    for (int32_t tap = place->taps.first; tap < place->taps.last; tap++) {
        const int16_t *row = (const int16_t *)(const void *)stow_row_under(in, w, place, tap);
        for (int32_t column = columns.first; column < columns.last; column++) {
            const int16_t x = row[(size_t)(left + column) * (size_t)w->in_c + channel];
            sum += x;
            most = x > most ? x : most;
        }
    }
    return (int32_t)(largest ? most : (sum > 0 ? sum + count / 2 : sum - count / 2) / count);
}

STOW_API void stow_pool_int_run(const stow_call *call)
{
    stow_window w;
    stow_read_pool(&w, call->params);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&w, unit);
        int16_t *out = (int16_t *)(void *)stow_row(&result, unit);
        for (int32_t column = 0; column < w.out_w; column++) {
            const int32_t left = column * w.stride_w - w.pad_left;
            const stow_taps taps = stow_clip(left, w.kernel_w, 1, w.in_w);
            for (size_t c = 0; c < (size_t)w.out_c; c++) {
                const int32_t value = stow_pool_one_s16(&in, &w, &place, left, taps, c, p[STOW_POOL_INT_LARGEST] != 0);
                *out++ = (int16_t)stow_clamp(value, p[STOW_POOL_INT_ACT_MIN], p[STOW_POOL_INT_ACT_MAX]);
            }
        }
    }
}

STOW_API int stow_pool_int_check(const stow_facts *facts)
{
    if (!stow_is_plain(facts, 1, STOW_POOL_INT_PARAMS)) {
        return 0;
    }
    stow_window w;
    stow_read_pool(&w, facts->params);
    return stow_is_window(facts, &w, 2) && w.in_c == w.out_c && stow_windows_touch(&w) &&
           stow_is_range_s16(facts->params + STOW_POOL_INT_ACT_MIN);
}

#endif

#if STOW_WITH_SOFTMAX_S16

#define STOW_TABLE_BYTES 1026

/* The value of a table of 512 intervals at `at`, between their ends. */
static int32_t stow_interpolate(const int16_t *table, int32_t at)
{
    const int32_t index = 256 + (at >> 7), part = at & 0x7f;
    const int32_t base = table[index];
    return base + (((table[index + 1] - base) * part + 64) >> 7);
}

static uint32_t stow_leading_zeros(uint32_t value)
{
    uint32_t count = 0;
    while (count < 32 && (value & UINT32_C(0x80000000)) == 0) {
        value <<= 1;
        count++;
    }
    return count;
}

/* exp(x - most) in Q0.15. */
static int32_t stow_exp_s16(const int32_t *p, const int16_t *table, int32_t x, int32_t most)
{
    const int32_t scaled = stow_scale(x - most, p[STOW_SOFTMAX_S16_MULTIPLIER], p[STOW_SOFTMAX_S16_SHIFT]);
    return stow_interpolate(table, stow_clamp(stow_wrap_add(scaled, INT16_MAX), INT16_MIN, INT16_MAX));
}

static void stow_softmax_one_s16(const int32_t *p, const int16_t *exps, const int16_t *inverses, const int16_t *x,
                                 int16_t *out)
{
    const size_t depth = (size_t)p[STOW_SOFTMAX_S16_DEPTH];
    int32_t most = INT16_MIN;
    for (size_t i = 0; i < depth; i++) {
        most = x[i] > most ? x[i] : most;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i < depth; i++) {
        const int32_t power = stow_exp_s16(p, exps, x[i], most);
        out[i] = (int16_t)power;
        sum += (uint32_t)power;
    }
    /* The sum as 1 + x times a power of two, to look up 1 / (1 + x). */
    const uint32_t room = stow_leading_zeros(sum | 1u);
    const int64_t shifted = (int64_t)((((uint64_t)sum << (room > 0 ? room - 1 : 0)) + (1u << 13)) >> 14);
    const int64_t centred = shifted - ((1 << 15) + (1 << 16));
    const int32_t at = (int32_t)(centred < INT16_MIN ? INT16_MIN : centred > INT16_MAX ? INT16_MAX : centred);
    const int64_t inverse = stow_interpolate(inverses, at);
    const uint32_t bits = room >= 31 ? 1 : 31 - room;
    for (size_t i = 0; i < depth; i++) {
        const int64_t value = (out[i] * inverse + (INT64_C(1) << (bits - 1))) >> bits;
        out[i] = (int16_t)(value < 0 ? 0 : value > INT16_MAX ? INT16_MAX : value);
    }
}

STOW_API void stow_softmax_s16_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const int16_t *exps = stow_constant(call, p[STOW_SOFTMAX_S16_EXP]);
    const int16_t *inverses = stow_constant(call, p[STOW_SOFTMAX_S16_INVERSE]);
    const size_t depth = (size_t)p[STOW_SOFTMAX_S16_DEPTH];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int16_t *x = (const int16_t *)(const void *)stow_row(&in, unit);
        int16_t *out = (int16_t *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < result.row_bytes / sizeof(int16_t); i += depth) {
            stow_softmax_one_s16(p, exps, inverses, x + i, out + i);
        }
    }
}

STOW_API int stow_softmax_s16_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_SOFTMAX_S16_PARAMS) && in.rows == out.rows && in.row_bytes == out.row_bytes &&
           p[STOW_SOFTMAX_S16_DEPTH] > 0 && p[STOW_SOFTMAX_S16_DEPTH] < (1 << 16) && p[STOW_SOFTMAX_S16_INPUT_BYTES] == 2 &&
           in.row_bytes % stow_size(p[STOW_SOFTMAX_S16_DEPTH], 2) == 0 &&
           stow_has_bytes(facts, p[STOW_SOFTMAX_S16_EXP], STOW_TABLE_BYTES) &&
           stow_has_bytes(facts, p[STOW_SOFTMAX_S16_INVERSE], STOW_TABLE_BYTES);
}

#endif
