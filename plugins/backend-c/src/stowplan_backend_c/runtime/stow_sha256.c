/* SHA-256 as FIPS 180-4 defines it, for plans that are to be verified on the device. */
#include <string.h>

#include "stow_internal.h"

#if STOW_WITH_DIGEST

static const uint32_t stow_sha256_constants[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u,
};

static uint32_t stow_sha256_rotate(uint32_t word, uint32_t count)
{
    return word >> count | word << (32u - count);
}

/* The message schedule is kept as its last 16 words, to save 192 bytes of stack. */
static void stow_sha256_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[16];
    uint32_t v[8];
    for (uint32_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    }
    memcpy(v, state, sizeof v);
    for (uint32_t i = 0; i < 64; i++) {
        if (i >= 16) {
            const uint32_t a = w[(i + 1) % 16];
            const uint32_t b = w[(i + 14) % 16];
            w[i % 16] += w[(i + 9) % 16] + (stow_sha256_rotate(a, 7) ^ stow_sha256_rotate(a, 18) ^ a >> 3) +
                         (stow_sha256_rotate(b, 17) ^ stow_sha256_rotate(b, 19) ^ b >> 10);
        }
        const uint32_t high = stow_sha256_rotate(v[4], 6) ^ stow_sha256_rotate(v[4], 11) ^ stow_sha256_rotate(v[4], 25);
        const uint32_t low = stow_sha256_rotate(v[0], 2) ^ stow_sha256_rotate(v[0], 13) ^ stow_sha256_rotate(v[0], 22);
        const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        const uint32_t first = v[7] + high + choice + stow_sha256_constants[i] + w[i % 16];
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += first;
        v[0] = first + low + majority;
    }
    for (uint32_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

STOW_API void stow_sha256_start(stow_sha256 *hash)
{
    static const uint32_t start[8] = {
        0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u,
    };
    memset(hash, 0, sizeof *hash);
    memcpy(hash->state, start, sizeof start);
}

STOW_API void stow_sha256_add(stow_sha256 *hash, const uint8_t *data, size_t size)
{
    size_t filled = (size_t)(hash->total_bytes % 64u);
    hash->total_bytes += size;
    if (filled > 0 && size >= 64u - filled) {
        memcpy(hash->pending + filled, data, 64u - filled);
        stow_sha256_block(hash->state, hash->pending);
        data += 64u - filled;
        size -= 64u - filled;
        filled = 0;
    }
    for (; size >= 64u && filled == 0; data += 64, size -= 64u) {
        stow_sha256_block(hash->state, data);
    }
    if (size > 0) {
        memcpy(hash->pending + filled, data, size);
    }
}

STOW_API void stow_sha256_finish(stow_sha256 *hash, uint8_t digest[STOW_SHA256_BYTES])
{
    static const uint8_t padding[64] = {0x80u};
    const uint64_t bits = hash->total_bytes * 8u;
    const size_t filled = (size_t)(hash->total_bytes % 64u);
    uint8_t length[8];
    for (uint32_t i = 0; i < 8; i++) {
        length[i] = (uint8_t)(bits >> (56u - 8u * i) & 255u);
    }
    stow_sha256_add(hash, padding, filled < 56u ? 56u - filled : 120u - filled);
    stow_sha256_add(hash, length, sizeof length);
    for (uint32_t i = 0; i < STOW_SHA256_BYTES; i++) {
        digest[i] = (uint8_t)(hash->state[i / 4] >> (24u - 8u * (i % 4)) & 255u);
    }
}

#endif
