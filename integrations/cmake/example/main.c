/* Classifies one image, and fails unless it is the digit that it shows. */
#include <stdio.h>
#include <string.h>

#include "digits.h"

static const int8_t image[DIGITS_INPUT_0_BYTES] = {
    0, 0, 8,  15, 15, 2,  0,  0, /* */ 0, 2, 16, 13, 12, 10, 0,  0, /* */
    0, 3, 15, 1,  9,  11, 0,  0, /* */ 0, 0, 0,  1,  15, 8,  0,  0, /* */
    0, 0, 0,  10, 13, 1,  0,  0, /* */ 0, 0, 8,  16, 7,  0,  0,  0, /* */
    0, 6, 16, 16, 13, 7,  6,  1, /* */ 0, 0, 7,  5,  12, 16, 15, 2,
};
static const int shown = 2;

static _Alignas(DIGITS_ARENA_ALIGN) uint8_t fast[DIGITS_FAST_BYTES];
static digits_context context;

int main(void)
{
    digits_status status = digits_init(&context, fast, sizeof fast, NULL, 0);
    if (status == DIGITS_OK) {
        memcpy(digits_input(&context, DIGITS_INPUT_IMAGE), image, sizeof image);
        status = digits_invoke(&context);
    }
    if (status != DIGITS_OK) {
        printf("status %d\n", (int)status);
        return 2;
    }
    const int8_t *scores = digits_output(&context, DIGITS_OUTPUT_PROBABILITIES);
    int digit = 0;
    for (int i = 0; i < DIGITS_OUTPUT_0_BYTES; i++) {
        printf("%d ", scores[i]);
        digit = scores[i] > scores[digit] ? i : digit;
    }
    printf("\ndigit %d in %d bytes\n", digit, DIGITS_FAST_BYTES);
    return digit == shown ? 0 : 1;
}
