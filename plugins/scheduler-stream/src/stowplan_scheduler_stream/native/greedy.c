/* Greedy placements: boxes in a fixed order, each as low as it goes; several orders, and the block of pinned boxes at
 * both ends.
 */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { RULES = 8, FEW = 16, SHARE = 20 };

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
    range *found, *taken; /* addresses beside the box in hand, as they are met and sorted */
    int32_t *begins;      /* of stretches of address, in `taken` */
    int64_t looked;       /* at neighbours */
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

static void insert(range *taken, int32_t count, range one)
{
    while (count > 0 && taken[count - 1].low > one.low) {
        taken[count] = taken[count - 1];
        count--;
    }
    taken[count] = one;
}

/* Deals addresses out to as many even stretches as there are, which nearly sorts them. */
static void deal(const greedy *g, int32_t n)
{
    int64_t least = g->found[0].low, most = least;
    for (int32_t i = 1; i < n; i++) {
        least = g->found[i].low < least ? g->found[i].low : least;
        most = g->found[i].low > most ? g->found[i].low : most;
    }
    double scale = (double)(n - 1) / ((double)(most - least) + 1);
    memset(g->begins, 0, ((size_t)n + 1) * sizeof *g->begins);
    for (int32_t i = 0; i < n; i++) {
        g->begins[(int32_t)((double)(g->found[i].low - least) * scale) + 1]++;
    }
    for (int32_t i = 0; i < n; i++) {
        g->begins[i + 1] += g->begins[i];
    }
    for (int32_t i = 0; i < n; i++) {
        g->taken[g->begins[(int32_t)((double)(g->found[i].low - least) * scale)]++] = g->found[i];
    }
}

/* Of a large network hundreds of rows are alive beside each: insertion alone would take most of the time. */
static void sort(const greedy *g, int32_t n)
{
    const range *from = g->found;
    if (n > FEW) {
        deal(g, n);
        from = g->taken;
    }
    for (int32_t i = 0; i < n; i++) {
        insert(g->taken, i, from[i]);
    }
}

static int64_t lowest(greedy *g, int32_t box, int64_t shift)
{
    const search *s = g->s;
    int32_t n = 0;
    for (int32_t i = s->wall_first[box]; i < s->wall_first[box + 1]; i++) {
        g->found[n++] = (range){s->wall_low[i] + shift, s->wall_high[i] + shift};
    }
    for (int32_t i = s->near_first[box]; i < s->near_end[box]; i++) {
        int32_t other = s->near[i];
        if (s->offset[other] >= 0) {
            g->found[n++] = (range){s->offset[other], s->offset[other] + s->q->size[other]};
        }
    }
    g->looked += s->near_end[box] - s->near_first[box];
    sort(g, n);
    int64_t alignment = s->q->alignment[box], at = align_up(s->floor, alignment);
    for (int32_t i = 0; i < n && g->taken[i].low - at < s->q->size[box]; i++) {
        at = g->taken[i].high > at ? align_up(g->taken[i].high, alignment) : at;
    }
    return at;
}

static void place_all(greedy *g, int64_t shift)
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

/* Only of tens of thousands of boxes can the greedy orders take much longer than all the work that may follow. */
static int is_enough(const greedy *g)
{
    return g->looked / SHARE > g->s->work_limit;
}

/* With the block at its lowest, then hung under heights a little above the live peak. */
static void place_for_heights(greedy *g)
{
    static const int64_t percent[] = {0, 1, 3, 8, 20};
    search *s = g->s;
    place_all(g, 0);
    for (int i = 0; i < 5 && s->best_height > s->lower && s->q->block_alignment > 0 && !is_enough(g); i++) {
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
    size_t near = (size_t)s->most_near + 2;
    greedy g = {
        s, calloc(n, sizeof *g.order), calloc(near, sizeof *g.found), calloc(near, sizeof *g.taken),
        calloc(near, sizeof *g.begins), 0,
    };
    int ok = g.order && g.found && g.taken && g.begins;
    for (int rule = 0; ok && rule < RULES; rule++) {
        for (int32_t i = 0; i < s->q->count; i++) {
            g.order[i] = (ranked){key(s, i, rule), i};
        }
        qsort(g.order, (size_t)s->q->count, sizeof *g.order, by_key);
        place_for_heights(&g);
        search_spent(s); /* looks at the clock: greedy orders count as no work */
        if (s->best_height <= s->lower || s->best_height <= s->q->goal_bytes || s->late || is_enough(&g)) {
            break;
        }
    }
    free(g.order), free(g.found), free(g.taken), free(g.begins);
    return ok;
}
