/* Maximum pooling, int8 and float32. */
#include "stow_math.h"
#include "stow_window.h"

#if STOW_WITH_MAX_POOL_2D_S8 || STOW_WITH_MAX_POOL_2D_F32

static int stow_is_max_pool(const stow_facts *facts, uint32_t params, int64_t element_bytes)
{
    if (!stow_is_plain(facts, 1, params)) {
        return 0;
    }
    stow_window w;
    stow_read_pool(&w, facts->params);
    return stow_is_window(facts, &w, element_bytes) && stow_windows_touch(&w) && w.in_c == w.out_c;
}

#endif

#if STOW_WITH_MAX_POOL_2D_S8

#define STOW_MAX_LANES 32

static void stow_max_pixel_s8(const stow_call *call, const stow_window *window, const stow_rows *in,
                              const stow_place *place, int32_t column, int8_t *out)
{
    const size_t depth = (size_t)window->in_c;
    const int32_t left = column * window->stride_w - window->pad_left;
    const stow_taps columns = stow_clip(left, window->kernel_w, 1, window->in_w);
    int8_t largest[STOW_MAX_LANES];
    for (size_t first = 0; first < depth; first += STOW_MAX_LANES) {
        const size_t lanes = depth - first < STOW_MAX_LANES ? depth - first : STOW_MAX_LANES;
        memset(largest, INT8_MIN, sizeof largest);
        for (int32_t i = place->taps.first; i < place->taps.last; i++) {
            const int8_t *row = (const int8_t *)stow_row_under(in, window, place, i);
            for (int32_t j = columns.first; j < columns.last; j++) {
                const int8_t *x = row + (size_t)(left + j) * depth + first;
                for (size_t c = 0; c < lanes; c++) {
                    largest[c] = x[c] > largest[c] ? x[c] : largest[c];
                }
            }
        }
        for (size_t c = 0; c < lanes; c++) {
            out[first + c] = (int8_t)stow_clamp(largest[c], call->params[STOW_MAX_POOL_2D_S8_ACT_MIN],
                                                call->params[STOW_MAX_POOL_2D_S8_ACT_MAX]);
        }
    }
}

STOW_API void stow_max_pool_2d_s8_run(const stow_call *call)
{
    stow_window window;
    stow_read_pool(&window, call->params);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&window, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (int32_t column = 0; column < window.out_w; column++, out += window.out_c) {
            stow_max_pixel_s8(call, &window, &in, &place, column, out);
        }
    }
}

STOW_API int stow_max_pool_2d_s8_check(const stow_facts *facts)
{
    return stow_is_max_pool(facts, STOW_MAX_POOL_2D_S8_PARAMS, 1) &&
           stow_is_range_s8(facts->params + STOW_MAX_POOL_2D_S8_ACT_MIN);
}

#endif

#if STOW_WITH_MAX_POOL_2D_F32

static float stow_max_element_f32(const stow_window *window, const stow_rows *in, const stow_place *place, int32_t left,
                                  size_t channel)
{
    const stow_taps columns = stow_clip(left, window->kernel_w, 1, window->in_w);
    float largest = -3.402823466e38f; /* the lowest finite number: infinities below it do not win */
    for (int32_t i = place->taps.first; i < place->taps.last; i++) {
        const float *row = (const float *)(const void *)stow_row_under(in, window, place, i);
        for (int32_t j = columns.first; j < columns.last; j++) {
            const float x = row[(size_t)(left + j) * (size_t)window->in_c + channel];
            largest = largest < x ? x : largest;
        }
    }
    return largest;
}

STOW_API void stow_max_pool_2d_f32_run(const stow_call *call)
{
    stow_window window;
    stow_read_pool(&window, call->params);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const float low = stow_float(call->params[STOW_MAX_POOL_2D_F32_ACT_MIN]);
    const float high = stow_float(call->params[STOW_MAX_POOL_2D_F32_ACT_MAX]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&window, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (int32_t column = 0; column < window.out_w; column++, out += window.out_c) {
            const int32_t left = column * window.stride_w - window.pad_left;
            for (size_t c = 0; c < (size_t)window.out_c; c++) {
                out[c] = stow_clamp_float(stow_max_element_f32(&window, &in, &place, left, c), low, high);
            }
        }
    }
}

STOW_API int stow_max_pool_2d_f32_check(const stow_facts *facts)
{
    return stow_is_max_pool(facts, STOW_MAX_POOL_2D_F32_PARAMS, sizeof(float));
}

#endif
