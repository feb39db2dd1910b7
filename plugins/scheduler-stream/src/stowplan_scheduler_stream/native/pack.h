/* Offsets for boxes in time and address: the lowest height that can be found with the work given. */
#ifndef STOWPLAN_PACK_H
#define STOWPLAN_PACK_H

#include <stdint.h>

enum { PACK_GREEDY = 0, PACK_HINT = 1, PACK_EJECTION = 2, PACK_VALLEY = 3, PACK_SWEEP = 4 };

enum { PACK_NO_MEMORY = -1, PACK_BAD_BOXES = -2 };

typedef struct pack_problem {
    int32_t count;
    const int32_t *first; /* alive during the steps [first, last) */
    const int32_t *last;
    const int64_t *size;
    const int64_t *alignment;
    const int64_t *pinned; /* the offset of a box whose place is given, else -1 */
    const int64_t *hint;   /* offsets of a placement that is known already, or NULL */
    /* The pinned boxes may move up together by a multiple of the first, or where that saves bytes of the second;
     * both 0: they stay where they are. A model input is such a block: one piece, whose rows end one by one. */
    int64_t block_alignment;
    int64_t block_least_alignment;
    int64_t floor_bytes; /* no box lies below */
    int64_t goal_bytes;  /* stop at this height; lower than the live peak means the live peak */
    int64_t work;        /* neighbours and steps looked at, after the greedy orders: equal inputs give equal offsets */
    double seconds;      /* a clock that ends the search as well; 0 for none */
    uint32_t seed;
} pack_problem;

typedef struct pack_report {
    int64_t height;
    int64_t live_peak; /* floor included: no placement is lower */
    int32_t proven;    /* 1: no placement is lower, by the live peak or by exhaustion */
    int32_t member;    /* which of the PACK_ members found it */
    int32_t cut_short; /* the clock ended the search */
    int64_t rounds;    /* runs of all members */
    int64_t work;
} pack_report;

/* Fills `offsets` and the report, and returns the height, or one of the negative codes.
 * Nothing is kept between calls; the same seed finds the same, but where the clock ends it. */
int64_t pack_boxes(const pack_problem *problem, int64_t *offsets, pack_report *report);

#endif
