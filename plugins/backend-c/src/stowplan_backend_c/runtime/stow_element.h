/* Elements by their number in a tensor, wherever the rows end, and integers of any type by their dtype code. */
#ifndef STOW_ELEMENT_H
#define STOW_ELEMENT_H

#include <string.h>

#include "stow_kernels.h"
#include "stow_math.h"

/* Where element `index` lies; rows hold whole elements. */
static inline uint8_t *stow_element(const stow_rows *rows, size_t index, size_t element_bytes)
{
    const size_t in_row = rows->row_bytes / element_bytes;
    if (index < in_row) {
        return stow_row(rows, 0) + index * element_bytes;
    }
    return stow_row(rows, (uint32_t)(index / in_row)) + index % in_row * element_bytes;
}

static inline float stow_float_at(const stow_rows *rows, size_t index)
{
    float value;
    memcpy(&value, stow_element(rows, index, sizeof value), sizeof value);
    return value;
}

/* How many elements of this many bytes lie in rows of a form; 0 when they do not fill the rows. */
static inline int64_t stow_elements(stow_form form, uint32_t element_bytes)
{
    return form.row_bytes % element_bytes != 0 ? 0 : (int64_t)form.rows * (form.row_bytes / element_bytes);
}

/* Bytes of an element of an integer type that kernels compute with, 0 for any other code. */
static inline uint32_t stow_integer_bytes(int32_t dtype)
{
    switch (dtype) {
    case STOW_DTYPE_INT8:
    case STOW_DTYPE_UINT8:
    case STOW_DTYPE_BOOL: return 1;
    case STOW_DTYPE_INT16: return 2;
    case STOW_DTYPE_INT32: return 4;
    case STOW_DTYPE_INT64: return 8;
    default: return 0;
    }
}

static inline int64_t stow_load_integer(const uint8_t *from, int32_t dtype)
{
    int16_t half;
    int32_t word;
    int64_t twice;
    switch (dtype) {
    case STOW_DTYPE_INT8: return (int8_t)*from;
    case STOW_DTYPE_INT16: memcpy(&half, from, sizeof half); return half;
    case STOW_DTYPE_INT32: memcpy(&word, from, sizeof word); return word;
    case STOW_DTYPE_INT64: memcpy(&twice, from, sizeof twice); return twice;
    default: return *from;
    }
}

static inline void stow_store_integer(uint8_t *to, int32_t dtype, int64_t value)
{
    const int16_t half = (int16_t)value;
    const int32_t word = (int32_t)value;
    switch (dtype) {
    case STOW_DTYPE_INT16: memcpy(to, &half, sizeof half); break;
    case STOW_DTYPE_INT32: memcpy(to, &word, sizeof word); break;
    case STOW_DTYPE_INT64: memcpy(to, &value, sizeof value); break;
    default: *to = (uint8_t)value; break;
    }
}

/* The nearest number that a type can hold; bool is 0 or 1. */
static inline int64_t stow_saturate(int64_t value, int32_t dtype)
{
    int64_t low = 0, high = 1;
    switch (dtype) {
    case STOW_DTYPE_INT8: low = INT8_MIN, high = INT8_MAX; break;
    case STOW_DTYPE_UINT8: high = UINT8_MAX; break;
    case STOW_DTYPE_INT16: low = INT16_MIN, high = INT16_MAX; break;
    case STOW_DTYPE_INT32: low = INT32_MIN, high = INT32_MAX; break;
    case STOW_DTYPE_INT64: return value;
    default: break;
    }
    return value < low ? low : value > high ? high : value;
}

#endif
