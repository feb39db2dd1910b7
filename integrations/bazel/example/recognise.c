/* Recognises one digit, and prints it. */
#include <stdio.h>
#include <string.h>

#include "digits.h"
#include "sample.h"

static _Alignas(DIGITS_ARENA_ALIGN) uint8_t fast[DIGITS_FAST_BYTES];

int main(void)
{
    digits_context context;
    if (digits_init(&context, fast, sizeof fast, NULL, 0) != DIGITS_OK) {
        return 1;
    }
    memcpy(digits_input(&context, DIGITS_INPUT_IMAGE), sample_image, sizeof sample_image);
    if (digits_invoke(&context) != DIGITS_OK) {
        return 1;
    }
    const int8_t *probabilities = digits_output(&context, DIGITS_OUTPUT_PROBABILITIES);
    int best = 0;
    for (int digit = 1; digit < 10; digit++) {
        best = probabilities[digit] > probabilities[best] ? digit : best;
    }
    printf("%d\n", best);
    return 0;
}
