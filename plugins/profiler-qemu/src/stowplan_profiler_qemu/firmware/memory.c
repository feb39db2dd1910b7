/* memcpy, memmove and memset that only make aligned accesses: those of C libraries for these cores do not, and here
 * that is a fault. */
#include <string.h>

#include "board.h"

#define WORDS_AT_ONCE 4u

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if ((((uintptr_t)out ^ (uintptr_t)in) & 3u) == 0) {
        for (; size > 0 && ((uintptr_t)out & 3u) != 0; size--) {
            *out++ = *in++;
        }
        uint32_t *out_words = (uint32_t *)(void *)out;
        const uint32_t *in_words = (const uint32_t *)(const void *)in;
        for (; size >= 4 * WORDS_AT_ONCE; size -= 4 * WORDS_AT_ONCE) {
            const uint32_t a = in_words[0], b = in_words[1], c = in_words[2], d = in_words[3];
            out_words[0] = a, out_words[1] = b, out_words[2] = c, out_words[3] = d;
            in_words += WORDS_AT_ONCE, out_words += WORDS_AT_ONCE;
        }
        for (; size >= 4; size -= 4) {
            *out_words++ = *in_words++;
        }
        out = (uint8_t *)out_words;
        in = (const uint8_t *)in_words;
    }
    for (; size > 0; size--) {
        *out++ = *in++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t size)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if ((uintptr_t)out - (uintptr_t)in >= size) {
        return memcpy(to, from, size);
    }
    while (size > 0) {
        size--;
        out[size] = in[size];
    }
    return to;
}

void *memset(void *to, int value, size_t size)
{
    uint8_t *out = to;
    for (; size > 0 && ((uintptr_t)out & 3u) != 0; size--) {
        *out++ = (uint8_t)value;
    }
    uint32_t *words = (uint32_t *)(void *)out;
    for (; size >= 4; size -= 4) {
        *words++ = (uint8_t)value * UINT32_C(0x01010101);
    }
    out = (uint8_t *)words;
    for (; size > 0; size--) {
        *out++ = (uint8_t)value;
    }
    return to;
}
