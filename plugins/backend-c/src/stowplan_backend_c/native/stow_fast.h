/* Kernels of the host library alone: convolution, depthwise and fully connected in int8 and float32, for one processor.
 *
 * They need what a small device has no room for: weights packed a second time, and lines of the input brought into a
 * form of their own. Both lie in memory that is prepared when a plan is bound. The bytes that come out are those of the
 * portable kernels, and a node for which there is nothing here runs on those.
 *
 * In this form, elements of an input line are `element` bytes each and larger by `bias` than they were; a matrix is
 * groups of `lanes` outputs, each [row of the kernel][unit of elements][lane][element of the unit].
 */
#ifndef STOW_FAST_H
#define STOW_FAST_H

#include "stow_internal.h"
#include "stow_set.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define STOW_WITH_X86 1
#else
#define STOW_WITH_X86 0
#endif

#define STOW_FAST_SLACK 128u  /* bytes that a set may read behind a line */
#define STOW_FAST_TAPS 64u    /* of a depthwise kernel, at most; and rows of any kernel */
#define STOW_FAST_VECTORS 4u  /* of sums, in a chunk of a depthwise row, at most */
#define STOW_FAST_ALIGNMENT 64u
#define STOW_FAST_LEAST 16384u /* bytes of lines: many small rows are then multiplied at once, in the nearest cache */

/* How a sum becomes an output: five words for each lane. */
enum stow_fast_words {
    STOW_FAST_MULTIPLIER,
    STOW_FAST_LEFT,  /* shift before the product */
    STOW_FAST_RIGHT, /* shift after it, and what rounding that needs: */
    STOW_FAST_MASK,  /* the bits that are shifted out, */
    STOW_FAST_HALF,  /* and half of their range, rounded down */
    STOW_FAST_WORDS,
    /* In easy filters both roundings and the zero point are one number of 64 bits, added to the product; products of even
     * lanes and of odd ones are computed apart. */
    STOW_FAST_EVEN = STOW_FAST_MASK,
    STOW_FAST_ODD = STOW_FAST_HALF
};

/* How much of what makes an output can be left out. EASY: no sum reaches 2^29, all shifts are to the right, by at most
 * STOW_FAST_EASY_SHIFT, and the maximum is that of int8. EASIEST: and no output is below the zero point, so that it does
 * not matter how negative halves are rounded. */
enum stow_fast_ease { STOW_FAST_HARD, STOW_FAST_EASY, STOW_FAST_EASIEST };
#define STOW_FAST_EASY_SHIFT 20

/* What is added to the product of a sum and its multiplier where they are easy, so that the upper 32 bits of it, shifted
 * by one less than `right`, are the output. Where halves are rounded away from zero the sum is doubled first: then its
 * sign can still be added to those bits. That of the sum does for that of its product, as 0 and -1 are rounded alike. */
static inline int64_t stow_fast_rounding(int ease, uint32_t right, int32_t zero_point)
{
    const int64_t half = (INT64_C(1) << (right - 1u)) + (int64_t)zero_point * (INT64_C(1) << right);
    const int64_t rounding = (INT64_C(1) << 30) + half * (INT64_C(1) << 31);
    return ease == STOW_FAST_EASIEST ? rounding : 2 * rounding;
}

/* How far those bits are shifted. */
static inline int32_t stow_fast_right(int ease, uint32_t right)
{
    return (int32_t)right - (ease == STOW_FAST_EASIEST);
}

typedef struct stow_fast_filter {
    const uint8_t *weights;
    const int32_t *biases; /* what sums begin with, for each group or vector of lanes */
    const int32_t *rules;  /* and how they become outputs, STOW_FAST_WORDS times the lanes: */
    size_t rules_step;     /* for each group; 0 where all outputs have the same */
    size_t outputs;
    size_t rows;        /* of the kernel */
    size_t units;       /* in one of them; or of taps in a depthwise kernel */
    size_t group_bytes; /* of weights */
    size_t together;    /* so many groups of a matrix for one vector lie interleaved, a register of each in turn */
    size_t chunks;      /* depthwise: after so many the channels start over */
    int ease;
    int32_t zero_point;
    int32_t minimum;
    int32_t maximum;
    float least; /* of float outputs, in place of minimum and maximum */
    float most;
} stow_fast_filter;

/* `pixels` vectors times all outputs. Row r of vector p begins at lines[r] + p * x_step; rows outside [first, last) of
 * the kernel are zero. */
typedef struct stow_fast_matrix {
    const stow_fast_filter *filter;
    const uint8_t *const *lines;
    size_t first;
    size_t last;
    size_t x_step;
    size_t pixels;
    int8_t *out;
    size_t out_step;
} stow_fast_matrix;

/* An addition in fewer steps: floor((a * x + b * y + begin) / 2^(shift + 15)) + offset, limited. Each coefficient is two
 * numbers of 16 bits, its upper one times 2^15 and its lower one. */
typedef struct stow_fast_sum {
    int found; /* whether this is the same as the addition, for all operands; else the rest is nothing */
    int32_t upper; /* a's in the lower half, b's in the upper one */
    int32_t lower;
    int32_t begin;
    int32_t shift;
    int16_t offset;
    int8_t minimum;
    int8_t maximum;
} stow_fast_sum;

typedef struct stow_fast_set {
    const char *name;
    size_t lanes;
    size_t unit;
    size_t given;   /* bytes of an element where it comes from and of an output, */
    size_t element; /* and in a line */
    int32_t bias;
    size_t vectors; /* of sums, in a chunk of a depthwise row */
    size_t together; /* groups of a matrix for one vector, if there is a multiple of so many: one stream of weights */
    /* Bring `count` runs of `size` elements, from_step apart, into a line, one after another; writes nothing else. */
    void (*bring)(uint8_t *to, const int8_t *from, size_t size, size_t count, size_t from_step);
    void (*matrix)(const stow_fast_matrix *op);
    /* `size` outputs in a row; tap t of output i is element i of lines[t]. */
    void (*depthwise)(const stow_fast_filter *filter, const uint8_t *const *lines, int8_t *out, size_t size);
    /* As add_s8 of a kernel set. */
    void (*add)(const int32_t *params, const int8_t *a, const int8_t *b, int8_t *out, size_t size);
    /* The same by a sum that was found, for as many whole registers as there are; returns how many bytes that is. */
    size_t (*sum)(const stow_fast_sum *sum, const int8_t *a, const int8_t *b, int8_t *out, size_t size);
    const struct stow_fast_set *floats; /* the same processor's set for float32; of that itself, NULL */
} stow_fast_set;

/* A node that runs here; `filter.weights` is NULL where it does not. */
typedef struct stow_fast_node {
    const stow_fast_set *set;
    stow_fast_filter filter;
    stow_fast_sum sum; /* of an addition */
    int by_row; /* fully connected: each row of the input is a vector, and its outputs are one */
} stow_fast_node;

typedef struct stow_fast {
    const stow_fast_set *set;
    stow_fast_node *nodes;
    uint8_t *scratch; /* lines of the node that runs */
    size_t scratch_bytes;
    size_t bytes; /* of all that was prepared */
} stow_fast;

/* The set of this name, or for "" the best one, if this processor can run it; else NULL. */
const stow_fast_set *stow_fast_find(const char *name);
#if STOW_WITH_X86
extern const stow_fast_set stow_fast_avx2, stow_fast_avx512, stow_fast_avx2_floats, stow_fast_avx512_floats;
#endif

/* Bytes that a line of `elements` takes, with slack. */
static inline size_t stow_fast_line_bytes(const stow_fast_set *set, size_t elements)
{
    return (elements * set->element + STOW_FAST_SLACK + STOW_FAST_ALIGNMENT - 1) / STOW_FAST_ALIGNMENT *
           STOW_FAST_ALIGNMENT;
}

/* Channel of a chunk in lane `lane` of vector `vector`: what interleaving within 128 bits gives. */
static inline size_t stow_fast_channel(const stow_fast_set *set, size_t vector, size_t lane)
{
    return lane / 4 * 4 * set->vectors + vector * 4 + lane % 4;
}

/* How wide the lines of a convolution are, in elements; of a depthwise one, each of its stride_w phases. */
size_t stow_fast_conv_line(const stow_window *window);
size_t stow_fast_depthwise_phase(const stow_window *window);

int stow_fast_conv(const stow_fast *fast, const stow_call *call, const stow_fast_node *node);
int stow_fast_depthwise(const stow_fast *fast, const stow_call *call, const stow_fast_node *node);
int stow_fast_dense(const stow_fast *fast, const stow_call *call, const stow_fast_node *node);
int stow_fast_add(const stow_fast *fast, const stow_call *call, const stow_fast_node *node);

/* Look for a sum that is the same as an addition, and prove it on all operands there are. */
stow_fast_sum stow_fast_find_sum(const int32_t *params);

/* How many vectors of `features` elements are multiplied at once. */
#define STOW_FAST_BATCH 64u

#endif
