/* The order of rows with the least live bytes: a threshold search over progress vectors.
 *
 * A state is how many units each node has done. What is alive in it does not depend on how it was reached, so the
 * least peak is a bottleneck path from "nothing done" to "all done". For a threshold P the search asks whether a path
 * exists whose every firing has at most P bytes alive, its output included; P is found by bisection. A firing that
 * fits and leaves no more bytes alive than before is always taken at once: whatever follows is then no harder. States
 * are remembered, the deepest node is tried first. A failed search is a proof, unless it hit a limit.
 */
#include "order_search.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_TABLE = 1024, CLOCK_EVERY = 256, PART_OF_STEPS = 4 };

typedef enum outcome { FOUND, NONE, UNKNOWN } outcome;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int order_spent(order_state *s)
{
    if (s->deadline > 0 && !s->late) {
        s->late = now() > s->deadline;
    }
    return s->late || s->progress.steps >= s->step_limit;
}

static void fire(order_state *s, int32_t node)
{
    progress_fire(&s->progress, node);
    s->path[s->path_length++] = node;
}

static void rewind_to(order_state *s, int32_t length, int64_t live)
{
    while (s->path_length > length) {
        progress_unfire(&s->progress, s->path[--s->path_length]);
    }
    s->progress.live = live;
    progress_weigh(&s->progress);
}

static int32_t highest_bit(uint64_t set)
{
    int32_t bit = 0;
    for (int32_t step = 32; step > 0; step /= 2) {
        if (set >> step) {
            set >>= step;
            bit += step;
        }
    }
    return bit;
}

/* The deepest node whose next unit fits and does not raise what is alive; -1 for none. */
static int32_t easiest(const order_state *s)
{
    const progress *g = &s->progress;
    for (int32_t word = g->words - 1; word >= 0; word--) {
        for (uint64_t set = g->easy[word]; set != 0;) {
            int32_t bit = highest_bit(set), node = word * 64 + bit;
            if (g->live + g->born[node] <= s->threshold) {
                return node;
            }
            set &= ~((uint64_t)1 << bit);
        }
    }
    return -1;
}

static void settle(order_state *s)
{
    progress_weigh(&s->progress);
    for (int32_t node = easiest(s); node >= 0; node = easiest(s)) {
        fire(s, node);
        progress_weigh(&s->progress);
    }
}

static void forget(order_state *s)
{
    s->table_size = LEAST_TABLE; /* mostly states are few; the room that was grown into stays */
    memset(s->table, 0, (size_t)s->table_size * 2 * sizeof *s->table);
    s->state_count = 0;
}

static int insert(order_state *s, const uint64_t *hash)
{
    uint64_t at = hash[0] & (uint64_t)(s->table_size - 1);
    while (s->table[2 * at] | s->table[2 * at + 1]) {
        if (s->table[2 * at] == hash[0] && s->table[2 * at + 1] == hash[1]) {
            return 0;
        }
        at = (at + 1) & (uint64_t)(s->table_size - 1);
    }
    s->table[2 * at] = hash[0];
    s->table[2 * at + 1] = hash[1];
    return 1;
}

static int grow(order_state *s)
{
    int64_t size = s->table_size * 2, old = s->table_size;
    uint64_t *kept = malloc((size_t)old * 2 * sizeof *kept);
    uint64_t *table = size > s->table_room ? realloc(s->table, (size_t)size * 2 * sizeof *table) : s->table;
    if (table != NULL) {
        s->table = table;
        s->table_room = size > s->table_room ? size : s->table_room;
    }
    if (table == NULL || kept == NULL) {
        free(kept);
        return 0;
    }
    memcpy(kept, table, (size_t)old * 2 * sizeof *kept);
    memset(table, 0, (size_t)size * 2 * sizeof *table);
    s->table_size = size;
    for (int64_t i = 0; i < old; i++) {
        if (kept[2 * i] | kept[2 * i + 1]) {
            insert(s, kept + 2 * i);
        }
    }
    free(kept);
    return 1;
}

/* Remember the present state; 0 when it was there already, -1 when there is no room. */
static int remember(order_state *s)
{
    if (s->state_count >= s->state_limit || (s->state_count * 2 >= s->table_size && !grow(s))) {
        return -1;
    }
    int fresh = insert(s, s->progress.hash);
    s->state_count += fresh;
    return fresh;
}

static int complete(const order_state *s)
{
    return s->path_length == s->goal;
}

static void start(order_state *s)
{
    progress_start(&s->progress, s->first_node, s->last_node);
    s->path_length = 0;
}

static void open_frame(order_state *s, int32_t depth)
{
    s->frames[depth] = s->path_length;
    s->choice[depth] = 0;
    s->frame_live[depth] = s->progress.live;
}

/* Fire the next node that the frame has not tried and that fits; 0 when there is none. */
static int branch(order_state *s, int32_t depth)
{
    const progress *g = &s->progress;
    while (s->choice[depth] < g->problem->node_count) {
        int32_t node = s->rank[s->choice[depth]++];
        if (!progress_has(g->ready, node)) {
            continue;
        }
        int64_t during = g->live + g->born[node];
        if (during <= s->threshold) {
            fire(s, node);
            return 1;
        }
        s->blocked = during < s->blocked ? during : s->blocked;
    }
    return 0;
}

/* Is there an order with at most `threshold` bytes alive at any time? One threshold gets a part of the steps that are
 * left: a hopeless one must not keep the others from being asked. */
static outcome explore(order_state *s, int64_t threshold)
{
    int64_t visits = 0, limit = s->progress.steps + (s->step_limit - s->progress.steps) / PART_OF_STEPS;
    start(s);
    forget(s);
    s->threshold = threshold;
    s->blocked = INT64_MAX;
    settle(s);
    if (complete(s)) {
        return FOUND;
    }
    remember(s);
    open_frame(s, 0);
    for (int32_t depth = 0; depth >= 0;) {
        if ((++visits % CLOCK_EVERY) == 0 && (s->progress.steps > limit || order_spent(s))) {
            return UNKNOWN;
        }
        rewind_to(s, s->frames[depth], s->frame_live[depth]);
        if (!branch(s, depth)) {
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
            open_frame(s, ++depth);
        }
    }
    return NONE;
}

/* Without a threshold the first way down is an order; 0 where none of the nodes left can ever run. */
static int first_way(order_state *s)
{
    start(s);
    s->threshold = INT64_MAX / 4;
    settle(s);
    while (!complete(s)) {
        open_frame(s, 0);
        if (!branch(s, 0)) {
            return 0;
        }
        settle(s);
    }
    return 1;
}

/* The peak of the path found, and a copy of it. */
static int64_t keep(order_state *s, int32_t *order)
{
    const progress *g = &s->progress;
    memcpy(order, s->path, (size_t)s->path_length * sizeof *order);
    start(s);
    int64_t peak = g->live;
    for (int32_t i = 0; i < s->goal; i++) {
        progress_weigh(&s->progress);
        int64_t during = g->live + g->born[order[i]];
        peak = during > peak ? during : peak;
        fire(s, order[i]);
    }
    return peak;
}

void order_range(order_state *s, int32_t first, int32_t last)
{
    s->first_node = first;
    s->last_node = last;
    s->goal = 0;
    for (int32_t node = first; node < last; node++) {
        s->goal += s->progress.problem->node_units[node];
    }
}

int64_t order_solve(order_state *s, int64_t known, int64_t useless, int32_t *order, int64_t *proven)
{
    start(s);
    int64_t floor = s->progress.live > known ? s->progress.live : known;
    *proven = floor;
    if (!first_way(s)) {
        return -1;
    }
    int64_t best = keep(s, order);
    while (floor < best && *proven <= useless) {
        int64_t middle = floor + (best - floor) / 2;
        outcome o = explore(s, middle);
        if (o == FOUND) {
            best = keep(s, order);
        } else if (o == NONE) {
            *proven = s->blocked > middle ? (s->blocked < best ? s->blocked : best) : middle + 1;
            floor = *proven;
        } else if (order_spent(s)) {
            break;
        } else {
            floor = middle + 1; /* not proven: only where to look next */
        }
    }
    *proven = *proven < best ? *proven : best;
    return best;
}

/* Shuffle the order in which nodes are tried; seed 0 keeps the deepest first. */
static void shuffle(order_state *s, uint32_t seed)
{
    int32_t count = s->progress.problem->node_count;
    uint32_t x = seed * 2654435761u + 1u;
    for (int32_t i = 0; i < count; i++) {
        s->rank[i] = count - 1 - i;
    }
    for (int32_t i = count - 1; seed != 0 && i > 0; i--) {
        x = x * 1664525u + 1013904223u;
        int32_t j = (int32_t)((x >> 8) % (uint32_t)(i + 1));
        int32_t swap = s->rank[i];
        s->rank[i] = s->rank[j];
        s->rank[j] = swap;
    }
}

int order_open(order_state *s, const order_problem *p, const order_limits *limits)
{
    size_t nodes = (size_t)p->node_count + 1, firings = (size_t)p->firing_count + 1;
    s->state_limit = limits->state_limit;
    s->step_limit = limits->step_limit;
    s->deadline = limits->seconds > 0 ? now() + limits->seconds : 0;
    s->table_size = s->table_room = LEAST_TABLE;
    s->rank = calloc(nodes, sizeof *s->rank);
    s->path = calloc(firings, sizeof *s->path);
    s->frames = calloc(firings, sizeof *s->frames);
    s->choice = calloc(firings, sizeof *s->choice);
    s->frame_live = calloc(firings, sizeof *s->frame_live);
    s->table = calloc((size_t)s->table_room * 2, sizeof *s->table);
    if (!(progress_open(&s->progress, p) && s->rank && s->path && s->frames && s->choice && s->frame_live && s->table)) {
        return 0;
    }
    shuffle(s, limits->seed);
    return 1;
}

void order_close(order_state *s, order_result *result)
{
    result->steps = s->progress.steps;
    result->cut_short = s->late;
    progress_close(&s->progress);
    free(s->rank), free(s->path), free(s->frames), free(s->choice), free(s->frame_live), free(s->table);
}

int order_search(const order_problem *p, const order_limits *limits, order_result *result)
{
    order_state s = {0};
    int status = -1;
    if (order_open(&s, p, limits)) {
        int64_t proven = 0;
        order_range(&s, 0, p->node_count);
        int64_t best = order_solve(&s, limits->known_bytes, limits->useless_bytes, result->order, &proven);
        status = best < 0 ? 1 : 0;
        result->peak_bytes = best > p->start_peak_bytes ? best : p->start_peak_bytes;
        result->lower_bound_bytes = proven > p->start_peak_bytes ? proven : p->start_peak_bytes;
    }
    order_close(&s, result);
    return status;
}
