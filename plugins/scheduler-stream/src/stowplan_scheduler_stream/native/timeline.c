/* Time in stretches between two events, and which boxes begin and end with each. */
#include "search.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int32_t find(const int32_t *times, int32_t count, int32_t time)
{
    const int32_t *at = bsearch(&time, times, (size_t)count, sizeof *times, compare);
    return (int32_t)(at - times);
}

/* Numbers the stretches; 0 when there is no memory. */
static int number_steps(timeline *line, const pack_problem *q)
{
    int32_t *times = calloc(2 * (size_t)q->count + 1, sizeof *times), n = 0;
    if (!times) {
        return 0;
    }
    for (int32_t i = 0; i < q->count; i++) {
        times[2 * i] = q->first[i];
        times[2 * i + 1] = q->last[i];
    }
    qsort(times, 2 * (size_t)q->count, sizeof *times, compare);
    for (int32_t i = 0; i < 2 * q->count; i++) {
        if (n == 0 || times[n - 1] != times[i]) {
            times[n++] = times[i];
        }
    }
    for (int32_t i = 0; i < q->count; i++) {
        line->first[i] = find(times, n, q->first[i]);
        line->last[i] = find(times, n, q->last[i]);
    }
    line->steps = n > 0 ? n - 1 : 0;
    free(times);
    return 1;
}

int timeline_stacks(const timeline *line, const pack_problem *q, int32_t box)
{
    return q->pinned[box] < 0 && q->size[box] > 0 && line->first[box] < line->last[box];
}

/* Counting sort of the boxes to be stacked by a stretch. */
static void sort_by(const timeline *line, const pack_problem *q, const int32_t *key, int32_t *boxes, int32_t *begins)
{
    for (int32_t i = 0; i < q->count; i++) {
        begins[key[i] + 1] += timeline_stacks(line, q, i);
    }
    for (int32_t t = 0; t <= line->steps; t++) {
        begins[t + 1] += begins[t];
    }
    int32_t at = 0;
    for (int32_t t = 0; t <= line->steps; t++) {
        for (int32_t i = 0; i < q->count && at < begins[t + 1]; i++) {
            if (key[i] == t && timeline_stacks(line, q, i)) {
                boxes[at++] = i;
            }
        }
    }
}

timeline *timeline_new(const pack_problem *q)
{
    size_t n = (size_t)q->count + 1, t = 2 * n + 2;
    timeline *line = calloc(1, sizeof *line);
    if (!line) {
        return NULL;
    }
    line->first = calloc(n, sizeof *line->first), line->last = calloc(n, sizeof *line->last);
    line->by_first = calloc(n, sizeof *line->by_first), line->born_at = calloc(t, sizeof *line->born_at);
    line->by_last = calloc(n, sizeof *line->by_last), line->ends_at = calloc(t, sizeof *line->ends_at);
    if (!(line->first && line->last && line->by_first && line->born_at && line->by_last && line->ends_at
          && number_steps(line, q))) {
        timeline_free(line);
        return NULL;
    }
    sort_by(line, q, line->first, line->by_first, line->born_at);
    sort_by(line, q, line->last, line->by_last, line->ends_at);
    return line;
}

void timeline_free(timeline *line)
{
    if (line) {
        free(line->first), free(line->last), free(line->by_first), free(line->born_at), free(line->by_last);
        free(line->ends_at);
        free(line);
    }
}
