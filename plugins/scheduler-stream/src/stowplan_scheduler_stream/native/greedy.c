/* Greedy placements: boxes in a fixed order, each as low as it goes; several orders, and the block of pinned boxes at
 * both ends.
 */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { RULES = 8 };

typedef struct ranked {
    double key;
    int32_t box;
} ranked;

typedef struct range {
    int64_t low, high;
} range;

typedef struct greedy {
    search *s;
    ranked *order;
    range *taken; /* addresses beside the box in hand, sorted */
} greedy;

static double key(const search *s, int32_t box, int rule)
{
    const pack_problem *q = s->q;
    double size = (double)q->size[box], life = (double)q->last[box] - (double)q->first[box];
    switch (rule) {
    case 0: return (double)q->first[box] - size * 1e-9;
    case 1: return -size - life * 1e-6;
    case 2: return -size * life;
    case 3: return -life - size * 1e-9;
    case 4: return -(double)q->last[box] - size * 1e-9;
    case 5: return -(double)(s->near_end[box] - s->near_first[box]);
    case 6: return -size * size * life;
    default: return -(double)q->last[box] - life;
    }
}

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return (x->box > y->box) - (x->box < y->box);
}

static int by_low(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static int64_t lowest(const greedy *g, int32_t box, int64_t shift)
{
    const search *s = g->s;
    int32_t n = 0;
    for (int32_t i = s->wall_first[box]; i < s->wall_first[box + 1]; i++) {
        g->taken[n++] = (range){s->wall_low[i] + shift, s->wall_high[i] + shift};
    }
    for (int32_t i = s->near_first[box]; i < s->near_end[box]; i++) {
        int32_t other = s->near[i];
        if (s->offset[other] >= 0) {
            g->taken[n++] = (range){s->offset[other], s->offset[other] + s->q->size[other]};
        }
    }
    qsort(g->taken, (size_t)n, sizeof *g->taken, by_low);
    int64_t alignment = s->q->alignment[box], at = align_up(s->floor, alignment);
    for (int32_t i = 0; i < n && g->taken[i].low - at < s->q->size[box]; i++) {
        at = g->taken[i].high > at ? align_up(g->taken[i].high, alignment) : at;
    }
    return at;
}

static void place_all(const greedy *g, int64_t shift)
{
    search *s = g->s;
    for (int32_t i = 0; i < s->q->count; i++) {
        s->offset[i] = s->q->pinned[i] >= 0 ? s->q->pinned[i] + shift : -1;
    }
    for (int32_t i = 0; i < s->q->count; i++) {
        int32_t box = g->order[i].box;
        if (s->q->pinned[box] < 0) {
            s->offset[box] = lowest(g, box, shift);
        }
    }
    search_keep(s, shift, PACK_GREEDY);
}

/* With the block at its lowest, then hung under heights a little above the live peak. */
static void place_for_heights(const greedy *g)
{
    static const int64_t percent[] = {0, 1, 3, 8, 20};
    search *s = g->s;
    place_all(g, 0);
    for (int i = 0; i < 5 && s->best_height > s->lower && s->q->block_alignment > 0; i++) {
        int64_t height = s->lower + s->lower / 100 * percent[i];
        int64_t shift = search_shift(s, height, s->q->block_alignment);
        if (shift > 0 && (s->best_height > height || i == 0)) {
            place_all(g, shift);
        }
    }
}

int greedy_all(search *s)
{
    size_t n = (size_t)s->q->count + 1;
    greedy g = {s, calloc(n, sizeof *g.order), calloc((size_t)s->most_near + 1, sizeof *g.taken)};
    int ok = g.order && g.taken;
    for (int rule = 0; ok && rule < RULES; rule++) {
        for (int32_t i = 0; i < s->q->count; i++) {
            g.order[i] = (ranked){key(s, i, rule), i};
        }
        qsort(g.order, (size_t)s->q->count, sizeof *g.order, by_key);
        place_for_heights(&g);
        search_spent(s); /* looks at the clock: greedy orders count as no work, there are always as many */
        if (s->best_height <= s->lower || s->best_height <= s->q->goal_bytes || s->late) {
            break;
        }
    }
    free(g.order), free(g.taken);
    return ok;
}
