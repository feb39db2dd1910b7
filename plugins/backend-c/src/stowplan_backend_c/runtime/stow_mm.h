/* Matrix products in tiles: what convolution and fully connected kernels do around a set's mm_s8. */
#ifndef STOW_MM_H
#define STOW_MM_H

#include <string.h>

#include "stow_set.h"

/* Whether all rows lie in memory one after another. */
static inline int stow_rows_are_together(const stow_rows *rows)
{
    return rows->offsets == NULL && rows->height >= rows->rows && (rows->rows == 1 || rows->stride == rows->row_bytes);
}

/* What a kernel keeps on its stack for the tiles it runs. */
typedef struct stow_mm_room {
    _Alignas(16) int8_t patch[STOW_MM_ROOM];
    uint32_t sums[STOW_MM_PIXELS * STOW_MM_OUTPUTS];
} stow_mm_room;

/* One vector of a patch: put bytes, or one byte again and again, at element `at`. */
typedef struct stow_mm_patch {
    int8_t *base;
    size_t stride;
} stow_mm_patch;

static inline stow_mm_patch stow_mm_patch_of(const stow_mm_s8 *mm, size_t pixel)
{
    const stow_mm_patch patch = {mm->room + STOW_MM_START + pixel * STOW_MM_STEP(mm->pixels), STOW_MM_STRIDE(mm->pixels)};
    return patch;
}

static inline void stow_mm_use_patch(stow_mm_s8 *mm)
{
    mm->x = mm->room + STOW_MM_START;
    mm->x_step = STOW_MM_STEP(mm->pixels);
    mm->x_stride = STOW_MM_STRIDE(mm->pixels);
}

#if STOW_WITH_SET_DSP
/* Four bytes that may lie anywhere. */
static inline uint32_t stow_mm_word(const int8_t *from)
{
    const uint8_t *bytes = (const uint8_t *)from;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline void stow_mm_put(stow_mm_patch patch, size_t at, const int8_t *from, size_t size)
{
    int8_t *to = patch.base + (at >> 2) * patch.stride + (at & 3u);
    for (; size > 0 && (at & 3u) != 0; at++, size--) {
        *to++ = *from++;
        to += (at & 3u) == 3 ? patch.stride - 4 : 0;
    }
    if (!STOW_SMALL && ((uintptr_t)from & 3u) == 0) {
        for (; size >= 4; size -= 4, from += 4, to += patch.stride) {
            *(uint32_t *)(void *)to = *(const uint32_t *)(const void *)from;
        }
    } else {
        for (; size >= 4; size -= 4, from += 4, to += patch.stride) {
            *(uint32_t *)(void *)to = stow_mm_word(from);
        }
    }
    for (; size > 0; size--) {
        *to++ = *from++;
    }
}

static inline void stow_mm_fill(stow_mm_patch patch, size_t at, int32_t value, size_t size)
{
    for (const size_t end = at + size; at < end; at++) {
        patch.base[(at >> 2) * patch.stride + (at & 3u)] = (int8_t)value;
    }
}
#else
static inline void stow_mm_put(stow_mm_patch patch, size_t at, const int8_t *from, size_t size)
{
    stow_copy_s8(patch.base + at, from, size);
}

static inline void stow_mm_fill(stow_mm_patch patch, size_t at, int32_t value, size_t size)
{
    memset(patch.base + at, value, size);
}
#endif

/* Where the vectors of a tile come from. `fetch` points mm->x at elements [start, start + mm->depth) of mm->pixels
 * vectors, the first of which is `number`: where they lie or, brought together, in a patch. */
typedef struct stow_mm_source {
    void (*fetch)(const struct stow_mm_source *source, stow_mm_s8 *mm, size_t start);
    const void *kernel;
    size_t number;
    size_t depth; /* elements of a vector, padding included */
    size_t part;  /* elements to fetch at once; 0 when all vectors lie in memory as a whole */
    stow_mm_room *room;
} stow_mm_source;

/* Outputs [from, from + outputs) of up to a set's number of vectors, to mm->out. */
static inline void stow_mm_tile_s8(const stow_mm_source *source, stow_mm_s8 *mm, size_t from, size_t outputs)
{
    const stow_set *set = stow_kernel_set();
    const size_t part_most = source->part == 0 ? source->depth : source->part;
    const size_t most = !STOW_WITH_LONG_VECTORS || source->depth <= part_most ? outputs : STOW_MM_OUTPUTS;
    const size_t step = mm->filter->weights_step;
    const size_t parts = !STOW_WITH_LONG_VECTORS ? 1 : (source->depth + part_most - 1) / part_most;
    const size_t part = ((source->depth + parts - 1) / parts + 15u) & ~(size_t)15; /* of about the same size */
    int8_t *out = mm->out;
    mm->sums = source->room->sums;
    mm->room = source->room->patch;
    mm->x_stride = 4;
    for (size_t done = 0; done < outputs; done += most) {
        mm->first = from + done;
        mm->outputs = outputs - done < most ? outputs - done : most;
        mm->out = out + done;
        for (size_t start = 0; start < source->depth; start += part) {
            const size_t left = source->depth - start;
            mm->depth = left < part ? left : part;
            mm->w = mm->filter->weights + mm->first * step + start;
            mm->begins = start == 0;
            mm->ends = mm->depth == left;
            source->fetch(source, mm, start);
            set->mm_s8(mm);
            if (!STOW_WITH_LONG_VECTORS) {
                return;
            }
        }
    }
}

/* All outputs of `count` vectors, the first of which is vector `number` of the source. */
static inline void stow_mm_run_s8(stow_mm_source *source, const stow_filter_s8 *filter, size_t number, size_t count,
                                  size_t outputs, int8_t *out)
{
    const stow_set *set = stow_kernel_set();
    const size_t most = set->pixels;
    stow_mm_s8 mm = {.filter = filter, .out_step = outputs};
    if (source->part == 0) {
        mm = (stow_mm_s8){
            .filter = filter, .pixels = count, .depth = source->depth, .w = filter->weights, .outputs = outputs,
            .out = out, .out_step = outputs, .room = source->room->patch, .sums = source->room->sums, .begins = 1,
            .ends = 1, .x_stride = 4,
        };
        source->number = number;
        source->fetch(source, &mm, 0);
        set->mm_s8(&mm);
        return;
    }
    for (size_t done = 0; done < count; done += mm.pixels) {
        mm.pixels = count - done < most ? count - done : most;
        mm.out = out + done * outputs;
        source->number = number + done;
        stow_mm_tile_s8(source, &mm, 0, outputs);
    }
}

#endif
