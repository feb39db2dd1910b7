/* The order of rows with the least live bytes: a threshold search over progress vectors.
 *
 * A state is how many units each node has done. What is alive in it does not depend on how it was reached, so the
 * least peak is a bottleneck path from "nothing done" to "all done". For a threshold P the search asks whether a path
 * exists whose every firing has at most P bytes alive, its output included; P is found by bisection. A firing that
 * fits and leaves no more bytes alive than before is always taken at once: whatever follows is then no harder. States
 * are remembered, the deepest node is tried first. A failed search is a proof, unless it hit the limit of states.
 */
#include "order.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct search {
    const order_problem *problem;
    int32_t *done;          /* units done, per node */
    int32_t *reader_first;  /* per tensor: range of reads of it in `readers` */
    int32_t *readers;       /* indices of reads, grouped by tensor */
    int32_t *maker;         /* per tensor: its node, -1 for an input */
    int64_t *cost;          /* prefix sums of bytes of rows that somebody reads, all tensors one after another */
    int32_t *cost_first;    /* per tensor: where its prefix sums begin */
    int32_t *rank;          /* node at each place of the trial order */
    int64_t live;
    int64_t threshold;
    int64_t blocked;        /* least bytes of a firing that did not fit */
    int32_t *path;          /* nodes fired, in order */
    int32_t path_length;
    int32_t *frames;        /* per decision: path length before it */
    int32_t *choice;        /* per decision: next place of the trial order to try */
    uint16_t *states;       /* remembered states, one after another */
    int32_t *table;         /* open addressing: index of a state + 1 */
    int64_t table_size;
    int64_t state_count;
    int64_t state_limit;
    double deadline;
    int32_t first_node;     /* only nodes [first_node, last_node) may fire; those before are done */
    int32_t last_node;
    int32_t goal;           /* firings that complete them */
    int64_t *frame_live;    /* per decision: bytes alive before it */
} search;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Rows of a tensor that exist. */
static int32_t produced(const search *s, int32_t tensor)
{
    const order_problem *p = s->problem;
    int32_t node = s->maker[tensor];
    if (node < 0) {
        return p->tensor_rows[tensor];
    }
    if (p->node_by_input[node]) {
        return s->done[node] == p->node_units[node] ? p->tensor_rows[tensor] : 0;
    }
    return s->done[node];
}

/* The first row of a tensor that a read of it still needs. */
static int32_t low_of_read(const search *s, int32_t read, int32_t done)
{
    return s->problem->read_low[s->problem->read_first[read] + done];
}

/* The first row of a tensor that anyone still needs, were `node` at `done` units. */
static int32_t lowest(const search *s, int32_t tensor, int32_t node, int32_t done)
{
    const order_problem *p = s->problem;
    int32_t low = p->tensor_rows[tensor];
    for (int32_t i = s->reader_first[tensor]; i < s->reader_first[tensor + 1]; i++) {
        int32_t reader = p->read_node[s->readers[i]];
        int32_t at = low_of_read(s, s->readers[i], reader == node ? done : s->done[reader]);
        low = at < low ? at : low;
    }
    return low;
}

static int64_t bytes_between(const search *s, int32_t tensor, int32_t low, int32_t high)
{
    const int64_t *cost = s->cost + s->cost_first[tensor];
    return low < high ? cost[high] - cost[low] : 0;
}

static int ready(const search *s, int32_t node)
{
    const order_problem *p = s->problem;
    int32_t unit = s->done[node];
    if (unit >= p->node_units[node]) {
        return 0;
    }
    for (int32_t r = p->node_first_read[node]; r < p->node_first_read[node + 1]; r++) {
        if (produced(s, p->read_tensor[r]) < p->read_high[p->read_first[r] + unit]) {
            return 0;
        }
    }
    return 1;
}

/* Bytes alive while the node's next unit runs, and after it. */
static void consequences(const search *s, int32_t node, int64_t *during, int64_t *after)
{
    const order_problem *p = s->problem;
    int32_t unit = s->done[node], tensor = p->node_output[node];
    int last = unit + 1 == p->node_units[node];
    int64_t row = p->tensor_row_bytes[tensor], born = 0, kept = 0, freed = 0;
    if (p->tensor_whole[tensor]) {
        born = unit == 0 || p->node_by_input[node] ? row * p->tensor_rows[tensor] : 0;
        born = p->node_by_input[node] && !last ? 0 : born;
        kept = born;
    } else if (p->node_by_input[node]) {
        born = last ? row * p->tensor_rows[tensor] : 0;
        kept = last ? bytes_between(s, tensor, 0, p->tensor_rows[tensor]) : 0;
    } else {
        born = row;
        kept = bytes_between(s, tensor, unit, unit + 1);
    }
    if (p->node_accumulator[node] > 0 && unit == 0) {
        born += p->node_accumulator[node];
        kept += p->node_accumulator[node];
    }
    if (p->node_accumulator[node] > 0 && last) {
        freed += p->node_accumulator[node];
    }
    for (int32_t r = p->node_first_read[node]; r < p->node_first_read[node + 1]; r++) {
        int32_t source = p->read_tensor[r];
        int repeated = 0;
        for (int32_t q = p->node_first_read[node]; q < r; q++) {
            repeated |= p->read_tensor[q] == source;
        }
        if (repeated || p->tensor_whole[source]) {
            continue;
        }
        int32_t made = produced(s, source);
        int32_t from = lowest(s, source, node, unit), to = lowest(s, source, node, unit + 1);
        freed += bytes_between(s, source, from < made ? from : made, to < made ? to : made);
    }
    *during = s->live + born;
    *after = s->live + kept - freed;
}

static void fire(search *s, int32_t node, int64_t after)
{
    s->done[node]++;
    s->live = after;
    s->path[s->path_length++] = node;
}

/* Take back firings until the path is `length` long; what is alive is given. */
static void rewind_to(search *s, int32_t length, int64_t live)
{
    while (s->path_length > length) {
        s->done[s->path[--s->path_length]]--;
    }
    s->live = live;
}

/* Take every firing that fits and does not raise what is alive. */
static void settle(search *s)
{
    int again = 1;
    while (again) {
        again = 0;
        for (int32_t node = s->last_node - 1; node >= s->first_node; node--) {
            int64_t during, after;
            if (!ready(s, node)) {
                continue;
            }
            consequences(s, node, &during, &after);
            if (during <= s->threshold && after <= s->live) {
                fire(s, node, after);
                again = 1;
                break;
            }
        }
    }
}

static uint64_t hash(const uint16_t *state, int32_t count)
{
    uint64_t h = 1469598103934665603u;
    for (int32_t i = 0; i < count; i++) {
        h = (h ^ state[i]) * 1099511628211u;
        h ^= h >> 29;
    }
    return h;
}

/* Remember the present state; 0 when it was there already, -1 when there is no room. */
static int remember(search *s)
{
    int32_t count = s->problem->node_count;
    if (s->state_count >= s->state_limit) {
        return -1;
    }
    uint16_t *state = s->states + s->state_count * count;
    for (int32_t i = 0; i < count; i++) {
        state[i] = (uint16_t)s->done[i];
    }
    uint64_t at = hash(state, count) & (uint64_t)(s->table_size - 1);
    while (s->table[at] != 0) {
        if (memcmp(s->states + (int64_t)(s->table[at] - 1) * count, state, (size_t)count * 2) == 0) {
            return 0;
        }
        at = (at + 1) & (uint64_t)(s->table_size - 1);
    }
    s->table[at] = (int32_t)(++s->state_count);
    return 1;
}

static int complete(const search *s)
{
    return s->path_length == s->goal;
}

typedef enum outcome { FOUND, NONE, UNKNOWN } outcome;

/* Nodes before the range have run, those in it and after it have not. */
static void start(search *s)
{
    for (int32_t node = 0; node < s->problem->node_count; node++) {
        s->done[node] = node < s->first_node ? s->problem->node_units[node] : 0;
    }
}

static void forget(search *s)
{
    if (s->state_count * 8 < s->table_size) { /* few: take them out one by one */
        for (int64_t i = 0; i < s->state_count; i++) {
            const uint16_t *state = s->states + i * s->problem->node_count;
            uint64_t at = hash(state, s->problem->node_count) & (uint64_t)(s->table_size - 1);
            while (s->table[at] != 0) {
                s->table[at] = 0;
                at = (at + 1) & (uint64_t)(s->table_size - 1);
            }
        }
    } else {
        memset(s->table, 0, (size_t)s->table_size * sizeof *s->table);
    }
    s->state_count = 0;
}

/* Is there an order with at most `threshold` bytes alive at any time? */
static outcome explore(search *s, int64_t threshold, int64_t start_live)
{
    int64_t *frame_live = s->frame_live;
    start(s);
    forget(s);
    s->path_length = 0;
    s->live = start_live;
    s->threshold = threshold;
    s->blocked = INT64_MAX;
    settle(s);
    int32_t depth = 0;
    int64_t visits = 0;
    if (complete(s)) {
        return FOUND;
    }
    remember(s);
    s->frames[0] = s->path_length;
    s->choice[0] = 0;
    frame_live[0] = s->live;
    while (depth >= 0) {
        if ((++visits & 1023) == 0 && now() > s->deadline) {
            return UNKNOWN;
        }
        rewind_to(s, s->frames[depth], frame_live[depth]);
        int moved = 0;
        while (s->choice[depth] < s->problem->node_count && !moved) {
            int32_t node = s->rank[s->choice[depth]++];
            int64_t during, after;
            if (node < s->first_node || node >= s->last_node || !ready(s, node)) {
                continue;
            }
            consequences(s, node, &during, &after);
            if (during > threshold) {
                s->blocked = during < s->blocked ? during : s->blocked;
                continue;
            }
            fire(s, node, after);
            moved = 1;
        }
        if (!moved) {
            depth--;
            continue;
        }
        settle(s);
        if (complete(s)) {
            return FOUND;
        }
        int fresh = remember(s);
        if (fresh < 0) {
            return UNKNOWN;
        }
        if (fresh > 0) {
            depth++;
            s->frames[depth] = s->path_length;
            s->choice[depth] = 0;
            frame_live[depth] = s->live;
        }
    }
    return NONE;
}

/* The peak of the path found, and a copy of it. */
static int64_t keep(search *s, int64_t start_live, int32_t *order)
{
    int64_t peak = start_live;
    memcpy(order, s->path, (size_t)s->path_length * sizeof *order);
    start(s);
    s->live = start_live;
    s->path_length = 0;
    for (int32_t i = 0; i < s->goal; i++) {
        int64_t during, after;
        consequences(s, order[i], &during, &after);
        peak = during > peak ? during : peak;
        fire(s, order[i], after);
    }
    return peak;
}

static int prepare(search *s, const order_problem *p, int64_t state_limit)
{
    int64_t rows = 0;
    for (int32_t t = 0; t < p->tensor_count; t++) {
        rows += p->tensor_rows[t] + 1;
    }
    s->problem = p;
    state_limit = state_limit > p->firing_count + 16 ? state_limit : p->firing_count + 16;
    for (s->table_size = 1024; s->table_size < state_limit * 2;) {
        s->table_size *= 2;
    }
    size_t nodes = (size_t)p->node_count, tensors = (size_t)p->tensor_count, firings = (size_t)p->firing_count + 1;
    s->done = calloc(nodes + 1, sizeof *s->done);
    s->rank = calloc(nodes + 1, sizeof *s->rank);
    s->reader_first = calloc(tensors + 2, sizeof *s->reader_first);
    s->readers = calloc((size_t)p->read_count + 1, sizeof *s->readers);
    s->maker = calloc(tensors + 1, sizeof *s->maker);
    s->cost = calloc((size_t)rows + 1, sizeof *s->cost);
    s->cost_first = calloc(tensors + 1, sizeof *s->cost_first);
    s->path = calloc(firings, sizeof *s->path);
    s->frames = calloc(firings, sizeof *s->frames);
    s->choice = calloc(firings, sizeof *s->choice);
    s->states = malloc((size_t)state_limit * nodes * sizeof *s->states);
    s->table = calloc((size_t)s->table_size, sizeof *s->table);
    s->frame_live = calloc(firings, sizeof *s->frame_live);
    return s->frame_live && s->done && s->rank && s->reader_first && s->readers && s->maker && s->cost && s->cost_first && s->path
           && s->frames && s->choice && s->states && s->table;
}

static void index_tensors(search *s)
{
    const order_problem *p = s->problem;
    int32_t count = 0;
    int64_t start = 0;
    for (int32_t t = 0; t < p->tensor_count; t++) {
        s->maker[t] = -1;
        s->reader_first[t] = count;
        for (int32_t r = 0; r < p->read_count; r++) {
            if (p->read_tensor[r] == t) {
                s->readers[count++] = r;
            }
        }
        s->cost_first[t] = (int32_t)start;
        for (int32_t row = 0; row < p->tensor_rows[t]; row++) {
            int64_t bytes = p->row_read[start - t + row] ? p->tensor_row_bytes[t] : 0;
            s->cost[start + row + 1] = s->cost[start + row] + bytes;
        }
        start += p->tensor_rows[t] + 1;
        if (t + 1 < p->tensor_count) {
            s->cost[start] = 0;
        }
    }
    s->reader_first[p->tensor_count] = count;
    for (int32_t n = 0; n < p->node_count; n++) {
        s->maker[p->node_output[n]] = n; /* spills share one last tensor that nobody reads: any of them will do */
        s->rank[n] = p->node_count - 1 - n;
    }
}

/* Shuffle the order in which nodes are tried; seed 0 keeps the deepest first. */
static void shuffle(search *s, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1u;
    for (int32_t i = s->problem->node_count - 1; seed != 0 && i > 0; i--) {
        x = x * 1664525u + 1013904223u;
        int32_t j = (int32_t)((x >> 8) % (uint32_t)(i + 1));
        int32_t swap = s->rank[i];
        s->rank[i] = s->rank[j];
        s->rank[j] = swap;
    }
}

/* What is alive before the range's first firing. */
static int64_t alive_at_start(search *s)
{
    int64_t live = 0;
    start(s);
    for (int32_t t = 0; t < s->problem->tensor_count; t++) {
        int32_t rows = produced(s, t);
        if (s->problem->tensor_whole[t]) {
            live += rows > 0 ? s->problem->tensor_row_bytes[t] * (int64_t)s->problem->tensor_rows[t] : 0;
        } else {
            live += bytes_between(s, t, lowest(s, t, -1, 0), rows);
        }
    }
    return live;
}

static void set_range(search *s, int32_t first, int32_t last)
{
    s->first_node = first;
    s->last_node = last;
    s->goal = 0;
    for (int32_t node = first; node < last; node++) {
        s->goal += s->problem->node_units[node];
    }
}

/* The least peak of the nodes in the range that the limits allow; -1 when no order was found. `order` gets it,
 * `proven` a bound that no order of them can beat. */
static int64_t solve(search *s, const order_limits *limits, int64_t useless, int32_t *order, int64_t *proven)
{
    int64_t begin = alive_at_start(s), floor = begin;
    *proven = floor;
    s->state_limit = s->goal + 16; /* without a threshold the first way down is an order */
    outcome first = explore(s, INT64_MAX / 4, begin);
    s->state_limit = limits->state_limit;
    if (first != FOUND) {
        return -1;
    }
    int64_t best = keep(s, begin, order);
    while (floor < best && best > limits->good_enough_bytes && *proven <= useless) {
        int64_t middle = floor + (best - floor) / 2;
        outcome o = explore(s, middle, begin);
        if (o == FOUND) {
            best = keep(s, begin, order);
        } else if (o == NONE) {
            *proven = s->blocked > middle ? (s->blocked < best ? s->blocked : best) : middle + 1;
            floor = *proven;
        } else if (now() > s->deadline) {
            break;
        } else {
            floor = middle + 1; /* not proven: only where to look next */
        }
    }
    *proven = *proven < best ? *proven : best;
    return best;
}

static void release(search *s)
{
    free(s->done), free(s->rank), free(s->reader_first), free(s->readers), free(s->maker), free(s->cost);
    free(s->cost_first), free(s->path), free(s->frames), free(s->choice), free(s->states), free(s->table);
    free(s->frame_live);
}

static int open_search(search *s, const order_problem *p, const order_limits *limits)
{
    if (!prepare(s, p, limits->state_limit)) {
        return 0;
    }
    index_tensors(s);
    shuffle(s, limits->seed);
    s->deadline = now() + limits->seconds;
    return 1;
}

int order_search(const order_problem *p, const order_limits *limits, order_result *result)
{
    search s = {0};
    int status = -1;
    if (open_search(&s, p, limits)) {
        int64_t proven = 0;
        set_range(&s, 0, p->node_count);
        int64_t best = solve(&s, limits, limits->useless_bytes, result->order, &proven);
        status = best < 0 ? 1 : 0;
        result->peak_bytes = best > p->start_peak_bytes ? best : p->start_peak_bytes;
        result->lower_bound_bytes = proven > p->start_peak_bytes ? proven : p->start_peak_bytes;
    }
    release(&s);
    return status;
}

/* Shortest path over cut points, the length of a way being its highest peak. */
static int cut_nodes(search *s, const order_limits *limits, int64_t *way, int32_t *from, int32_t *order)
{
    int32_t count = s->problem->node_count;
    for (int32_t last = 1; last <= count; last++) {
        way[last] = INT64_MAX;
    }
    way[0] = 0;
    for (int32_t first = 0; first < count; first++) {
        int32_t missed = 0;
        for (int32_t last = first + 1; last <= count && missed < limits->patience && way[first] < INT64_MAX; last++) {
            int64_t proven = 0;
            set_range(s, first, last);
            int64_t peak = solve(s, limits, way[last], order, &proven);
            if (peak < 0) {
                return 0;
            }
            peak = peak > way[first] ? peak : way[first];
            missed = peak < way[last] ? 0 : missed + 1;
            if (peak < way[last]) {
                way[last] = peak;
                from[last] = first;
            }
            if (now() > s->deadline && way[count] < INT64_MAX) {
                return 1;
            }
        }
    }
    return way[count] < INT64_MAX;
}

/* Order the nodes between cut points again, and put the pieces together. */
static int64_t join(search *s, const order_limits *limits, const int32_t *from, int32_t *order)
{
    int64_t peak = 0;
    for (int32_t last = s->problem->node_count; last > 0; last = from[last]) {
        int64_t proven = 0;
        int32_t before = 0;
        for (int32_t node = 0; node < from[last]; node++) {
            before += s->problem->node_units[node];
        }
        set_range(s, from[last], last);
        int64_t part = solve(s, limits, INT64_MAX, order + before, &proven);
        peak = part > peak ? part : peak;
    }
    return peak;
}

int order_cuts(const order_problem *p, const order_limits *limits, order_result *result)
{
    search s = {0};
    int64_t *way = calloc((size_t)p->node_count + 1, sizeof *way);
    int32_t *from = calloc((size_t)p->node_count + 1, sizeof *from);
    int status = -1;
    if (way != NULL && from != NULL && open_search(&s, p, limits)) {
        status = 1;
        if (cut_nodes(&s, limits, way, from, result->order)) {
            s.deadline = now() + limits->seconds;
            int64_t peak = join(&s, limits, from, result->order);
            result->peak_bytes = peak > p->start_peak_bytes ? peak : p->start_peak_bytes;
            result->lower_bound_bytes = p->start_peak_bytes;
            status = 0;
        }
    }
    release(&s);
    free(way), free(from);
    return status;
}
