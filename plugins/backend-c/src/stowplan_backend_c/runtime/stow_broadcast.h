/* How two operands of unlike shapes meet: the strides that all kinds on two operands share. */
#ifndef STOW_BROADCAST_H
#define STOW_BROADCAST_H

#include "stow_kernels.h"

_Static_assert(STOW_ADD_S8_B_CHANNEL == 10 && STOW_ADD_F32_B_CHANNEL == 10 && STOW_MUL_S8_B_CHANNEL == 10 &&
                   STOW_MUL_F32_B_CHANNEL == 10 && STOW_SUB_S8_B_CHANNEL == 10 && STOW_COMPARE_B_CHANNEL == 10 &&
                   STOW_ARITHMETIC_F32_B_CHANNEL == 10 && STOW_ARITHMETIC_S32_B_CHANNEL == 10 &&
                   STOW_EXTREME_S8_B_CHANNEL == 10,
               "all these kinds begin with the same parameters");

/* How far apart in one operand are the elements that neighbours in the result need. */
typedef struct stow_strides {
    uint32_t image;
    uint32_t row;
    size_t column;
    size_t channel;
} stow_strides;

static inline stow_strides stow_read_strides(const int32_t *params, uint32_t operand)
{
    const int32_t *first = params + (operand == 0 ? STOW_ADD_S8_A_IMAGE : STOW_ADD_S8_B_IMAGE);
    const stow_strides strides = {(uint32_t)first[0], (uint32_t)first[1], (size_t)first[2], (size_t)first[3]};
    return strides;
}

static inline const uint8_t *stow_binary_row(const stow_call *call, uint32_t operand, uint32_t unit)
{
    const stow_rows rows = stow_operand(call, operand);
    const stow_strides strides = stow_read_strides(call->params, operand);
    const uint32_t height = (uint32_t)call->params[STOW_ADD_S8_HEIGHT];
    return stow_row(&rows, unit / height * strides.image + unit % height * strides.row);
}

/* The result of one element of either operand; the compiler copies it into the loops below. */
typedef int8_t (*stow_binary_one_s8)(const int32_t *params, int32_t a, int32_t b);

static inline void stow_binary_s8(const stow_call *call, stow_binary_one_s8 one)
{
    const stow_rows result = stow_result(call);
    const stow_strides by_a = stow_read_strides(call->params, 0), by_b = stow_read_strides(call->params, 1);
    const size_t width = (size_t)call->params[STOW_ADD_S8_WIDTH];
    const size_t channels = (size_t)call->params[STOW_ADD_S8_CHANNELS];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const int8_t *a = (const int8_t *)stow_binary_row(call, 0, unit);
        const int8_t *b = (const int8_t *)stow_binary_row(call, 1, unit);
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t w = 0; w < width; w++, a += by_a.column, b += by_b.column, out += channels) {
            for (size_t c = 0; c < channels; c++) {
                out[c] = one(call->params, a[c * by_a.channel], b[c * by_b.channel]);
            }
        }
    }
}

static inline int stow_is_broadcast(const stow_facts *facts, uint32_t operand, int64_t element_bytes)
{
    const int32_t *params = facts->params;
    const stow_form in = stow_operand_form(facts, operand);
    const int32_t *strides = params + (operand == 0 ? STOW_ADD_S8_A_IMAGE : STOW_ADD_S8_B_IMAGE);
    const int64_t images = stow_result_form(facts).rows / (uint32_t)params[STOW_ADD_S8_HEIGHT];
    const int64_t rows = (images - 1) * strides[0];
    const int64_t columns = (int64_t)(params[STOW_ADD_S8_WIDTH] - 1) * strides[2];
    return rows < in.rows && rows + (int64_t)(params[STOW_ADD_S8_HEIGHT] - 1) * strides[1] < in.rows &&
           columns < in.row_bytes && in.row_bytes % element_bytes == 0 &&
           columns + (int64_t)(params[STOW_ADD_S8_CHANNELS] - 1) * strides[3] < in.row_bytes / element_bytes;
}

static inline int stow_is_binary_to(const stow_facts *facts, uint32_t params, int64_t element_bytes, int64_t out_bytes)
{
    if (!stow_is_plain(facts, 2, params) ||
        !stow_all_at_least(facts, STOW_ADD_S8_HEIGHT, STOW_ADD_S8_CHANNELS + 1, 1) ||
        !stow_all_at_least(facts, STOW_ADD_S8_A_IMAGE, STOW_ADD_S8_B_CHANNEL + 1, 0)) {
        return 0;
    }
    const stow_form out = stow_result_form(facts);
    const int64_t size = stow_size(facts->params[STOW_ADD_S8_WIDTH], facts->params[STOW_ADD_S8_CHANNELS]);
    return out.rows > 0 && out.rows % (uint32_t)facts->params[STOW_ADD_S8_HEIGHT] == 0 &&
           stow_size(size, out_bytes) == out.row_bytes && stow_is_broadcast(facts, 0, element_bytes) &&
           stow_is_broadcast(facts, 1, element_bytes);
}

static inline int stow_is_binary(const stow_facts *facts, uint32_t params, int64_t element_bytes)
{
    return stow_is_binary_to(facts, params, element_bytes, element_bytes);
}

#endif
