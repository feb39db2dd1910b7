/* The search for an order of a range of nodes, as whole networks and pieces between cut points share it. */
#ifndef STOWPLAN_ORDER_SEARCH_H
#define STOWPLAN_ORDER_SEARCH_H

#include "order.h"
#include "progress.h"

typedef struct order_state {
    progress progress;
    int32_t *rank;          /* node at each place of the trial order */
    int32_t first_node;     /* the range that is ordered */
    int32_t last_node;
    int32_t goal;           /* firings that complete it */
    int64_t threshold;
    int64_t blocked;        /* least bytes of a firing that did not fit */
    int32_t *path;          /* nodes fired, in order */
    int32_t path_length;
    int32_t *frames;        /* per decision: path length before it */
    int32_t *choice;        /* per decision: next place of the trial order to try */
    int64_t *frame_live;    /* per decision: bytes alive before it */
    uint64_t *table;        /* open addressing: the two words of a state's hash, 0 0 for none */
    int64_t table_size, table_room;
    int64_t state_count, state_limit;
    int64_t step_limit;
    double deadline;        /* 0: no clock */
    int32_t late;           /* the clock has ended the search */
} order_state;

/* 0 when there is no memory; to be closed in both cases, which tells the result what was spent. */
int order_open(order_state *s, const order_problem *problem, const order_limits *limits);
void order_close(order_state *s, order_result *result);

/* Is all used up that the limits allow? */
int order_spent(order_state *s);

/* The nodes [first, last) are to be ordered, those before have run. */
void order_range(order_state *s, int32_t first, int32_t last);

/* The least peak of the range that the limits allow; -1 when no order was found. `order` gets it, `proven` a bound that
 * no order can beat, `known` if nothing better comes out. Ends early once that is above `useless`. */
int64_t order_solve(order_state *s, int64_t known, int64_t useless, int32_t *order, int64_t *proven);

#endif
