/* Records how long each firing takes: totals for each node, and the last firings one by one. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 199309L
#endif
#include <time.h>

#include "stow.h"

/* As the Python side sees them. */
typedef struct stow_record_event {
    uint64_t start_ns;
    uint64_t duration_ns;
    uint32_t node;
    uint32_t units;
} stow_record_event;

typedef struct stow_record_total {
    uint64_t duration_ns;
    uint64_t firings;
} stow_record_total;

typedef struct stow_record {
    stow_record_total *totals; /* one for each node */
    stow_record_event *events; /* a ring of `capacity` */
    uint64_t capacity;
    uint64_t count; /* events so far, those that are overwritten included */
    uint64_t began_ns;
} stow_record;

static uint64_t stow_record_now(void)
{
    struct timespec now;
#ifdef _WIN32
    (void)timespec_get(&now, TIME_UTC);
#else
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void stow_record_firing(void *user, uint32_t node, uint32_t units, int begins)
{
    stow_record *record = user;
    if (begins) {
        record->began_ns = stow_record_now();
        return;
    }
    const uint64_t duration = stow_record_now() - record->began_ns;
    const stow_record_event event = {record->began_ns, duration, node, units};
    record->totals[node].duration_ns += duration;
    record->totals[node].firings++;
    record->events[record->count++ % record->capacity] = event;
}

/* Record runs of a context from now on; NULL stops. */
void stow_host_watch(stow_context *context, stow_record *record)
{
    context->watch = record == NULL ? NULL : stow_record_firing;
    context->watch_user = record;
}

/* What recording one firing costs: the least of many times between two looks at the clock. */
uint64_t stow_host_clock_ns(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        const uint64_t start = stow_record_now();
        const uint64_t passed = stow_record_now() - start;
        least = passed < least ? passed : least;
    }
    return least;
}
