/* Runs a plan on inputs from a file with one set of kernels, each arena a block of its own of exactly the plan's size.
 *
 *     driver PLAN INPUTS SET    raw outputs on standard output; 77 when this processor cannot run the set
 *
 * The file of inputs has those of one run after those of another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stow.h"

size_t stow_host_prepare_bytes(const stow_context *context, const char *name);
const char *stow_host_prepare(stow_context *context, const char *name, void *memory);

/* Rounded up to what the allocator demands of aligned blocks, so as not to hide an access far behind the end. */
static void *block(size_t size, size_t alignment)
{
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment + (size == 0 ? alignment : 0));
}

static void *whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        exit(2);
    }
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = block(*size, 16);
    if (data == NULL || fread(data, 1, *size, file) != *size) {
        exit(2);
    }
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    size_t plan_bytes, input_bytes;
    static stow_plan plan;
    static stow_context context;
    void *memory = NULL;
    if (argc != 4) {
        return 2;
    }
    void *data = whole(argv[1], &plan_bytes);
    uint8_t *inputs = whole(argv[2], &input_bytes);
    if (stow_open(&plan, data, plan_bytes) != STOW_OK) {
        return 3;
    }
    const size_t fast_bytes = plan.header->fast_bytes, slow_bytes = plan.header->slow_bytes;
    void *fast = block(fast_bytes, 16), *slow = block(slow_bytes, 16);
    if (stow_bind(&context, &plan, fast, fast_bytes, slow, slow_bytes) != STOW_OK) {
        return 4;
    }
    if (strcmp(argv[3], "plain") != 0) {
        const size_t bytes = stow_host_prepare_bytes(&context, argv[3]);
        if (bytes == 0) {
            return 77;
        }
        memory = block(bytes, 64);
        stow_host_prepare(&context, argv[3], memory);
    }
    for (size_t at = 0; at < input_bytes;) {
        for (uint32_t i = 0; i < stow_input_count(&plan); i++) {
            const size_t one = stow_input_bytes(&plan, i);
            if (one > input_bytes - at) {
                return 2;
            }
            memcpy(stow_input(&context, i), inputs + at, one);
            at += one;
        }
        if (stow_invoke(&context) != STOW_OK) {
            return 5;
        }
        for (uint32_t i = 0; i < stow_output_count(&plan); i++) {
            fwrite(stow_output(&context, i), 1, stow_output_bytes(&plan, i), stdout);
        }
    }
    free(memory), free(slow), free(fast), free(inputs), free(data);
    return 0;
}
