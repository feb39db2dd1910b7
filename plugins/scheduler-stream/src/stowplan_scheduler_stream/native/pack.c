/* The portfolio: greedy orders, then mending, ejection search, valley search and sweeps in turn, until the goal or a
 * limit.
 */
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { EJECTION_UNIT = 3000, STEPS_PER_BOX = 5, VALLEY_UNIT = 2000, SWEEP_UNIT = 500 };
enum { TARGETS = 4, SHIFTS = 4, GOAL_RUNS = 8, MUCH_MORE = 7 };

enum { MEND_UNIT = 300, MENDS_FIRST = 4, MENDS_SHARE = 3 };

static const double NEARLY_FULL = 0.98;

/* How much of the way to the goal is to be mended at once: less after a failure, more after a success. */
static const double FIRST_BITE = 0.125, MOST_BITE = 0.25, LEAST_BITE = 0.02, LESS = 0.8, MORE = 1.5;

enum { EJECTION, VALLEY, SWEEP, MEND, SEARCHES };

/* The runs of a search, the work done in them, and how much of it there is to be for as much of the others. */
typedef struct turns {
    int64_t runs, work, share;
} turns;

typedef struct portfolio {
    search *s;
    ejector *e;
    valley *v;
    sweep *w;
    int64_t goal;
    int64_t full; /* the height that sweeps are about; another search may have raised the bound above it */
    int64_t rounds;
    turns turns[SEARCHES];
    double bite;
} portfolio;

/* 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8: how long runs should be when nobody knows (M. Luby and others, 1993). */
static int64_t luby(int64_t i)
{
    int64_t size = 1, length = 1;
    while (size < i + 1) {
        size = 2 * size + 1;
        length *= 2;
    }
    while (size - 1 != i) {
        size /= 2;
        length /= 2;
        i %= size;
    }
    return length;
}

static int done(const portfolio *p)
{
    return p->s->best_height <= p->goal || p->s->best_height <= p->s->lower;
}

/* The goal itself in turn with heights between it and the best: each that is reached brings the next ones down. */
static int64_t target(const portfolio *p, int64_t run)
{
    static const int64_t quarters[TARGETS] = {0, 2, 1, 2};
    const search *s = p->s;
    int64_t bottom = p->goal > s->lower ? p->goal : s->lower;
    int64_t height = bottom + (s->best_height - bottom) / 4 * quarters[run % TARGETS];
    height = align_down(height, s->unit);
    return height < s->best_height ? height : s->best_height - 1;
}

/* Where the block goes in this run: mostly hung under the height, now and then left at its lowest. */
static int64_t shift_for(const search *s, int64_t height, int64_t run)
{
    const pack_problem *q = s->q;
    switch (run % SHIFTS) {
    case 0: return search_shift(s, height, q->block_alignment);
    case 1: return q->block_least_alignment ? search_shift(s, height, q->block_least_alignment)
                                            : search_shift(s, height, q->block_alignment);
    case 2: return search_shift(s, height, q->block_alignment);
    default: return 0;
    }
}

/* A run has to place every box and then mend: of thousands of boxes a shorter one never gets to the mending. */
static int64_t ejection_unit(const search *s)
{
    int64_t wanted = (int64_t)s->q->count * STEPS_PER_BOX;
    return wanted > EJECTION_UNIT ? wanted : EJECTION_UNIT;
}

static void eject_once(portfolio *p)
{
    int64_t run = p->turns[EJECTION].runs, height = target(p, run / SHIFTS + run);
    int64_t shift = shift_for(p->s, height, run);
    if (ejection_run(p->e, height, shift, ejection_unit(p->s) * luby(run))) {
        search_keep(p->s, shift, PACK_EJECTION);
    }
}

static void mend_once(portfolio *p)
{
    search *s = p->s;
    int64_t bottom = p->goal > s->lower ? p->goal : s->lower, work = (int64_t)s->q->count * MEND_UNIT;
    int64_t height = align_down(s->best_height - (int64_t)((double)(s->best_height - bottom) * p->bite), s->unit);
    height = height < s->best_height ? height : s->best_height - 1;
    if (ejection_mend(p->e, height, work * luby(p->turns[MEND].runs))) {
        search_keep(s, 0, PACK_EJECTION);
        p->bite = p->bite * MORE < MOST_BITE ? p->bite * MORE : MOST_BITE;
    } else {
        p->bite = p->bite * LESS > LEAST_BITE ? p->bite * LESS : FIRST_BITE;
    }
}

/* A height that was searched to the end without a result raises the bound. */
static void search_valleys_once(portfolio *p)
{
    search *s = p->s;
    int64_t run = p->turns[VALLEY].runs, height = target(p, run % GOAL_RUNS < GOAL_RUNS - 1 ? 0 : run / GOAL_RUNS);
    int64_t shift = search_shift(s, height, s->q->block_alignment);
    answer found = valley_run(p->v, height, shift, VALLEY_UNIT * luby(run));
    if (found == ANSWER_FOUND) {
        search_keep(s, shift, PACK_VALLEY);
    } else if (found == ANSWER_NONE && s->block_end == 0 && height >= s->lower) {
        s->lower = align_up(height + 1, s->unit);
    }
    if (found == ANSWER_UNFIT) {
        p->turns[VALLEY].share = 0;
    }
}

/* Forwards and backwards in turn, each first without chance. */
static void sweep_once(portfolio *p)
{
    search *s = p->s;
    int64_t run = p->turns[SWEEP].runs;
    answer found = sweep_run(p->w, run % 2 == 1, run > 1, SWEEP_UNIT * luby(run / 2));
    if (found == ANSWER_FOUND) {
        search_keep(s, 0, PACK_SWEEP);
    } else if (found == ANSWER_NONE && p->full >= s->lower) {
        s->lower = align_up(p->full + 1, s->unit);
    }
    if (found == ANSWER_NONE || found == ANSWER_UNFIT) {
        p->turns[SWEEP].share = 0;
    }
}

/* Where next to nothing may stay empty, exhaustive search knows more than trial and error. */
static int64_t share_of_valleys(const search *s)
{
    const pack_problem *q = s->q;
    double used = 0;
    int32_t begin = INT32_MAX, end = INT32_MIN;
    for (int32_t i = 0; i < q->count; i++) {
        used += (double)q->size[i] * ((double)q->last[i] - (double)q->first[i]);
        begin = q->first[i] < begin ? q->first[i] : begin;
        end = q->last[i] > end ? q->last[i] : end;
    }
    double room = ((double)end - (double)begin) * (double)(s->lower - s->floor);
    return used > room * NEARLY_FULL ? MUCH_MORE : 1;
}

/* Mending comes first: where it helps, it helps at once. Around pinned boxes there is none, nor where hardly anything
 * may stay empty.
 */
static int is_to_mend(const portfolio *p)
{
    int64_t first = p->s->work_limit / MENDS_FIRST;
    int mendable = p->s->block_end == 0 && p->turns[VALLEY].share <= 1;
    return mendable && p->turns[MEND].work <= first + p->turns[EJECTION].work * MENDS_SHARE;
}

/* The search that is most behind its share of the work. */
static int next_search(const portfolio *p)
{
    int next = EJECTION;
    if (is_to_mend(p)) {
        return MEND;
    }
    for (int i = 1; i < MEND; i++) {
        const turns *a = p->turns + i, *b = p->turns + next;
        next = a->work * b->share < b->work * a->share ? i : next;
    }
    return next;
}

static void take_turns(portfolio *p)
{
    static void (*const once[SEARCHES])(portfolio *) = {eject_once, search_valleys_once, sweep_once, mend_once};
    while (!done(p) && !search_spent(p->s)) {
        int next = next_search(p);
        int64_t before = p->s->work;
        once[next](p);
        p->turns[next].runs++;
        p->turns[next].work += p->s->work - before + 1;
        p->rounds++;
    }
}

static int search_on(portfolio *p)
{
    timeline *line = timeline_new(p->s->q);
    p->e = ejection_new(p->s);
    p->v = line ? valley_new(p->s, line) : NULL;
    p->w = line ? sweep_new(p->s, line) : NULL;
    int ok = p->e && p->v && p->w;
    p->full = p->s->lower;
    p->turns[EJECTION].share = 1;
    p->bite = FIRST_BITE;
    p->turns[VALLEY].share = p->turns[SWEEP].share = share_of_valleys(p->s);
    if (ok) {
        take_turns(p);
    }
    ejection_free(p->e);
    valley_free(p->v);
    sweep_free(p->w);
    timeline_free(line);
    return ok;
}

static void take_hint(search *s)
{
    if (s->q->hint) {
        memcpy(s->offset, s->q->hint, (size_t)s->q->count * sizeof *s->offset);
        search_keep(s, 0, PACK_HINT);
    }
}

static int64_t run(search *s, int64_t *offsets, pack_report *report)
{
    portfolio p = {.s = s, .goal = s->q->goal_bytes};
    take_hint(s);
    if (!(done(&p) && s->best_height >= 0) && !greedy_all(s)) {
        return PACK_NO_MEMORY;
    }
    if (!done(&p) && !search_spent(s) && !search_on(&p)) {
        return PACK_NO_MEMORY;
    }
    memcpy(offsets, s->best, (size_t)s->q->count * sizeof *offsets);
    *report = (pack_report){
        s->best_height, s->live_peak, s->best_height <= s->lower, s->member, s->late, p.rounds, s->work,
    };
    return s->best_height;
}

int64_t pack_boxes(const pack_problem *problem, int64_t *offsets, pack_report *report)
{
    search s = {0};
    memset(report, 0, sizeof *report);
    int64_t result = search_begin(&s, problem);
    if (result == 0) {
        result = run(&s, offsets, report);
    }
    search_end(&s);
    return result;
}
