/* Mutates a plan many times, repairs its digest, and opens and runs what still opens. Built with sanitizers:
 *
 *     fuzz_driver PLAN SEED COUNT
 *
 * prints how many mutations opened and how many of those ran. Whatever the runtime reads or writes outside the plan or
 * the arenas, each allocated with exactly its size, ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stow_internal.h"

#define MAX_ARENA_BYTES (64u << 20)

static uint64_t fuzz_state;

/* xorshift64*: the same numbers on every machine. */
static uint32_t fuzz_random(uint32_t limit)
{
    fuzz_state ^= fuzz_state >> 12;
    fuzz_state ^= fuzz_state << 25;
    fuzz_state ^= fuzz_state >> 27;
    return (uint32_t)((fuzz_state * UINT64_C(2685821657736338717)) >> 33) % limit;
}

static void *fuzz_allocate(size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, STOW_ALIGNMENT, size > 0 ? size : 1) != 0) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return memory;
}

static uint8_t *fuzz_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = fuzz_allocate(*size);
    if (fread(data, 1, *size, file) != *size) {
        exit(2);
    }
    fclose(file);
    return data;
}

/* The bytes in front of weights and provenance: mutating those says most. */
static uint32_t fuzz_structure_end(const uint8_t *data, uint32_t size)
{
    stow_plan plan;
    if (stow_open(&plan, data, size) != STOW_OK) {
        fprintf(stderr, "the plan itself is refused: record %u\n", plan.fault);
        exit(2);
    }
    return (uint32_t)(plan.weights - data);
}

static void fuzz_mutate(uint8_t *data, uint32_t structure, uint32_t size)
{
    static const uint32_t interesting[] = {
        0, 1, 2, 3, 4, 7, 8, 15, 16, 64, 255, 256, 32767, 32768, 65535, 65536, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
    };
    const uint32_t end = fuzz_random(8) == 0 ? size : structure;
    const uint32_t at = fuzz_random(end);
    const uint32_t word = at & ~3u;
    uint32_t value;
    switch (fuzz_random(6)) {
    case 0: data[at] ^= (uint8_t)(1u << fuzz_random(8)); return;
    case 1: data[at] = (uint8_t)fuzz_random(256); return;
    case 2: value = interesting[fuzz_random(sizeof interesting / sizeof interesting[0])]; break;
    case 3:
        memcpy(&value, data + word, 4);
        value += fuzz_random(33) - 16u;
        break;
    case 4: memcpy(&value, data + (fuzz_random(end) & ~3u), 4); break;
    default: {
        const uint16_t half = (uint16_t)fuzz_random(64);
        memcpy(data + (at & ~1u), &half, sizeof half);
        return;
    }
    }
    if (word + 4 <= size) {
        memcpy(data + word, &value, 4);
    }
}

static void fuzz_repair_digest(uint8_t *data, uint32_t size)
{
    stow_header *header = (stow_header *)(void *)data;
    stow_sha256 hash;
    memset(header->digest, 0, sizeof header->digest);
    stow_sha256_start(&hash);
    stow_sha256_add(&hash, data, size);
    uint8_t digest[STOW_SHA256_BYTES];
    stow_sha256_finish(&hash, digest);
    memcpy(header->digest, digest, sizeof digest);
}

static void *fuzz_arena(uint32_t bytes)
{
    uint8_t *arena = fuzz_allocate(bytes);
    for (uint32_t i = 0; i < bytes; i++) {
        arena[i] = (uint8_t)fuzz_random(256);
    }
    return arena;
}

/* Push random rows, some at a time, of the input that is waited for; now and then of another, or too many. */
static stow_status fuzz_push(stow_context *context)
{
    stow_status status = stow_begin(context);
    while (status == STOW_MORE) {
        const uint32_t input = stow_waiting_for(context);
        const uint32_t wanted = stow_rows_wanted(context);
        const uint32_t count = 1 + fuzz_random(wanted < 5 ? wanted : 5);
        if (stow_push_rows(context, input + 1, NULL, 1) != STOW_WRONG_INPUT ||
            stow_push_rows(context, input, NULL, wanted + 1) != STOW_TOO_MANY_ROWS) {
            fprintf(stderr, "wrong rows were taken\n");
            abort();
        }
        uint8_t *rows = fuzz_arena(count * stow_input_row_bytes(context->plan, input));
        status = stow_push_rows(context, input, rows, count);
        free(rows);
    }
    return status;
}

/* Run an opened plan; 1 when it ran to its end. */
static int fuzz_run(const stow_plan *plan)
{
    const uint32_t fast_bytes = plan->header->fast_bytes;
    const uint32_t slow_bytes = plan->header->slow_bytes;
    if (fast_bytes > MAX_ARENA_BYTES || slow_bytes > MAX_ARENA_BYTES) {
        return 0;
    }
    void *fast = fuzz_arena(fast_bytes);
    void *slow = fuzz_arena(slow_bytes);
    stow_context context;
    stow_status status = stow_bind(&context, plan, fast, fast_bytes, slow, slow_bytes);
    for (uint32_t i = 0; status == STOW_OK && i < stow_input_count(plan); i++) {
        if (stow_input(&context, i) != NULL) {
            memset(stow_input(&context, i), 0x5a, stow_input_bytes(plan, i));
        }
    }
    if (status == STOW_OK) {
        status = plan->streamed != 0 ? fuzz_push(&context) : stow_invoke(&context);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; status == STOW_OK && i < stow_output_count(plan); i++) {
        const uint8_t *output = stow_output(&context, i);
        for (uint32_t b = 0; b < stow_output_bytes(plan, i); b++) {
            sum += output[b];
        }
    }
    free(fast);
    free(slow);
    return status == STOW_OK && sum != UINT32_MAX;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s PLAN SEED COUNT\n", argv[0]);
        return 2;
    }
    size_t size;
    uint8_t *original = fuzz_read(argv[1], &size);
    fuzz_state = strtoull(argv[2], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    const unsigned long count = strtoul(argv[3], NULL, 10);
    const uint32_t structure = fuzz_structure_end(original, (uint32_t)size);
    unsigned long opened = 0;
    unsigned long ran = 0;
    for (unsigned long i = 0; i < count; i++) {
        uint8_t *data = fuzz_allocate(size);
        memcpy(data, original, size);
        for (uint32_t m = 1u + fuzz_random(3); m > 0; m--) {
            fuzz_mutate(data, structure, (uint32_t)size);
        }
        fuzz_repair_digest(data, (uint32_t)size);
        stow_plan plan;
        (void)stow_check_digest(data, size);
        if (stow_open(&plan, data, size) == STOW_OK) {
            opened++;
            ran += (unsigned long)fuzz_run(&plan);
        }
        free(data);
    }
    free(original);
    printf("%lu opened, %lu ran\n", opened, ran);
    return 0;
}
