/* Valley search: is there a placement of a given height? Exhaustive when it is given the time.
 *
 * Every placement can be pressed down until each box rests on the floor or on another. So boxes are stacked on a
 * skyline over time. Take a valley of it, a run of steps lower than both its neighbours: what comes to rest at its
 * left end is a box born exactly there, that ends within the valley, or nothing, and then the end rises at the cost of
 * bytes that stay empty; likewise at the right end. These cases exclude each other, so no placement is met twice. The
 * end with the fewest cases is tried first: where the height leaves no room to waste this mostly leaves one.
 *
 * Pruned are skylines on which the bytes still to come do not fit, on which no set of boxes can level a cliff, and
 * those that failed before (they depend only on the skyline and on what is left). Stretches of time that no waiting
 * box connects any more are solved apart.
 */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 4000, MOST_CASES = 24, CLIFF_BOXES = 12, MEMORY_BITS = 20, CHECK_EVERY = 64 };
enum { WORK_OF_A_NODE = 16, WORK_OF_A_RUN = 2 };

enum { ORDER_LIFE, ORDER_SMALL, ORDER_AREA, ORDER_LARGE, ORDERS };
enum { TIE_LEFTMOST, TIE_RANDOM, TIE_LOWEST, TIE_HIGHEST, TIES };

typedef struct undo {
    int32_t step;
    int64_t top;
} undo;

struct valley {
    search *s;
    const timeline *line;
    int32_t steps;        /* these are the timeline's */
    const int32_t *first, *last, *by_first, *born_at, *by_last, *ends_at;
    uint8_t *placed;
    uint64_t *mark;       /* a random word per box, and of those waiting per first stretch */
    uint64_t *waiting;
    int64_t *top, *rest, *ceiling;
    uint8_t *from_low, *to_high; /* per stretch of a valley: can its level be covered from there to that end? */
    int32_t *crossing;    /* boxes waiting that live on both sides of the beginning of a stretch */
    undo *trail;
    size_t trail_count, trail_room;
    uint64_t *failed;     /* hashes of hopeless skylines */
    uint32_t order, tie;  /* what this run does differently: which box first, and which of equal ends */
    int64_t nodes, budget;
    uint64_t salt;        /* sets one height apart from another in `failed` */
    int cut;
};

typedef struct end {
    int32_t step, low, high; /* the valley [low, high), and which of its ends */
    int32_t cases;
    int64_t rank; /* among ends with as many cases */
    int64_t rise; /* the end rises to here when nothing rests there */
} end;

valley *valley_new(search *s, const timeline *line)
{
    size_t n = (size_t)s->q->count + 1, t = 2 * n + 2;
    valley *v = calloc(1, sizeof *v);
    if (!v) {
        return NULL;
    }
    v->s = s;
    v->line = line;
    v->steps = line->steps;
    v->first = line->first, v->last = line->last;
    v->by_first = line->by_first, v->born_at = line->born_at;
    v->by_last = line->by_last, v->ends_at = line->ends_at;
    v->placed = calloc(n, sizeof *v->placed), v->mark = calloc(n, sizeof *v->mark);
    v->waiting = calloc(t, sizeof *v->waiting), v->top = calloc(t, sizeof *v->top);
    v->rest = calloc(t, sizeof *v->rest), v->ceiling = calloc(t, sizeof *v->ceiling);
    v->crossing = calloc(t, sizeof *v->crossing);
    v->from_low = calloc(t, 1), v->to_high = calloc(t, 1);
    v->failed = calloc((size_t)1 << MEMORY_BITS, sizeof *v->failed);
    if (!(v->placed && v->mark && v->waiting && v->top && v->rest && v->ceiling && v->crossing && v->from_low
          && v->to_high && v->failed)) {
        valley_free(v);
        return NULL;
    }
    for (int32_t i = 0; i < s->q->count; i++) {
        v->mark[i] = mix((uint64_t)i * 0x9e3779b97f4a7c15u + 12345u);
    }
    return v;
}

void valley_free(valley *v)
{
    if (v) {
        free(v->placed), free(v->mark), free(v->waiting), free(v->top), free(v->rest), free(v->ceiling);
        free(v->crossing), free(v->from_low), free(v->to_high), free(v->trail), free(v->failed);
        free(v);
    }
}

static int alive(const valley *v, int32_t step)
{
    return v->rest[step] > 0;
}

static int64_t slack(const valley *v, int32_t step)
{
    return v->ceiling[step] - v->top[step] - v->rest[step];
}

/* Remembers a top before it changes; 0 when there is no memory. */
static int save(valley *v, int32_t step)
{
    if (v->trail_count == v->trail_room) {
        size_t room = v->trail_room ? 2 * v->trail_room : 4096;
        undo *trail = realloc(v->trail, room * sizeof *trail);
        if (!trail) {
            v->cut = 1;
            return 0;
        }
        v->trail = trail;
        v->trail_room = room;
    }
    v->trail[v->trail_count++] = (undo){step, v->top[step]};
    return 1;
}

static void count_in(valley *v, int32_t box, int sign)
{
    int64_t size = v->s->q->size[box];
    for (int32_t t = v->first[box]; t < v->last[box]; t++) {
        v->rest[t] += sign * size;
        v->crossing[t] += t > v->first[box] ? sign : 0;
    }
    v->waiting[v->first[box]] ^= v->mark[box];
    v->placed[box] = sign < 0;
}

/* Sums of the waiting boxes of a list, all subsets; -1 when there are too many to look at. */
static int32_t subset_sums(const valley *v, const int32_t *boxes, int32_t from, int32_t to, int64_t *sums)
{
    int32_t n = 1;
    sums[0] = 0;
    for (int32_t i = from; i < to; i++) {
        if (!v->placed[boxes[i]]) {
            if (n >= 1 << (CLIFF_BOXES / 2)) {
                return -1;
            }
            for (int32_t k = 0; k < n; k++) {
                sums[n + k] = sums[k] + v->s->q->size[boxes[i]];
            }
            n *= 2;
        }
    }
    return n;
}

/* Under the lowest box that will cross a cliff, what ends there and what begins there must reach about level. */
static int levels(const valley *v, int32_t step, int64_t left_top, int64_t right_top)
{
    int64_t left[1 << (CLIFF_BOXES / 2)], right[1 << (CLIFF_BOXES / 2)];
    if (step <= 0 || step >= v->steps || v->crossing[step] == 0 || left_top == right_top) {
        return 1;
    }
    int32_t lefts = subset_sums(v, v->by_last, v->ends_at[step], v->ends_at[step + 1], left);
    int32_t rights = subset_sums(v, v->by_first, v->born_at[step], v->born_at[step + 1], right);
    if (lefts < 0 || rights < 0) {
        return 1;
    }
    for (int32_t a = 0; a < lefts; a++) {
        for (int32_t b = 0; b < rights; b++) {
            int64_t over = left_top + left[a] - right_top - right[b];
            if (over <= slack(v, step) && -over <= slack(v, step - 1)) {
                return 1;
            }
        }
    }
    return 0;
}

static int cliff_can_be_levelled(const valley *v, int32_t step)
{
    return step <= 0 || levels(v, step, v->top[step - 1], v->top[step]);
}

/* Would the cliffs at both ends of a box still level, if it were put on the level of its valley? */
static int plausible(valley *v, int32_t box)
{
    int32_t first = v->first[box], last = v->last[box];
    int64_t top = align_up(v->top[first], v->s->q->alignment[box]) + v->s->q->size[box];
    v->placed[box] = 1;
    int answer = (first == 0 || levels(v, first, v->top[first - 1], top)) && levels(v, last, top, v->top[last]);
    v->placed[box] = 0;
    return answer;
}

/* Puts a box on the level of its valley; 0 when what is left cannot fit any more. Always to be taken back. */
static int put(valley *v, int32_t box)
{
    const pack_problem *q = v->s->q;
    int64_t at = align_up(v->top[v->first[box]], q->alignment[box]), top = at + q->size[box];
    int fits = 1;
    v->s->offset[box] = at;
    count_in(v, box, -1);
    for (int32_t t = v->first[box]; t < v->last[box]; t++) {
        fits = save(v, t) && fits && top + v->rest[t] <= v->ceiling[t];
        v->top[t] = top;
    }
    return fits && cliff_can_be_levelled(v, v->first[box]) && cliff_can_be_levelled(v, v->last[box]);
}

static int raise(valley *v, const end *e)
{
    if (!save(v, e->step)) {
        return 0;
    }
    v->top[e->step] = e->rise;
    return e->rise + v->rest[e->step] <= v->ceiling[e->step] && cliff_can_be_levelled(v, e->step)
        && cliff_can_be_levelled(v, e->step + 1);
}

static void take_back(valley *v, size_t count)
{
    while (v->trail_count > count) {
        undo last = v->trail[--v->trail_count];
        v->top[last.step] = last.top;
    }
}

static int fits_end(const valley *v, const end *e, int32_t box)
{
    return !v->placed[box] && v->first[box] >= e->low && v->last[box] <= e->high;
}

/* Boxes that can rest at an end: born at the left one, or ending at the right one. */
static const int32_t *list_at(const valley *v, const end *e, int32_t *count)
{
    if (e->step == e->low) {
        *count = v->born_at[e->low + 1] - v->born_at[e->low];
        return v->by_first + v->born_at[e->low];
    }
    *count = v->ends_at[e->high + 1] - v->ends_at[e->high];
    return v->by_last + v->ends_at[e->high];
}

/* Nothing rests at this end: then what covers it rests on a neighbour of the valley or on another box in it. */
static int64_t next_level(const valley *v, const end *e, int32_t lo, int32_t hi)
{
    int64_t level = INT64_MAX;
    if (e->low > lo && alive(v, e->low - 1)) {
        level = v->top[e->low - 1];
    }
    if (e->high < hi && alive(v, e->high) && v->top[e->high] < level) {
        level = v->top[e->high];
    }
    for (int32_t i = v->born_at[e->low]; i < v->born_at[e->high]; i++) {
        int32_t box = v->by_first[i];
        if (fits_end(v, e, box) && (v->first[box] > e->step || v->last[box] <= e->step)) {
            int64_t top = align_up(v->top[e->step], v->s->q->alignment[box]) + v->s->q->size[box];
            level = top < level ? top : level;
        }
    }
    return level;
}

/* Where nothing may stay empty, boxes side by side cover the level of a valley. From its low end, how far can they?
 * And from where to its high end? 0 when not from one to the other. */
static int cover(valley *v, int32_t low, int32_t high)
{
    memset(v->from_low + low, 0, (size_t)(high - low + 1));
    memset(v->to_high + low, 0, (size_t)(high - low + 1));
    v->from_low[low] = 1;
    for (int32_t t = low; t < high; t++) {
        v->from_low[t + 1] |= v->from_low[t] && slack(v, t) > 0;
        for (int32_t i = v->born_at[t]; v->from_low[t] && i < v->born_at[t + 1]; i++) {
            int32_t box = v->by_first[i];
            if (!v->placed[box] && v->last[box] <= high) {
                v->from_low[v->last[box]] = 1;
            }
        }
    }
    v->to_high[high] = 1;
    for (int32_t t = high; t-- > low;) {
        v->to_high[t] = v->to_high[t + 1] && slack(v, t) > 0;
        for (int32_t i = v->born_at[t]; !v->to_high[t] && i < v->born_at[t + 1]; i++) {
            int32_t box = v->by_first[i];
            v->to_high[t] = !v->placed[box] && v->last[box] <= high && v->to_high[v->last[box]];
        }
    }
    return v->from_low[high];
}

/* Leaves a box at an end of a valley room for others to cover the rest of its level? */
static int leaves_cover(const valley *v, const end *e, int32_t box)
{
    return e->step == e->low ? v->to_high[v->last[box]] : v->from_low[v->first[box]];
}

/* Counts up to one more than `most`. */
static void count_cases(valley *v, end *e, int32_t lo, int32_t hi, int32_t most)
{
    int32_t count;
    const int32_t *boxes = list_at(v, e, &count);
    e->cases = 0;
    for (int32_t i = 0; i < count && e->cases <= most; i++) {
        e->cases += fits_end(v, e, boxes[i]) && leaves_cover(v, e, boxes[i]) && plausible(v, boxes[i]);
    }
    e->rise = INT64_MAX;
    if (slack(v, e->step) > 0) {
        e->rise = next_level(v, e, lo, hi);
        e->cases += e->rise != INT64_MAX && e->rise - v->top[e->step] <= slack(v, e->step);
    }
}

static int64_t rank_end(const valley *v, int32_t low, int side)
{
    switch (v->tie) {
    case TIE_LEFTMOST: return low;
    case TIE_LOWEST: return v->top[low];
    case TIE_HIGHEST: return -v->top[low];
    default: return (int64_t)(mix((uint64_t)v->nodes << 24 ^ (uint64_t)(uint32_t)(2 * low + side)) >> 8);
    }
}

/* The end with the fewest cases among all valleys of a stretch, 0 cases included. */
static end hardest(valley *v, int32_t lo, int32_t hi)
{
    end best = {lo, lo, hi, INT32_MAX, INT64_MAX, INT64_MAX};
    for (int32_t low = lo, high; low < hi && best.cases > 0; low = high) {
        for (high = low + 1; high < hi && v->top[high] == v->top[low] && alive(v, high) == alive(v, low); high++) {
        }
        int open_left = low > lo && alive(v, low - 1) && v->top[low - 1] < v->top[low];
        int open_right = high < hi && alive(v, high) && v->top[high] < v->top[low];
        if (!alive(v, low) || open_left || open_right) {
            continue;
        }
        if (!cover(v, low, high)) {
            return (end){low, low, high, 0, 0, INT64_MAX};
        }
        for (int side = 0; side < 2 && (side == 0 || high > low + 1); side++) {
            end e = {side ? high - 1 : low, low, high, 0, rank_end(v, low, side), 0};
            count_cases(v, &e, lo, hi, best.cases);
            best = e.cases < best.cases || (e.cases == best.cases && e.rank < best.rank) ? e : best;
        }
    }
    return best;
}

static uint64_t fingerprint(const valley *v, int32_t lo, int32_t hi)
{
    uint64_t hash = v->salt ^ mix((uint64_t)(uint32_t)lo << 32 ^ (uint64_t)(uint32_t)hi);
    for (int32_t t = lo; t < hi; t++) {
        uint64_t top = alive(v, t) ? (uint64_t)v->top[t] : UINT64_MAX;
        hash = mix(hash ^ top) + v->waiting[t];
    }
    return hash | 1u;
}

static int solve(valley *v, int32_t lo, int32_t hi, int32_t depth);

static int64_t appeal(const valley *v, int32_t box)
{
    int64_t size = v->s->q->size[box], life = v->last[box] - v->first[box];
    switch (v->order) {
    case ORDER_LIFE: return life;
    case ORDER_SMALL: return -size;
    case ORDER_LARGE: return size;
    default: return size * life;
    }
}

/* The boxes that fit an end, mostly the one of most appeal first. */
static int32_t candidates(valley *v, const end *e, int32_t *list, int32_t room)
{
    int32_t count, n = 0;
    const int32_t *boxes = list_at(v, e, &count);
    const pack_problem *q = v->s->q;
    for (int32_t i = 0; i < count; i++) {
        int twin = 0;
        for (int32_t k = 0; k < n && !twin; k++) {
            twin = v->first[list[k]] == v->first[boxes[i]] && v->last[list[k]] == v->last[boxes[i]]
                && q->size[list[k]] == q->size[boxes[i]] && q->alignment[list[k]] == q->alignment[boxes[i]];
        }
        if (!fits_end(v, e, boxes[i]) || !leaves_cover(v, e, boxes[i]) || twin) {
            continue;
        }
        if (n == room) {
            v->cut = 1; /* not all cases are looked at: no proof */
            break;
        }
        int32_t at = n++;
        list[at] = boxes[i];
        for (; at > 0 && search_draw(v->s) % 4 != 0 && appeal(v, list[at]) > appeal(v, list[at - 1]); at--) {
            int32_t kept = list[at];
            list[at] = list[at - 1], list[at - 1] = kept;
        }
    }
    return n;
}

static int branch(valley *v, int32_t lo, int32_t hi, int32_t depth)
{
    int32_t list[MOST_CASES];
    end e = hardest(v, lo, hi);
    size_t mark = v->trail_count;
    int32_t n = e.cases > 0 ? candidates(v, &e, list, MOST_CASES) : 0;
    for (int32_t i = 0; i < n && !v->cut; i++) {
        if (put(v, list[i]) && solve(v, lo, hi, depth + 1)) {
            return 1;
        }
        count_in(v, list[i], 1);
        take_back(v, mark);
    }
    if (e.cases > 0 && e.rise != INT64_MAX && !v->cut) {
        if (raise(v, &e) && solve(v, lo, hi, depth + 1)) {
            return 1;
        }
        take_back(v, mark);
    }
    return 0;
}

/* Takes back every box placed within a stretch that was free before. */
static void unplace(valley *v, const uint8_t *before, int32_t lo, int32_t hi)
{
    for (int32_t i = v->born_at[lo]; i < v->born_at[hi]; i++) {
        if (v->placed[v->by_first[i]] && !before[i - v->born_at[lo]]) {
            count_in(v, v->by_first[i], 1);
        }
    }
}

/* Solves the parts of [lo, hi) that no waiting box connects, one by one. */
static int parts(valley *v, int32_t lo, int32_t hi, int32_t depth)
{
    size_t mark = v->trail_count, count = (size_t)(v->born_at[hi] - v->born_at[lo]);
    uint8_t *before = malloc(count + 1);
    int ok = before != NULL;
    v->cut |= !ok;
    for (size_t i = 0; ok && i < count; i++) {
        before[i] = v->placed[v->by_first[v->born_at[lo] + (int32_t)i]];
    }
    for (int32_t from = lo, to; ok && from < hi; from = to) {
        for (to = from + 1; to < hi && v->crossing[to] > 0; to++) {
        }
        ok = !alive(v, from) || solve(v, from, to, depth + 1);
    }
    if (!ok && before) {
        unplace(v, before, lo, hi);
        take_back(v, mark);
    }
    free(before);
    return ok;
}

/* Places everything still waiting within [lo, hi); leaves all as it was when that is impossible or cut off. */
static int solve(valley *v, int32_t lo, int32_t hi, int32_t depth)
{
    for (int32_t t = lo + 1; t < hi; t++) {
        if (v->crossing[t] == 0) {
            return parts(v, lo, hi, depth);
        }
    }
    if (!alive(v, lo)) {
        return 1; /* one stretch, and nothing left in it */
    }
    v->nodes++;
    v->cut |= v->nodes > v->budget || depth > MOST_DEPTH;
    v->s->work += WORK_OF_A_NODE + hi - lo;
    v->cut |= v->nodes % CHECK_EVERY == 0 && search_spent(v->s);
    if (v->cut) {
        return 0;
    }
    uint64_t hash = fingerprint(v, lo, hi), *entry = v->failed + (hash >> (64 - MEMORY_BITS));
    if (*entry == hash) {
        return 0;
    }
    if (branch(v, lo, hi, depth)) {
        return 1;
    }
    if (!v->cut) {
        *entry = hash;
    }
    return 0;
}

/* Pinned boxes must hang from the top: the skyline knows nothing above it. 0 when they do not. */
static int hang(valley *v, int64_t height, int64_t shift)
{
    const pack_problem *q = v->s->q;
    int64_t pinned_top = v->s->block_end + shift;
    memset(v->rest, 0, (size_t)v->steps * sizeof *v->rest);
    for (int32_t t = 0; t < v->steps; t++) {
        v->ceiling[t] = height;
    }
    for (int32_t i = 0; i < q->count; i++) {
        for (int32_t t = v->first[i]; q->pinned[i] >= 0 && t < v->last[i]; t++) {
            int64_t low = q->pinned[i] + shift;
            v->ceiling[t] = low < v->ceiling[t] ? low : v->ceiling[t];
            v->rest[t] += q->size[i];
        }
    }
    for (int32_t t = 0; t < v->steps; t++) {
        if (v->rest[t] && v->rest[t] != pinned_top - v->ceiling[t]) {
            return 0;
        }
        v->rest[t] = 0;
    }
    return 1;
}

static int lay_out(valley *v, int64_t height, int64_t shift)
{
    const pack_problem *q = v->s->q;
    if (!hang(v, height, shift)) {
        return 0;
    }
    for (int32_t t = 0; t <= v->steps; t++) {
        v->top[t] = v->s->floor;
        v->crossing[t] = 0;
        v->waiting[t] = 0;
    }
    for (int32_t i = 0; i < q->count; i++) {
        int pinned = q->pinned[i] >= 0;
        v->s->offset[i] = pinned ? q->pinned[i] + shift : align_up(v->s->floor, q->alignment[i]);
        if (timeline_stacks(v->line, q, i)) {
            count_in(v, i, 1);
        }
    }
    v->trail_count = 0;
    v->nodes = 0;
    v->cut = 0;
    v->salt = mix((uint64_t)height) ^ mix(~(uint64_t)shift);
    return 1;
}

answer valley_run(valley *v, int64_t height, int64_t shift, int64_t budget)
{
    if (!lay_out(v, height, shift)) {
        return ANSWER_UNFIT;
    }
    v->s->work += WORK_OF_A_RUN * (v->s->q->count + v->steps + 1);
    for (int32_t t = 0; t < v->steps; t++) {
        if (v->rest[t] && v->top[t] + v->rest[t] > v->ceiling[t]) {
            return ANSWER_NONE;
        }
    }
    v->budget = budget;
    v->order = search_draw(v->s) % ORDERS;
    v->tie = search_draw(v->s) % TIES;
    if (v->steps == 0 || solve(v, 0, v->steps, 0)) {
        return ANSWER_FOUND;
    }
    return v->cut ? ANSWER_CUT : ANSWER_NONE;
}
