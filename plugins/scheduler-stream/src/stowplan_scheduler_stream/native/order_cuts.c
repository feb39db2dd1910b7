/* Networks too large to search as a whole, in pieces: a shortest path over cut points, its length the highest peak. */
#include "order_search.h"

#include <stdlib.h>

/* `way[n]`: the least peak of the first n nodes, `from[n]` where their last piece begins. 0 when there is no way. */
static int cut_nodes(order_state *s, const order_limits *limits, int64_t *way, int32_t *from, int32_t *order)
{
    int32_t count = s->progress.problem->node_count;
    for (int32_t last = 1; last <= count; last++) {
        way[last] = INT64_MAX;
    }
    for (int32_t first = 0; first < count; first++) {
        int32_t missed = 0;
        for (int32_t last = first + 1; last <= count && missed < limits->patience && way[first] < INT64_MAX; last++) {
            int64_t proven = 0;
            order_range(s, first, last);
            int64_t peak = order_solve(s, 0, way[last], order, &proven);
            if (peak < 0) {
                return 0;
            }
            peak = peak > way[first] ? peak : way[first];
            missed = peak < way[last] ? 0 : missed + 1;
            if (peak < way[last]) {
                way[last] = peak;
                from[last] = first;
            }
            if (way[count] < INT64_MAX && order_spent(s)) {
                return 1;
            }
        }
    }
    return way[count] < INT64_MAX;
}

/* Order the nodes between cut points again, and put the pieces together. */
static int64_t join(order_state *s, const int32_t *from, int32_t *order)
{
    int64_t peak = 0;
    for (int32_t last = s->progress.problem->node_count; last > 0; last = from[last]) {
        int64_t proven = 0;
        int32_t before = 0;
        for (int32_t node = 0; node < from[last]; node++) {
            before += s->progress.problem->node_units[node];
        }
        order_range(s, from[last], last);
        int64_t part = order_solve(s, 0, INT64_MAX, order + before, &proven);
        peak = part > peak ? part : peak;
    }
    return peak;
}

int order_cuts(const order_problem *p, const order_limits *limits, order_result *result)
{
    order_state s = {0};
    int64_t *way = calloc((size_t)p->node_count + 1, sizeof *way);
    int32_t *from = calloc((size_t)p->node_count + 1, sizeof *from);
    int status = -1;
    if (way != NULL && from != NULL && order_open(&s, p, limits)) {
        status = 1;
        if (cut_nodes(&s, limits, way, from, result->order)) {
            s.step_limit += s.step_limit; /* as much again to order the pieces that were chosen */
            int64_t peak = join(&s, from, result->order);
            result->peak_bytes = peak > p->start_peak_bytes ? peak : p->start_peak_bytes;
            result->lower_bound_bytes = p->start_peak_bytes;
            status = 0;
        }
    }
    order_close(&s, result);
    free(way), free(from);
    return status;
}
