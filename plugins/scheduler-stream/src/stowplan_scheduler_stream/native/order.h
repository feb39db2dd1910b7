/* The order search's problem, as flat arrays. Indices are 32-bit, sizes in bytes 64-bit. */
#ifndef STOWPLAN_ORDER_H
#define STOWPLAN_ORDER_H

#include <stdint.h>

typedef struct order_problem {
    int32_t node_count;
    int32_t tensor_count;
    int32_t read_count;
    int32_t firing_count;             /* sum of all units */
    const int32_t *node_units;
    const int32_t *node_output;       /* tensor */
    const int32_t *node_by_input;     /* units are input rows: the output appears with the last one */
    const int64_t *node_accumulator;  /* bytes alive from the first unit to the last, 0 for none */
    const int32_t *node_first_read;   /* node_count + 1 entries into the reads */
    const int32_t *read_node;
    const int32_t *read_tensor;
    const int32_t *read_first;        /* where a read's units begin in low and high */
    const int32_t *read_low;          /* units + 1 entries: first row needed from this unit on; all rows at the end */
    const int32_t *read_high;         /* units + 1 entries: rows that must exist for this unit */
    const int32_t *tensor_rows;
    const int64_t *tensor_row_bytes;
    const int32_t *tensor_whole;      /* takes all its bytes from its first row on, to the end (a model output) */
    const uint8_t *row_read;          /* all tensors' rows one after another: does anybody read it? */
    int64_t start_peak_bytes;         /* what the application fills before the first firing */
} order_problem;

typedef struct order_limits {
    int64_t state_limit;        /* states remembered per threshold */
    int64_t step_limit;         /* firings weighed, all thresholds together: equal inputs give equal orders */
    double seconds;             /* a clock that ends the search as well; 0 for none */
    int64_t useless_bytes;      /* stop as soon as the peak is proven to be above this */
    int64_t known_bytes;        /* no order of all nodes is known to do with less */
    uint32_t seed;              /* 0: deepest node first; others: shuffled */
    int32_t patience;           /* order_cuts: longer pieces from a cut point are given up after so many in vain */
} order_limits;

typedef struct order_result {
    int32_t *order;             /* firing_count nodes */
    int64_t peak_bytes;
    int64_t lower_bound_bytes;
    int64_t steps;              /* firings weighed */
    int32_t cut_short;          /* the clock ended the search */
} order_result;

/* All nodes interleaved freely. 0: done; 1: no order found; -1: no memory. */
int order_search(const order_problem *problem, const order_limits *limits, order_result *result);

/* The nodes cut into consecutive pieces, each complete before the next begins, so that the highest peak is least: for
 * networks too large to search as a whole. Tensors between pieces stay where they are. */
int order_cuts(const order_problem *problem, const order_limits *limits, order_result *result);

#endif
