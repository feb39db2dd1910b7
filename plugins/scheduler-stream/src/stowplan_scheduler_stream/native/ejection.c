/* Ejection search: is there a placement of a given height?
 *
 * Boxes without a place wait in a pool. One after another takes the place where the boxes it must throw out weigh
 * least; those go back to the pool, and who had to throw others out weighs more from then on, so that hard boxes win
 * their place in the end. A few placed boxes then move to other free places, which lets the search leave plateaus.
 * Runs are short and differ in who comes next: on streams of rows a run that succeeds does so early.
 *
 * A run begins with nothing placed, or it mends the best placement: only what reaches above the height is placed anew.
 * There, boxes with many neighbours weigh more from the start: rows that live long stay, and what has to give way for
 * a moment is what lives no longer.
 *
 * After Y. Nagata and O. Braysy's ejection pool for vehicle routing ("A powerful route minimization heuristic for the
 * vehicle routing problem with time windows", 2009), with address ranges for routes.
 */
#include "edges.h"
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { TAKE_LATEST, TAKE_FRONT, TAKE_HEAVY, TAKES };
enum { SHAKES = 3, HEAVY_AMONG = 6, WORK_OF_A_BOX = 8, CHECK_EVERY = 64, CROWD_WEIGHS = 3 };

static const double FREE_PLACE = 0.05, WALL = 1e12, NO_PLACE = 1e30;

struct ejector {
    search *s;
    int64_t height, shift;
    int32_t take, backwards, lowest; /* what this run does differently */
    int64_t fade_every;
    int32_t *pool;
    int32_t waiting;
    double *weight, *least; /* what a box weighs now, and at least */
    int64_t *was; /* where a box was thrown out last: not straight back there */
    edge *low, *high, *spare; /* edges of what is alive beside the box in hand, sorted */
    int32_t edges;
    int64_t *place; /* offsets worth trying: rising ones on top of something, then those under something */
    int32_t places, upper;
};

typedef struct choice {
    int64_t offset;
    double cost;
} choice;

ejector *ejection_new(search *s)
{
    size_t n = (size_t)s->q->count + 1, k = (size_t)s->most_near + 1;
    ejector *e = calloc(1, sizeof *e);
    if (!e) {
        return NULL;
    }
    e->s = s;
    e->pool = calloc(n, sizeof *e->pool);
    e->weight = calloc(n, sizeof *e->weight);
    e->least = calloc(n, sizeof *e->least);
    e->was = calloc(n, sizeof *e->was);
    e->low = calloc(k, sizeof *e->low);
    e->high = calloc(k, sizeof *e->high);
    e->spare = calloc(k, sizeof *e->spare);
    e->place = calloc(2 * k + 2, sizeof *e->place);
    if (!(e->pool && e->weight && e->least && e->was && e->low && e->high && e->spare && e->place)) {
        ejection_free(e);
        return NULL;
    }
    return e;
}

void ejection_free(ejector *e)
{
    if (e) {
        free(e->pool), free(e->weight), free(e->least), free(e->was);
        free(e->low), free(e->high), free(e->spare), free(e->place);
        free(e);
    }
}

static void look_around(ejector *e, int32_t box)
{
    const search *s = e->s;
    int32_t n = 0;
    for (int32_t i = s->wall_first[box]; i < s->wall_first[box + 1]; i++, n++) {
        e->low[n] = (edge){s->wall_low[i] + e->shift, WALL};
        e->high[n] = (edge){s->wall_high[i] + e->shift, WALL};
    }
    for (int32_t i = s->near_first[box]; i < s->near_end[box]; i++) {
        int32_t other = s->near[i];
        if (s->offset[other] >= 0) {
            e->low[n] = (edge){s->offset[other], e->weight[other]};
            e->high[n] = (edge){s->offset[other] + s->q->size[other], e->weight[other]};
            n++;
        }
    }
    sort_edges(e->low, e->spare, n);
    sort_edges(e->high, e->spare, n);
    e->edges = n;
}

/* A box need lie only on the floor or on a neighbour, or under a neighbour or the height. */
static void list_places(ejector *e, int32_t box)
{
    const search *s = e->s;
    int64_t size = s->q->size[box], alignment = s->q->alignment[box], floor = align_up(s->floor, alignment);
    int64_t last = -1;
    e->places = 0;
    if (floor + size <= e->height) {
        e->place[e->places++] = last = floor;
    }
    for (int32_t i = 0; i < e->edges; i++) {
        int64_t at = align_up(e->high[i].at, alignment);
        if (at > last && at >= floor && at + size <= e->height) {
            e->place[e->places++] = last = at;
        }
    }
    e->upper = e->places;
    last = -1;
    for (int32_t i = 0; i < e->edges; i++) {
        int64_t under = e->low[i].at < e->height ? e->low[i].at : e->height;
        if (under - size >= floor && align_down(under - size, alignment) > last) {
            e->place[e->places++] = last = align_down(under - size, alignment);
        }
    }
    if (e->height - size >= floor && align_down(e->height - size, alignment) > last) {
        e->place[e->places++] = align_down(e->height - size, alignment);
    }
}

/* The cheapest place; among equals any, or the lowest. */
static choice cheapest(ejector *e, int32_t box, int only_free)
{
    search *s = e->s;
    choice best = {-1, NO_PLACE};
    uint32_t equals = 0;
    int64_t size = s->q->size[box];
    for (int run = 0; run < 2; run++) {
        int32_t from = run ? e->upper : 0, to = run ? e->places : e->upper, begun = 0, ended = 0;
        double cost = 0;
        for (int32_t i = from; i < to; i++) {
            int64_t at = e->place[i];
            while (begun < e->edges && e->low[begun].at < at + size) {
                cost += e->low[begun++].weight;
            }
            while (ended < e->edges && e->high[ended].at <= at) {
                cost -= e->high[ended++].weight;
            }
            if (cost > FREE_PLACE && (only_free || at == e->was[box])) {
                continue;
            }
            if (cost < best.cost - 1e-6 || (e->lowest && cost < best.cost + 1e-6 && at < best.offset)) {
                best = (choice){at, cost};
                equals = 1;
            } else if (!e->lowest && cost < best.cost + 1e-6 && search_draw(s) % ++equals == 0) {
                best.offset = at;
            }
        }
    }
    return best;
}

static choice find_place(ejector *e, int32_t box, int only_free)
{
    look_around(e, box);
    list_places(e, box);
    e->s->work += WORK_OF_A_BOX + e->edges + e->places;
    return cheapest(e, box, only_free);
}

static void eject(ejector *e, int32_t box, int64_t at)
{
    search *s = e->s;
    int64_t end = at + s->q->size[box];
    for (int32_t i = s->near_first[box]; i < s->near_end[box]; i++) {
        int32_t other = s->near[i];
        if (s->offset[other] >= 0 && s->offset[other] < end && s->offset[other] + s->q->size[other] > at) {
            e->was[other] = s->offset[other];
            s->offset[other] = -1;
            e->pool[e->waiting++] = other;
        }
    }
}

static void shake(ejector *e)
{
    search *s = e->s;
    for (int i = 0; i < SHAKES; i++) {
        int32_t box = (int32_t)(search_draw(s) % (uint32_t)s->q->count);
        if (s->offset[box] >= 0 && s->q->pinned[box] < 0) {
            choice free_place = find_place(e, box, 1);
            s->offset[box] = free_place.offset >= 0 ? free_place.offset : s->offset[box];
        }
    }
}

/* Boxes that are born earlier come first; backwards those that end later. */
static int sooner(const ejector *e, int32_t a, int32_t b)
{
    const pack_problem *q = e->s->q;
    int32_t x = e->backwards ? -q->last[a] : q->first[a], y = e->backwards ? -q->last[b] : q->first[b];
    return x != y ? x < y : q->size[a] != q->size[b] ? q->size[a] > q->size[b] : a < b;
}

static void swap(int32_t *a, int32_t *b)
{
    int32_t kept = *a;
    *a = *b;
    *b = kept;
}

static int32_t take(ejector *e)
{
    int32_t *last = e->pool + e->waiting - 1, *chosen = last;
    if (e->take == TAKE_FRONT) {
        for (int32_t *p = e->pool; p < last; p++) {
            chosen = sooner(e, *p, *chosen) ? p : chosen;
        }
    } else if (e->take == TAKE_HEAVY) {
        for (int32_t *p = last; p >= e->pool && last - p < HEAVY_AMONG; p--) {
            chosen = e->weight[*p] > e->weight[*chosen] ? p : chosen;
        }
    }
    swap(chosen, last);
    return e->pool[--e->waiting];
}

static void sift(ejector *e, int32_t root, int32_t count)
{
    for (int32_t child = 2 * root + 1; child < count; root = child, child = 2 * root + 1) {
        if (child + 1 < count && sooner(e, e->pool[child + 1], e->pool[child])) {
            child++;
        }
        if (!sooner(e, e->pool[child], e->pool[root])) {
            return;
        }
        swap(e->pool + child, e->pool + root);
    }
}

/* Fills the pool so that the soonest is taken first (heap sort: qsort has no context). */
static void fill_pool(ejector *e)
{
    const pack_problem *q = e->s->q;
    e->waiting = 0;
    for (int32_t i = 0; i < q->count; i++) {
        e->weight[i] = e->least[i] = 1;
        e->was[i] = -1;
        e->s->offset[i] = q->pinned[i] >= 0 ? q->pinned[i] + e->shift : -1;
        if (q->pinned[i] < 0) {
            e->pool[e->waiting++] = i;
        }
    }
    for (int32_t i = e->waiting / 2 - 1; i >= 0; i--) {
        sift(e, i, e->waiting);
    }
    for (int32_t end = e->waiting - 1; end > 0; end--) {
        swap(e->pool, e->pool + end);
        sift(e, 0, end);
    }
}

/* Leaves in the pool only what reaches above the height in the best placement. */
static void place_as_best(ejector *e)
{
    const search *s = e->s;
    double mean = 1 + (double)s->near_end[s->q->count - 1] / s->q->count;
    int32_t kept = 0;
    for (int32_t k = 0; k < e->waiting; k++) {
        int32_t box = e->pool[k];
        double crowd = (s->near_end[box] - s->near_first[box]) / mean;
        e->weight[box] = e->least[box] = 1 + CROWD_WEIGHS * crowd * crowd;
        if (s->best[box] + s->q->size[box] > e->height) {
            e->pool[kept++] = box;
        } else {
            s->offset[box] = s->best[box];
        }
    }
    e->waiting = kept;
}

static void fade(ejector *e)
{
    for (int32_t i = 0; i < e->s->q->count; i++) {
        e->weight[i] = e->least[i] + (e->weight[i] - e->least[i]) * 0.5;
    }
}

static void draw_habits(ejector *e)
{
    uint32_t r = search_draw(e->s);
    e->take = (int32_t)(r % TAKES);
    e->backwards = (int32_t)(r / 4 % 2);
    e->fade_every = r / 8 % 2 ? 0 : 1000;
    e->lowest = r / 16 % 4 == 0;
}

static void begin(ejector *e, int64_t height, int64_t shift)
{
    e->height = height;
    e->shift = shift;
    draw_habits(e);
    fill_pool(e);
}

static int place_pool(ejector *e, int64_t steps, int64_t work)
{
    search *s = e->s;
    int64_t end = s->work + work;
    for (int64_t step = 1; e->waiting > 0 && step <= steps && s->work < end; step++) {
        if (step % CHECK_EVERY == 0 && search_spent(s)) {
            return 0;
        }
        int32_t box = take(e);
        choice found = find_place(e, box, 0);
        if (found.offset < 0 || found.cost >= WALL / 2) {
            e->was[box] = -1; /* only walls, or the place it came from: wait for others to move */
            e->pool[e->waiting++] = box;
            swap(e->pool + search_draw(s) % (uint32_t)e->waiting, e->pool + e->waiting - 1);
            continue;
        }
        if (found.cost > FREE_PLACE) {
            e->weight[box] += 1;
            eject(e, box, found.offset);
            s->offset[box] = found.offset;
            shake(e);
        }
        s->offset[box] = s->offset[box] < 0 ? found.offset : s->offset[box];
        if (e->fade_every && step % e->fade_every == 0) {
            fade(e);
        }
    }
    return e->waiting == 0;
}

int ejection_run(ejector *e, int64_t height, int64_t shift, int64_t steps)
{
    begin(e, height, shift);
    return place_pool(e, steps, e->s->work_limit);
}

int ejection_mend(ejector *e, int64_t height, int64_t work)
{
    begin(e, height, 0);
    place_as_best(e);
    return place_pool(e, work, work);
}
