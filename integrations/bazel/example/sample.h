/* A handwritten 2 from the test set, and what the network makes of it. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdint.h>

static const int8_t sample_image[64] = {
    0, 0, 8, 15, 15, 2, 0, 0,
    0, 2, 16, 13, 12, 10, 0, 0,
    0, 3, 15, 1, 9, 11, 0, 0,
    0, 0, 0, 1, 15, 8, 0, 0,
    0, 0, 0, 10, 13, 1, 0, 0,
    0, 0, 8, 16, 7, 0, 0, 0,
    0, 6, 16, 16, 13, 7, 6, 1,
    0, 0, 7, 5, 12, 16, 15, 2,
};

static const int8_t sample_probabilities[10] = {-128, -128, 127, -128, -128, -128, -128, -128, -128, -128};

#endif
