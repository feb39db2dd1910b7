/* Which kernel set is used: chosen when the runtime is built, except where one build serves several processors. */
#include "stow_set.h"

#if STOW_WITH_SET_HELIUM
static const stow_set stow_the_set = {2, stow_mm_helium_s8, stow_depthwise_row_helium_s8, stow_add_helium_s8};
#elif STOW_WITH_SET_DSP
static const stow_set stow_the_set = {2, stow_mm_dsp_s8, stow_depthwise_row_dsp_s8, stow_add_dsp_s8};
#elif STOW_WITH_SET_NEON
static const stow_set stow_the_set = {4, stow_mm_neon_s8, stow_depthwise_row_neon_s8, stow_add_neon_s8};
#elif STOW_WITH_SET_SSE2
static const stow_set stow_the_set = {2, stow_mm_sse2_s8, stow_depthwise_row_portable_s8, stow_add_portable_s8};
#else
static const stow_set stow_the_set = {2, stow_mm_portable_s8, stow_depthwise_row_portable_s8, stow_add_portable_s8};
#endif

STOW_API const stow_set *stow_kernel_set(void)
{
    return &stow_the_set;
}
