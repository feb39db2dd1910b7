/* Interpolation between four neighbours, whose places and weights are tables. */
#include "stow_element.h"

#if STOW_WITH_RESIZE_BILINEAR_F32 || STOW_WITH_RESIZE_BILINEAR_S8 || STOW_WITH_RESIZE_BILINEAR_S16

_Static_assert(STOW_RESIZE_BILINEAR_F32_COLUMNS == 6 && STOW_RESIZE_BILINEAR_S8_COLUMNS == 6 &&
                   STOW_RESIZE_BILINEAR_S16_COLUMNS == 6,
               "all kinds have the same parameters");

/* One entry of a table: the two places, and the weight of the second (a float's bits, or in steps of 1/1024). */
typedef struct stow_between {
    int32_t low;
    int32_t high;
    int32_t weight;
} stow_between;

/* A table may lie in a packed block, which nobody can check before it is unpacked. */
static stow_between stow_between_at(const stow_between *table, uint32_t index, int32_t size)
{
    stow_between found = table[index];
    found.low = stow_clamp(found.low, 0, size - 1);
    found.high = stow_clamp(found.high, 0, size - 1);
    return found;
}

static int stow_is_resize(const stow_facts *facts, int64_t element_bytes)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 1, 7) || !stow_all_at_least(facts, 0, STOW_RESIZE_BILINEAR_F32_OUT_W + 1, 1)) {
        return 0;
    }
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    const int64_t pixel = stow_size(p[STOW_RESIZE_BILINEAR_F32_CHANNELS], element_bytes);
    const uint32_t in_h = (uint32_t)p[STOW_RESIZE_BILINEAR_F32_IN_H], out_h = (uint32_t)p[STOW_RESIZE_BILINEAR_F32_OUT_H];
    return in.rows % in_h == 0 && out.rows % out_h == 0 && out.rows > 0 && in.rows / in_h == out.rows / out_h &&
           stow_size(p[STOW_RESIZE_BILINEAR_F32_IN_W], pixel) == in.row_bytes &&
           stow_size(p[STOW_RESIZE_BILINEAR_F32_OUT_W], pixel) == out.row_bytes &&
           stow_has_bytes(facts, p[STOW_RESIZE_BILINEAR_F32_ROWS], (int64_t)out_h * (int64_t)sizeof(stow_between)) &&
           stow_has_bytes(facts, p[STOW_RESIZE_BILINEAR_F32_COLUMNS],
                          (int64_t)p[STOW_RESIZE_BILINEAR_F32_OUT_W] * (int64_t)sizeof(stow_between));
}

#endif

#if STOW_WITH_RESIZE_BILINEAR_F32

static void stow_resize_row_f32(const int32_t *p, const float *top, const float *bottom, float below,
                                const stow_between *columns, float *out)
{
    const size_t channels = (size_t)p[STOW_RESIZE_BILINEAR_F32_CHANNELS];
    for (uint32_t column = 0; column < (uint32_t)p[STOW_RESIZE_BILINEAR_F32_OUT_W]; column++) {
        const stow_between place = stow_between_at(columns, column, p[STOW_RESIZE_BILINEAR_F32_IN_W]);
        const size_t left = (size_t)place.low * channels, right = (size_t)place.high * channels;
        const float beside = stow_float(place.weight);
        for (size_t c = 0; c < channels; c++) {
            *out++ = top[left + c] * (1.0f - below) * (1.0f - beside) + bottom[left + c] * below * (1.0f - beside) +
                     top[right + c] * (1.0f - below) * beside + bottom[right + c] * below * beside;
        }
    }
}

STOW_API void stow_resize_bilinear_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const stow_between *rows = stow_constant(call, p[STOW_RESIZE_BILINEAR_F32_ROWS]);
    const stow_between *columns = stow_constant(call, p[STOW_RESIZE_BILINEAR_F32_COLUMNS]);
    const uint32_t in_h = (uint32_t)p[STOW_RESIZE_BILINEAR_F32_IN_H], out_h = (uint32_t)p[STOW_RESIZE_BILINEAR_F32_OUT_H];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_between place = stow_between_at(rows, unit % out_h, (int32_t)in_h);
        const uint32_t image = unit / out_h * in_h;
        const float *top = (const float *)(const void *)stow_row(&in, image + (uint32_t)place.low);
        const float *bottom = (const float *)(const void *)stow_row(&in, image + (uint32_t)place.high);
        stow_resize_row_f32(p, top, bottom, stow_float(place.weight), columns, (float *)(void *)stow_row(&result, unit));
    }
}

STOW_API int stow_resize_bilinear_f32_check(const stow_facts *facts)
{
    return stow_is_resize(facts, sizeof(float));
}

#endif

#if STOW_WITH_RESIZE_BILINEAR_S8 || STOW_WITH_RESIZE_BILINEAR_S16

/* How the four neighbours of one column count, in steps of 2^-20: above and below on the left, then on the right. */
typedef struct stow_shares {
    size_t left, right;
    int64_t of[4];
} stow_shares;

static stow_shares stow_shares_of(const int32_t *p, const stow_between *columns, uint32_t column, int32_t below)
{
    const stow_between place = stow_between_at(columns, column, p[STOW_RESIZE_BILINEAR_S8_IN_W]);
    const size_t channels = (size_t)p[STOW_RESIZE_BILINEAR_S8_CHANNELS];
    const int64_t beside = stow_clamp(place.weight, 0, 1024), above = 1024 - (int64_t)below;
    const stow_shares shares = {(size_t)place.low * channels, (size_t)place.high * channels,
                                {above * (1024 - beside), below * (1024 - beside), above * beside, below * beside}};
    return shares;
}

/* A sum of four products, rounded half away from zero. */
static int64_t stow_shared_sum(const stow_shares *shares, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t sum = a * shares->of[0] + b * shares->of[1] + c * shares->of[2] + d * shares->of[3];
    return (sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20);
}

/* What both integer kernels begin a row with: the two rows of the input, and the weight of the lower one. */
typedef struct stow_resized {
    const uint8_t *top, *bottom;
    int32_t below;
} stow_resized;

static stow_resized stow_resized_row(const stow_call *call, uint32_t unit)
{
    const stow_rows in = stow_operand(call, 0);
    const int32_t *p = call->params;
    const stow_between *rows = stow_constant(call, p[STOW_RESIZE_BILINEAR_S8_ROWS]);
    const uint32_t in_h = (uint32_t)p[STOW_RESIZE_BILINEAR_S8_IN_H], out_h = (uint32_t)p[STOW_RESIZE_BILINEAR_S8_OUT_H];
    const stow_between place = stow_between_at(rows, unit % out_h, (int32_t)in_h);
    const uint32_t image = unit / out_h * in_h;
    const stow_resized row = {stow_row(&in, image + (uint32_t)place.low), stow_row(&in, image + (uint32_t)place.high),
                              stow_clamp(place.weight, 0, 1024)};
    return row;
}

#endif

#if STOW_WITH_RESIZE_BILINEAR_S8

STOW_API void stow_resize_bilinear_s8_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const int32_t *p = call->params;
    const size_t channels = (size_t)p[STOW_RESIZE_BILINEAR_S8_CHANNELS];
    const stow_between *columns = stow_constant(call, p[STOW_RESIZE_BILINEAR_S8_COLUMNS]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_resized row = stow_resized_row(call, unit);
        const int8_t *top = (const int8_t *)row.top, *bottom = (const int8_t *)row.bottom;
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (uint32_t column = 0; column < (uint32_t)p[STOW_RESIZE_BILINEAR_S8_OUT_W]; column++) {
            const stow_shares shares = stow_shares_of(p, columns, column, row.below);
            const size_t left = shares.left, right = shares.right;
            for (size_t c = 0; c < channels; c++) {
                *out++ = (int8_t)stow_shared_sum(&shares, top[left + c], bottom[left + c], top[right + c], bottom[right + c]);
            }
        }
    }
}

STOW_API int stow_resize_bilinear_s8_check(const stow_facts *facts)
{
    return stow_is_resize(facts, 1);
}

#endif

#if STOW_WITH_RESIZE_BILINEAR_S16

STOW_API void stow_resize_bilinear_s16_run(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    const int32_t *p = call->params;
    const size_t channels = (size_t)p[STOW_RESIZE_BILINEAR_S16_CHANNELS];
    const stow_between *columns = stow_constant(call, p[STOW_RESIZE_BILINEAR_S16_COLUMNS]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_resized row = stow_resized_row(call, unit);
        const int16_t *top = (const int16_t *)(const void *)row.top, *bottom = (const int16_t *)(const void *)row.bottom;
        int16_t *out = (int16_t *)(void *)stow_row(&result, unit);
        for (uint32_t column = 0; column < (uint32_t)p[STOW_RESIZE_BILINEAR_S16_OUT_W]; column++) {
            const stow_shares shares = stow_shares_of(p, columns, column, row.below);
            const size_t left = shares.left, right = shares.right;
            for (size_t c = 0; c < channels; c++) {
                *out++ = (int16_t)stow_shared_sum(&shares, top[left + c], bottom[left + c], top[right + c], bottom[right + c]);
            }
        }
    }
}

STOW_API int stow_resize_bilinear_s16_check(const stow_facts *facts)
{
    return stow_is_resize(facts, sizeof(int16_t));
}

#endif
