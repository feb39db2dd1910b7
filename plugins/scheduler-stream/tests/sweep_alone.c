/* The sweep without the portfolio around it, for its test. */
#include "search.h"

enum { BUDGET = 100000 };

static int64_t run(const pack_problem *problem, int backwards, int draws, int64_t *offsets)
{
    search s = {0};
    int64_t result = search_begin(&s, problem);
    timeline *line = result == 0 ? timeline_new(problem) : NULL;
    sweep *w = line ? sweep_new(&s, line) : NULL;
    if (w) {
        result = sweep_run(w, backwards, draws, BUDGET);
        for (int32_t i = 0; i < problem->count; i++) {
            offsets[i] = s.offset[i];
        }
    }
    sweep_free(w);
    timeline_free(line);
    search_end(&s);
    return result;
}

/* Returns an answer of search.h; fills the offsets where it is ANSWER_FOUND. `steps` are all first ones, then the last
 * ones; `numbers` sizes, alignments, and -1 for each offset, which is ours to choose. */
int64_t sweep_alone(int32_t count, const int32_t *steps, const int64_t *numbers, int backwards, int draws,
                    int64_t *offsets)
{
    pack_problem problem = {
        .count = count, .first = steps, .last = steps + count,
        .size = numbers, .alignment = numbers + count, .pinned = numbers + 2 * count, .work = INT64_MAX,
    };
    return run(&problem, backwards, draws, offsets);
}
