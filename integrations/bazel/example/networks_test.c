/* Both networks, in turn and in one arena, give the bytes that they gave on the machine that compiled them. */
#include <stdio.h>
#include <string.h>

#include "networks.h"
#include "sample.h"

static _Alignas(NETWORKS_ARENA_ALIGN) uint8_t fast[NETWORKS_FAST_BYTES];

static int differs(const char *name, const void *output)
{
    if (memcmp(output, sample_probabilities, sizeof sample_probabilities) != 0) {
        printf("%s: other bytes\n", name);
        return 1;
    }
    printf("%s: ok\n", name);
    return 0;
}

static int whole(void)
{
    digits_context context;
    if (digits_init(&context, fast, sizeof fast, NULL, 0) != DIGITS_OK) {
        return 1;
    }
    memcpy(digits_input(&context, DIGITS_INPUT_IMAGE), sample_image, sizeof sample_image);
    return digits_invoke(&context) != DIGITS_OK ||
           differs("whole", digits_output(&context, DIGITS_OUTPUT_PROBABILITIES));
}

static int streamed(void)
{
    digits_streamed_context context;
    if (digits_streamed_init(&context, fast, sizeof fast, NULL, 0) != DIGITS_STREAMED_OK) {
        return 1;
    }
    digits_streamed_status status = digits_streamed_begin(&context);
    for (int row = 0; status == DIGITS_STREAMED_MORE; row++) {
        status = digits_streamed_push_rows(&context, DIGITS_STREAMED_INPUT_IMAGE, sample_image + 8 * row, 1);
    }
    return status != DIGITS_STREAMED_OK ||
           differs("streamed", digits_streamed_output(&context, DIGITS_STREAMED_OUTPUT_PROBABILITIES));
}

int main(void)
{
    const int failures = whole() + streamed();
    return failures ? 1 : 0;
}
