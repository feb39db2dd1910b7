/* Edges of boxes along the addresses, and what the boxes weigh. */
#ifndef STOWPLAN_EDGES_H
#define STOWPLAN_EDGES_H

#include <stdint.h>

typedef struct edge {
    int64_t at;
    double weight;
} edge;

/* Sorts by address; equal ones stay in their order. `spare` has room for as many. */
void sort_edges(edge *edges, edge *spare, int32_t count);

#endif
