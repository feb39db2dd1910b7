/* What kernels share whose outputs are integers of 8 or 16 bits with a scale. */
#ifndef STOW_SCALED_H
#define STOW_SCALED_H

#include "stow_element.h"

static inline int stow_is_scaled_type(int32_t dtype)
{
    return dtype == STOW_DTYPE_INT8 || dtype == STOW_DTYPE_INT16;
}

/* Add the output's zero point, limit to the range, of which the ends are parameters in a row, and store. */
static inline void stow_store_scaled(uint8_t *to, int32_t dtype, int32_t value, int32_t zero_point, const int32_t *range)
{
    stow_store_integer(to, dtype, stow_clamp(stow_wrap_add(value, zero_point), range[0], range[1]));
}

#endif
