/* Decodes range-coded blocks: a byte is eight decisions down a tree, each by the odds that it had so far.
 *
 * `width` is the interval that is left and `code` where in it the block's number lies. A decision cuts the interval by
 * its odds of 0, in 4096ths, which then move by 1/32 towards what was decided; so they stay within 31 and 4065. A block
 * ends so that `code` is in the middle of `width` when all of it has been read: most damage, and another length than was
 * packed, are noticed without a checksum.
 */
#include "stow_internal.h"

#if STOW_WITH_RANGE

#define STOW_RANGE_BITS 12u
#define STOW_RANGE_ONE 4096u
#define STOW_RANGE_RATE 5u
#define STOW_RANGE_LEAST 0x1000000u /* narrower intervals are widened by a byte */
#define STOW_RANGE_END_BYTES 4u

typedef struct stow_range_reader {
    const uint8_t *source;
    uint32_t size;
    uint32_t at; /* greater than `size` when more was asked for than there is */
    uint32_t width;
    uint32_t code;
} stow_range_reader;

static void stow_range_read(stow_range_reader *reader)
{
    uint32_t byte = 0;
    if (reader->at < reader->size) {
        byte = reader->source[reader->at];
    }
    reader->at++;
    reader->code = reader->code << 8 | byte;
}

static uint8_t stow_range_byte(stow_range_reader *reader, uint16_t *odds)
{
    uint32_t node = 1;
    while (node < 256u) {
        const uint32_t zero = odds[node];
        const uint32_t bound = (reader->width >> STOW_RANGE_BITS) * zero;
        if (reader->code < bound) {
            reader->width = bound;
            odds[node] = (uint16_t)(zero + ((STOW_RANGE_ONE - zero) >> STOW_RANGE_RATE));
            node = node << 1;
        } else {
            reader->code -= bound;
            reader->width -= bound;
            odds[node] = (uint16_t)(zero - (zero >> STOW_RANGE_RATE));
            node = node << 1 | 1u;
        }
        if (reader->width < STOW_RANGE_LEAST) {
            reader->width <<= 8;
            stow_range_read(reader);
        }
    }
    return (uint8_t)(node & 255u);
}

STOW_API int stow_range_decode(const uint8_t *source, uint32_t source_bytes, uint8_t *target, uint32_t target_bytes)
{
    uint16_t odds[256];
    stow_range_reader reader = {source, source_bytes, 0, UINT32_MAX, 0};
    for (uint32_t i = 0; i < 256u; i++) {
        odds[i] = STOW_RANGE_ONE / 2u;
    }
    for (uint32_t i = 0; i < STOW_RANGE_END_BYTES; i++) {
        stow_range_read(&reader);
    }
    for (uint32_t i = 0; i < target_bytes && reader.at <= source_bytes; i++) {
        target[i] = stow_range_byte(&reader, odds);
    }
    return reader.at == source_bytes && reader.code == reader.width >> 1;
}

#endif
