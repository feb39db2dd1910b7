/* What the members of the portfolio share: the boxes, who lives with whom, the best placement, the limits. */
#ifndef STOWPLAN_SEARCH_H
#define STOWPLAN_SEARCH_H

#include "pack.h"

#include <stddef.h>

typedef struct search {
    const pack_problem *q;
    int64_t floor;         /* at least 0 */
    int64_t live_peak;
    int64_t lower;         /* no placement is lower: the live peak, or more after an exhaustive search */
    int64_t unit;          /* heights are multiples of it */
    int64_t block_end;     /* end of the highest pinned box where it was given; 0 without any */
    int32_t *near_first;   /* per box: its range in `near` */
    int32_t *near_end;
    int32_t *near;         /* boxes of free choice alive at the same time */
    int32_t *wall_first;   /* per box: its range in `wall_low`, `wall_high` */
    int64_t *wall_low;     /* pinned addresses taken during its life, before any shift; touching ones are one wall */
    int64_t *wall_high;
    int64_t *offset;       /* the placement being made, -1 while a box has no place */
    int64_t *best;
    int64_t best_height;   /* -1 before the first */
    int32_t member;
    int32_t most_near;     /* neighbours and walls of one box, at most */
    uint64_t random;
    int64_t work, work_limit;
    double deadline;       /* 0: no clock */
    int32_t late;          /* the clock has ended the search */
} search;

/* 0, or one of the negative codes; to be ended in both cases. */
int64_t search_begin(search *s, const pack_problem *q);
void search_end(search *s);

/* Is all used up that the limits allow? */
int search_spent(search *s);
uint32_t search_draw(search *s);
uint64_t mix(uint64_t x); /* its bits spread over all of them */
int64_t align_up(int64_t offset, int64_t alignment);
int64_t align_down(int64_t offset, int64_t alignment);

/* How far the pinned boxes move up under a height, for an alignment of the block; 0 for alignment 0. */
int64_t search_shift(const search *s, int64_t height, int64_t alignment);

/* Keeps `offset` when it is lower than the best. */
void search_keep(search *s, int64_t shift, int32_t member);

/* Each box in a fixed order as low as it goes, for several orders. */
int greedy_all(search *s);

/* One run at a height; 1 when every box found a place. */
typedef struct ejector ejector;
ejector *ejection_new(search *s);
void ejection_free(ejector *e);
int ejection_run(ejector *e, int64_t height, int64_t shift, int64_t budget);

/* Time in stretches between two events; boxes to be stacked are not pinned, and not without bytes or life. */
typedef struct timeline {
    int32_t steps;
    int32_t *first, *last;       /* of each box, in stretches */
    int32_t *by_first, *born_at; /* boxes to be stacked by first stretch; where each stretch's begin in there */
    int32_t *by_last, *ends_at;
} timeline;
timeline *timeline_new(const pack_problem *q);
void timeline_free(timeline *line);
int timeline_stacks(const timeline *line, const pack_problem *q, int32_t box);

/* What an exhaustive search found; unfit when the boxes are none of its business. */
typedef enum answer { ANSWER_NONE, ANSWER_FOUND, ANSWER_CUT, ANSWER_UNFIT } answer;

/* Exhaustive search at a height, cut off after `budget` nodes; unfit for pinned boxes that do not hang from above.
 * Nothing is put on top of pinned boxes, so only without any does NONE mean that there is no placement. */
typedef struct valley valley;
valley *valley_new(search *s, const timeline *line);
void valley_free(valley *v);
answer valley_run(valley *v, int64_t height, int64_t shift, int64_t budget);

/* Exhaustive search for a placement at the live peak, cut off after `budget` nodes, forwards or backwards in time, with
 * or without chance; unfit for boxes that leave bytes empty there. */
typedef struct sweep sweep;
sweep *sweep_new(search *s, const timeline *line);
void sweep_free(sweep *w);
answer sweep_run(sweep *w, int backwards, int draws, int64_t budget);

#endif
