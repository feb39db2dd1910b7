/* Average pooling, int8 and float32; over the full height of one image also row by row of the input.
 *
 * Each output's elements are added in the order of the image's rows, whichever way a node is fired, so that float sums
 * have the same rounding errors.
 */
#include "stow_math.h"
#include "stow_set.h"
#include "stow_window.h"

#if STOW_WITH_SET_SSE2
#include <emmintrin.h>
#endif

#if STOW_WITH_AVERAGE_POOL_2D_S8 || STOW_WITH_AVERAGE_POOL_2D_F32

/* Channels that are summed at once, on the stack. */
#define STOW_AVERAGE_LANES 32

static stow_taps stow_average_columns(const stow_window *window, int32_t column, int32_t *left)
{
    *left = column * window->stride_w - window->pad_left;
    return stow_clip(*left, window->kernel_w, 1, window->in_w);
}

/* Output rows that a call computes when it does not accumulate: a node by input rows without an accumulator runs in
 * one firing, for its one output row. */
static stow_taps stow_average_rows(const stow_call *call)
{
    const int by_input = (call->node->flags & STOW_NODE_BY_INPUT) != 0;
    const stow_taps rows = {by_input ? 0 : (int32_t)call->first, by_input ? 1 : (int32_t)(call->first + call->count)};
    return rows;
}

static int stow_is_average(const stow_facts *facts, uint32_t params, int64_t element_bytes)
{
    if (stow_operand_count(facts) != 1 || facts->param_count != params) {
        return 0;
    }
    stow_window w;
    stow_read_pool(&w, facts->params);
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    if (!stow_is_window(facts, &w, element_bytes) || !stow_windows_touch(&w) || w.in_c != w.out_c ||
        stow_size(w.in_h, w.in_w) > (1 << 23)) { /* more could overflow a sum of bytes */
        return 0;
    }
    if ((facts->node->flags & STOW_NODE_BY_INPUT) == 0) {
        return facts->node->units == out.rows && facts->node->accumulator == UINT16_MAX;
    }
    const int64_t sums = stow_size(stow_size(w.out_w, w.out_c), 4);
    return facts->node->units == in.rows && in.rows == (uint32_t)w.in_h && out.rows == 1 && w.pad_top == 0 &&
           w.kernel_h == w.in_h &&
           (facts->node->accumulator == UINT16_MAX || stow_accumulator_bytes(facts) >= (uint64_t)sums);
}

#endif

#if STOW_WITH_AVERAGE_POOL_2D_S8

static int8_t stow_average_s8(const int32_t *params, int32_t sum, int32_t count)
{
    const int32_t half = sum > 0 ? count / 2 : -(count / 2);
#if STOW_WITH_ACCUMULATORS
    /* 64 bits: sums come from the arena and may be anything in a hostile plan. */
    const int32_t mean = (int32_t)(((int64_t)sum + half) / count);
#else
    const int32_t mean = (sum + half) / count; /* at most 2^23 bytes were added */
#endif
    return (int8_t)stow_clamp(mean, params[STOW_AVERAGE_POOL_2D_S8_ACT_MIN], params[STOW_AVERAGE_POOL_2D_S8_ACT_MAX]);
}

#if STOW_WITH_SET_SSE2

/* Sixteen bytes of each tap, added up in 16 bits: there are at most 255 of them. */
static void stow_average_sixteen_s8(int32_t *sums, const int8_t *x, int32_t taps, size_t step)
{
    __m128i low = _mm_setzero_si128(), high = low;
    for (int32_t tap = 0; tap < taps; tap++, x += step) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)x);
        low = _mm_add_epi16(low, _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8));
        high = _mm_add_epi16(high, _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8));
    }
    const __m128i fours[] = {_mm_unpacklo_epi16(low, low), _mm_unpackhi_epi16(low, low), _mm_unpacklo_epi16(high, high),
                             _mm_unpackhi_epi16(high, high)};
    for (size_t i = 0; i < 4; i++) {
        __m128i *to = (__m128i *)(void *)(sums + 4 * i);
        _mm_storeu_si128(to, _mm_add_epi32(_mm_loadu_si128(to), _mm_srai_epi32(fours[i], 16)));
    }
}

/* Add up as many of `count` channels as can be so; returns how many that is. */
static size_t stow_average_begin_s8(int32_t *sums, size_t count, const int8_t *x, int32_t taps, size_t step)
{
    size_t i = 0;
    for (; taps > 0 && taps <= 255 && i + 16 <= count; i += 16) {
        stow_average_sixteen_s8(sums + i, x + i, taps, step);
    }
    return i;
}

#else

static size_t stow_average_begin_s8(int32_t *sums, size_t count, const int8_t *x, int32_t taps, size_t step)
{
    (void)sums, (void)count, (void)x, (void)taps, (void)step;
    return 0;
}

#endif

static void stow_average_add_s8(int32_t *sums, size_t count, const int8_t *x, stow_taps columns, size_t step)
{
    size_t i = stow_average_begin_s8(sums, count, x, columns.last - columns.first, step);
    for (; !STOW_SMALL && i + 4 <= count; i += 4) {
        const int8_t *at = x + i;
        int32_t a = sums[i], b = sums[i + 1], c = sums[i + 2], d = sums[i + 3];
        for (int32_t tap = columns.first; tap < columns.last; tap++, at += step) {
            a = stow_wrap_add(a, at[0]);
            b = stow_wrap_add(b, at[1]);
            c = stow_wrap_add(c, at[2]);
            d = stow_wrap_add(d, at[3]);
        }
        sums[i] = a, sums[i + 1] = b, sums[i + 2] = c, sums[i + 3] = d;
    }
    for (; i < count; i++) {
        const int8_t *at = x + i;
        for (int32_t tap = columns.first; tap < columns.last; tap++, at += step) {
            sums[i] = stow_wrap_add(sums[i], *at);
        }
    }
}

/* Add input rows [first, first + count) to the sums of all outputs; finish after the last one. */
static void stow_average_accumulate_s8(const stow_call *call, const stow_window *window, int32_t *sums)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)window->in_c;
    if (call->first == 0) {
        memset(sums, 0, (size_t)window->out_w * depth * sizeof *sums);
    }
    const int last = call->first + call->count == (uint32_t)window->in_h;
    int8_t *out = (int8_t *)stow_row(&result, 0);
    for (int32_t column = 0; column < window->out_w; column++, sums += depth, out += depth) {
        int32_t left;
        const stow_taps columns = stow_average_columns(window, column, &left);
        for (uint32_t row = call->first; row < call->first + call->count; row++) {
            const int8_t *x = (const int8_t *)stow_row(&in, row) + (size_t)(left + columns.first) * depth;
            stow_average_add_s8(sums, depth, x, columns, depth);
        }
        for (size_t i = 0; last && i < depth; i++) {
            out[i] = stow_average_s8(call->params, sums[i], (columns.last - columns.first) * window->in_h);
        }
    }
}

static void stow_average_pixel_s8(const stow_call *call, const stow_window *window, const stow_rows *in,
                                  const stow_place *place, int32_t column, int8_t *out)
{
    const size_t depth = (size_t)window->in_c;
    int32_t left;
    const stow_taps columns = stow_average_columns(window, column, &left);
    const int32_t count = (columns.last - columns.first) * (place->taps.last - place->taps.first);
    int32_t sums[STOW_AVERAGE_LANES];
    for (size_t first = 0; first < depth; first += STOW_AVERAGE_LANES) {
        const size_t lanes = depth - first < STOW_AVERAGE_LANES ? depth - first : STOW_AVERAGE_LANES;
        memset(sums, 0, sizeof sums);
        for (int32_t tap = place->taps.first; tap < place->taps.last; tap++) {
            const int8_t *row = (const int8_t *)stow_row_under(in, window, place, tap);
            stow_average_add_s8(sums, lanes, row + (size_t)(left + columns.first) * depth + first, columns, depth);
        }
        for (size_t i = 0; i < lanes; i++) {
            out[first + i] = stow_average_s8(call->params, sums[i], count);
        }
    }
}

STOW_API void stow_average_pool_2d_s8_run(const stow_call *call)
{
    stow_window window;
    stow_read_pool(&window, call->params);
    void *sums = stow_accumulator(call);
    if (STOW_WITH_ACCUMULATORS && sums != NULL) {
        stow_average_accumulate_s8(call, &window, sums);
        return;
    }
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const stow_taps rows = stow_average_rows(call);
    for (int32_t unit = rows.first; unit < rows.last; unit++) {
        const stow_place place = stow_place_of(&window, (uint32_t)unit);
        int8_t *out = (int8_t *)stow_row(&result, (uint32_t)unit);
        for (int32_t column = 0; column < window.out_w; column++, out += window.out_c) {
            stow_average_pixel_s8(call, &window, &in, &place, column, out);
        }
    }
}

STOW_API int stow_average_pool_2d_s8_check(const stow_facts *facts)
{
    return stow_is_average(facts, STOW_AVERAGE_POOL_2D_S8_PARAMS, 1) &&
           stow_is_range_s8(facts->params + STOW_AVERAGE_POOL_2D_S8_ACT_MIN);
}

#endif

#if STOW_WITH_AVERAGE_POOL_2D_F32

static float stow_average_f32(const int32_t *params, float sum, int32_t count)
{
    return stow_clamp_float(sum / (float)count, stow_float(params[STOW_AVERAGE_POOL_2D_F32_ACT_MIN]),
                            stow_float(params[STOW_AVERAGE_POOL_2D_F32_ACT_MAX]));
}

static void stow_average_add_f32(float *sums, size_t count, const float *x, stow_taps columns, size_t step)
{
    for (int32_t tap = columns.first; tap < columns.last; tap++, x += step) {
        for (size_t i = 0; i < count; i++) {
            sums[i] += x[i];
        }
    }
}

static void stow_average_accumulate_f32(const stow_call *call, const stow_window *window, float *sums)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)window->in_c;
    if (call->first == 0) {
        memset(sums, 0, (size_t)window->out_w * depth * sizeof *sums);
    }
    const int last = call->first + call->count == (uint32_t)window->in_h;
    float *out = (float *)(void *)stow_row(&result, 0);
    for (int32_t column = 0; column < window->out_w; column++, sums += depth, out += depth) {
        int32_t left;
        const stow_taps columns = stow_average_columns(window, column, &left);
        for (uint32_t row = call->first; row < call->first + call->count; row++) {
            const float *x = (const float *)(const void *)stow_row(&in, row) + (size_t)(left + columns.first) * depth;
            stow_average_add_f32(sums, depth, x, columns, depth);
        }
        for (size_t i = 0; last && i < depth; i++) {
            out[i] = stow_average_f32(call->params, sums[i], (columns.last - columns.first) * window->in_h);
        }
    }
}

static void stow_average_pixel_f32(const stow_call *call, const stow_window *window, const stow_rows *in,
                                   const stow_place *place, int32_t column, float *out)
{
    const size_t depth = (size_t)window->in_c;
    int32_t left;
    const stow_taps columns = stow_average_columns(window, column, &left);
    const int32_t count = (columns.last - columns.first) * (place->taps.last - place->taps.first);
    float sums[STOW_AVERAGE_LANES];
    for (size_t first = 0; first < depth; first += STOW_AVERAGE_LANES) {
        const size_t lanes = depth - first < STOW_AVERAGE_LANES ? depth - first : STOW_AVERAGE_LANES;
        memset(sums, 0, sizeof sums);
        for (int32_t tap = place->taps.first; tap < place->taps.last; tap++) {
            const float *row = (const float *)(const void *)stow_row_under(in, window, place, tap);
            stow_average_add_f32(sums, lanes, row + (size_t)(left + columns.first) * depth + first, columns, depth);
        }
        for (size_t i = 0; i < lanes; i++) {
            out[first + i] = stow_average_f32(call->params, sums[i], count);
        }
    }
}

STOW_API void stow_average_pool_2d_f32_run(const stow_call *call)
{
    stow_window window;
    stow_read_pool(&window, call->params);
    void *sums = stow_accumulator(call);
    if (sums != NULL) {
        stow_average_accumulate_f32(call, &window, sums);
        return;
    }
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const stow_taps rows = stow_average_rows(call);
    for (int32_t unit = rows.first; unit < rows.last; unit++) {
        const stow_place place = stow_place_of(&window, (uint32_t)unit);
        float *out = (float *)(void *)stow_row(&result, (uint32_t)unit);
        for (int32_t column = 0; column < window.out_w; column++, out += window.out_c) {
            stow_average_pixel_f32(call, &window, &in, &place, column, out);
        }
    }
}

STOW_API int stow_average_pool_2d_f32_check(const stow_facts *facts)
{
    return stow_is_average(facts, STOW_AVERAGE_POOL_2D_F32_PARAMS, sizeof(float));
}

#endif
