/* The ground the members of the portfolio stand on: who lives beside whom, the live peak, the best placement. */
#include "search.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct moment {
    int32_t time, box;
    int64_t change;
} moment;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int search_spent(search *s)
{
    if (s->deadline > 0 && !s->late) {
        s->late = now() > s->deadline;
    }
    return s->late || s->work >= s->work_limit;
}

uint32_t search_draw(search *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (uint32_t)(s->random >> 24);
}

uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27, x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int64_t align_up(int64_t offset, int64_t alignment)
{
    return (offset + alignment - 1) / alignment * alignment;
}

int64_t align_down(int64_t offset, int64_t alignment)
{
    return offset / alignment * alignment;
}

int64_t search_shift(const search *s, int64_t height, int64_t alignment)
{
    if (alignment <= 0 || s->block_end == 0 || height <= s->block_end) {
        return 0;
    }
    return align_down(height - s->block_end, alignment);
}

void search_keep(search *s, int64_t shift, int32_t member)
{
    const pack_problem *q = s->q;
    int64_t height = s->block_end > 0 ? s->block_end + shift : s->floor;
    for (int32_t i = 0; i < q->count; i++) {
        int64_t end = s->offset[i] + q->size[i];
        height = end > height ? end : height;
    }
    if (s->best_height < 0 || height < s->best_height) {
        s->best_height = height;
        s->member = member;
        memcpy(s->best, s->offset, (size_t)q->count * sizeof *s->best);
    }
}

static int by_time(const void *a, const void *b)
{
    const moment *x = a, *y = b;
    if (x->time != y->time) {
        return x->time < y->time ? -1 : 1;
    }
    if ((x->change > 0) != (y->change > 0)) {
        return x->change > 0 ? 1 : -1; /* ends come before births: lives are half open */
    }
    return (x->box > y->box) - (x->box < y->box);
}

/* Births and ends in order of time; boxes without bytes or without a life do not appear. */
static moment *moments(const pack_problem *q, int32_t *count)
{
    moment *list = calloc(2 * (size_t)q->count + 1, sizeof *list);
    int32_t n = 0;
    for (int32_t i = 0; list && i < q->count; i++) {
        if (q->size[i] > 0 && q->first[i] < q->last[i]) {
            list[n++] = (moment){q->first[i], i, q->size[i]};
            list[n++] = (moment){q->last[i], i, -q->size[i]};
        }
    }
    if (list) {
        qsort(list, (size_t)n, sizeof *list, by_time);
    }
    *count = n;
    return list;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The live peak, the unit in which heights can differ, and the least that each box alone needs. */
static void measure(search *s, const moment *list, int32_t count)
{
    const pack_problem *q = s->q;
    int64_t alive = s->floor, peak = s->floor, unit = s->floor, alone = s->floor;
    for (int32_t i = 0; i < count; i++) {
        alive += list[i].change;
        peak = alive > peak ? alive : peak;
    }
    for (int32_t i = 0; i < q->count; i++) {
        int64_t end = q->pinned[i] >= 0 ? q->pinned[i] + q->size[i] : 0;
        int64_t least = end > 0 ? end : align_up(s->floor, q->alignment[i]) + q->size[i];
        s->block_end = end > s->block_end ? end : s->block_end;
        alone = least > alone ? least : alone;
        unit = common_divisor(common_divisor(unit, q->size[i]), end > 0 ? end : q->alignment[i]);
    }
    if (s->block_end > 0) {
        unit = 1; /* the block may move by less */
    }
    s->unit = unit > 0 ? unit : 1;
    s->live_peak = peak;
    s->lower = align_up(peak > alone ? peak : alone, s->unit);
}

/* Counts the pairs alive together or writes them down: with the list of those alive, only real pairs are looked at. */
static void pair_up(search *s, const moment *list, int32_t count, int32_t *alive, int64_t *degree, int write)
{
    int32_t n = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t box = list[i].box;
        if (list[i].change < 0) {
            int32_t at = 0;
            while (alive[at] != box) {
                at++;
            }
            alive[at] = alive[--n];
            continue;
        }
        for (int32_t k = 0; k < n; k++) {
            if (write) {
                s->near[s->near_first[box] + (int32_t)degree[box]] = alive[k];
                s->near[s->near_first[alive[k]] + (int32_t)degree[alive[k]]] = box;
            }
            degree[box]++, degree[alive[k]]++;
        }
        alive[n++] = box;
    }
}

static int by_offset(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Divides the neighbours of a box: those of free choice stay, pinned ones become walls. 0 when two pinned overlap. */
static int raise_walls(search *s, int32_t box, int64_t *pins, int32_t *walls)
{
    const pack_problem *q = s->q;
    int32_t kept = s->near_first[box], count = 0;
    for (int32_t i = s->near_first[box]; i < s->near_end[box]; i++) {
        int32_t other = s->near[i];
        if (q->pinned[other] < 0) {
            s->near[kept++] = other;
        } else if (q->pinned[box] < 0) {
            pins[2 * count] = q->pinned[other];
            pins[2 * count++ + 1] = q->pinned[other] + q->size[other];
        } else if (q->pinned[other] < q->pinned[box] + q->size[box]
                   && q->pinned[box] < q->pinned[other] + q->size[other]) {
            return 0;
        }
    }
    s->near_end[box] = kept;
    qsort(pins, (size_t)count, 2 * sizeof *pins, by_offset);
    for (int32_t i = 0; i < count; i++) {
        if (*walls > s->wall_first[box] && s->wall_high[*walls - 1] == pins[2 * i]) {
            s->wall_high[*walls - 1] = pins[2 * i + 1];
        } else {
            s->wall_low[*walls] = pins[2 * i];
            s->wall_high[(*walls)++] = pins[2 * i + 1];
        }
    }
    return 1;
}

static int64_t find_neighbours(search *s, const moment *list, int32_t count)
{
    size_t n = (size_t)s->q->count + 1;
    int32_t *alive = calloc(n, sizeof *alive);
    int64_t *degree = calloc(n, sizeof *degree), *pins = calloc(2 * n, sizeof *pins), total = 0;
    int64_t result = alive && degree && pins ? 0 : PACK_NO_MEMORY;
    if (!result) {
        pair_up(s, list, count, alive, degree, 0);
        for (int32_t i = 0; i < s->q->count; i++) {
            total += degree[i];
        }
        result = total < INT32_MAX ? 0 : PACK_BAD_BOXES;
    }
    if (!result) {
        s->near = calloc((size_t)total + 1, sizeof *s->near);
        s->wall_low = calloc((size_t)total + 1, sizeof *s->wall_low);
        s->wall_high = calloc((size_t)total + 1, sizeof *s->wall_high);
        result = s->near && s->wall_low && s->wall_high ? 0 : PACK_NO_MEMORY;
    }
    for (int32_t i = 0; !result && i < s->q->count; i++) {
        s->near_end[i] = s->near_first[i] + (int32_t)degree[i];
        s->near_first[i + 1] = s->near_end[i];
        s->most_near = (int32_t)degree[i] > s->most_near ? (int32_t)degree[i] : s->most_near;
    }
    if (!result) {
        memset(degree, 0, n * sizeof *degree);
        pair_up(s, list, count, alive, degree, 1);
    }
    int32_t walls = 0;
    for (int32_t i = 0; !result && i < s->q->count; i++) {
        result = raise_walls(s, i, pins, &walls) ? 0 : PACK_BAD_BOXES;
        s->wall_first[i + 1] = walls;
    }
    free(alive), free(degree), free(pins);
    return result;
}

static int sound(const pack_problem *q)
{
    int64_t total = q->floor_bytes, most = (int64_t)1 << 60;
    if (q->count < 0 || q->floor_bytes < 0 || q->floor_bytes > most / 4) {
        return 0;
    }
    for (int32_t i = 0; i < q->count; i++) {
        int64_t alignment = q->alignment[i];
        if (q->first[i] > q->last[i] || q->size[i] < 0 || q->size[i] > most / 4 || alignment < 1
            || alignment > (int64_t)1 << 30 || q->pinned[i] > most / 4) {
            return 0;
        }
        if (q->pinned[i] >= 0 && (q->pinned[i] < q->floor_bytes || q->pinned[i] % alignment)) {
            return 0;
        }
        total += q->size[i] + alignment;
        if (total > most) {
            return 0;
        }
    }
    return q->block_alignment >= 0 && q->block_least_alignment >= 0;
}

int64_t search_begin(search *s, const pack_problem *q)
{
    size_t n = (size_t)(q->count > 0 ? q->count : 0) + 1;
    int32_t count = 0;
    if (!sound(q)) {
        return PACK_BAD_BOXES;
    }
    s->q = q;
    s->floor = q->floor_bytes;
    s->best_height = -1;
    s->random = (uint64_t)q->seed * 0x9e3779b97f4a7c15u + 88172645463325252u;
    s->work_limit = q->work;
    s->deadline = q->seconds > 0 ? now() + q->seconds : 0;
    s->near_first = calloc(n + 1, sizeof *s->near_first);
    s->near_end = calloc(n, sizeof *s->near_end);
    s->wall_first = calloc(n + 1, sizeof *s->wall_first);
    s->offset = calloc(n, sizeof *s->offset);
    s->best = calloc(n, sizeof *s->best);
    if (!(s->near_first && s->near_end && s->wall_first && s->offset && s->best)) {
        return PACK_NO_MEMORY;
    }
    moment *list = moments(q, &count);
    if (!list) {
        return PACK_NO_MEMORY;
    }
    measure(s, list, count);
    int64_t result = find_neighbours(s, list, count);
    free(list);
    return result;
}

void search_end(search *s)
{
    free(s->near_first), free(s->near_end), free(s->near), free(s->wall_first), free(s->wall_low), free(s->wall_high);
    free(s->offset), free(s->best);
}
