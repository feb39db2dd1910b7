/* Decodes LZ4 blocks: sequences of literals and of matches in what was decoded before, nothing trusted.
 *
 * A sequence is a token (high half: literals, low half: match length - 4; a half of 15 goes on in bytes up to the first
 * that is not 255), the literals, then a 16-bit offset back into the output. The last sequence ends after its literals.
 */
#include <string.h>

#include "stow_internal.h"

#if STOW_WITH_LZ4

#define STOW_LZ4_MIN_MATCH 4u

typedef struct stow_lz4_reader {
    const uint8_t *source;
    uint32_t size;
    uint32_t at;
} stow_lz4_reader;

/* Read the rest of a length that began as `length` in a token; 0 when it runs off the input or passes `limit`. */
static int stow_lz4_length(stow_lz4_reader *reader, uint32_t limit, uint32_t *length)
{
    if (*length < 15u) {
        return *length <= limit;
    }
    uint8_t more = 255u;
    while (more == 255u) {
        if (reader->at == reader->size) {
            return 0;
        }
        more = reader->source[reader->at++];
        *length += more;
        if (*length > limit) { /* also keeps the sum far from wrapping */
            return 0;
        }
    }
    return 1;
}

/* Copy a match byte by byte: it may overlap what it writes, and then repeats it. */
static void stow_lz4_match(uint8_t *target, uint32_t at, uint32_t offset, uint32_t length)
{
    if (offset >= length) {
        memcpy(target + at, target + at - offset, length);
        return;
    }
    for (uint32_t i = 0; i < length; i++) {
        target[at + i] = target[at + i - offset];
    }
}

STOW_API int stow_lz4_decode(const uint8_t *source, uint32_t source_bytes, uint8_t *target, uint32_t target_bytes)
{
    stow_lz4_reader reader = {source, source_bytes, 0};
    uint32_t made = 0;
    while (reader.at < source_bytes) {
        const uint32_t token = source[reader.at++];
        uint32_t literals = token >> 4;
        if (!stow_lz4_length(&reader, target_bytes - made, &literals) || literals > source_bytes - reader.at) {
            return 0;
        }
        if (literals > 0) {
            memcpy(target + made, source + reader.at, literals);
        }
        made += literals;
        reader.at += literals;
        if (reader.at == source_bytes) {
            return made == target_bytes;
        }
        if (source_bytes - reader.at < 2u) {
            return 0;
        }
        const uint32_t offset = source[reader.at] | (uint32_t)source[reader.at + 1] << 8;
        reader.at += 2;
        uint32_t length = token & 15u;
        const uint32_t room = target_bytes - made;
        if (offset == 0 || offset > made || room < STOW_LZ4_MIN_MATCH ||
            !stow_lz4_length(&reader, room - STOW_LZ4_MIN_MATCH, &length)) {
            return 0;
        }
        stow_lz4_match(target, made, offset, length + STOW_LZ4_MIN_MATCH);
        made += length + STOW_LZ4_MIN_MATCH;
    }
    return 0; /* empty, or ended in a match */
}

#endif
