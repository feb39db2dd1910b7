/* A state of the order search: how far every node has come, what is alive, and what the next unit of each would do. */
#ifndef STOWPLAN_PROGRESS_H
#define STOWPLAN_PROGRESS_H

#include "order.h"

typedef struct progress {
    const order_problem *problem;
    int32_t *done;          /* units done, per node */
    int64_t live;           /* bytes alive */
    uint64_t hash[2];       /* of `done`, kept up to date */
    uint64_t *ready;        /* a bit per node: its inputs are there */
    uint64_t *easy;         /* a bit per node: ready, and leaves no more alive than before */
    int64_t *born;          /* per ready node: bytes that appear while its next unit runs */
    int64_t *change;        /* per ready node: bytes more alive after it */
    int64_t steps;          /* firings weighed since the beginning */
    int32_t first_node;     /* only nodes [first_node, last_node) may fire; those before are done */
    int32_t last_node;
    int32_t words;          /* of a set of nodes */
    int32_t *reader_first;  /* per tensor: range of reads of it in `readers` */
    int32_t *readers;       /* indices of reads, grouped by tensor */
    int32_t *maker;         /* per tensor: its node, -1 for an input */
    int64_t *cost;          /* prefix sums of bytes of rows that somebody reads, all tensors one after another */
    int64_t *cost_first;    /* per tensor: where its prefix sums begin */
    int32_t *stale;         /* nodes to be weighed again */
    uint8_t *is_stale;
    int32_t stale_count;
} progress;

/* 0 when there is no memory; to be closed in both cases. */
int progress_open(progress *g, const order_problem *problem);
void progress_close(progress *g);

/* Go to the beginning of a range of nodes: those before have run, those in it and after it have not. */
void progress_start(progress *g, int32_t first_node, int32_t last_node);

/* Run the next unit of a node that is ready and weighed. */
void progress_fire(progress *g, int32_t node);

/* Take the last unit of a node back; what is alive is for the caller to put right. */
void progress_unfire(progress *g, int32_t node);

/* Weigh what has become stale: `ready`, `easy`, `born` and `change` hold after this. */
void progress_weigh(progress *g);

static inline int progress_has(const uint64_t *set, int32_t node)
{
    return (int)(set[node >> 6] >> (node & 63) & 1);
}

#endif
